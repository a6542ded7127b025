#include "torch/ops.h"

#include "zeroledger/bytes.h"

zt_tensor zt_like(zt_process *p, zt_tensor x)
{
    return zt_tensor_new(p, x.elements, x.element_bytes);
}

/* A result that is the incoming gradient itself. */
static zt_result passed(zt_process *p, zt_tensor gradient)
{
    return (zt_result){.gradient = zt_share(p, gradient)};
}

static zt_result made(zt_process *p, zt_tensor gradient)
{
    return (zt_result){.gradient = zt_like(p, gradient)};
}

/* A temporary of a formula, until its last use. */
static void drop_all(zt_process *p, zt_tensor *temporary, uint32_t count)
{
    for (uint32_t i = count; i-- > 0;) {
        zt_release(p, &temporary[i]);
    }
}

/* The derivative is one kernel: a new tensor like the incoming gradient. */
static void one_kernel_backward(zt_process *p, zt_node *node, zt_tensor *in, zt_result *out)
{
    (void)node;
    out[0] = made(p, in[0]);
}

/* The incoming gradient is the derivative. */
static void pass_backward(zt_process *p, zt_node *node, zt_tensor *in, zt_result *out)
{
    (void)node;
    out[0] = passed(p, in[0]);
}

/* ---- views and copies ---- */

static void view_backward(zt_process *p, zt_node *node, zt_tensor *in, zt_result *out)
{
    (void)node;
    out[0] = passed(p, in[0]);
    out[0].gradient.view = true;
}

static zt_tensor view(zt_process *p, zt_tensor x, zt_backward_function *backward)
{
    const zt_node *node = zt_node_open(p, backward, 1, &x, 1);
    zt_tensor y = zt_detach(p, x);
    zt_node_output(p, node, &y, 0);
    return y;
}

zt_tensor zt_view(zt_process *p, zt_tensor x)
{
    return view(p, x, view_backward);
}

zt_tensor zt_split_heads(zt_process *p, zt_tensor x, bool gradient_copies)
{
    return view(p, x, gradient_copies ? one_kernel_backward : view_backward);
}

/* The gradient of a part is written into zeros of the size of the whole. */
static void part_backward(zt_process *p, zt_node *node, zt_tensor *in, zt_result *out)
{
    out[0].gradient = zt_tensor_new(p, node->size[0], in[0].element_bytes);
}

zt_tensor zt_slice(zt_process *p, zt_tensor x, uint64_t elements)
{
    zt_node *node = zt_node_open(p, part_backward, 1, &x, 1);
    if (node != NULL) {
        node->size[0] = x.elements;
    }
    zt_tensor y = zt_detach(p, x);
    y.elements = elements;
    zt_node_output(p, node, &y, 0);
    return y;
}

void zt_split(zt_process *p, zt_tensor x, zt_tensor *part, uint32_t count)
{
    zt_node *node = zt_node_open(p, part_backward, count, &x, 1);
    if (node != NULL) {
        node->size[0] = x.elements;
    }
    for (uint32_t i = 0; i < count; i++) {
        part[i] = zt_detach(p, x);
        part[i].elements = zl_exact_div(x.elements, count);
        zt_node_output(p, node, &part[i], i);
    }
}

zt_tensor zt_contiguous(zt_process *p, zt_tensor x)
{
    const zt_node *node = zt_node_open(p, pass_backward, 1, &x, 1);
    zt_tensor y = zt_like(p, x);
    zt_node_output(p, node, &y, 0);
    return y;
}

zt_tensor zt_merge_heads(zt_process *p, zt_tensor x, bool gradient_copies)
{
    zt_tensor heads = zt_split_heads(p, x, gradient_copies);
    zt_tensor y = zt_contiguous(p, heads);
    zt_release(p, &heads);
    return y;
}

static void keep_shapes(zt_node *node, const zt_tensor *input)
{
    for (uint32_t i = 0; node != NULL && i < 2; i++) {
        node->size[i] = input[i].elements;
        node->size[2 + i] = input[i].element_bytes;
    }
}

static void cat_backward(zt_process *p, zt_node *node, zt_tensor *in, zt_result *out)
{
    for (uint32_t i = 0; i < node->inputs; i++) {
        if (zt_wants(node, i)) {
            out[i] = passed(p, in[0]);
            out[i].gradient.elements = node->size[i];
            out[i].gradient.view = true;
            out[i].element_bytes = (uint32_t)node->size[2 + i];
        }
    }
}

