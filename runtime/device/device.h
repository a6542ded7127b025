/* The device that this program computes on. The program is linked with one backend; what differs
 * beyond kernels, memory and communication is here.
 *
 *     ZL_TRY(zr_device_check(ranks, err));       // before ranks are started
 *     ZL_TRY(zr_device_open(local_rank, err));   // in each of them, before anything else
 */
#ifndef ZR_DEVICE_H
#define ZR_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zeroledger/error.h"
#include "zeroledger/run.h"

/* The backend that is linked. */
zl_backend zr_device_backend(void);

/* ZL_E_RESOURCE unless this machine can run so many ranks: one GPU for each. Uses no memory of a
 * device. */
ZL_NODISCARD zl_status zr_device_check(uint64_t ranks, zl_err *err);

/* Takes the device of the local-th rank of this machine for this process. */
ZL_NODISCARD zl_status zr_device_open(uint64_t local, zl_err *err);

/* Whether the second witness looks at the ends of phases of the step-th step of this process, from
 * 0: where looking stops the device, only the first few. */
bool zr_device_witnessed(uint64_t step);

/* The first so many steps of a process are slower than the others: memory is taken, the witness
 * looks. */
uint64_t zr_device_warm_up(void);

/* Bytes outside the arena that may come and go within a step without being worth a warning. */
uint64_t zr_device_outside_limit(void);

/* What the device's fastest units do at best, dense products in bf16, in operations per second: the
 * vendor's figure for the device of this name; 0 where there is none. */
double zr_device_peak_rate(void);

/* Bytes of the device that are in use, by anyone; 0 where nobody says. */
uint64_t zr_device_in_use(void);

/* Provenance: the index-th fact about the device, as a name and a text; false behind the last. */
bool zr_device_fact(size_t index, const char **name, char *text, size_t size);

/* Words for the device's last failure; "" where it has none. */
const char *zr_device_failure(void);

#endif
