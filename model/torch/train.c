/* The training loop of the records: forward, backward, step, zero_grad, with a mark after each. */
#include <inttypes.h>
#include <stdio.h>

#include "torch/modules.h"
#include "zeroledger/bytes.h"

enum { INT64_BYTES = 8, MARK_NAME = 24 };

static bool has_next_sentence(const zt_process *p)
{
    const zl_hf_arch arch = p->run->model.arch;
    return arch == ZL_HF_BERT_PRETRAINING || arch == ZL_HF_BERT_PRELN;
}

void zt_batches_new(zt_process *p, zt_batch *batch, size_t count)
{
    const uint64_t ids = zl_mul(zt_tokens(p), INT64_BYTES);
    for (size_t i = 0; i < count; i++) {
        batch[i] = (zt_batch){.ids = zt_new(p, ids)};
        zt_name(p, batch[i].ids, "token ids");
    }
    zt_storage labels =
        has_next_sentence(p) ? zt_new(p, zl_mul(p->run->micro_batch, INT64_BYTES)) : ZT_NO_STORAGE;
    for (size_t i = 0; i < count; i++) {
        batch[i].next_sentence = zt_hold(p, labels);
    }
    zt_drop(p, &labels);
}

void zt_batches_drop(zt_process *p, zt_batch *batch, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        zt_drop(p, &batch[i].ids);
    }
    for (size_t i = 0; i < count; i++) {
        zt_drop(p, &batch[i].next_sentence);
    }
}

const zt_architecture *zt_architecture_of(const zl_hf_config *model)
{
    switch (model->arch) {
    case ZL_HF_BERT_MLM:
    case ZL_HF_BERT_PRETRAINING:
    case ZL_HF_ROBERTA:
        return &zt_bert;
    case ZL_HF_DISTILBERT:
        return &zt_distilbert;
    case ZL_HF_BERT_PRELN:
        return &zt_bing;
    case ZL_HF_GPT2:
        return &zt_gpt2;
    case ZL_HF_LLAMA:
    case ZL_HF_MIXTRAL:
    case ZL_HF_GEMMA:
        return &zt_llama;
    case ZL_HF_GPT_NEOX:
    case ZL_HF_GPTJ:
    case ZL_HF_OPT:
    case ZL_HF_GEMMA2:
    case ZL_HF_PHI:
    case ZL_HF_FALCON:
    case ZL_HF_QWEN2_MOE:
    case ZL_HF_TENSORS:
        return &zt_shapes;
    case ZL_HF_ARCH_COUNT:
        break;
    }
    return NULL;
}

zt_output zt_forward(zt_process *p, const zt_batch *batch)
{
    const char *what = zt_set_name(p, "activations and temporaries of forward");
    const bool was = zt_weightless(p, zt_activations_given(p));
    zt_autocast_begin(p);
    zt_enter(p, p->root, NULL, 0);
    zt_output out = p->architecture->forward(p, p->model, batch);
    zt_tensor output[] = {out.loss, out.logits, out.second_logits};
    zt_leave(p, p->root, output, has_next_sentence(p) ? 3 : 2);
    zt_weightless(p, was);
    zt_set_name(p, what);
    return (zt_output){output[0], output[1], output[2]};
}

void zt_output_drop(zt_process *p, zt_output *output)
{
    zt_release(p, &output->loss);
    zt_release(p, &output->logits);
    zt_release(p, &output->second_logits);
    if (!zt_graph_is_alive(p)) {
        zt_graph_drop(p);
    }
}

/* A mark of a micro-step: the last one has no number. */
static void mark_micro(zt_process *p, int32_t step, const char *at, uint64_t micro, uint64_t count)
{
    char name[MARK_NAME];
    const int length = micro + 1 == count ? snprintf(name, sizeof name, "%s", at)
                                          : snprintf(name, sizeof name, "%s_%" PRIu64, at, micro);
    if (length >= (int)sizeof name) {
        zt_fail(p, ZL_E_USAGE, "more micro-steps than the name of a mark has room for");
    }
    zt_mark(p, step, name);
}

static void micro_step(zt_process *p, int32_t step, const zt_batch *batch, uint64_t micro)
{
    const zt_framework *f = p->framework;
    const uint64_t count = p->run->accumulation;
    if (f->before_forward != NULL) {
        f->before_forward(p, micro);
    }
    zt_output out = zt_forward(p, batch);
    zt_tensor loss = zt_scale(p, out.loss);
    zt_autocast_end(p);
    if (p->run->drop_logits) {
        zt_output_drop(p, &out);
    }
    mark_micro(p, step, "after_forward", micro, count);
    if (f->backward != NULL) {
        f->backward(p, loss, micro);
    } else {
        zt_backward(p, loss);
    }
    zt_assign(p, &p->loss_value, zt_detach(p, loss));
    zt_output_drop(p, &out);
    zt_release(p, &loss);
    mark_micro(p, step, "after_backward", micro, count);
}

static void zero_grad(zt_process *p)
{
    for (uint32_t i = 0; i < p->param_count; i++) {
        zt_clear_grad(p, p->named[i]);
    }
}

void zt_train_step(zt_process *p, int32_t step)
{
    const zt_framework *f = p->framework;
    const uint64_t count = p->run->accumulation;
    zt_batch *batch = zt_arena(p, count, sizeof *batch);
    zt_batches_new(p, batch, count);
    zt_mark(p, step, "before_forward");
    for (uint64_t micro = 0; micro < count; micro++) {
        micro_step(p, step, &batch[micro], micro);
    }
    const char *what = zt_set_name(p, "temporaries of the step");
    if (f->step != NULL) {
        f->step(p);
    } else {
        zt_optimizer_step(p, p->optimizer);
    }
    zt_set_name(p, what);
    zt_mark(p, step, "after_step");
    if (f->zero_grad != NULL) {
        f->zero_grad(p);
    } else {
        zero_grad(p);
    }
    zt_batches_drop(p, batch, count);
    zt_mark(p, step, "after_zero_grad");
}