zt_tensor zt_cat(zt_process *p, zt_tensor a, zt_tensor b)
{
    const zt_tensor input[] = {a, b};
    zt_node *node = zt_node_open(p, cat_backward, 1, input, 2);
    keep_shapes(node, input);
    zt_tensor y = zt_tensor_new(p, zl_add(a.elements, b.elements), a.element_bytes);
    zt_node_output(p, node, &y, 0);
    return y;
}

static void to_backward(zt_process *p, zt_node *node, zt_tensor *in, zt_result *out)
{
    out[0].gradient = zt_tensor_new(p, in[0].elements, (uint32_t)node->size[0]);
}

zt_tensor zt_to(zt_process *p, zt_tensor x, uint32_t element_bytes)
{
    if (x.element_bytes == element_bytes) {
        return zt_share(p, x);
    }
    zt_node *node = zt_node_open(p, to_backward, 1, &x, 1);
    if (node != NULL) {
        node->size[0] = x.element_bytes;
    }
    zt_tensor y = zt_tensor_new(p, x.elements, element_bytes);
    zt_node_output(p, node, &y, 0);
    return y;
}

enum { HALF_BYTES = 2, FLOAT_BYTES = 4 };

/* Of a leaf that trains once per autocast region, of anything else at each use. */
zt_tensor zt_cast_low(zt_process *p, zt_tensor x)
{
    if (!zt_autocast(p) || x.element_bytes == HALF_BYTES) {
        return zt_share(p, x);
    }
    if (x.leaf == NULL || !zt_needs_gradient(x)) {
        return zt_to(p, x, HALF_BYTES);
    }
    zt_tensor y = zt_autocast_find(p, x.leaf);
    if (y.storage == ZT_NO_STORAGE) {
        y = zt_to(p, x, HALF_BYTES);
        zt_autocast_keep(p, x.leaf, y);
    }
    return y;
}

zt_tensor zt_cast_high(zt_process *p, zt_tensor x)
{
    return zt_autocast(p) ? zt_to(p, x, FLOAT_BYTES) : zt_share(p, x);
}

/* ---- sums and products ---- */

static zt_tensor broadcast(zt_process *p, zt_tensor a, zt_tensor b)
{
    return zt_tensor_new(p, zl_max(a.elements, b.elements),
                         a.element_bytes > b.element_bytes ? a.element_bytes : b.element_bytes);
}

static void fit(zt_result *result, const zt_node *node, uint32_t i, zt_sum sum)
{
    const uint64_t own = node->size[i];
    result->element_bytes = (uint32_t)node->size[2 + i];
    if (own != result->gradient.elements) {
        const uint64_t repeated = zl_exact_div(result->gradient.elements, own);
        result->sum = sum;
        result->rows = sum == ZT_SUM_ROWS ? repeated : own;
        result->columns = sum == ZT_SUM_ROWS ? own : repeated;
    }
}

static void add_backward(zt_process *p, zt_node *node, zt_tensor *in, zt_result *out)
{
    for (uint32_t i = 0; i < 2; i++) {
        if (zt_wants(node, i)) {
            out[i] = passed(p, in[0]);
            fit(&out[i], node, i, ZT_SUM_ROWS);
        }
    }
}

zt_tensor zt_add(zt_process *p, zt_tensor self, zt_tensor other)
{
    const zt_tensor input[] = {self, other};
    zt_node *node = zt_node_open(p, add_backward, 1, input, 2);
    keep_shapes(node, input);
    zt_tensor y = broadcast(p, self, other);
    zt_node_output(p, node, &y, 0);
    return y;
}

enum { SUM_OF_OTHER = 4 };

/* The derivative of `other` comes first. */
static void mul_backward(zt_process *p, zt_node *node, zt_tensor *in, zt_result *out)
{
    for (uint32_t i = 2; i-- > 0;) {
        if (zt_wants(node, i)) {
            out[i] = made(p, in[0]);
            fit(&out[i], node, i, i == 0 ? ZT_SUM_ROWS : (zt_sum)node->size[SUM_OF_OTHER]);
        }
    }
}

static zt_tensor multiply(zt_process *p, zt_tensor self, zt_tensor other, zt_sum sum_of_other)
{
    const zt_tensor input[] = {self, other};
    zt_node *node = zt_node_open(p, mul_backward, 1, input, 2);
    keep_shapes(node, input);
    if (node != NULL) {
        node->size[SUM_OF_OTHER] = sum_of_other;
    }
    if (zt_needs_gradient(self)) {
        zt_save(p, node, other);
    }
    if (zt_needs_gradient(other)) {
        zt_save(p, node, self);
    }
    zt_tensor y = broadcast(p, self, other);
    zt_node_output(p, node, &y, 0);
    return y;
}

zt_tensor zt_mul(zt_process *p, zt_tensor self, zt_tensor other)
{
    return multiply(p, self, other, ZT_SUM_COLUMNS);
}

