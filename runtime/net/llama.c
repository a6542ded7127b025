/* Llama: rotary positions, RMSNorm before each branch, SwiGLU, grouped queries, biases only where
 * the model says so (Touvron et al., "LLaMA: open and efficient foundation language models", 2023).
 */
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

    zr_unit_vector(block, ZR_NORM1_W, m->width, 1.0);
    zr_unit_matrix(block, ZR_QKV_W, m->width, packed, DEVIATION);
    if (m->qkv_bias) {
        zr_unit_vector(block, ZR_QKV_B, packed, 0.0);
    }
    zr_unit_matrix(block, ZR_OUT_W, attention, m->width, added);
    if (m->out_bias) {
        zr_unit_vector(block, ZR_OUT_B, m->width, 0.0);
    }
    zr_unit_vector(block, ZR_NORM2_W, m->width, 1.0);
    zr_unit_matrix(block, ZR_UP_W, m->width, zl_mul(2, m->ffn), DEVIATION);
    if (m->mlp_bias) {
        zr_unit_vector(block, ZR_UP_B, zl_mul(2, m->ffn), 0.0);
    }
    zr_unit_matrix(block, ZR_DOWN_W, m->ffn, m->width, added);
    if (m->mlp_bias) {
        zr_unit_vector(block, ZR_DOWN_B, m->width, 0.0);
    }

    zr_unit_vector(head, ZR_NORM_W, m->width, 1.0);
    if (!m->tied) {
        zr_unit_matrix(head, ZR_OUTPUT_W, m->vocab, m->width, DEVIATION);
    }
}

const zr_family zr_llama = {
    .units = units,
    .embed_forward = zr_decoder_embed_forward,
    .block_forward = zr_decoder_block_forward,
    .block_again = zr_decoder_block_again,
    .block_backward = zr_decoder_block_backward,
    .head_forward = zr_decoder_head_forward,
    .head_backward = zr_decoder_head_backward,
    .embed_backward = zr_decoder_embed_backward,
};
