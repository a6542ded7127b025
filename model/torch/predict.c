/* zl_torch_predict: builds the process of one rank and walks its steps. */
#include "torch/predict.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "torch/engine.h"
#include "torch/hf_shapes.h"
#include "torch/modules.h"
#include "zeroledger/bytes.h"

enum { DEFAULT_STEPS = 4, H100_MULTIPROCESSORS = 132, HOPPER = 90, FP16_SCALE_POWER = 16 };

void zl_torch_run_init(zl_torch_run *run)
{
    *run = (zl_torch_run){
        .framework = ZL_TORCH_SINGLE,
        .ranks = 1,
        .precision = ZL_TORCH_BF16,
        .micro_batch = 1,
        .seq = 1,
        .accumulation = 1,
        .attention = ZL_TORCH_SDPA,
        .optimizer = ZL_TORCH_ADAMW_FUSED,
        .steps = DEFAULT_STEPS,
        .multiprocessors = H100_MULTIPROCESSORS,
        .capability = HOPPER,
        .descending_addresses = true,
    };
}

static bool is_at(const zl_mark *mark, const char *at)
{
    return strncmp(mark->at, at, strlen(at)) == 0;
}

/* What forward left is gone when backward ends, but which segments it needed, and which blocks are
 * reused whole, stays. */
zl_depends zl_mark_depends(const zl_mark *mark)
{
    const bool forward = is_at(mark, "after_forward");
    const bool before = mark->step < 0 || (mark->step == 0 && is_at(mark, "before_forward"));
    return (zl_depends){.requested = forward,
                        .peak_requested = forward || is_at(mark, "after_backward"),
                        .others = !before};
}

void zl_marks_clear(zl_marks *marks)
{
    free(marks->mark);
    *marks = (zl_marks){0};
}

static const zt_framework *framework_of(zl_torch_framework framework)
{
    switch (framework) {
    case ZL_TORCH_SINGLE:
        return &zt_single;
    case ZL_TORCH_DDP:
        return &zt_ddp;
    case ZL_TORCH_ZERO1:
        return &zt_zero1;
    case ZL_TORCH_FSDP1:
        return &zt_fsdp1;
    case ZL_TORCH_FSDP2:
        return &zt_fsdp2;
    case ZL_TORCH_DEEPSPEED:
        return &zt_deepspeed;
    case ZL_TORCH_FRAMEWORK_COUNT:
        break;
    }
    return NULL;
}

/* ---- what is refused ---- */

/* Of a walk of a second or two; the deepest models have hundreds. */
enum { LAYERS_MAX = 4096 };

static zl_status check_shapes(const zl_torch_run *run, zl_err *err)
{
    const zl_hf_config *c = &run->model;
    const bool file = c->arch == ZL_HF_TENSORS;
    if (run->micro_batch == 0 || run->seq == 0 || run->accumulation == 0 || run->steps == 0) {
        return zl_fail(err, ZL_E_USAGE,
                       "micro-batch, sequence, accumulation and steps must be 1 or more");
    }
    if (!file && (c->layers == 0 || c->hidden == 0 || c->heads == 0 || c->kv_heads == 0 ||
                  c->vocab == 0 || c->ffn == 0 || c->head_dim == 0)) {
        return zl_fail(err, ZL_E_USAGE, "the model has no layers, heads, width or vocabulary");
    }
    if (c->layers > LAYERS_MAX) {
        return zl_fail(err, ZL_E_USAGE,
                       "layers must be at most %d for a framework, which is walked layer by layer, "
                       "got %" PRIu64,
                       LAYERS_MAX, c->layers);
    }
    if (!file && c->heads % c->kv_heads != 0) {
        return zl_fail(err, ZL_E_USAGE,
                       "%" PRIu64 " query heads cannot share %" PRIu64 " key heads", c->heads,
                       c->kv_heads);
    }
    if (!file && run->trainable_layers > c->layers) {
        return zl_fail(err, ZL_E_USAGE, "%" PRIu64 " layers cannot train, the model has %" PRIu64,
                       run->trainable_layers, c->layers);
    }
    if (c->window != 0 && run->seq >= c->window && !run->states_only && run->activations == 0) {
        return zl_fail(err, ZL_E_UNMODELLED,
                       "sequences of %" PRIu64 " tokens with a sliding window of %" PRIu64
                       " are not modelled; shorter ones are",
                       run->seq, c->window);
    }
    return ZL_OK;
}