zt_tensor zt_mul_by_row(zt_process *p, zt_tensor x, zt_tensor row)
{
    return multiply(p, x, row, ZT_SUM_ROWS);
}

/* A number operand is a tensor on the host, which saved-tensor hooks do not see. */
zt_tensor zt_scale(zt_process *p, zt_tensor x)
{
    const zt_node *node = zt_node_open(p, one_kernel_backward, 1, &x, 1);
    zt_tensor y = zt_like(p, x);
    zt_node_output(p, node, &y, 0);
    return y;
}

zt_tensor zt_add_scalar(zt_process *p, zt_tensor x)
{
    return zt_contiguous(p, x);
}

/* ---- functions of one operand ---- */

static zt_tensor function_of_input(zt_process *p, zt_tensor x, zt_backward_function *backward)
{
    zt_node *node = zt_node_open(p, backward, 1, &x, 1);
    zt_save(p, node, x);
    zt_tensor y = zt_like(p, x);
    zt_node_output(p, node, &y, 0);
    return y;
}

static zt_tensor function_of_output(zt_process *p, zt_tensor x, zt_backward_function *backward)
{
    zt_node *node = zt_node_open(p, backward, 1, &x, 1);
    zt_tensor y = zt_like(p, x);
    zt_save(p, node, y);
    zt_node_output(p, node, &y, 0);
    return y;
}

zt_tensor zt_neg(zt_process *p, zt_tensor x)
{
    const zt_node *node = zt_node_open(p, one_kernel_backward, 1, &x, 1);
    zt_tensor y = zt_like(p, x);
    zt_node_output(p, node, &y, 0);
    return y;
}

/* grad * (exponent * self.pow(exponent - 1)), for rsqrt -0.5 * grad * result.pow(3). */
static void three_kernels_backward(zt_process *p, zt_node *node, zt_tensor *in, zt_result *out)
{
    (void)node;
    zt_tensor temporary[] = {zt_like(p, in[0]), zt_like(p, in[0])};
    out[0] = made(p, in[0]);
    drop_all(p, temporary, 2);
}

zt_tensor zt_pow(zt_process *p, zt_tensor x)
{
    zt_tensor high = zt_cast_high(p, x);
    zt_tensor y = function_of_input(p, high, three_kernels_backward);
    zt_release(p, &high);
    return y;
}

zt_tensor zt_rsqrt(zt_process *p, zt_tensor x)
{
    return function_of_output(p, x, three_kernels_backward);
}

zt_tensor zt_tanh(zt_process *p, zt_tensor x)
{
    return function_of_output(p, x, one_kernel_backward);
}

zt_tensor zt_gelu(zt_process *p, zt_tensor x)
{
    return function_of_input(p, x, one_kernel_backward);
}

zt_tensor zt_silu(zt_process *p, zt_tensor x)
{
    return function_of_input(p, x, one_kernel_backward);
}

zt_tensor zt_dropout(zt_process *p, zt_tensor x, double probability)
{
    if (probability <= 0) {
        return zt_share(p, x);
    }
    zt_node *node = zt_node_open(p, one_kernel_backward, 1, &x, 1);
    zt_storage mask = zt_new(p, x.elements);
    zt_tensor y = zt_like(p, x);
    zt_save_storage(p, node, mask);
    zt_node_output(p, node, &y, 0);
    zt_drop(p, &mask);
    return y;
}

/* ---- along rows ---- */

/* The gradient is expanded over the row and divided. */
zt_tensor zt_mean(zt_process *p, zt_tensor x, uint64_t columns)
{
    zt_node *node = zt_node_open(p, part_backward, 1, &x, 1);
    if (node != NULL) {
        node->size[0] = x.elements;
    }
    zt_tensor y = zt_tensor_new(p, zl_exact_div(x.elements, columns), x.element_bytes);
    zt_node_output(p, node, &y, 0);
    return y;
}

static void softmax_backward(zt_process *p, zt_node *node, zt_tensor *in, zt_result *out)
{
    (void)node;
    out[0] = made(p, in[0]);
    zt_touch(p, zt_bytes(in[0])); /* grad * output */
}

static zt_tensor softmax_of(zt_process *p, zt_tensor high)
{
    zt_tensor y = function_of_output(p, high, softmax_backward);
    zt_release(p, &high);
    return y;
}

zt_tensor zt_softmax(zt_process *p, zt_tensor x)
{
    return softmax_of(p, zt_cast_high(p, x));
}

zt_tensor zt_softmax_float(zt_process *p, zt_tensor x)
{
    return softmax_of(p, zt_to(p, x, FLOAT_BYTES));
}
