/* MixtralSparseMoeBlock (transformers, models/mixtral; integrations/moe.py, grouped_mm). */
#include "torch/hf_mixtral.h"

#include "zeroledger/bytes.h"

enum { HALF_BYTES = 2, FLOAT_BYTES = 4, INT32_BYTES = 4, INT64_BYTES = 8 };

struct zt_experts {
    zt_module *self, *gate, *experts, *act;
    zt_param *router;  /* (E, h) */
    zt_param *gate_up; /* (E, 2 f, h) */
    zt_param *down;    /* (E, h, f) */
};

zt_experts *zt_experts_new(zt_process *p, zt_module *layer)
{
    const zl_hf_config *c = &p->run->model;
    zt_experts *e = zt_arena(p, 1, sizeof *e);
    e->self = zt_module_new(p, layer, "mlp");
    e->gate = zt_module_new(p, e->self, "gate");
    e->router = zt_param_new(p, e->gate, "weight", c->experts, c->hidden);
    e->experts = zt_module_new(p, e->self, "experts");
    e->gate_up =
        zt_param_new(p, e->experts, "gate_up_proj", c->experts, zl_prod(2, c->ffn, c->hidden));
    e->down = zt_param_new(p, e->experts, "down_proj", c->experts, zl_mul(c->hidden, c->ffn));
    e->act = zt_module_new(p, e->experts, "act_fn");
    return e;
}

/* ---- operations of this block only ---- */

static zt_storage int64s(zt_process *p, uint64_t count)
{
    return zt_new(p, zl_mul(count, INT64_BYTES));
}

/* Bits of the largest index. */
static uint32_t bits_of(uint64_t largest)
{
    uint32_t bits = 1;
    while (largest > 1) {
        largest /= 2;
        bits++;
    }
    return bits;
}

/* index_put_ with accumulation (Indexing.cu): a linear index, sorted with where it came from. */
static void scatter_sorted(zt_process *p, uint64_t indices, uint64_t bound)
{
    zt_storage wrapped = int64s(p, indices);
    zt_storage linear = int64s(p, indices);
    zt_drop(p, &wrapped);
    zt_storage sorted = int64s(p, indices);
    zt_storage origin = int64s(p, indices);
    zt_storage range = int64s(p, indices);
    zt_touch(p, zt_radix_sort_scratch(indices, bits_of(bound - 1)));
    zt_drop(p, &range);
    zt_drop(p, &origin);
    zt_drop(p, &sorted);
    zt_drop(p, &linear);
}

enum { SOURCE, INDICES, SOURCE_ROWS };

static void index_backward(zt_process *p, zt_node *node, zt_tensor *in, zt_result *out)
{
    out[0].gradient = zt_tensor_new(p, node->size[SOURCE], in[0].element_bytes);
    scatter_sorted(p, node->size[INDICES], node->size[SOURCE_ROWS]);
}

/* x[index]: rows of x, (source_rows, ...). */
static zt_tensor rows_at(zt_process *p, zt_tensor x, uint64_t source_rows, zt_storage index,
                         uint64_t indices)
{
    zt_node *node = zt_node_open(p, index_backward, 1, &x, 1);
    if (node != NULL) {
        node->size[SOURCE] = x.elements;
        node->size[INDICES] = indices;
        node->size[SOURCE_ROWS] = source_rows;
    }
    zt_save_storage(p, node, index);
    zt_tensor y =
        zt_tensor_new(p, zl_mul(zl_exact_div(x.elements, source_rows), indices), x.element_bytes);
    zt_node_output(p, node, &y, 0);
    return y;
}

static void like_gradient_backward(zt_process *p, zt_node *node, zt_tensor *in, zt_result *out)
{
    (void)node;
    out[0].gradient = zt_like(p, in[0]);
}

/* Rows of absent experts become zero; in place, x's memory stays. */
static void mask_in_place(zt_process *p, zt_tensor *x, zt_storage mask)
{
    zt_node *node = zt_node_open(p, like_gradient_backward, 1, x, 1);
    zt_save_storage(p, node, mask);
    zt_node_output(p, node, x, 0);
}

static void mask_rows(zt_process *p, zt_tensor *x, zt_storage mask)
{
    zt_node *node = zt_node_open(p, like_gradient_backward, 1, x, 1);
    zt_save_storage(p, node, mask);
    zt_tensor y = zt_like(p, *x);
    zt_node_output(p, node, &y, 0);
    zt_assign(p, x, y);
}

/* Arguments of a grouped product, 60 bytes for each group, and its tensor maps, four of 128 bytes
 * for each multiprocessor (native/cuda/GroupMM.cu). In fp32 the groups are multiplied in turn. */
static void grouped_kernel(zt_process *p, uint32_t element_bytes)
{
    enum { GROUP_ARGUMENTS = 60, TENSOR_MAPS = 512 };
    if (element_bytes != HALF_BYTES) {
        return;
    }
    zt_storage arguments = zt_new(p, zl_mul(GROUP_ARGUMENTS, p->run->model.experts));
    zt_touch(p, zl_mul(TENSOR_MAPS, p->run->multiprocessors));
    zt_drop(p, &arguments);
}

