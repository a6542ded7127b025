/* GPT-2: learned positions, LayerNorm before each branch, GELU, biases everywhere (Radford et al.,
 * "Language models are unsupervised multitask learners", 2019). */
#include "net/decoder.h"
#include "net/parts.h"
#include "zeroledger/bytes.h"

static const double DEVIATION = 0.02;

static void units(const zl_model *m, zr_unit *embed, zr_unit *block, zr_unit *head)
{
    const uint64_t packed = zl_mul(zl_add(m->heads, zl_mul(2, m->kv_heads)), m->head_dim);
    const uint64_t attention = zl_mul(m->heads, m->head_dim);
    const double added = zr_added_deviation(m, DEVIATION);

    zr_unit_matrix(embed, ZR_TOKEN_TABLE, m->vocab, m->width, DEVIATION);
    zr_unit_matrix(embed, ZR_POSITION_TABLE, m->positions, m->width, DEVIATION);

    zr_unit_vector(block, ZR_NORM1_W, m->width, 1.0);
    zr_unit_vector(block, ZR_NORM1_B, m->width, 0.0);
    zr_unit_matrix(block, ZR_QKV_W, m->width, packed, DEVIATION);
    zr_unit_vector(block, ZR_QKV_B, packed, 0.0);
    zr_unit_matrix(block, ZR_OUT_W, attention, m->width, added);
    zr_unit_vector(block, ZR_OUT_B, m->width, 0.0);
    zr_unit_vector(block, ZR_NORM2_W, m->width, 1.0);
    zr_unit_vector(block, ZR_NORM2_B, m->width, 0.0);
    zr_unit_matrix(block, ZR_UP_W, m->width, m->ffn, DEVIATION);
    zr_unit_vector(block, ZR_UP_B, m->ffn, 0.0);
    zr_unit_matrix(block, ZR_DOWN_W, m->ffn, m->width, added);
    zr_unit_vector(block, ZR_DOWN_B, m->width, 0.0);

    zr_unit_vector(head, ZR_NORM_W, m->width, 1.0);
    zr_unit_vector(head, ZR_NORM_B, m->width, 0.0);
    if (!m->tied) {
        zr_unit_matrix(head, ZR_OUTPUT_W, m->vocab, m->width, DEVIATION);
    }
}

const zr_family zr_gpt2 = {
    .units = units,
    .embed_forward = zr_decoder_embed_forward,
    .block_forward = zr_decoder_block_forward,
    .block_again = zr_decoder_block_again,
    .block_backward = zr_decoder_block_backward,
    .head_forward = zr_decoder_head_forward,
    .head_backward = zr_decoder_head_backward,
    .embed_backward = zr_decoder_embed_backward,
};
