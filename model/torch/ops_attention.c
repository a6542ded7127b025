/* Attention: products of batches of matrices, and the fused kernels behind
 * scaled_dot_product_attention. */
#include "torch/ops.h"
#include "zeroledger/bytes.h"

enum { FLOAT_BYTES = 4, HALF_BYTES = 2, INT64_BYTES = 8 };

/* ---- matmul ---- */

/* bmm(self, mat2): the derivative of mat2 comes first. size: elements of self, of mat2. */
static void bmm_backward(zt_process *p, zt_node *node, zt_tensor *in, zt_result *out)
{
    for (uint32_t i = 2; i-- > 0;) {
        if (zt_wants(node, i)) {
            out[i].gradient = zt_tensor_new(p, node->size[i], in[0].element_bytes);
            zt_gemm(p, false);
        }
    }
}

bool zt_heads_need_copies(const zt_process *p)
{
    return p->run->micro_batch > 1 && p->run->model.heads > 1;
}

static zt_tensor operand(zt_process *p, zt_tensor x, bool copies)
{
    return copies ? zt_contiguous(p, x) : zt_view(p, x);
}

zt_tensor zt_matmul(zt_process *p, zt_tensor self, bool self_copies, zt_tensor other,
                    bool other_copies, uint64_t elements)
{
    zt_tensor low_other = zt_cast_low(p, other);
    zt_tensor low_self = zt_cast_low(p, self);
    zt_tensor a = operand(p, low_self, self_copies);
    zt_tensor b = operand(p, low_other, other_copies);
    const zt_tensor input[] = {a, b};
    zt_node *node = zt_node_open(p, bmm_backward, 1, input, 2);
    if (node != NULL) {
        node->size[0] = a.elements;
        node->size[1] = b.elements;
    }
    if (zt_needs_gradient(a)) {
        zt_save(p, node, b);
    }
    if (zt_needs_gradient(b)) {
        zt_save(p, node, a);
    }
    zt_tensor y = zt_tensor_new(p, elements, a.element_bytes);
    zt_gemm(p, false);
    zt_node_output(p, node, &y, 0);
    zt_release(p, &b);
    zt_release(p, &a);
    zt_release(p, &low_self);
    zt_release(p, &low_other);
    return y;
}

/* The gradients of the copies are summed. */
static void repeat_backward(zt_process *p, zt_node *node, zt_tensor *in, zt_result *out)
{
    out[0].gradient = zt_tensor_new(p, node->size[0], in[0].element_bytes);
}

zt_tensor zt_repeat_kv(zt_process *p, zt_tensor x, uint64_t group)
{
    if (group == 1) {
        return zt_share(p, x);
    }
    zt_node *node = zt_node_open(p, repeat_backward, 1, &x, 1);
    if (node != NULL) {
        node->size[0] = x.elements;
    }
    zt_tensor y = zt_tensor_new(p, zl_mul(x.elements, group), x.element_bytes);
    zt_node_output(p, node, &y, 0);
    return y;
}

zt_tensor zt_expand_head(zt_process *p, zt_tensor x, uint64_t heads)
{
    zt_node *node = zt_node_open(p, repeat_backward, 1, &x, 1);
    if (node != NULL) {
        node->size[0] = x.elements;
    }
    zt_tensor y = zt_detach(p, x);
    y.elements = zl_mul(x.elements, heads);
    zt_node_output(p, node, &y, 0);
    return y;
}

/* ---- scaled_dot_product_attention ---- */

enum { BATCH_HEADS, SEQ, HEAD_DIM, KV_RATIO, HEADS_OUTSIDE };

static uint64_t output_elements(const zt_node *node)
{
    return zl_prod(node->size[BATCH_HEADS], node->size[SEQ], node->size[HEAD_DIM]);
}

/* One value per query and head. */
static uint64_t statistics(const zt_node *node)
{
    return zl_mul(node->size[BATCH_HEADS], node->size[SEQ]);
}

static void gradients_of_qkv(zt_process *p, const zt_node *node, zt_tensor grad, zt_result *out)
{
    const uint64_t q = output_elements(node);
    const uint64_t kv = zl_exact_div(q, node->size[KV_RATIO]);
    out[0].gradient = zt_tensor_new(p, q, grad.element_bytes);
    out[1].gradient = zt_tensor_new(p, kv, grad.element_bytes);
    out[2].gradient = zt_tensor_new(p, kv, grad.element_bytes);
}

/* cuDNN's workspace: fp32 sums for dq, one fp32 value per query and head, and where query heads
 * share keys, dk and dv of every query head before they are summed. */