enum { GROUPED_X, GROUPED_WEIGHT };

static void grouped_backward(zt_process *p, zt_node *node, zt_tensor *in, zt_result *out)
{
    for (uint32_t i = 2; i-- > 0;) {
        if (zt_wants(node, i)) {
            out[i].gradient = zt_tensor_new(p, node->size[i], in[0].element_bytes);
            grouped_kernel(p, in[0].element_bytes);
        }
    }
}

/* x (S, in), weight (E, out, in), offsets (E): (S, out). Autocast leaves it alone. */
static zt_tensor grouped_product(zt_process *p, zt_tensor x, const zt_param *weight, uint64_t in,
                                 zt_storage offsets)
{
    zt_tensor transposed = zt_view(p, weight->value);
    const zt_tensor input[] = {x, transposed};
    zt_node *node = zt_node_open(p, grouped_backward, 1, input, 2);
    if (node != NULL) {
        node->size[GROUPED_X] = x.elements;
        node->size[GROUPED_WEIGHT] = transposed.elements;
    }
    if (zt_needs_gradient(x)) {
        zt_save(p, node, transposed);
    }
    zt_save_storage(p, node, offsets);
    if (zt_needs_gradient(transposed)) {
        zt_save(p, node, x);
    }
    const uint64_t matrix = zl_exact_div(transposed.elements, p->run->model.experts);
    zt_tensor y = zt_tensor_new(p, zl_mul(zl_exact_div(x.elements, in), zl_exact_div(matrix, in)),
                                x.element_bytes);
    grouped_kernel(p, x.element_bytes);
    zt_node_output(p, node, &y, 0);
    zt_release(p, &transposed);
    return y;
}

/* ---- the router ---- */

static void topk_backward(zt_process *p, zt_node *node, zt_tensor *in, zt_result *out)
{
    out[0].gradient = zt_tensor_new(p, node->size[0], in[0].element_bytes);
}

/* The gradient is the same for all summed elements: an expanded view. */
static void sum_backward(zt_process *p, zt_node *node, zt_tensor *in, zt_result *out)
{
    out[0].gradient = zt_share(p, in[0]);
    out[0].gradient.elements = node->size[0];
    out[0].gradient.view = true;
}

/* self / other, written into self: -grad * ((self / other) / other) and grad / other. */
static void div_backward(zt_process *p, zt_node *node, zt_tensor *in, zt_result *out)
{
    zt_tensor quotient = zt_like(p, in[0]);
    zt_tensor twice = zt_like(p, in[0]);
    zt_tensor negative = zt_like(p, in[0]);
    out[1] = (zt_result){.gradient = zt_like(p, in[0]),
                         .sum = ZT_SUM_COLUMNS,
                         .rows = node->size[0],
                         .columns = zl_exact_div(in[0].elements, node->size[0])};
    zt_release(p, &negative);
    zt_release(p, &twice);
    zt_release(p, &quotient);
    out[0].gradient = zt_like(p, in[0]);
}

/* values /= values.sum(-1, keepdim=True); the old values are cloned for backward. */
static void normalise(zt_process *p, zt_tensor *values, uint64_t tokens)
{
    zt_node *node = zt_node_open(p, sum_backward, 1, values, 1);
    if (node != NULL) {
        node->size[0] = values->elements;
    }
    zt_tensor sum = zt_tensor_new(p, tokens, values->element_bytes);
    zt_node_output(p, node, &sum, 0);
    const zt_tensor input[] = {*values, sum};
    node = zt_node_open(p, div_backward, 1, input, 2);
    if (node != NULL) {
        node->size[0] = tokens;
        zt_tensor old = zt_like(p, *values);
        zt_save(p, node, sum);
        zt_save(p, node, old);
        zt_release(p, &old);
    }
    zt_node_output(p, node, values, 0);
    zt_release(p, &sum);
}

typedef struct routed {
    zt_tensor logits;  /* (T, E), kept by the caller's name for it */
    zt_tensor weights; /* (T, k) fp32 */
    zt_storage index;  /* (T, k) int64 */
} routed;

static routed route(zt_process *p, const zt_experts *e, zt_tensor x)
{
    const zl_hf_config *c = &p->run->model;
    const uint64_t tokens = zt_tokens(p);
    const uint64_t chosen = zl_mul(tokens, c->experts_per_token);
    zt_enter(p, e->gate, &x, 1);
    zt_tensor rows = zt_view(p, x);
    routed r = {.logits = zt_linear(p, rows, e->router, NULL)};
    zt_release(p, &rows);
    zt_tensor probabilities = zt_softmax_float(p, r.logits);
    zt_node *node = zt_node_open(p, topk_backward, 1, &probabilities, 1);
    if (node != NULL) {
        node->size[0] = probabilities.elements;
    }
    r.weights = zt_tensor_new(p, chosen, probabilities.element_bytes);
    r.index = int64s(p, chosen);
    zt_save_storage(p, node, r.index);
    zt_node_output(p, node, &r.weights, 0);
    normalise(p, &r.weights, tokens);
    zt_release(p, &probabilities);
    zt_leave(p, e->gate, &r.weights, 1);
    return r;
}

