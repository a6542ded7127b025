/* Section 4 of docs/schedule.md: what one block allocates and frees, forward and backward. */
#include "walk/walk_state.h"

#include "zeroledger/bytes.h"

/* Temporaries exist once at a time, so they need no owner. */
static const uint64_t nobody = 0;

void zl_walk_residual_alloc(zl_walk_state *w, uint64_t unit)
{
    const zl_buf buf = w->full ? ZL_BUF_CKPT_RESIDUAL : ZL_BUF_ACT_RESIDUAL;
    zl_walk_alloc(w, buf, unit, zl_prod(w->rows, w->width, w->compute_size));
}

void zl_walk_residual_drop(zl_walk_state *w, uint64_t unit)
{
    zl_walk_drop(w, w->full ? ZL_BUF_CKPT_RESIDUAL : ZL_BUF_ACT_RESIDUAL, unit);
}

static void alloc_temp_branch(zl_walk_state *w)
{
    if (w->dropout) {
        zl_walk_alloc(w, ZL_BUF_TEMP_BRANCH, nobody, zl_prod(w->rows, w->width, w->compute_size));
    }
}

static void drop_temp_branch(zl_walk_state *w)
{
    if (w->dropout) {
        zl_walk_drop(w, ZL_BUF_TEMP_BRANCH, nobody);
    }
}

static void alloc_temp_dbranch(zl_walk_state *w)
{
    if (w->dropout) {
        zl_walk_alloc(w, ZL_BUF_TEMP_DBRANCH, nobody, zl_prod(w->rows, w->width, w->compute_size));
    }
}

static void drop_temp_dbranch(zl_walk_state *w)
{
    if (w->dropout) {
        zl_walk_drop(w, ZL_BUF_TEMP_DBRANCH, nobody);
    }
}

static void alloc_ln1(zl_walk_state *w, uint64_t unit)
{
    zl_walk_alloc(w, ZL_BUF_ACT_LN1, unit, zl_prod(w->rows, w->width, w->compute_size));
}

static void alloc_ln2(zl_walk_state *w, uint64_t unit)
{
    zl_walk_alloc(w, ZL_BUF_ACT_LN2, unit, zl_prod(w->rows, w->width, w->compute_size));
}

static void alloc_ffn_post(zl_walk_state *w, uint64_t unit)
{
    zl_walk_alloc(w, ZL_BUF_ACT_FFN_POST, unit, zl_prod(w->rows, w->ffn, w->compute_size));
}

static void attention_forward(zl_walk_state *w, uint64_t unit)
{
    const uint64_t square =
        zl_prod(w->batch, w->heads, w->tokens, w->tokens, w->compute_size); /* (B,H,T,T) */
    if (w->flash) {
        zl_walk_alloc(w, ZL_BUF_ACT_ATTN, unit, zl_prod(w->rows, w->attn, w->compute_size));
        zl_walk_alloc(w, ZL_BUF_ACT_LSE, unit, zl_prod(w->batch, w->heads, w->tokens, 4));
        return;
    }
    zl_walk_alloc(w, ZL_BUF_ACT_PROBS, unit, square);
    if (w->dropout) {
        zl_walk_alloc(w, ZL_BUF_TEMP_PROBS, nobody, square);
    }
    zl_walk_alloc(w, ZL_BUF_ACT_ATTN, unit, zl_prod(w->rows, w->attn, w->compute_size));
    if (w->dropout) {
        zl_walk_drop(w, ZL_BUF_TEMP_PROBS, nobody);
    }
}

static void attention_backward(zl_walk_state *w)
{
    const uint64_t square =
        zl_prod(w->batch, w->heads, w->tokens, w->tokens, w->compute_size); /* (B,H,T,T) */
    zl_walk_alloc(w, ZL_BUF_TEMP_DQKV, nobody, zl_prod(w->rows, w->packed, w->compute_size));
    if (w->flash) {
        zl_walk_alloc(w, ZL_BUF_TEMP_DELTA, nobody, zl_prod(w->batch, w->heads, w->tokens, 4));
        zl_walk_drop(w, ZL_BUF_TEMP_DELTA, nobody);
    } else {
        if (w->dropout) {
            zl_walk_alloc(w, ZL_BUF_TEMP_PROBS, nobody, square);
            zl_walk_drop(w, ZL_BUF_TEMP_PROBS, nobody);
        }
        zl_walk_alloc(w, ZL_BUF_TEMP_DPROBS, nobody, square);
        zl_walk_drop(w, ZL_BUF_TEMP_DPROBS, nobody);
    }
    zl_walk_drop(w, ZL_BUF_TEMP_DATTN, nobody);
}

