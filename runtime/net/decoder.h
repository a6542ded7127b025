/* A transformer with the norm before each branch and a causal mask: what GPT-2 and Llama share.
 * They differ in the norm, the activation function and how a token knows its position; the first
 * two follow from the model's description, the third is Llama's rotation of queries and keys.
 */
#ifndef ZR_NET_DECODER_H
#define ZR_NET_DECODER_H

#include "net/net.h"

ZL_NODISCARD zl_status zr_decoder_embed_forward(zr_net *net, zl_err *err);
ZL_NODISCARD zl_status zr_decoder_block_forward(zr_net *net, uint64_t l, zl_err *err);
ZL_NODISCARD zl_status zr_decoder_block_again(zr_net *net, uint64_t l, zl_err *err);
ZL_NODISCARD zl_status zr_decoder_block_backward(zr_net *net, uint64_t l, zl_err *err);
ZL_NODISCARD zl_status zr_decoder_head_forward(zr_net *net, zl_err *err);
ZL_NODISCARD zl_status zr_decoder_head_backward(zr_net *net, zl_err *err);
ZL_NODISCARD zl_status zr_decoder_embed_backward(zr_net *net, zl_err *err);

#endif
