/* Rungs L2 and L3: what a run took from the driver and what the whole GPU had in use, beside their
 * predictions.
 *
 * L2: the arena of a ledger's witness, and, where a trace lies beside it, the bytes of each owner.
 * Equal to the byte, or not. L3: memory.device_used of train.json, within 1 % or 32 MiB. */
#ifndef ZV_DEVICE_H
#define ZV_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "compare/trace.h"
#include "zeroledger/device.h"
#include "zeroledger/error.h"
#include "zeroledger/ledger.h"

/* What train.json says of the device. */
typedef struct zv_used {
    bool loopback; /* the rank's peers were not there */
    bool present;  /* there is such a file, of this run and of this ledger's rank, with a figure */
    uint64_t used; /* bytes in use on the GPU at the end, by anyone */
    char gpu[64];
    char driver[32];
    char cuda[16];
    char date[16];
} zv_used;

/* Looks for train.json in the folder of a ledger. It is of rank 0, or of the one in loopback. None,
 * or one without the figure, leaves *out not present; one of another run is ZL_E_INPUT. */
ZL_NODISCARD zl_status zv_used_load(const char *ledger_path, const zl_ledger *ledger, zv_used *out,
                                    zl_err *err);

/* trace.json in the folder of a ledger; false if there is none. A traced run's device has the
 * meter's own memory on it, too: it is judged on L2, not on L3. */
bool zv_trace_beside(const char *ledger_path, char path[4096]);

typedef enum zv_rung {
    ZV_RUNG_ABSENT,  /* not measured */
    ZV_RUNG_UNKNOWN, /* measured, but no constants were calibrated for its machine */
    ZV_RUNG_AGREES,
    ZV_RUNG_DIFFERS
} zv_rung;

/* Bytes beside bytes. */
typedef struct zv_pair {
    zv_rung rung;
    uint64_t predicted;
    uint64_t measured;
    uint64_t tolerance;
} zv_pair;

typedef struct zv_device_verdict {
    zv_pair arena;   /* L2, by the ledger's witness */
    zv_pair trainer; /* L2, by the trace: the arena, and nothing past it */
    zv_pair nccl;    /* L2, by the trace */
    zv_pair blas;    /* L2, by the trace: its workspace is a buffer of the ledger, and the rest 0 */
    zv_pair total;   /* L3 */
} zv_device_verdict;

/* 1 % of the measured bytes, at least 32 MiB. */
uint64_t zv_device_tolerance(uint64_t measured);

/* Predicts the device of a measured ledger of the cuda backend and compares; path is the ledger's.
 * Constants are those built in for the machine that train.json names, or `constants` if not NULL.
 */
ZL_NODISCARD zl_status zv_device_judge(const char *path, const zl_ledger *ledger,
                                       const zl_constants *constants, zv_device_verdict *out,
                                       zl_err *err);

/* Whether no rung differs. */
bool zv_device_agrees(const zv_device_verdict *verdict);

#endif