/* Whether the framework has such a precision. */
static bool has_precision(zl_torch_framework framework, zl_torch_precision precision)
{
    const bool deepspeed = framework == ZL_TORCH_DEEPSPEED;
    switch (precision) {
    case ZL_TORCH_FP32:
        return true;
    case ZL_TORCH_BF16:
    case ZL_TORCH_BF16_AUTOCAST:
        return !deepspeed;
    case ZL_TORCH_BF16_MIXED:
        return deepspeed || framework == ZL_TORCH_FSDP1 || framework == ZL_TORCH_FSDP2;
    case ZL_TORCH_FP16_MIXED:
        return deepspeed;
    case ZL_TORCH_PRECISION_COUNT:
        break;
    }
    return false;
}

/* Activations are modelled, given, or known to be left out. */
static zl_status check_activations(const zl_torch_run *run, zl_err *err)
{
    const zl_hf_config *c = &run->model;
    if (c->quantization.kind != ZL_HF_UNQUANTISED) {
        return zl_fail(
            err, ZL_E_UNMODELLED,
            "training with the quantised weights of quantization_config is not modelled; "
            "their count and bytes are");
    }
    if (zl_hf_operations_modelled(c) || run->states_only || run->activations > 0) {
        return ZL_OK;
    }
    return zl_fail(err, ZL_E_UNMODELLED,
                   "the operations of %s are not modelled; give what its forward leaves for "
                   "backward, as in --activations 1.42GiB",
                   zl_hf_arch_name(c->arch));
}

static zl_status check_kinds(const zl_torch_run *run, zl_err *err)
{
    if (!has_precision(run->framework, run->precision)) {
        return zl_fail(err, ZL_E_USAGE,
                       "the framework has no such precision: mixed precision is "
                       "of FSDP and DeepSpeed, DeepSpeed has no pure bf16");
    }
    if (run->optimizer == ZL_TORCH_FROM_CONFIG && run->framework != ZL_TORCH_DEEPSPEED) {
        return zl_fail(err, ZL_E_USAGE, "only DeepSpeed takes the optimizer from its config");
    }
    if ((run->shifted_logits || run->rotary_tables) && run->model.arch != ZL_HF_LLAMA &&
        run->model.arch != ZL_HF_MIXTRAL) {
        return zl_fail(err, ZL_E_USAGE,
                       "shifted logits and rotary tables are older code of Llama and Mixtral");
    }
    if (run->attention == ZL_TORCH_FLASH && run->precision == ZL_TORCH_FP32) {
        return zl_fail(err, ZL_E_USAGE, "flash attention has no fp32: use sdpa or eager");
    }
    return ZL_OK;
}

static zl_status check(const zl_torch_run *run, uint64_t rank, zl_err *err)
{
    ZL_TRY(check_shapes(run, err));
    ZL_TRY(check_kinds(run, err));
    ZL_TRY(check_activations(run, err));
    if (rank >= run->ranks) {
        return zl_fail(err, ZL_E_USAGE, "rank must be below %" PRIu64 ", got %" PRIu64, run->ranks,
                       rank);
    }
    return ZL_OK;
}

/* ---- the walk ---- */

static zl_status process_new(zt_process *p, bool heard, zl_err *err)
{
    zt_allocator_options options = {
        .addresses = p->run->descending_addresses ? ZT_DESCENDING : ZT_ASCENDING,
        .device_total = p->run->device_total,
        .driver = heard ? zt_hear_driver : NULL,
        .freed = heard ? zt_hear_freed : NULL,
        .driver_context = p,
    };
    ZL_TRY(zt_alloc_conf_parse(p->run->alloc_conf, &options.conf, err));
    ZL_TRY(zt_allocator_new(&options, &p->allocator, err));
    p->engine = calloc(1, sizeof *p->engine);
    if (p->engine == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "no memory for the walk of this run");
    }
    p->engine->err = err;
    zt_engine_init(p->engine);
    return ZL_OK;
}

static void walk_step(zt_process *p, uint32_t step)
{
    if (p->framework->train_step != NULL) {
        p->framework->train_step(p, (int32_t)step);
    } else {
        zt_train_step(p, (int32_t)step);
    }
}

static bool is_skipped(const zl_torch_run *run, uint32_t step)
{
    return step < ZL_TORCH_STEPS_MAX && run->skipped[step];
}

