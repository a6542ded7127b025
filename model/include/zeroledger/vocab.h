/* Enums, names and definitions of kinds, phases, visits and buffers, generated from vocab.def.
 *
 *     zl_buf b;
 *     if (zl_buf_find("act.qkv", &b)) {
 *         puts(zl_kind_name(zl_buf_kind(b)));   // "act"
 *     }
 */
#ifndef ZEROLEDGER_VOCAB_H
#define ZEROLEDGER_VOCAB_H

#include <stdbool.h>
#include <stdint.h>

#include "zeroledger/export.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum zl_kind {
#define ZL_KIND(id, name, text) ZL_KIND_##id,
#include "zeroledger/vocab.def"
    ZL_KIND_COUNT
} zl_kind;

typedef enum zl_phase {
#define ZL_PHASE(id, name, text) ZL_PHASE_##id,
#include "zeroledger/vocab.def"
    ZL_PHASE_COUNT
} zl_phase;

typedef enum zl_visit {
#define ZL_VISIT(id, name, text) ZL_VISIT_##id,
#include "zeroledger/vocab.def"
    ZL_VISIT_COUNT
} zl_visit;

typedef enum zl_buf {
#define ZL_BUFFER(id, kind, name, text) ZL_BUF_##id,
#include "zeroledger/vocab.def"
    ZL_BUF_COUNT
} zl_buf;

/* Element types of storage. */
typedef enum zl_dtype { ZL_F32, ZL_BF16, ZL_F16, ZL_DTYPE_COUNT } zl_dtype;

/* Rungs of the exactness ladder that a ledger carries. */
typedef enum zl_rung {
    ZL_REQUESTED, /* L0: bytes asked for */
    ZL_GRANTED,   /* L1: bytes after the allocator's rounding */
    ZL_RUNG_COUNT
} zl_rung;

/* JSON names and one-sentence definitions; static storage. The index must be below its _COUNT. */
ZL_API const char *zl_kind_name(zl_kind kind);
ZL_API const char *zl_kind_text(zl_kind kind);
ZL_API const char *zl_phase_name(zl_phase phase);
ZL_API const char *zl_phase_text(zl_phase phase);
ZL_API const char *zl_visit_name(zl_visit visit);
ZL_API const char *zl_visit_text(zl_visit visit);
ZL_API const char *zl_buf_name(zl_buf buf);
ZL_API const char *zl_buf_text(zl_buf buf);
ZL_API zl_kind zl_buf_kind(zl_buf buf);
ZL_API const char *zl_dtype_name(zl_dtype dtype);
ZL_API uint64_t zl_dtype_size(zl_dtype dtype); /* bytes of one element */
ZL_API const char *zl_rung_name(zl_rung rung);

/* Look a name up; false if it is not in the vocabulary, then nothing is written. */
ZL_API bool zl_kind_find(const char *name, zl_kind *out);
ZL_API bool zl_phase_find(const char *name, zl_phase *out);
ZL_API bool zl_visit_find(const char *name, zl_visit *out);
ZL_API bool zl_buf_find(const char *name, zl_buf *out);

#ifdef __cplusplus
}
#endif
#endif
