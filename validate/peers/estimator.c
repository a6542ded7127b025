#include "peers/estimator.h"

#include "zeroledger/bytes.h"

/* Release 0.14.3 moved the 16-bit gradients of ZeRO-2 to the part that is divided. */
static const uint32_t zero2_divides_gradients = 14003;

/* Python's int(a / b). */
static uint64_t floor_div(uint64_t a, uint64_t b)
{
    return zl_poisoned(a) || b == 0 ? ZL_POISON : a / b;
}

static uint64_t linear(uint64_t in, uint64_t out, bool bias)
{
    return zl_add(zl_mul(in, out), bias ? out : 0);
}

uint64_t zv_largest_layer(const zl_hf_config *model)
{
    const uint64_t h = model->hidden;
    const uint64_t table = zl_mul(model->vocab, h);
    switch (model->arch) {
    case ZL_HF_BERT_MLM:
    case ZL_HF_BERT_PRETRAINING:
    case ZL_HF_ROBERTA:
    case ZL_HF_DISTILBERT:
        /* The decoder has the token table and a bias. */
        return zl_max(linear(h, model->vocab, true), linear(h, model->ffn, true));
    case ZL_HF_BERT_PRELN: /* there the bias is the head's */
        return zl_max(table, linear(h, model->ffn, true));
    case ZL_HF_GPT2:
        /* The table, or one of the two large matrices of a block. */
        return zl_max(table, zl_max(linear(h, model->ffn, true), linear(h, zl_mul(3, h), true)));
    case ZL_HF_LLAMA:
    case ZL_HF_GEMMA:
        return zl_max(table, linear(h, model->ffn, model->mlp_bias));
    case ZL_HF_MIXTRAL:
        /* All experts of a layer are two tensors of one module: gate and up, down. */
        return zl_max(table, zl_prod(3, model->experts, h, model->ffn));
    case ZL_HF_GPT_NEOX: /* no record is of these */
    case ZL_HF_GPTJ:
    case ZL_HF_OPT:
    case ZL_HF_GEMMA2:
    case ZL_HF_PHI:
    case ZL_HF_FALCON:
    case ZL_HF_QWEN2_MOE:
    case ZL_HF_TENSORS:
    case ZL_HF_ARCH_COUNT:
        break;
    }
    return ZL_POISON;
}

/* additional_buffer_factor of both estimators, on the host only. */
static uint64_t with_buffers(uint64_t bytes)
{
    return floor_div(zl_mul(bytes, 3), 2);
}

static zv_estimate zero2(const zl_torch_run *run, uint64_t parameters)
{
    const uint64_t n = run->ranks;
    if (run->ds.offload_optimizer != ZL_OFFLOAD_NONE) {
        return (zv_estimate){.device = zl_mul(2, parameters),
                             .host = with_buffers(zl_mul(parameters, zl_max(zl_mul(4, n), 16)))};
    }
    const bool divided = run->ds.version >= zero2_divides_gradients;
    const uint64_t whole = divided ? 2 : 4;
    const uint64_t part = divided ? 18 : 16;
    return (zv_estimate){
        .device = zl_add(zl_mul(whole, parameters), floor_div(zl_mul(part, parameters), n))};
}

static zv_estimate zero3(const zl_torch_run *run, uint64_t parameters)
{
    const uint64_t n = run->ranks;
    const uint64_t layer = zl_mul(4, zv_largest_layer(&run->model));
    const bool both = run->ds.offload_param != ZL_OFFLOAD_NONE;
    if (run->ds.offload_optimizer == ZL_OFFLOAD_NONE) {
        return (zv_estimate){.device = zl_add(layer, floor_div(zl_mul(18, parameters), n))};
    }
    const uint64_t states = both ? 18 : 16;
    const uint64_t a_parameter = run->ds.zero_init ? states : zl_max(zl_mul(4, n), states);
    return (zv_estimate){.device =
                             both ? layer : zl_add(layer, floor_div(zl_mul(2, parameters), n)),
                         .host = with_buffers(zl_mul(parameters, a_parameter))};
}

bool zv_deepspeed_estimate(const zl_torch_run *run, uint64_t parameters, zv_estimate *out)
{
    if (run->framework != ZL_TORCH_DEEPSPEED || run->stage < 2) {
        return false;
    }
    *out = run->stage == 2 ? zero2(run, parameters) : zero3(run, parameters);
    return true;
}