/* Whether a step may be the pattern of all later ones. The first makes the states of the optimizer,
 * a framework may take longer to settle, and a step that overflowed does not run the optimizer. Who
 * listens wants to hear what is done, and why. */
static bool may_repeat(const zt_process *p, uint32_t step)
{
    const zl_torch_run *run = p->run;
    bool same =
        step > p->framework->unsettled && step + 1 < run->steps && p->engine->listener == NULL;
    for (uint32_t later = step + 1; same && later < run->steps; later++) {
        same = is_skipped(run, later) == is_skipped(run, step);
    }
    return same;
}

static void walk_steps(zt_process *p)
{
    uint32_t step = 0;
    bool repeats = false;
    for (; step < p->run->steps && !repeats; step++) {
        const bool pattern = may_repeat(p, step);
        if (pattern) {
            zt_repeat_begin(p);
        }
        walk_step(p, step);
        repeats = pattern && zt_repeat_end(p);
    }
    p->marks->walked = step;
    for (; step < p->run->steps; step++) {
        zt_repeat(p, (int32_t)step);
    }
}

static void walk(zt_process *p)
{
    p->model = p->architecture->build(p);
    zt_model_finish(p);
    if (p->framework->build != NULL) {
        p->framework->build(p);
        zt_mark(p, -1, "before_init");
    }
    p->framework->init(p);
    zt_mark(p, -1, "init");
    walk_steps(p);
    p->marks->parameters = p->elements;
    p->marks->trainable = p->trainable;
    for (uint32_t i = 0; i < p->param_count; i++) {
        const uint64_t x = p->named[i]->trains ? zt_param_elements(p->named[i]) : 0;
        p->marks->shards = zl_add(p->marks->shards, zl_ceil_div(x, p->run->ranks));
        p->marks->row_shards = zl_add(
            p->marks->row_shards,
            x == 0 ? 0
                   : zl_mul(zl_ceil_div(p->named[i]->rows, p->run->ranks), p->named[i]->columns));
        p->marks->matrices = zl_add(p->marks->matrices, p->named[i]->dimensions > 1 ? x : 0);
    }
}

/* zt_fail comes back here. */
static zl_status walk_guarded(zt_process *p)
{
    if (setjmp(p->engine->end) == 0) {
        walk(p);
    }
    return p->engine->status;
}

static void process_free(zt_process *p)
{
    if (p->engine != NULL) {
        if (p->framework->finish != NULL) {
            p->framework->finish(p);
        }
        zt_engine_clear(p->engine);
        free(p->engine);
    }
    zt_allocator_free(p->allocator);
    zl_tensor_list_clear(&p->tensors);
}

zl_status zl_torch_predict(const zl_torch_run *run, uint64_t rank, zl_marks *out, zl_err *err)
{
    return zt_predict(run, rank, NULL, NULL, out, err);
}

zl_status zt_predict(const zl_torch_run *run, uint64_t rank, zt_listener *listener, void *context,
                     zl_marks *out, zl_err *err)
{
    zl_err own = {0};
    err = err != NULL ? err : &own;
    ZL_TRY(check(run, rank, err));
    const zt_framework *framework = framework_of(run->framework);
    const zt_architecture *architecture = zt_architecture_of(&run->model);
    if (framework == NULL || architecture == NULL) {
        return zl_fail(err, ZL_E_UNMODELLED, "this %s is not modelled",
                       framework == NULL ? "framework" : "architecture");
    }
    zl_marks marks = {0};
    zt_process process = {
        .run = run,
        .rank = rank,
        .framework = framework,
        .linear_for_zero3 = framework->linear_for_zero3,
        .architecture = architecture,
        .marks = &marks,
    };
    zl_status status = process_new(&process, listener != NULL, err);
    if (status == ZL_OK && architecture->from_tensors) {
        status = zt_shapes_of(&run->model, &process.tensors, err);
    }
    if (status == ZL_OK) {
        process.engine->listener = listener;
        process.engine->listener_context = context;
        status = walk_guarded(&process);
    }
    if (status == ZL_OK) {
        status = zt_allocator_status(process.allocator, err);
    }
    process_free(&process);
    if (status != ZL_OK) {
        zl_marks_clear(&marks);
        return status;
    }
    *out = marks;
    return ZL_OK;
}