/* GPT-2 and Llama, forward steps 1 to 7. */
static void before_steps_1_to_7(zl_walk_state *w, uint64_t unit)
{
    const uint64_t inner = w->llama ? zl_prod(2, w->ffn) : w->ffn;

    zl_walk_alloc(w, ZL_BUF_ACT_LN1_STATS, unit, zl_prod(w->rows, w->stats, 4));
    alloc_ln1(w, unit);

    zl_walk_alloc(w, ZL_BUF_ACT_QKV, unit, zl_prod(w->rows, w->packed, w->compute_size));
    if (w->selective) {
        zl_walk_drop(w, ZL_BUF_ACT_LN1, unit);
    }

    attention_forward(w, unit);

    alloc_temp_branch(w);
    zl_walk_alloc(w, ZL_BUF_ACT_MID, unit, zl_prod(w->rows, w->width, w->compute_size));
    drop_temp_branch(w);

    zl_walk_alloc(w, ZL_BUF_ACT_LN2_STATS, unit, zl_prod(w->rows, w->stats, 4));
    alloc_ln2(w, unit);

    zl_walk_alloc(w, ZL_BUF_ACT_FFN_PRE, unit, zl_prod(w->rows, inner, w->compute_size));
    if (w->selective) {
        zl_walk_drop(w, ZL_BUF_ACT_LN2, unit);
    }

    alloc_ffn_post(w, unit);
}

/* GPT-2 and Llama, forward step 8. */
static void before_step_8(zl_walk_state *w, uint64_t unit)
{
    alloc_temp_branch(w);
    zl_walk_residual_alloc(w, unit + 1);
    drop_temp_branch(w);
    if (w->selective) {
        zl_walk_drop(w, ZL_BUF_ACT_FFN_POST, unit);
    }
    if (w->full) {
        zl_walk_block_drop_saved(w, unit);
    }
}

static void before_backward(zl_walk_state *w, uint64_t unit)
{
    /* 1: gradients of proj (GPT-2) or down (Llama), then of the product's input */
    if (w->selective) {
        alloc_ffn_post(w, unit);
    }
    alloc_temp_dbranch(w);
    if (w->selective) {
        zl_walk_drop(w, ZL_BUF_ACT_FFN_POST, unit);
    }
    zl_walk_alloc(w, ZL_BUF_TEMP_DFFN, nobody, zl_prod(w->rows, w->ffn, w->compute_size));
    drop_temp_dbranch(w);

    /* 2: activation function */
    if (w->llama) {
        zl_walk_alloc(w, ZL_BUF_TEMP_DGATEUP, nobody, zl_prod(w->rows, 2, w->ffn, w->compute_size));
        zl_walk_drop(w, ZL_BUF_TEMP_DFFN, nobody);
    }

    /* 3: gradients of fc or gate-up */
    if (w->selective) {
        alloc_ln2(w, unit);
        zl_walk_drop(w, ZL_BUF_ACT_LN2, unit);
    }
    zl_walk_alloc(w, ZL_BUF_TEMP_DLN, nobody, zl_prod(w->rows, w->width, w->compute_size));
    zl_walk_drop(w, w->llama ? ZL_BUF_TEMP_DGATEUP : ZL_BUF_TEMP_DFFN, nobody);

    /* 4: norm 2 */
    zl_walk_drop(w, ZL_BUF_TEMP_DLN, nobody);

    /* 5: gradients of out */
    alloc_temp_dbranch(w);
    zl_walk_alloc(w, ZL_BUF_TEMP_DATTN, nobody, zl_prod(w->rows, w->attn, w->compute_size));
    drop_temp_dbranch(w);

    /* 6 */
    attention_backward(w);

    /* 7: gradients of qkv */
    if (w->selective) {
        alloc_ln1(w, unit);
        zl_walk_drop(w, ZL_BUF_ACT_LN1, unit);
    }
    zl_walk_alloc(w, ZL_BUF_TEMP_DLN, nobody, zl_prod(w->rows, w->width, w->compute_size));
    zl_walk_drop(w, ZL_BUF_TEMP_DQKV, nobody);

    /* 8: norm 1 */
    zl_walk_drop(w, ZL_BUF_TEMP_DLN, nobody);
}

