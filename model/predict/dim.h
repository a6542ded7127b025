/* The letters of a run: every factor that a formula may have, with the symbol people read.
 *
 * Letters follow docs/schedule.md. Values are computed once per prediction.
 */
#ifndef ZL_DIM_H
#define ZL_DIM_H

#include <stdbool.h>
#include <stdint.h>

#include "zeroledger/predict.h"
#include "zeroledger/run.h"

/* X(id, symbol, meaning). A symbol that is a sum carries its parentheses. */
#define ZL_DIMS(X)                                                                                 \
    X(none, "", "no factor: ends a formula")                                                       \
    X(one, "1", "one")                                                                             \
    X(B, "B", "sequences per rank and micro-step")                                                 \
    X(T, "T", "tokens per sequence")                                                               \
    X(C, "C", "model width")                                                                       \
    X(L, "L", "blocks")                                                                            \
    X(H, "H", "query heads")                                                                       \
    X(D, "D", "head width")                                                                        \
    X(F, "F", "MLP width")                                                                         \
    X(V, "V", "vocabulary")                                                                        \
    X(P, "P", "positions")                                                                         \
    X(Y, "Y", "token types")                                                                       \
    X(N, "N", "data-parallel ranks")                                                               \
    X(M, "M", "tokens of a head chunk")                                                            \
    X(HD, "H·D", "width of the attention output")                                                  \
    X(Q, "(H+2G)·D", "packed width of queries, keys and values, G key/value heads")                \
    X(units, "(L+2)", "units: the embedding, the blocks, the head")                                \
    X(losses, "(B·T+B)", "rows with a loss: tokens and sentence pairs")                            \
    X(two, "2", "two")                                                                             \
    X(three, "3", "three")                                                                         \
    X(e, "e", "bytes of a compute element")                                                        \
    X(g, "g", "bytes of a gradient element")                                                       \
    X(s, "s", "bytes of an optimizer state element")                                               \
    X(f32, "4", "bytes of an fp32 or int32 element")                                               \
    X(f64, "8", "bytes of an fp64 element")                                                        \
    X(scalars, "64", "scalars")                                                                    \
    X(tile, "256", "rows of a tile")                                                               \
    X(mib, "2^20", "one MiB")                                                                      \
    X(sums, "1024", "partial sums")                                                                \
    X(workspace, "32·2^20", "the cuBLASLt workspace")                                              \
    X(unit_embed, "E_embed", "elements of the embedding unit, padding included")                   \
    X(unit_block, "E_block", "elements of a block unit, padding included")                         \
    X(unit_head, "E_head", "elements of the head unit, padding included")                          \
    X(shard_embed, "E_embed/N", "one rank's elements of the embedding unit")                       \
    X(shard_block, "E_block/N", "one rank's elements of a block unit")                             \
    X(shard_head, "E_head/N", "one rank's elements of the head unit")                              \
    X(gather_slots, "min(W+1,L)", "gather slots, W units gathered ahead")                          \
    X(reduce_slots, "min(K,L)", "reduce slots")

typedef enum zl_dim {
#define ZL_DIM(id, symbol, meaning) dim_##id,
    ZL_DIMS(ZL_DIM)
#undef ZL_DIM
        ZL_DIM_COUNT
} zl_dim;

_Static_assert(ZL_DIM_COUNT <= 64, "a set of letters is 64 bits");

typedef struct zl_dims {
    uint64_t n[ZL_DIM_COUNT];
    uint64_t flat[ZL_UNIT_COUNT]; /* bytes of each unit before it is cut into shards */
} zl_dims;

const char *zl_dim_symbol(zl_dim dim);
const char *zl_dim_text(zl_dim dim);
/* The value is one rank's share. */
static inline bool zl_dim_shards(zl_dim dim)
{
    return dim == dim_shard_embed || dim == dim_shard_block || dim == dim_shard_head;
}

/* The model's own letters (C, L, H, ... and products of them): all that tensors need. */
void zl_dims_model(const zl_model *model, zl_dims *out);
/* All letters. run must have passed zl_run_check; overflow shows as poison. */
void zl_dims_run(const zl_run *run, zl_dims *out);
/* Each letter at the smallest value that it has on any number of ranks from the run's to this. */
void zl_dims_least(const zl_run *run, uint64_t most_ranks, zl_dims *out);
/* The letters that counts of a run enter through (B, T, N, the head chunk, slots), where all else
 * of the run is as it was when *out was filled. */
void zl_dims_counts(const zl_run *run, uint64_t most_ranks, zl_dims *out);

#endif
