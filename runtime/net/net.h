/* The arithmetic of one transformer on one rank: which kernels run on which buffers, in the order
 * of docs/schedule.md. A family (gpt2.c, llama.c, bert.c) describes its units and strings the
 * shared pieces of parts.h together; weights and gradients come from zero/.
 *
 *     zr_net net = {.run = run, .zero = zero, .track = track, .seed = 1};
 *     ZL_TRY(zr_net_init(&net, err));
 *     ZL_TRY(zr_net_build(&net, err));                   // constants and work buffers
 *     ZL_TRY(net.family->embed_forward(&net, err));
 *     ZL_TRY(net.family->block_forward(&net, 0, err));
 */
#ifndef ZR_NET_NET_H
#define ZR_NET_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "kernel/kernel.h"
#include "track/track.h"
#include "zero/zero.h"
#include "zeroledger/run.h"

/* The letters of docs/schedule.md. */
typedef struct zr_dims {
    uint64_t B; /* sequences per rank and micro-step */
    uint64_t T; /* tokens per sequence */
    uint64_t R; /* rows, B T */
    uint64_t C; /* model width */
    uint64_t L; /* blocks */
    uint64_t H; /* query heads */
    uint64_t G; /* key/value heads */
    uint64_t D; /* head width */
    uint64_t F; /* MLP width */
    uint64_t V; /* vocabulary */
    uint64_t P; /* positions */
    uint64_t Y; /* token types */
    uint64_t Q; /* packed width, (H + 2G) D */
    uint64_t A; /* attention width, H D */
    uint64_t U; /* width of the first MLP product: F, Llama 2F */
    uint64_t S; /* row statistics: 2, Llama 1 */
    uint64_t M; /* rows of a chunk of the head */
} zr_dims;

/* The live buffers of one block, of the head, or of the pass as a whole, found by their names. */
typedef struct zr_scope {
    zr_mem mem[ZL_BUF_COUNT];
} zr_scope;

typedef struct zr_net zr_net;
typedef zl_status (*zr_net_op)(zr_net *net, zl_err *err);
typedef zl_status (*zr_block_op)(zr_net *net, uint64_t l, zl_err *err);

typedef struct zr_family {
    /* Adds the tensors of the three units. */
    void (*units)(const zl_model *model, zr_unit *embed, zr_unit *block, zr_unit *head);
    zr_net_op embed_forward; /* allocates the residual entering block 0 */
    zr_block_op block_forward;
    zr_block_op block_again; /* full recompute: up to the last thing that backward reads */
    zr_block_op block_backward;
    zr_net_op head_forward; /* with the loss and the gradient of the head's product */
    zr_net_op head_backward;
    zr_net_op embed_backward;
} zr_family;

extern const zr_family zr_gpt2;
extern const zr_family zr_llama;
extern const zr_family zr_bert;

struct zr_net {
    const zl_run *run;
    zr_zero *zero;
    zr_track *track;
    zr_stream *stream;
    zr_profile *profile; /* borrowed; NULL: none */
    uint64_t seed;
    const zr_family *family;
    zr_dims dim;
    zl_dtype dtype;
    zl_dtype gdtype;
    zr_scope constant; /* const.*, work.* */
    zr_mem work;       /* of the products: borrowed from constant, zeroed if they need none */
    zr_scope pass;     /* inputs, temporaries, act.embed */
    zr_scope
        *block; /* (L + 1): block l's own and the residual entering it; the last one: the head's */
    uint64_t micro;   /* micro-steps begun since the start of the run: numbers the dropout masks */
    float loss_scale; /* of the gradient of each token's loss */
    float next_scale; /* of the gradient of each next-sentence loss */
    bool eval;        /* this forward has no gradients and no dropout, and keeps nothing */
};

const zr_family *zr_family_of(zl_family family);

/* Refuses what no kernel takes; derives the dimensions; allocates bookkeeping, no tensor. The
 * caller has set run to seed; zero is initialized. */
ZL_NODISCARD zl_status zr_net_init(zr_net *net, zl_err *err);
/* Steps 1 and 2 of the init phase: constants and work buffers. */
ZL_NODISCARD zl_status zr_net_build(zr_net *net, zl_err *err);
/* Frees what is still live of a pass: nothing, unless something failed. */
void zr_net_drop_pass(zr_net *net);
void zr_net_release(zr_net *net);

#endif