/* BERT, forward steps 1 to 7. */
static void after_steps_1_to_7(zl_walk_state *w, uint64_t unit)
{
    zl_walk_alloc(w, ZL_BUF_ACT_QKV, unit, zl_prod(w->rows, w->packed, w->compute_size));

    attention_forward(w, unit);

    alloc_temp_branch(w);
    zl_walk_alloc(w, ZL_BUF_ACT_MID, unit, zl_prod(w->rows, w->width, w->compute_size));
    drop_temp_branch(w);

    zl_walk_alloc(w, ZL_BUF_ACT_LN1_STATS, unit, zl_prod(w->rows, w->stats, 4));
    alloc_ln1(w, unit);

    zl_walk_alloc(w, ZL_BUF_ACT_FFN_PRE, unit, zl_prod(w->rows, w->ffn, w->compute_size));

    alloc_ffn_post(w, unit);

    alloc_temp_branch(w);
    zl_walk_alloc(w, ZL_BUF_ACT_SUM, unit, zl_prod(w->rows, w->width, w->compute_size));
    drop_temp_branch(w);
    if (w->selective) {
        zl_walk_drop(w, ZL_BUF_ACT_FFN_POST, unit);
        zl_walk_drop(w, ZL_BUF_ACT_LN1, unit);
    }
}

/* BERT, forward step 8 up to the statistics, which backward reads. */
static void after_step_8_stats(zl_walk_state *w, uint64_t unit)
{
    zl_walk_alloc(w, ZL_BUF_ACT_LN2_STATS, unit, zl_prod(w->rows, w->stats, 4));
}

static void after_step_8_rest(zl_walk_state *w, uint64_t unit)
{
    zl_walk_residual_alloc(w, unit + 1);
    if (w->full) {
        zl_walk_block_drop_saved(w, unit);
    }
}

static void after_backward(zl_walk_state *w, uint64_t unit)
{
    /* 1: norm 2, in place */

    /* 2: gradients of proj, activation function in place */
    if (w->selective) {
        alloc_ffn_post(w, unit);
    }
    alloc_temp_dbranch(w);
    if (w->selective) {
        zl_walk_drop(w, ZL_BUF_ACT_FFN_POST, unit);
    }
    zl_walk_alloc(w, ZL_BUF_TEMP_DFFN, nobody, zl_prod(w->rows, w->ffn, w->compute_size));
    drop_temp_dbranch(w);

    /* 3: gradients of fc */
    if (w->selective) {
        alloc_ln1(w, unit);
        zl_walk_drop(w, ZL_BUF_ACT_LN1, unit);
    }
    zl_walk_drop(w, ZL_BUF_TEMP_DFFN, nobody);

    /* 4: norm 1, in place */

    /* 5: gradients of out */
    alloc_temp_dbranch(w);
    zl_walk_alloc(w, ZL_BUF_TEMP_DATTN, nobody, zl_prod(w->rows, w->attn, w->compute_size));
    drop_temp_dbranch(w);

    /* 6 */
    attention_backward(w);

    /* 7: gradients of qkv */
    zl_walk_drop(w, ZL_BUF_TEMP_DQKV, nobody);
}

void zl_walk_block_forward(zl_walk_state *w, uint64_t unit)
{
    if (w->bert) {
        after_steps_1_to_7(w, unit);
        after_step_8_stats(w, unit);
        after_step_8_rest(w, unit);
    } else {
        before_steps_1_to_7(w, unit);
        before_step_8(w, unit);
    }
}

void zl_walk_block_recompute(zl_walk_state *w, uint64_t unit)
{
    if (w->bert) {
        after_steps_1_to_7(w, unit);
        after_step_8_stats(w, unit);
    } else {
        before_steps_1_to_7(w, unit);
    }
}

void zl_walk_block_backward(zl_walk_state *w, uint64_t unit)
{
    if (w->bert) {
        after_backward(w, unit);
    } else {
        before_backward(w, unit);
    }
}

void zl_walk_block_drop_saved(zl_walk_state *w, uint64_t unit)
{
    static const zl_buf saved[] = {
        ZL_BUF_ACT_LN1_STATS, ZL_BUF_ACT_LN1,     ZL_BUF_ACT_QKV,      ZL_BUF_ACT_PROBS,
        ZL_BUF_ACT_ATTN,      ZL_BUF_ACT_LSE,     ZL_BUF_ACT_MID,      ZL_BUF_ACT_LN2_STATS,
        ZL_BUF_ACT_LN2,       ZL_BUF_ACT_FFN_PRE, ZL_BUF_ACT_FFN_POST, ZL_BUF_ACT_SUM,
    };
    for (size_t i = 0; i < sizeof(saved) / sizeof(saved[0]); i++) {
        if (zl_walk_live(w, saved[i], unit)) {
            zl_walk_drop(w, saved[i], unit);
        }
    }
}
