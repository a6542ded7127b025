/* What an optimizer step costs beside memory, of one rank.
 *
 * Compute. A forward takes 2 operations per parameter of a product and token, and 4 T H D per layer
 * and token for scores and values; backward takes the same for the gradients of inputs and again
 * for those of what trains (Chowdhery et al. 2022, "PaLM", appendix B: 6 N + 12 L H Q T). Full
 * recompute is one more forward of the layers, not of the head (Korthikanti et al. 2022, "Reducing
 * Activation Recomputation", appendix A). Recomputed norms and activation functions are no
 * products: not counted.
 *
 * Network. Bytes a rank sends, with rings: an all-gather or a reduce-scatter of x bytes sends
 * x (N-1)/N, an all-reduce twice that. With P parameters, stages 0 to 2 move 2 P elements a step,
 * stage 3 gathers twice and reduces: 3 P (Rajbhandari et al. 2020, "ZeRO", section 7). Of A
 * micro-steps stages 0 and 1 reduce in the last, stages 2 and 3 in every one, and stage 3 gathers
 * in every one. DDP and ZeroRedundancyOptimizer are an all-reduce, the latter and a broadcast of
 * what was updated. FSDP2 without reshard gathers once a micro-step.
 *
 * Host. An offloaded optimizer gets the gradients of its part and gives back the parameters (Ren et
 * al. 2021, "ZeRO-Offload", section 4: 2 M + 2 M bytes); offloaded parameters come up for forward
 * and for backward. */
#include "advise.h"
#include "zeroledger/bytes.h"

typedef struct shapes {
    uint64_t layers, heads_width, vocab, hidden; /* heads_width: H D */
    uint64_t embedded; /* elements of tables that are looked up, not multiplied */
    uint64_t idle;     /* elements of experts that a token does not visit */
} shapes;

static shapes shapes_of(const zl_run *run, const zl_torch_run *torch)
{
    if (torch == NULL) {
        const zl_model *m = &run->model;
        const uint64_t rows = zl_add(zl_add(m->positions, m->types), m->tied ? 0 : m->vocab);
        return (shapes){
            .layers = m->layers,
            .heads_width = zl_mul(m->heads, m->head_dim),
            .vocab = m->vocab,
            .hidden = m->width,
            .embedded =
                zl_mul(m->family == ZL_FAMILY_LLAMA ? zl_sub(rows, m->positions) : rows, m->width)};
    }
    const zl_hf_config *m = &torch->model;
    const uint64_t rows = zl_add(zl_add(m->positions, m->types), m->tied ? 0 : m->vocab);
    const uint64_t resting = m->experts > 0 ? zl_sub(m->experts, m->experts_per_token) : 0;
    return (shapes){.layers = m->layers,
                    .heads_width = zl_mul(m->heads, m->head_dim),
                    .vocab = m->vocab,
                    .hidden = m->hidden,
                    .embedded = zl_mul(rows, m->hidden),
                    .idle = zl_prod(m->layers, resting, 3, m->hidden, m->ffn)};
}

/* Elements that a token is multiplied with; a tied table is the head's matrix. */
static uint64_t less(uint64_t a, uint64_t b)
{
    return zl_poisoned(a) || a < b ? ZL_POISON : zl_sub(a, b);
}

static uint64_t flops_of(const zl_run *run, const zl_torch_run *torch, zl_sizes sizes)
{
    const shapes s = shapes_of(run, torch);
    const uint64_t products = less(less(sizes.parameters, s.embedded), s.idle);
    const uint64_t head = zl_mul(s.vocab, s.hidden);
    const uint64_t layers = less(products, head);
    const uint64_t scores = zl_prod(4, s.layers, run->seq, s.heads_width);
    const uint64_t forward = zl_add(zl_mul(2, products), scores);
    const uint64_t weights = zl_mul(2, zl_min(sizes.trainable, products));
    const uint64_t again =
        run->recompute == ZL_RECOMPUTE_FULL ? zl_add(zl_mul(2, layers), scores) : 0;
    /* Backward of the scores has two products for each. */
    const uint64_t backward = zl_add(zl_add(forward, scores), weights);
    return zl_prod(run->micro_batch, run->accumulation, run->seq,
                   zl_add(zl_add(forward, backward), again));
}

/* Bytes of an element that is gathered, and of one that is reduced. */
typedef struct widths {
    uint64_t gather, reduce;
} widths;

static widths widths_of(const zl_run *run)
{
    const bool fsdp = run->framework == ZL_FRAMEWORK_FSDP1 || run->framework == ZL_FRAMEWORK_FSDP2;
    const bool wide =
        run->precision == ZL_PRECISION_FP32 || run->precision == ZL_PRECISION_BF16_AUTOCAST;
    const uint64_t parameter = wide ? 4 : 2;
    const bool wide_gradient = run->framework == ZL_FRAMEWORK_NATIVE
                                   ? run->grad_dtype == ZL_GRAD_FP32
                                   : fsdp && run->precision == ZL_PRECISION_BF16_MIXED;
    return (widths){.gather = parameter, .reduce = wide_gradient ? 4 : parameter};
}

/* x bytes of a ring collective: what one of N ranks sends. */
static uint64_t ring(uint64_t bytes, uint64_t ranks)
{
    return zl_ceil_div(zl_mul(bytes, zl_sub(ranks, 1)), ranks);
}

static uint64_t network_of(const zl_run *run, zl_sizes sizes)
{
    const widths w = widths_of(run);
    const uint64_t reduced = ring(zl_mul(sizes.trainable, w.reduce), run->ranks);
    const uint64_t updated = ring(zl_mul(sizes.trainable, w.gather), run->ranks);
    const uint64_t gathered = ring(zl_mul(sizes.parameters, w.gather), run->ranks);
    const bool ddp = run->framework == ZL_FRAMEWORK_DDP || run->framework == ZL_FRAMEWORK_ZERO1;
    switch (run->stage) {
    case 0:
        return zl_mul(2, reduced);
    case 1:
        return zl_add(zl_mul(ddp ? 2 : 1, reduced), updated);
    case 2:
        return run->framework == ZL_FRAMEWORK_FSDP2
                   ? zl_mul(run->accumulation, zl_add(gathered, reduced))
                   : zl_add(zl_mul(run->accumulation, reduced), updated);
    default:
        return zl_mul(run->accumulation, zl_add(zl_mul(2, gathered), reduced));
    }
}

static uint64_t host_of(const zl_run *run, const zl_torch_run *torch, zl_sizes sizes)
{
    if (torch == NULL || torch->framework != ZL_TORCH_DEEPSPEED) {
        return 0;
    }
    const widths w = widths_of(run);
    const uint64_t part = zl_ceil_div(sizes.trainable, run->ranks);
    const uint64_t whole = zl_ceil_div(sizes.parameters, run->ranks);
    const uint64_t times = run->stage >= 2 ? run->accumulation : 1;
    uint64_t bytes = 0;
    if (torch->ds.offload_optimizer != ZL_OFFLOAD_NONE) {
        bytes = zl_add(zl_prod(times, part, w.reduce), zl_mul(part, w.gather));
    }
    if (torch->ds.offload_param != ZL_OFFLOAD_NONE) {
        bytes = zl_add(bytes, zl_prod(2, run->accumulation, whole, w.gather));
    }
    return bytes;
}

zl_load zl_load_of(const zl_run *run, const zl_torch_run *torch, zl_sizes sizes)
{
    return (zl_load){.flops = flops_of(run, torch, sizes),
                     .network = network_of(run, sizes),
                     .host = host_of(run, torch, sizes)};
}
