/* The whole GPU under the cuda backend: the arena that the ledger's buffers lie in, and what is
 * outside of it.
 *
 *     zl_constants constants;
 *     bool found = zl_constants_find("NVIDIA H200", NULL, NULL, &constants);
 *     zl_device device;
 *     ZL_TRY(zl_predict_device(&run, false, found ? &constants : NULL, &device, &err));
 *     printf("%" PRIu64 "\n", device.total);
 *
 * The arena and NCCL's buffers are closed: they follow from docs/schedule.md and from NCCL's
 * sources. The context and loaded code are constants, fitted to measurements of one GPU, driver and
 * CUDA (zl-validate calibrate), and come with their provenance. No figure of a ledger depends on
 * anything here.
 */
#ifndef ZEROLEDGER_DEVICE_H
#define ZEROLEDGER_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zeroledger/error.h"
#include "zeroledger/export.h"
#include "zeroledger/ledger.h"
#include "zeroledger/run.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes that the arena of a rank holds after the cold step: docs/schedule.md, section 6, replayed
 * over all requests of the run. At least the largest granted peak; the rest are holes. A trainer of
 * today places by ZL_PLACEMENT_APART. Overflow is ZL_E_USAGE, a framework without this arena
 * ZL_E_UNMODELLED. */
ZL_API ZL_NODISCARD zl_status zl_predict_arena(const zl_run *run, zl_placement placement,
                                               uint64_t *bytes, zl_err *err);

/* One communicator of NCCL: what its size follows from. */
typedef struct zl_nccl {
    uint64_t rings; /* channels of rings */
    uint64_t pairs; /* channels of send and receive */
    uint64_t own;   /* bytes of it that no channel has */
} zl_nccl;

/* Of a communicator with the rings that NCCL's topology search ends with, and the cap of maxCTAs or
 * NCCL_MAX_NCHANNELS (0: none). Pairs are the rings, rounded up to a power of two. */
ZL_API zl_nccl zl_nccl_capped(uint64_t rings, uint64_t own, uint64_t cap);
/* Device bytes of one rank over NVLink, NVLS off: when the communicator exists, and what the first
 * collective over a ring adds (all-gather, reduce-scatter). Poison on overflow. */
ZL_API uint64_t zl_nccl_communicator_bytes(const zl_nccl *nccl);
ZL_API uint64_t zl_nccl_ring_bytes(const zl_nccl *nccl);

/* What was fitted to measurements; a file zeroledger.constants/1. */
typedef struct zl_constants {
    char gpu[64];     /* as CUDA names it */
    char driver[32];  /* "580.159.04" */
    char cuda[16];    /* "13.0" */
    char date[16];    /* of the last measurement, 2026-11-30 */
    char commit[48];  /* of the trainer that was measured: its code is a part of the figures */
    uint64_t context; /* bytes: the driver, the context, the trainer's and cuBLASLt's code */
    uint64_t communication; /* bytes that several ranks add to that: NCCL's code */
    uint64_t rings;         /* of NCCL on this machine; 0: not measured, and neither are the next
                               two and communication */
    uint64_t own;           /* bytes */
    char nccl[16];          /* version */
} zl_constants;

/* Those that are built in, in the order of their files' names; false past the end. */
ZL_API bool zl_constants_at(size_t index, zl_constants *out);
/* The newest of a GPU whose CUDA name contains `gpu`; driver and cuda have to be equal, or are NULL
 * for any. False if there are none. */
ZL_API bool zl_constants_find(const char *gpu, const char *driver, const char *cuda,
                              zl_constants *out);
/* Reads a file. */
ZL_API ZL_NODISCARD zl_status zl_constants_load(const char *path, zl_constants *out, zl_err *err);

typedef enum zl_device_part {
    ZL_DEVICE_ARENA,     /* granted buffers and holes */
    ZL_DEVICE_NCCL,      /* NCCL's buffers */
    ZL_DEVICE_CONTEXT,   /* calibrated */
    ZL_DEVICE_NCCL_CODE, /* calibrated */
    ZL_DEVICE_PART_COUNT
} zl_device_part;

typedef struct zl_device {
    uint64_t peak; /* bytes: the largest granted peak, which is in the arena */
    uint64_t part[ZL_DEVICE_PART_COUNT]; /* bytes; 0 where it does not occur or is not known */
    bool known[ZL_DEVICE_PART_COUNT];
    zl_nccl nccl;      /* where it occurs */
    bool complete;     /* every part is known, and so is the total */
    uint64_t total;    /* bytes in use on the GPU; 0 if not complete */
    char missing[200]; /* if not complete: why, a sentence */
} zl_device;

/* alone: the peers of the rank are not there (zl-train --loopback), so neither is NCCL. constants
 * may be NULL: then the device is not complete. Errors are those of zl_predict_arena, and
 * ZL_E_USAGE for another backend. */
ZL_API ZL_NODISCARD zl_status zl_predict_device(const zl_run *run, zl_placement placement,
                                                bool alone, const zl_constants *constants,
                                                zl_device *out, zl_err *err);

/* "arena", "nccl buffers", "context and code", "nccl code" */
ZL_API const char *zl_device_part_name(zl_device_part part);

#ifdef __cplusplus
}
#endif
#endif
