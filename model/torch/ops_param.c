/* Operations with parameters: embedding, linear, layer norm. */
#include "torch/ops.h"
#include "zeroledger/bytes.h"

enum { FLOAT_BYTES = 4, INT64_BYTES = 8 };

/* ---- linear ---- */

/* addmm: bias, x, weight; mm: x, weight. size: rows, in, out. */
enum { ADDMM_BIAS, ADDMM_X, ADDMM_WEIGHT };
enum { MM_X, MM_WEIGHT };
enum { ROWS, IN, OUT };

static zt_tensor gradient_of_x(zt_process *p, const zt_node *node, zt_tensor grad)
{
    zt_tensor g = zt_tensor_new(p, zl_mul(node->size[ROWS], node->size[IN]), grad.element_bytes);
    zt_gemm(p, false);
    return g;
}

static zt_tensor gradient_of_weight(zt_process *p, const zt_node *node, zt_tensor grad)
{
    zt_tensor g = zt_tensor_new(p, zl_mul(node->size[IN], node->size[OUT]), grad.element_bytes);
    zt_gemm(p, false);
    return g;
}

static void addmm_backward(zt_process *p, zt_node *node, zt_tensor *in, zt_result *out)
{
    if (zt_wants(node, ADDMM_X)) {
        out[ADDMM_X].gradient = gradient_of_x(p, node, in[0]);
    }
    if (zt_wants(node, ADDMM_WEIGHT)) {
        out[ADDMM_WEIGHT].gradient = gradient_of_weight(p, node, in[0]);
    }
    if (zt_wants(node, ADDMM_BIAS)) {
        out[ADDMM_BIAS] = (zt_result){.gradient = zt_share(p, in[0]),
                                      .sum = ZT_SUM_ROWS,
                                      .rows = node->size[ROWS],
                                      .columns = node->size[OUT]};
    }
}

static void mm_backward(zt_process *p, zt_node *node, zt_tensor *in, zt_result *out)
{
    if (zt_wants(node, MM_WEIGHT)) {
        out[MM_WEIGHT].gradient = gradient_of_weight(p, node, in[0]);
    }
    if (zt_wants(node, MM_X)) {
        out[MM_X].gradient = gradient_of_x(p, node, in[0]);
    }
}

/* bias may be the empty tensor. x: (rows, in) as a view of its own, weight as the product takes it
 * (a transposed view for nn.Linear). */
static zt_tensor product(zt_process *p, zt_tensor bias, zt_tensor x, zt_tensor weight,
                         uint64_t in_features)
{
    const bool has_bias = bias.storage != ZT_NO_STORAGE;
    const zt_tensor input[] = {bias, x, weight};
    zt_node *node = has_bias ? zt_node_open(p, addmm_backward, 1, input, 3)
                             : zt_node_open(p, mm_backward, 1, input + 1, 2);
    const uint64_t rows = zl_exact_div(x.elements, in_features);
    const uint64_t out_features = zl_exact_div(weight.elements, in_features);
    if (node != NULL) {
        node->size[ROWS] = rows;
        node->size[IN] = in_features;
        node->size[OUT] = out_features;
    }
    /* Saved in the order of their names: mat1 (x), mat2; or mat2, self (x). */
    const zt_tensor saved[] = {has_bias ? x : weight, has_bias ? weight : x};
    const bool needed[] = {zt_needs_gradient(saved[1]), zt_needs_gradient(saved[0])};
    for (uint32_t i = 0; i < 2; i++) {
        if (needed[i]) {
            zt_save(p, node, saved[i]);
        }
    }
    zt_tensor y = zt_tensor_new(p, zl_mul(rows, out_features), x.element_bytes);
    zt_gemm(p, has_bias);
    zt_node_output(p, node, &y, 0);
    return y;
}

static zt_tensor bias_of(zt_process *p, const zt_param *bias)
{
    return bias == NULL ? (zt_tensor){0} : zt_cast_low(p, bias->value);
}

/* ---- DeepSpeed's linear for stage 3 ---- */

/* deepspeed/runtime/zero/linear.py, LinearFunctionForZeroStage3: keeps the parameter itself, not a
 * transposed view of its memory; x is kept whether the weight trains or not. Inputs x, weight,
 * bias. */
enum { ZERO3_X, ZERO3_WEIGHT, ZERO3_BIAS };

