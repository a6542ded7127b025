/* What passes between host and device without anyone waiting: page-locked memory of the host,
 * copies in the order of a queue, and marks that say how far the queue has come. It is memory of
 * the host, which no ledger counts. On the host a device's memory is the host's own: a copy has
 * happened when the call returns, and every mark has passed.
 *
 *     ZL_TRY(zr_stage_new(bytes, &ids, err));
 *     ZL_TRY(zr_mark_new(&sent, err));
 *     ZL_TRY(zr_stage_in(tokens, ids, bytes, stream, err));
 *     ZL_TRY(zr_mark_set(sent, stream, err));
 *     ... zr_mark_passed(sent, &passed, err): now ids may change
 */
#ifndef ZR_STAGE_H
#define ZR_STAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernel/kernel.h"
#include "zeroledger/error.h"

/* Zeroed memory of the host; the caller frees it, once no queue uses it any more. */
ZL_NODISCARD zl_status zr_stage_new(uint64_t bytes, void **out, zl_err *err);
void zr_stage_free(void *stage);

/* Queues a copy between a device's memory and memory of zr_stage_new, which stays as it is until
 * the queue has passed the copy. */
ZL_NODISCARD zl_status zr_stage_in(void *device, const void *stage, uint64_t bytes,
                                   zr_stream *stream, zl_err *err);
ZL_NODISCARD zl_status zr_stage_out(void *stage, const void *device, uint64_t bytes,
                                    zr_stream *stream, zl_err *err);

typedef struct zr_mark zr_mark;

/* A mark that is not set has passed. The caller frees it. */
ZL_NODISCARD zl_status zr_mark_new(zr_mark **out, zl_err *err);
void zr_mark_free(zr_mark *mark);
/* Behind everything that is queued now; setting it again moves it. */
ZL_NODISCARD zl_status zr_mark_set(zr_mark *mark, zr_stream *stream, zl_err *err);
ZL_NODISCARD zl_status zr_mark_passed(const zr_mark *mark, bool *passed, zl_err *err);

#endif
