/* The operations that Hugging Face models are written in, as ATen runs them on CUDA: what each
 * allocates, what it saves for backward, what its derivative allocates, in order.
 *
 *     zt_tensor y = zt_linear(p, x, weight, bias);   // x is borrowed, y is the caller's
 *     zt_assign(p, &y, zt_dropout(p, y, 0.1));       // y = dropout(y)
 *
 * Arguments are borrowed, results are owned. Shapes appear as element counts only: an operation
 * that mixes rows is told how many columns a row has. Sources: native/ and
 * tools/autograd/derivatives.yaml of PyTorch 2.11, checked against allocator traces.
 */
#ifndef ZT_OPS_H
#define ZT_OPS_H

#include "torch/autograd.h"

/* ---- views and copies ---- */

/* .view, .transpose, ...: the same storage; its gradient is a view too. */
zt_tensor zt_view(zt_process *p, zt_tensor x);
/* A view of a part of x, `elements` of it. The gradient is written into zeros of x's size. */
zt_tensor zt_slice(zt_process *p, zt_tensor x, uint64_t elements);
/* .view(b, s, heads, d).transpose(1, 2): no memory. If the gradient that comes back lies in another
 * order of dimensions, reshaping it copies; say so. */
zt_tensor zt_split_heads(zt_process *p, zt_tensor x, bool gradient_copies);
/* .transpose(1, 2).contiguous() of what a batch of products made: copies, and so does the gradient
 * if it has to. */
zt_tensor zt_merge_heads(zt_process *p, zt_tensor x, bool gradient_copies);
/* .contiguous() or .reshape() that has to copy; the gradient passes. */
zt_tensor zt_contiguous(zt_process *p, zt_tensor x);
/* x.split(...) into `count` equal views of their own; the gradients are concatenated. */
void zt_split(zt_process *p, zt_tensor x, zt_tensor *part, uint32_t count);
/* torch.cat of two tensors; the gradients are views. */
zt_tensor zt_cat(zt_process *p, zt_tensor a, zt_tensor b);
/* .to(dtype), .float(): x itself if it has those bytes already. */
zt_tensor zt_to(zt_process *p, zt_tensor x, uint32_t element_bytes);

/* ---- elementwise ---- */

/* The result has the larger element size and count. An operand with fewer elements is broadcast:
 * either one of a sum, and `self` of a product, over rows (one element per column), `other` of a
 * product over columns (one element per row). Its gradient is summed. */
zt_tensor zt_add(zt_process *p, zt_tensor self, zt_tensor other);
zt_tensor zt_mul(zt_process *p, zt_tensor self, zt_tensor other);
/* x * row: one element of `row` per column, or a single one. */
zt_tensor zt_mul_by_row(zt_process *p, zt_tensor x, zt_tensor row);
zt_tensor zt_add_scalar(zt_process *p, zt_tensor x); /* the gradient passes */
zt_tensor zt_neg(zt_process *p, zt_tensor x);
zt_tensor zt_pow(zt_process *p, zt_tensor x); /* exponent 2 or more */
zt_tensor zt_rsqrt(zt_process *p, zt_tensor x);
zt_tensor zt_tanh(zt_process *p, zt_tensor x);
zt_tensor zt_gelu(zt_process *p, zt_tensor x);
zt_tensor zt_silu(zt_process *p, zt_tensor x);
/* x itself if probability is 0. */
zt_tensor zt_dropout(zt_process *p, zt_tensor x, double probability);

/* ---- along rows ---- */

zt_tensor zt_mean(zt_process *p, zt_tensor x, uint64_t columns);
zt_tensor zt_softmax(zt_process *p, zt_tensor x);
/* With dtype=torch.float32. */
zt_tensor zt_softmax_float(zt_process *p, zt_tensor x);
zt_tensor zt_layer_norm(zt_process *p, zt_tensor x, const zt_param *weight, const zt_param *bias);

/* ---- parameters ---- */

/* ids: `count` int64; rows of the table. If ids are expanded (not contiguous), they are copied. */
zt_tensor zt_embedding(zt_process *p, const zt_param *table, zt_storage ids, uint64_t count,
                       bool ids_expanded);
/* F.linear with or without bias (NULL); table (out, in). */
zt_tensor zt_linear(zt_process *p, zt_tensor x, const zt_param *weight, const zt_param *bias);
/* transformers' Conv1D: torch.addmm(bias, x, weight); table (in, out). */
zt_tensor zt_conv1d(zt_process *p, zt_tensor x, const zt_param *weight, const zt_param *bias);

/* ---- matrix products and attention ---- */

/* torch.matmul of two batches of matrices; results have `elements`. self_copies, other_copies: the
 * operand is not contiguous as a batch of matrices, so it is copied first. */
zt_tensor zt_matmul(zt_process *p, zt_tensor self, bool self_copies, zt_tensor other,
                    bool other_copies, uint64_t elements);
/* Heads split off by .view().transpose(1, 2) are no plain batch of matrices unless there is one
 * sequence or one head; where batches of matrices are wanted, they are copied. */
bool zt_heads_need_copies(const zt_process *p);
/* Keys or values repeated for each query head of their group; the same tensor for a group of one.
 */
zt_tensor zt_repeat_kv(zt_process *p, zt_tensor x, uint64_t group);
/* The only head for each of `heads`: a view of it, in which they all lie at the same place. */
zt_tensor zt_expand_head(zt_process *p, zt_tensor x, uint64_t heads);
/* scaled_dot_product_attention over (batch, heads, seq, head_dim); k and v may have fewer heads. */
typedef struct zt_attention_shape {
    uint64_t batch, heads, kv_heads, seq, head_dim;
    bool heads_outside; /* q is contiguous in that order; else a view of (batch, seq, heads, ...) */
} zt_attention_shape;
/* (batch, seq, heads * head_dim) */
zt_tensor zt_sdpa(zt_process *p, zt_tensor q, zt_tensor k, zt_tensor v, zt_attention_shape shape);

/* No fused kernel takes the model's shapes in this dtype: products and a softmax are run one by
 * one, and gradients have their layout. */
bool zt_sdpa_is_written_out(const zt_process *p, uint32_t element_bytes);

/* ---- loss ---- */

/* F.cross_entropy, mean over all rows: a scalar. targets: int64, one per row. */
zt_tensor zt_cross_entropy(zt_process *p, zt_tensor logits, zt_storage targets);

/* ---- inside operations ---- */

/* Temporary storage of CUB: for sorting `count` pairs of int64 by the lowest bits of the first; for
 * finding the distinct ones; for a running sum. */
uint64_t zt_radix_sort_scratch(uint64_t count, uint32_t bits);
uint64_t zt_unique_scratch(uint64_t count);
uint64_t zt_scan_scratch(uint64_t count, uint32_t element_bytes);

/* A matrix product runs on this thread: its first one allocates the workspace of cuBLAS; the first
 * with a bias in its epilogue that of cuBLASLt. */
void zt_gemm(zt_process *p, bool bias_epilogue);
/* cuDNN's attention runs on this thread: nothing in the allocator. */
void zt_cudnn(zt_process *p);
/* A new tensor of the same shape and dtype. */
zt_tensor zt_like(zt_process *p, zt_tensor x);
/* Autocast's casts of an argument; a shared reference where nothing has to be cast. */
zt_tensor zt_cast_low(zt_process *p, zt_tensor x);
zt_tensor zt_cast_high(zt_process *p, zt_tensor x);

#endif
