/* Llama and its relatives: RMSNorm before attention and MLP, rotary positions, grouped-query
 * attention, SwiGLU; optional biases of the projections. */
#include "family/family.h"

static void tensors(const zl_model *model, zl_unit unit, zl_tensor_list *list)
{
    switch (unit) {
    case ZL_UNIT_EMBED:
        zl_tensor_add(list, "token table", ZL_FORM(dim_V, dim_C));
        break;
    case ZL_UNIT_BLOCK:
        zl_tensor_add(list, "norm1.weight", ZL_FORM(dim_C));
        zl_tensor_add(list, "qkv.weight", ZL_FORM(dim_C, dim_Q));
        if (model->qkv_bias) {
            zl_tensor_add(list, "qkv.bias", ZL_FORM(dim_Q));
        }
        zl_tensor_add(list, "out.weight", ZL_FORM(dim_HD, dim_C));
        if (model->out_bias) {
            zl_tensor_add(list, "out.bias", ZL_FORM(dim_C));
        }
        zl_tensor_add(list, "norm2.weight", ZL_FORM(dim_C));
        zl_tensor_add(list, "gate_up.weight", ZL_FORM(dim_C, dim_two, dim_F));
        if (model->mlp_bias) {
            zl_tensor_add(list, "gate_up.bias", ZL_FORM(dim_two, dim_F));
        }
        zl_tensor_add(list, "down.weight", ZL_FORM(dim_F, dim_C));
        if (model->mlp_bias) {
            zl_tensor_add(list, "down.bias", ZL_FORM(dim_C));
        }
        break;
    case ZL_UNIT_HEAD:
        zl_tensor_add(list, "norm.weight", ZL_FORM(dim_C));
        if (!model->tied) {
            zl_tensor_add(list, "output.weight", ZL_FORM(dim_V, dim_C));
        }
        break;
    case ZL_UNIT_COUNT:
        break;
    }
}

static void block(const zl_run *run, zl_tape *t)
{
    const zl_form stream = ZL_FORM(dim_B, dim_T, dim_C, dim_e);
    const zl_form stats = ZL_FORM(dim_B, dim_T, dim_f32);
    const zl_form mlp = ZL_FORM(dim_B, dim_T, dim_F, dim_e);
    const zl_form gate_up = ZL_FORM(dim_B, dim_T, dim_two, dim_F, dim_e);

    zl_tape_save(t, ZL_BUF_ACT_LN1_STATS, ZL_AT_FWD_QKV, stats);
    zl_tape_cheap(t, ZL_BUF_ACT_LN1, ZL_AT_FWD_QKV, ZL_AT_FWD_QKV, ZL_AT_BWD_QKV_WEIGHT, stream);
    zl_tape_save(t, ZL_BUF_ACT_QKV, ZL_AT_FWD_QKV, ZL_FORM(dim_B, dim_T, dim_Q, dim_e));
    zl_tape_attention(t, run);
    zl_tape_branches(t, false);
    zl_tape_save(t, ZL_BUF_ACT_MID, ZL_AT_FWD_OUT, stream);
    zl_tape_save(t, ZL_BUF_ACT_LN2_STATS, ZL_AT_FWD_FC, stats);
    zl_tape_cheap(t, ZL_BUF_ACT_LN2, ZL_AT_FWD_FC, ZL_AT_FWD_FC, ZL_AT_BWD_FC_WEIGHT, stream);
    zl_tape_save(t, ZL_BUF_ACT_FFN_PRE, ZL_AT_FWD_FC, gate_up);
    zl_tape_cheap(t, ZL_BUF_ACT_FFN_POST, ZL_AT_FWD_PROJ, ZL_AT_FWD_PROJ, ZL_AT_BWD_POST, mlp);
    t->next_born = ZL_AT_FWD_PROJ;

    zl_tape_temp(t, ZL_BUF_TEMP_DFFN, ZL_AT_BWD_PROJ, ZL_AT_BWD_ACT, mlp);
    zl_tape_temp(t, ZL_BUF_TEMP_DGATEUP, ZL_AT_BWD_ACT, ZL_AT_BWD_FC, gate_up);
    zl_tape_temp(t, ZL_BUF_TEMP_DLN, ZL_AT_BWD_FC, ZL_AT_BWD_FC, stream);
    zl_tape_temp(t, ZL_BUF_TEMP_DLN, ZL_AT_BWD_QKV, ZL_AT_BWD_QKV, stream);
}

static void embed(const zl_run *run, zl_tape *t)
{
    (void)run;
    zl_tape_at(t, ZL_BUF_INPUT_TOKENS, 0, ZL_FORM(dim_B, dim_T, dim_f32));
    zl_tape_at(t, ZL_BUF_INPUT_TARGETS, 0, ZL_FORM(dim_B, dim_T, dim_f32));
}

static void head(const zl_run *run, zl_tape *t)
{
    (void)run;
    zl_tape_at(t, ZL_BUF_ACT_LNF_STATS, ZL_HEAD_SAVED, ZL_FORM(dim_B, dim_T, dim_f32));
    zl_tape_at(t, ZL_BUF_ACT_LNF, ZL_HEAD_SAVED, ZL_FORM(dim_B, dim_T, dim_C, dim_e));
}

const zl_family_def zl_family_llama = {tensors, block, embed, head};
