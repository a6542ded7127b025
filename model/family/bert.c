/* BERT for masked language modelling: norms after attention and MLP, bidirectional attention, exact
 * GELU; with the pooler, next-sentence prediction too. */
#include "family/family.h"

static void block_tensors(zl_tensor_list *list)
{
    zl_tensor_add(list, "qkv.weight", ZL_FORM(dim_C, dim_Q));
    zl_tensor_add(list, "qkv.bias", ZL_FORM(dim_Q));
    zl_tensor_add(list, "out.weight", ZL_FORM(dim_HD, dim_C));
    zl_tensor_add(list, "out.bias", ZL_FORM(dim_C));
    zl_tensor_add(list, "ln1.weight", ZL_FORM(dim_C));
    zl_tensor_add(list, "ln1.bias", ZL_FORM(dim_C));
    zl_tensor_add(list, "fc.weight", ZL_FORM(dim_C, dim_F));
    zl_tensor_add(list, "fc.bias", ZL_FORM(dim_F));
    zl_tensor_add(list, "proj.weight", ZL_FORM(dim_F, dim_C));
    zl_tensor_add(list, "proj.bias", ZL_FORM(dim_C));
    zl_tensor_add(list, "ln2.weight", ZL_FORM(dim_C));
    zl_tensor_add(list, "ln2.bias", ZL_FORM(dim_C));
}

static void head_tensors(const zl_model *model, zl_tensor_list *list)
{
    zl_tensor_add(list, "transform.weight", ZL_FORM(dim_C, dim_C));
    zl_tensor_add(list, "transform.bias", ZL_FORM(dim_C));
    zl_tensor_add(list, "lnf.weight", ZL_FORM(dim_C));
    zl_tensor_add(list, "lnf.bias", ZL_FORM(dim_C));
    zl_tensor_add(list, "output.bias", ZL_FORM(dim_V));
    if (!model->tied) {
        zl_tensor_add(list, "output.weight", ZL_FORM(dim_V, dim_C));
    }
    if (model->pooler) {
        zl_tensor_add(list, "pooler.weight", ZL_FORM(dim_C, dim_C));
        zl_tensor_add(list, "pooler.bias", ZL_FORM(dim_C));
        zl_tensor_add(list, "next.weight", ZL_FORM(dim_two, dim_C));
        zl_tensor_add(list, "next.bias", ZL_FORM(dim_two));
    }
}

static void tensors(const zl_model *model, zl_unit unit, zl_tensor_list *list)
{
    switch (unit) {
    case ZL_UNIT_EMBED:
        zl_tensor_add(list, "token table", ZL_FORM(dim_V, dim_C));
        zl_tensor_add(list, "position table", ZL_FORM(dim_P, dim_C));
        zl_tensor_add(list, "type table", ZL_FORM(dim_Y, dim_C));
        zl_tensor_add(list, "ln.weight", ZL_FORM(dim_C));
        zl_tensor_add(list, "ln.bias", ZL_FORM(dim_C));
        break;
    case ZL_UNIT_BLOCK:
        block_tensors(list);
        break;
    case ZL_UNIT_HEAD:
        head_tensors(model, list);
        break;
    case ZL_UNIT_COUNT:
        break;
    }
}

static void block(const zl_run *run, zl_tape *t)
{
    const zl_form stream = ZL_FORM(dim_B, dim_T, dim_C, dim_e);
    const zl_form stats = ZL_FORM(dim_B, dim_T, dim_two, dim_f32);
    const zl_form mlp = ZL_FORM(dim_B, dim_T, dim_F, dim_e);

    zl_tape_save(t, ZL_BUF_ACT_QKV, ZL_AT_FWD_QKV, ZL_FORM(dim_B, dim_T, dim_Q, dim_e));
    zl_tape_attention(t, run);
    zl_tape_branches(t, true);
    zl_tape_save(t, ZL_BUF_ACT_MID, ZL_AT_FWD_OUT, stream);
    zl_tape_save(t, ZL_BUF_ACT_LN1_STATS, ZL_AT_FWD_FC, stats);
    zl_tape_cheap(t, ZL_BUF_ACT_LN1, ZL_AT_FWD_FC, ZL_AT_FWD_PROJ, ZL_AT_BWD_FC_WEIGHT, stream);
    zl_tape_save(t, ZL_BUF_ACT_FFN_PRE, ZL_AT_FWD_FC, mlp);
    zl_tape_cheap(t, ZL_BUF_ACT_FFN_POST, ZL_AT_FWD_PROJ, ZL_AT_FWD_PROJ, ZL_AT_BWD_POST, mlp);
    zl_tape_save(t, ZL_BUF_ACT_SUM, ZL_AT_FWD_PROJ, stream);
    zl_tape_save(t, ZL_BUF_ACT_LN2_STATS, ZL_AT_FWD_NORM, stats);
    t->next_born = ZL_AT_FWD_NORM;

    zl_tape_temp(t, ZL_BUF_TEMP_DFFN, ZL_AT_BWD_PROJ, ZL_AT_BWD_FC, mlp);
}

static void embed(const zl_run *run, zl_tape *t)
{
    zl_tape_at(t, ZL_BUF_INPUT_TOKENS, 0, ZL_FORM(dim_B, dim_T, dim_f32));
    zl_tape_at(t, ZL_BUF_INPUT_TARGETS, 0, ZL_FORM(dim_B, dim_T, dim_f32));
    zl_tape_at(t, ZL_BUF_INPUT_TYPES, 0, ZL_FORM(dim_B, dim_T, dim_f32));
    zl_tape_at(t, ZL_BUF_INPUT_LENGTHS, 0, ZL_FORM(dim_B, dim_f32));
    if (run->model.pooler) {
        zl_tape_at(t, ZL_BUF_INPUT_NEXT, 0, ZL_FORM(dim_B, dim_f32));
    }
    zl_tape_at(t, ZL_BUF_ACT_EMBED, 0, ZL_FORM(dim_B, dim_T, dim_C, dim_e));
    zl_tape_at(t, ZL_BUF_ACT_EMBED_STATS, 0, ZL_FORM(dim_B, dim_T, dim_two, dim_f32));
}

static void head(const zl_run *run, zl_tape *t)
{
    const zl_form stream = ZL_FORM(dim_B, dim_T, dim_C, dim_e);
    zl_tape_at(t, ZL_BUF_ACT_HEAD_PRE, ZL_HEAD_SAVED, stream);
    zl_tape_at(t, ZL_BUF_ACT_HEAD_POST, ZL_HEAD_SAVED, stream);
    zl_tape_at(t, ZL_BUF_ACT_LNF_STATS, ZL_HEAD_SAVED, ZL_FORM(dim_B, dim_T, dim_two, dim_f32));
    zl_tape_at(t, ZL_BUF_ACT_LNF, ZL_HEAD_SAVED, stream);
    if (run->model.pooler) {
        zl_tape_at(t, ZL_BUF_ACT_POOLED, ZL_HEAD_SAVED, ZL_FORM(dim_B, dim_C, dim_e));
        zl_tape_at(t, ZL_BUF_TEMP_DPOOLED, ZL_HEAD_TRAINING, ZL_FORM(dim_B, dim_C, dim_e));
        zl_tape_at(t, ZL_BUF_LOGITS_NEXT, ZL_HEAD_PASSING, ZL_FORM(dim_B, dim_two, dim_e));
    }
}

const zl_family_def zl_family_bert = {tensors, block, embed, head};