static void zero3_backward(zt_process *p, zt_node *node, zt_tensor *in, zt_result *out)
{
    if (zt_wants(node, ZERO3_X)) {
        out[ZERO3_X].gradient = gradient_of_x(p, node, in[0]);
    }
    if (zt_wants(node, ZERO3_WEIGHT)) {
        out[ZERO3_WEIGHT].gradient = gradient_of_weight(p, node, in[0]);
    }
    if (node->inputs > ZERO3_BIAS && zt_wants(node, ZERO3_BIAS)) {
        out[ZERO3_BIAS].gradient = zt_tensor_new(p, node->size[OUT], in[0].element_bytes);
        zt_touch_column_reduction(p, node->size[ROWS], node->size[OUT]);
    }
}

static zt_tensor linear_for_zero3(zt_process *p, zt_tensor x, const zt_param *weight,
                                  const zt_param *bias, bool matrix)
{
    const zt_tensor input[] = {x, weight->value, bias == NULL ? (zt_tensor){0} : bias->value};
    zt_node *node = zt_node_open(p, zero3_backward, 1, input, bias == NULL ? 2 : 3);
    const uint64_t rows = zl_exact_div(x.elements, weight->columns);
    if (node != NULL) {
        node->size[ROWS] = rows;
        node->size[IN] = weight->columns;
        node->size[OUT] = weight->rows;
    }
    zt_tensor y = zt_tensor_new(p, zl_mul(rows, weight->rows), x.element_bytes);
    zt_gemm(p, matrix && bias != NULL);
    zt_save(p, node, x);
    zt_save(p, node, weight->value);
    if (bias != NULL) {
        zt_save(p, node, bias->value);
    }
    zt_node_output(p, node, &y, 0);
    return y;
}

/* Arguments are cast from the last to the first: bias, weight, x. */
zt_tensor zt_linear(zt_process *p, zt_tensor x, const zt_param *weight, const zt_param *bias)
{
    if (p->linear_for_zero3) {
        return linear_for_zero3(p, x, weight, bias, x.matrix);
    }
    zt_tensor b = bias_of(p, bias);
    zt_tensor w = zt_cast_low(p, weight->value);
    zt_tensor low = zt_cast_low(p, x);
    zt_tensor rows = zt_view(p, low);
    zt_tensor transposed = zt_view(p, w);
    zt_tensor y = product(p, b, rows, transposed, weight->columns);
    zt_release(p, &transposed);
    zt_release(p, &rows);
    zt_release(p, &low);
    zt_release(p, &w);
    zt_release(p, &b);
    return y;
}

zt_tensor zt_conv1d(zt_process *p, zt_tensor x, const zt_param *weight, const zt_param *bias)
{
    zt_tensor rows = zt_view(p, x);
    zt_tensor w = zt_cast_low(p, weight->value);
    zt_tensor low = zt_cast_low(p, rows);
    zt_tensor b = bias_of(p, bias);
    zt_tensor y = product(p, b, low, w, weight->rows);
    zt_release(p, &b);
    zt_release(p, &low);
    zt_release(p, &w);
    zt_release(p, &rows);
    return y;
}

/* ---- layer norm ---- */

static void layer_norm_backward(zt_process *p, zt_node *node, zt_tensor *in, zt_result *out)
{
    if (zt_wants(node, 0)) {
        out[0].gradient = zt_like(p, in[0]);
    }
    for (uint32_t i = 1; i < node->inputs; i++) {
        if (zt_wants(node, i)) {
            out[i].gradient = zt_tensor_new(p, node->size[0], (uint32_t)node->size[1]);
        }
    }
}

zt_tensor zt_layer_norm(zt_process *p, zt_tensor x, const zt_param *weight, const zt_param *bias)
{
    zt_tensor high = zt_cast_high(p, x);
    const zt_tensor input[] = {high, weight->value, bias->value};
    const uint64_t columns = weight->rows;
    zt_node *node = zt_node_open(p, layer_norm_backward, 1, input, 3);
    if (node != NULL) {
        node->size[0] = columns;
        node->size[1] = weight->value.element_bytes;
    }
    zt_save(p, node, bias->value);
    zt_save(p, node, high);
    zt_save(p, node, weight->value);
    zt_tensor y = zt_like(p, high);
    const uint64_t rows = zl_exact_div(x.elements, columns);
    zt_tensor mean = zt_tensor_new(p, rows, FLOAT_BYTES);
    zt_tensor rstd = zt_tensor_new(p, rows, FLOAT_BYTES);
    zt_save(p, node, mean);
    zt_save(p, node, rstd);
    zt_node_output(p, node, &y, 0);
    zt_release(p, &mean);
    zt_release(p, &rstd);
    zt_release(p, &high);
    return y;
}