static void cudnn_backward(zt_process *p, zt_node *node, zt_tensor *in, zt_result *out)
{
    enum { WORKSPACE = 256 };
    const uint64_t q = output_elements(node);
    const uint64_t shared = node->size[KV_RATIO] > 1 ? zl_prod(2, q, in[0].element_bytes) : 0;
    gradients_of_qkv(p, node, in[0], out);
    zt_cudnn(p);
    zt_touch(p,
             zl_add(zl_add(zl_mul(FLOAT_BYTES, zl_add(q, statistics(node))), shared), WORKSPACE));
}

/* FlashAttention-2: softmax_d and fp32 sums for dq over padded rows and head sizes. Before that the
 * output is made contiguous as (batch, seq, heads, head_dim). */
static void flash_backward(zt_process *p, zt_node *node, zt_tensor *in, zt_result *out)
{
    enum { ROWS = 128, COLUMNS = 32 };
    const uint64_t rows = zl_align_up(node->size[SEQ], ROWS);
    const uint64_t columns = zl_align_up(node->size[HEAD_DIM], COLUMNS);
    zt_storage contiguous = node->size[HEADS_OUTSIDE] ? zt_new(p, zt_bytes(in[0])) : ZT_NO_STORAGE;
    gradients_of_qkv(p, node, in[0], out);
    zt_storage softmax_d = zt_new(p, zl_prod(FLOAT_BYTES, node->size[BATCH_HEADS], rows));
    zt_touch(p, zl_prod(FLOAT_BYTES, node->size[BATCH_HEADS], rows, columns));
    zt_drop(p, &softmax_d);
    zt_drop(p, &contiguous);
}

/* The memory-efficient kernel in fp32 (native/transformers/cuda/mem_eff_attention): delta = (grad *
 * out).sum(-1), made contiguous; for dq, blocks of 64 rows keep a tile of 64 columns and a lock of
 * four words each. */
static void efficient_backward(zt_process *p, zt_node *node, zt_tensor *in, zt_result *out)
{
    enum { TILE = 64, LOCK = 4 };
    gradients_of_qkv(p, node, in[0], out);
    zt_storage product = zt_new(p, zl_mul(FLOAT_BYTES, output_elements(node)));
    zt_storage sum = zt_new(p, zl_mul(FLOAT_BYTES, statistics(node)));
    zt_storage delta = zt_new(p, zl_mul(FLOAT_BYTES, statistics(node)));
    zt_drop(p, &sum);
    zt_drop(p, &product);
    zt_storage tiles =
        zt_new(p, zl_prod(FLOAT_BYTES, node->size[BATCH_HEADS], zl_ceil_div(node->size[SEQ], TILE),
                          zl_ceil_div(node->size[HEAD_DIM], TILE), TILE * TILE + LOCK));
    zt_drop(p, &delta);
    zt_drop(p, &tiles);
}

typedef struct fused_kernel {
    zt_backward_function *backward;
    bool seeds_first; /* 8 bytes each, allocated before the output */
    bool seeds_last;
    bool always_statistics; /* else only for backward */
    bool keeps_layout;      /* the output lies like q, else tokens outside heads */
    uint64_t workspace;     /* forward, bytes */
    uint64_t row_pad;       /* statistics are padded to a multiple of this many rows */
} fused_kernel;

static const fused_kernel cudnn = {cudnn_backward, true, false, false, true, 256, 1};
static const fused_kernel flash = {flash_backward, false, true, true, true, 0, 1};
static const fused_kernel efficient = {efficient_backward, false, false, false, false, 0, 32};

/* What sdp_utils.cpp picks when nothing is masked: cuDNN first from compute capability 9.0 on, and
 * only the memory-efficient kernel takes fp32 (but not with shared keys). */
static const fused_kernel *pick(const zt_process *p, uint32_t element_bytes)
{
    enum { HOPPER = 90 };
    if (element_bytes != HALF_BYTES) {
        return &efficient;
    }
    return p->run->attention == ZL_TORCH_SDPA && p->run->capability >= HOPPER ? &cudnn : &flash;
}

/* ---- written out by ATen itself ---- */

/* Which positions may be seen, as numbers to add: 0 or minus infinity. */
static zt_storage causal_bias(zt_process *p, uint64_t seq, uint32_t element_bytes)
{
    const uint64_t square = zl_mul(seq, seq);
    zt_storage ones = zt_new(p, square);
    zt_storage triangle = zt_new(p, square);
    zt_drop(p, &ones);
    zt_storage zero = zt_new(p, element_bytes);
    zt_storage infinity = zt_new(p, element_bytes);
    zt_storage bias = zt_new(p, zl_mul(square, element_bytes));
    zt_drop(p, &infinity);
    zt_drop(p, &zero);
    zt_drop(p, &triangle);
    return bias;
}