/* ---- the experts ---- */

/* How the S = T * k rows go to their experts. */
typedef struct grouping {
    zt_storage sorted;          /* expert of each row, in order; (S) int64 */
    zt_storage permutation;     /* (S) int64 */
    zt_storage token;           /* permutation / k */
    zt_storage narrow;          /* sorted as int32 */
    zt_storage counts, offsets; /* (E) int32 */
    zt_storage mask;            /* (S) bool */
} grouping;

static void argsort(zt_process *p, grouping *g, uint64_t rows)
{
    g->sorted = int64s(p, rows);
    g->permutation = int64s(p, rows);
    zt_touch(p, zl_mul(rows, INT64_BYTES));
}

static void count_rows(zt_process *p, grouping *g, uint64_t rows)
{
    const uint64_t experts = zl_mul(p->run->model.experts, INT32_BYTES);
    g->narrow = zt_new(p, zl_mul(rows, INT32_BYTES));
    g->counts = zt_new(p, experts);
    g->offsets = zt_new(p, experts);
    zt_touch(p, zt_scan_scratch(p->run->model.experts, INT32_BYTES));
    g->mask = zt_new(p, rows);
}

/* silu(gate) * up of both halves of a row. */
static zt_tensor gated(zt_process *p, const zt_experts *e, zt_tensor gate_up)
{
    zt_tensor half[2];
    zt_split(p, gate_up, half, 2);
    zt_tensor silu = zt_call_activation(p, e->act, half[0]);
    zt_tensor y = zt_mul(p, silu, half[1]);
    zt_release(p, &silu);
    zt_release(p, &half[0]);
    zt_release(p, &half[1]);
    return y;
}

static void sum_of_copies_backward(zt_process *p, zt_node *node, zt_tensor *in, zt_result *out)
{
    out[0].gradient = zt_tensor_new(p, node->size[0], in[0].element_bytes);
}

/* The rows of each token, summed. */
static zt_tensor sum_over_experts(zt_process *p, zt_tensor rows)
{
    zt_node *node = zt_node_open(p, sum_of_copies_backward, 1, &rows, 1);
    if (node != NULL) {
        node->size[0] = rows.elements;
    }
    zt_tensor sum = zt_tensor_new(p, zl_exact_div(rows.elements, p->run->model.experts_per_token),
                                  rows.element_bytes);
    zt_node_output(p, node, &sum, 0);
    return sum;
}

static zt_tensor run_experts(zt_process *p, const zt_experts *e, zt_tensor x, const routed *r)
{
    const zl_hf_config *c = &p->run->model;
    const uint64_t rows = zl_mul(zt_tokens(p), c->experts_per_token);
    zt_enter(p, e->experts, &x, 1);
    grouping g = {0};
    argsort(p, &g, rows);
    g.token = int64s(p, rows);
    zt_tensor in = rows_at(p, x, zt_tokens(p), g.token, rows);
    zt_drop(p, &g.token);
    zt_tensor weights = rows_at(p, r->weights, rows, g.permutation, rows);
    count_rows(p, &g, rows);
    mask_in_place(p, &in, g.mask);
    zt_tensor hidden = grouped_product(p, in, e->gate_up, c->hidden, g.offsets);
    mask_rows(p, &hidden, g.mask);
    zt_assign(p, &hidden, gated(p, e, hidden));
    zt_assign(p, &hidden, grouped_product(p, hidden, e->down, c->ffn, g.offsets));
    mask_rows(p, &hidden, g.mask);
    zt_tensor weighted = zt_mul(p, hidden, weights);
    zt_storage inverse = int64s(p, rows);
    zt_touch(p, zl_mul(rows, INT64_BYTES));
    zt_assign(p, &weighted, rows_at(p, weighted, rows, inverse, rows));
    zt_tensor sum = sum_over_experts(p, weighted);
    zt_tensor y = zt_to(p, sum, x.element_bytes);
    zt_drop(p, &g.sorted);
    zt_drop(p, &g.permutation);
    zt_release(p, &in);
    zt_release(p, &weights);
    zt_drop(p, &g.narrow);
    zt_drop(p, &g.counts);
    zt_drop(p, &g.offsets);
    zt_drop(p, &g.mask);
    zt_release(p, &hidden);
    zt_release(p, &weighted);
    zt_drop(p, &inverse);
    zt_release(p, &sum);
    zt_leave(p, e->experts, &y, 1);
    return y;
}

zt_tensor zt_call_experts(zt_process *p, const zt_experts *e, zt_tensor x)
{
    zt_enter(p, e->self, &x, 1);
    zt_tensor rows = zt_view(p, x);
    routed r = route(p, e, rows);
    zt_tensor y = run_experts(p, e, rows, &r);
    zt_release(p, &r.logits);
    zt_release(p, &r.weights);
    zt_drop(p, &r.index);
    zt_release(p, &rows);
    zt_leave(p, e->self, &y, 1);
    return y;
}
