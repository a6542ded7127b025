#include "family/family.h"

const char *zl_instant_text(zl_instant instant)
{
    static const char *const text[ZL_INSTANT_COUNT] = {
#define ZL_INSTANT(id, sentence) [ZL_AT_##id] = sentence,
        ZL_INSTANTS(ZL_INSTANT)
#undef ZL_INSTANT
    };
    return text[instant];
}

/* Bits of all instants from one to another, both included. */
static uint32_t span(zl_instant from, zl_instant to)
{
    return (UINT32_MAX >> (31 - (int)to)) & (UINT32_MAX << (int)from);
}

static uint32_t backward(void)
{
    return span(ZL_AT_REDO_ATTN, ZL_AT_BWD_QKV);
}

/* The first instant of the recomputed forward at which a buffer born at `born` lives again. */
static zl_instant reborn(zl_instant born)
{
    if (born <= ZL_AT_FWD_ATTN) {
        return ZL_AT_REDO_ATTN;
    }
    if (born == ZL_AT_FWD_OUT) {
        return ZL_AT_REDO_OUT;
    }
    return born <= ZL_AT_FWD_PROJ ? ZL_AT_REDO_PROJ : ZL_AT_BWD_POST;
}

static void add(zl_tape *tape, zl_buf buffer, zl_form form, uint32_t live, bool kept)
{
    tape->row[tape->count++] = (zl_row){zl_write(tape->book, buffer, dim_one, form), kept, live};
}

void zl_tape_save(zl_tape *tape, zl_buf buffer, zl_instant born, zl_form form)
{
    if (tape->recompute == ZL_RECOMPUTE_FULL) {
        const uint32_t live = span(born, ZL_AT_FWD_NORM) | span(reborn(born), ZL_AT_BWD_QKV);
        add(tape, buffer, form, live, false);
        return;
    }
    add(tape, buffer, form, span(born, ZL_AT_FWD_DONE) | backward(), true);
}

void zl_tape_cheap(zl_tape *tape, zl_buf buffer, zl_instant born, zl_instant last, zl_instant redo,
                   zl_form form)
{
    if (tape->recompute == ZL_RECOMPUTE_SELECTIVE) {
        add(tape, buffer, form, span(born, last) | span(redo, redo), false);
        return;
    }
    zl_tape_save(tape, buffer, born, form);
}

void zl_tape_temp(zl_tape *tape, zl_buf buffer, zl_instant from, zl_instant to, zl_form form)
{
    add(tape, buffer, form, span(from, to), false);
}

void zl_tape_at(zl_tape *tape, zl_buf buffer, uint32_t live, zl_form form)
{
    add(tape, buffer, form, live, false);
}

void zl_tape_attention(zl_tape *tape, const zl_run *run)
{
    const zl_form probs = ZL_FORM(dim_B, dim_H, dim_T, dim_T, dim_e);
    const zl_form rows = ZL_FORM(dim_B, dim_H, dim_T, dim_f32);
    if (run->attention == ZL_ATTENTION_FLASH) {
        zl_tape_save(tape, ZL_BUF_ACT_LSE, ZL_AT_FWD_ATTN, rows);
        zl_tape_temp(tape, ZL_BUF_TEMP_DELTA, ZL_AT_BWD_ATTN, ZL_AT_BWD_ATTN, rows);
    } else {
        zl_tape_save(tape, ZL_BUF_ACT_PROBS, ZL_AT_FWD_ATTN, probs);
        zl_tape_temp(tape, ZL_BUF_TEMP_DPROBS, ZL_AT_BWD_ATTN, ZL_AT_BWD_ATTN, probs);
    }
    if (run->attention == ZL_ATTENTION_EAGER && tape->dropout) {
        zl_tape_temp(tape, ZL_BUF_TEMP_PROBS, ZL_AT_FWD_ATTN, ZL_AT_FWD_ATTN, probs);
        zl_tape_temp(tape, ZL_BUF_TEMP_PROBS, ZL_AT_BWD_VALUES, ZL_AT_BWD_VALUES, probs);
        if (tape->recompute == ZL_RECOMPUTE_FULL) {
            zl_tape_temp(tape, ZL_BUF_TEMP_PROBS, ZL_AT_REDO_ATTN, ZL_AT_REDO_ATTN, probs);
        }
    }
    zl_tape_save(tape, ZL_BUF_ACT_ATTN, ZL_AT_FWD_ATTN, ZL_FORM(dim_B, dim_T, dim_HD, dim_e));
    zl_tape_temp(tape, ZL_BUF_TEMP_DATTN, ZL_AT_BWD_OUT, ZL_AT_BWD_ATTN,
                 ZL_FORM(dim_B, dim_T, dim_HD, dim_e));
    zl_tape_temp(tape, ZL_BUF_TEMP_DQKV, ZL_AT_BWD_VALUES, ZL_AT_BWD_QKV,
                 ZL_FORM(dim_B, dim_T, dim_Q, dim_e));
}

void zl_tape_branches(zl_tape *tape, bool proj_is_redone)
{
    if (!tape->dropout) {
        return;
    }
    const zl_form branch = ZL_FORM(dim_B, dim_T, dim_C, dim_e);
    zl_tape_temp(tape, ZL_BUF_TEMP_BRANCH, ZL_AT_FWD_OUT, ZL_AT_FWD_OUT, branch);
    zl_tape_temp(tape, ZL_BUF_TEMP_BRANCH, ZL_AT_FWD_PROJ, ZL_AT_FWD_PROJ, branch);
    if (tape->recompute == ZL_RECOMPUTE_FULL) {
        zl_tape_temp(tape, ZL_BUF_TEMP_BRANCH, ZL_AT_REDO_OUT, ZL_AT_REDO_OUT, branch);
    }
    if (tape->recompute == ZL_RECOMPUTE_FULL && proj_is_redone) {
        zl_tape_temp(tape, ZL_BUF_TEMP_BRANCH, ZL_AT_REDO_PROJ, ZL_AT_REDO_PROJ, branch);
    }
    zl_tape_temp(tape, ZL_BUF_TEMP_DBRANCH, ZL_AT_BWD_POST, ZL_AT_BWD_PROJ, branch);
    zl_tape_temp(tape, ZL_BUF_TEMP_DBRANCH, ZL_AT_BWD_OUT, ZL_AT_BWD_OUT, branch);
}

void zl_tensor_add(zl_tensor_list *list, const char *name, zl_form form)
{
    list->row[list->count++] = (zl_tensor_row){name, form};
}

const zl_family_def *zl_family_get(zl_family family)
{
    switch (family) {
    case ZL_FAMILY_BERT:
        return &zl_family_bert;
    case ZL_FAMILY_GPT2:
        return &zl_family_gpt2;
    case ZL_FAMILY_LLAMA:
        return &zl_family_llama;
    case ZL_FAMILY_COUNT:
        break;
    }
    return NULL;
}
