/* PYTORCH_ALLOC_CONF (older name PYTORCH_CUDA_ALLOC_CONF): the settings of PyTorch's caching
 * allocator that move memory.
 *
 *     zt_alloc_conf conf;
 *     ZL_TRY(zt_alloc_conf_parse("expandable_segments:True,max_split_size_mb:128", &conf, err));
 */
#ifndef ZT_ALLOC_CONF_H
#define ZT_ALLOC_CONF_H

#include <stdbool.h>
#include <stdint.h>

#include "zeroledger/error.h"

/* Steps between powers of two that sizes are rounded to, one entry for each interval that begins at
 * 1 MiB, 2 MiB, 4 MiB, ..., 32 GiB; smaller sizes use the first, larger ones the last. */
enum { ZT_ROUNDUP_INTERVALS = 16 };

typedef struct zt_alloc_conf {
    bool expandable_segments;
    uint64_t max_split_size;         /* bytes; UINT64_MAX: any block may be split */
    uint64_t max_non_split_rounding; /* bytes an oversize block may be larger than the request */
    uint64_t large_segment_size;     /* bytes of a segment of the large pool */
    double garbage_collection_threshold; /* fraction of the allowed memory; 0: never */
    double per_process_memory_fraction;  /* of the device's memory that may be reserved */
    uint32_t roundup_power2_divisions[ZT_ROUNDUP_INTERVALS]; /* powers of two; 0 and 1: off */
} zt_alloc_conf;

/* What PyTorch does when the variable is not set. */
zt_alloc_conf zt_alloc_conf_default(void);

/* Parses the text of the variable on top of the defaults; NULL is the empty text. As in PyTorch the
 * last of repeated settings counts. Settings without an effect on device memory (pinned host
 * memory, locks, CUDA graphs) are accepted; an unknown one or a value out of range is ZL_E_USAGE,
 * backend:cudaMallocAsync is ZL_E_UNMODELLED. */
ZL_NODISCARD zl_status zt_alloc_conf_parse(const char *text, zt_alloc_conf *out, zl_err *err);

/* ZL_E_USAGE if PyTorch would refuse these values. */
ZL_NODISCARD zl_status zt_alloc_conf_check(const zt_alloc_conf *conf, zl_err *err);

#endif