/* _safe_softmax: rows that are masked everywhere become zero. */
static zt_tensor safe_softmax(zt_process *p, zt_tensor scores, uint64_t columns)
{
    zt_tensor y = zt_softmax(p, scores);
    zt_storage masked = zt_new(p, scores.elements);
    zt_storage masked_rows = zt_new(p, zl_exact_div(scores.elements, columns));
    zt_touch(p, FLOAT_BYTES);
    zt_drop(p, &masked_rows);
    zt_drop(p, &masked);
    return y;
}

bool zt_sdpa_is_written_out(const zt_process *p, uint32_t element_bytes)
{
    const zl_hf_config *c = &p->run->model;
    return element_bytes != HALF_BYTES && !zt_autocast(p) && c->kv_heads < c->heads;
}

/* _scaled_dot_product_attention_math, causal. */
static zt_tensor written_out(zt_process *p, zt_tensor q, zt_tensor k, zt_tensor v,
                             zt_attention_shape shape)
{
    const uint64_t group = zl_exact_div(shape.heads, shape.kv_heads);
    const bool copies = zt_heads_need_copies(p);
    zt_tensor query = zt_scale(p, q);
    zt_storage bias = causal_bias(p, shape.seq, q.element_bytes);
    zt_tensor keys = zt_repeat_kv(p, k, group);
    zt_tensor values = zt_repeat_kv(p, v, group);
    zt_tensor scaled = zt_scale(p, keys);
    zt_tensor scores = zt_matmul(p, query, copies, scaled, false,
                                 zl_prod(shape.batch, shape.heads, shape.seq, shape.seq));
    zt_release(p, &scaled);
    zt_assign(p, &scores, safe_softmax(p, scores, shape.seq));
    zt_tensor y = zt_matmul(p, scores, false, values, false, q.elements);
    zt_release(p, &scores);
    zt_release(p, &values);
    zt_release(p, &keys);
    zt_drop(p, &bias);
    zt_release(p, &query);
    zt_assign(p, &y, zt_merge_heads(p, y, copies));
    return y;
}

zt_tensor zt_sdpa(zt_process *p, zt_tensor q, zt_tensor k, zt_tensor v, zt_attention_shape shape)
{
    if (zt_sdpa_is_written_out(p, q.element_bytes)) {
        return written_out(p, q, k, v, shape);
    }
    zt_tensor low_v = zt_cast_low(p, v);
    zt_tensor low_k = zt_cast_low(p, k);
    zt_tensor low_q = zt_cast_low(p, q);
    const fused_kernel *kernel = pick(p, low_q.element_bytes);
    const zt_tensor input[] = {low_q, low_k, low_v};
    zt_node *node = zt_node_open(p, kernel->backward, 1, input, 3);
    if (node != NULL) {
        node->size[BATCH_HEADS] = zl_mul(shape.batch, shape.heads);
        node->size[SEQ] = shape.seq;
        node->size[HEAD_DIM] = shape.head_dim;
        node->size[KV_RATIO] = zl_exact_div(shape.heads, shape.kv_heads);
        node->size[HEADS_OUTSIDE] = shape.heads_outside;
    }
    zt_save(p, node, low_k);
    zt_save(p, node, low_q);
    zt_save(p, node, low_v);
    zt_storage seed = kernel->seeds_first ? zt_new(p, INT64_BYTES) : ZT_NO_STORAGE;
    zt_storage offset = kernel->seeds_first ? zt_new(p, INT64_BYTES) : ZT_NO_STORAGE;
    zt_tensor y = zt_like(p, low_q);
    const uint64_t rows = zl_align_up(shape.seq, kernel->row_pad);
    zt_storage lse = ZT_NO_STORAGE;
    if (node != NULL || kernel->always_statistics) {
        lse = zt_new(p, zl_prod(FLOAT_BYTES, shape.batch, shape.heads, rows));
    }
    if (kernel->seeds_last) {
        seed = zt_new(p, INT64_BYTES);
        offset = zt_new(p, INT64_BYTES);
    }
    zt_touch(p, kernel->workspace);
    if (kernel == &cudnn) {
        zt_cudnn(p);
    }
    zt_save_storage(p, node, lse);
    zt_save(p, node, y);
    zt_save_storage(p, node, offset);
    zt_save_storage(p, node, seed);
    zt_node_output(p, node, &y, 0);
    zt_drop(p, &lse);
    zt_drop(p, &seed);
    zt_drop(p, &offset);
    zt_release(p, &low_q);
    zt_release(p, &low_k);
    zt_release(p, &low_v);
    if (shape.heads_outside && kernel->keeps_layout) {
        zt_assign(p, &y, zt_merge_heads(p, y, false));
    }
    return y;
}