/* ---- embedding ---- */

enum { TABLE_ROWS, WIDTH, COUNT, IDS_EXPANDED };
/* embedding_dense_backward sorts the ids if there are more (EmbeddingBackwardKernel.cu). */
enum { SORT_ABOVE = 3072 };

/* Sorted ids and where they come from, segments of equal ids, and partial sums over pieces of at
 * most ten rows (EmbeddingBackwardKernel.cu: NROWS_PER_THREAD). */
static zt_tensor sorted_gradient(zt_process *p, const zt_node *node, uint32_t element_bytes)
{
    enum { ROWS_PER_PIECE = 10, WARP = 32, KEY_BITS = 64 };
    const uint64_t count = node->size[COUNT];
    const uint64_t ids = zl_mul(count, INT64_BYTES);
    const uint64_t segments = zl_min(count, node->size[TABLE_ROWS]);
    const uint64_t pieces = zl_add(count / ROWS_PER_PIECE, segments);
    zt_storage sorted = zt_new(p, ids);
    zt_storage origin = zt_new(p, ids);
    zt_storage range = zt_new(p, ids);
    zt_touch(p, zt_radix_sort_scratch(count, KEY_BITS));
    zt_drop(p, &range);
    zt_tensor gradient =
        zt_tensor_new(p, zl_mul(node->size[TABLE_ROWS], node->size[WIDTH]), element_bytes);
    zt_storage offsets = zt_new(p, ids);
    zt_storage segment_count = zt_new(p, INT64_BYTES);
    zt_storage distinct = zt_new(p, ids);
    zt_touch(p, zt_unique_scratch(count));
    zt_drop(p, &distinct);
    zt_storage piece_count_per_segment = zt_new(p, ids);
    zt_storage piece_offset_per_segment = zt_new(p, ids);
    zt_touch(p, zt_scan_scratch(count, INT64_BYTES));
    zt_storage piece_count = zt_new(p, INT64_BYTES);
    zt_storage piece_offsets = zt_new(p, zl_mul(pieces, INT64_BYTES));
    zt_touch(p, zl_mul(zl_mul(pieces, FLOAT_BYTES), zl_align_up(node->size[WIDTH], WARP)));
    zt_drop(p, &piece_offsets);
    zt_drop(p, &piece_count);
    zt_drop(p, &piece_offset_per_segment);
    zt_drop(p, &piece_count_per_segment);
    zt_drop(p, &segment_count);
    zt_drop(p, &offsets);
    zt_drop(p, &origin);
    zt_drop(p, &sorted);
    return gradient;
}

static void embedding_backward(zt_process *p, zt_node *node, zt_tensor *in, zt_result *out)
{
    const bool expanded = node->size[IDS_EXPANDED] != 0;
    zt_storage ids = expanded ? zt_new(p, zl_mul(node->size[COUNT], INT64_BYTES)) : 0;
    if (node->size[COUNT] > SORT_ABOVE) {
        out[0].gradient = sorted_gradient(p, node, in[0].element_bytes);
    } else {
        out[0].gradient = zt_tensor_new(p, zl_mul(node->size[TABLE_ROWS], node->size[WIDTH]),
                                        in[0].element_bytes);
    }
    zt_drop(p, &ids);
}

zt_tensor zt_embedding(zt_process *p, const zt_param *table, zt_storage ids, uint64_t count,
                       bool ids_expanded)
{
    zt_node *node = zt_node_open(p, embedding_backward, 1, &table->value, 1);
    if (node != NULL) {
        node->size[TABLE_ROWS] = table->rows;
        node->size[WIDTH] = table->columns;
        node->size[COUNT] = count;
        node->size[IDS_EXPANDED] = ids_expanded;
    }
    zt_save_storage(p, node, ids);
    zt_storage copy = ids_expanded ? zt_new(p, zl_mul(count, INT64_BYTES)) : ZT_NO_STORAGE;
    zt_tensor y = zt_tensor_new(p, zl_mul(count, table->columns), table->value.element_bytes);
    zt_drop(p, &copy);
    zt_node_output(p, node, &y, 0);
    return y;
}
