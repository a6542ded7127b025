/* Which runs were measured: rows of measured.def, which a test derives from the records. */
#include <stdio.h>
#include <string.h>

#include "zeroledger/torch.h"

static const char *const architectures[ZL_HF_ARCH_COUNT] = {
    [ZL_HF_BERT_MLM] = "BertForMaskedLM",
    [ZL_HF_BERT_PRETRAINING] = "BertForPreTraining",
    [ZL_HF_BERT_PRELN] = "BertForPreTrainingPreLN",
    [ZL_HF_GPT2] = "GPT2LMHeadModel",
    [ZL_HF_LLAMA] = "LlamaForCausalLM",
    [ZL_HF_MIXTRAL] = "MixtralForCausalLM",
    [ZL_HF_ROBERTA] = "RobertaForMaskedLM",
    [ZL_HF_DISTILBERT] = "DistilBertForMaskedLM",
    [ZL_HF_GPT_NEOX] = "GPTNeoXForCausalLM",
    [ZL_HF_GPTJ] = "GPTJForCausalLM",
    [ZL_HF_OPT] = "OPTForCausalLM",
    [ZL_HF_GEMMA] = "GemmaForCausalLM",
    [ZL_HF_GEMMA2] = "Gemma2ForCausalLM",
    [ZL_HF_PHI] = "PhiForCausalLM",
    [ZL_HF_FALCON] = "FalconForCausalLM",
    [ZL_HF_QWEN2_MOE] = "Qwen2MoeForCausalLM",
    [ZL_HF_TENSORS] = "the model of the safetensors file",
};

static const char *const frameworks[ZL_TORCH_FRAMEWORK_COUNT] = {
    [ZL_TORCH_SINGLE] = "single", [ZL_TORCH_DDP] = "ddp",     [ZL_TORCH_ZERO1] = "zero1",
    [ZL_TORCH_FSDP1] = "fsdp1",   [ZL_TORCH_FSDP2] = "fsdp2", [ZL_TORCH_DEEPSPEED] = "deepspeed",
};

static const char *const precisions[ZL_TORCH_PRECISION_COUNT] = {
    [ZL_TORCH_FP32] = "fp32",
    [ZL_TORCH_BF16] = "bf16",
    [ZL_TORCH_BF16_AUTOCAST] = "bf16-autocast",
    [ZL_TORCH_BF16_MIXED] = "bf16-mixed",
    [ZL_TORCH_FP16_MIXED] = "fp16-mixed",
};

/* release: 0 outside DeepSpeed. */
typedef struct row {
    const char *framework;
    uint32_t release;
    uint64_t stage;
    const char *architecture; /* class of the model */
    const char *precision;
} row;

#define MEASURED(framework, release, stage, architecture, precision)                               \
    {(framework), (release), (stage), (architecture), (precision)},
static const row rows[] = {
#include "torch/measured.def"
};
#undef MEASURED

const char *zl_hf_arch_name(zl_hf_arch arch)
{
    return (unsigned)arch < ZL_HF_ARCH_COUNT ? architectures[arch] : "an unknown architecture";
}

const char *zl_hf_class_name(const zl_hf_config *model)
{
    return model->relative != NULL ? model->relative : zl_hf_arch_name(model->arch);
}

const char *zl_torch_framework_name(zl_torch_framework framework)
{
    return frameworks[framework];
}

const char *zl_torch_precision_name(zl_torch_precision precision)
{
    return precisions[precision];
}

/* Of the H200, on which all records were taken. */
enum { MEASURED_CAPABILITY = 90 };

/* How much of the run some row has: framework and release, stage, architecture, precision. */
static int agreement(const row *r, const zl_torch_run *run)
{
    const bool deepspeed = run->framework == ZL_TORCH_DEEPSPEED;
    if (strcmp(r->framework, frameworks[run->framework]) != 0 ||
        (deepspeed && r->release != run->ds.version)) {
        return 0;
    }
    if (r->stage != run->stage) {
        return 1;
    }
    if (strcmp(r->architecture, zl_hf_class_name(&run->model)) != 0) {
        return 2;
    }
    return strcmp(r->precision, precisions[run->precision]) != 0 ? 3 : 4;
}

uint32_t zl_ds_measured_release(size_t index)
{
    uint32_t last = 0; /* rows are in order */
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].release > last && index-- == 0) {
            return rows[i].release;
        }
        last = rows[i].release > last ? rows[i].release : last;
    }
    return 0;
}

static bool class_is_measured(const zl_hf_config *model)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].architecture, zl_hf_class_name(model)) == 0) {
            return true;
        }
    }
    return false;
}

bool zl_torch_unmeasured(const zl_torch_run *run, char *why, size_t size)
{
    int most = 0;
    if (run->model.quantization.kind != ZL_HF_UNQUANTISED) {
        snprintf(why, size, "no quantised weights were measured");
        return true;
    }
    if (run->model.relative != NULL && !class_is_measured(&run->model)) {
        snprintf(why, size, "of this class only its relative %s was measured",
                 architectures[run->model.arch]);
        return true;
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const int here = agreement(&rows[i], run);
        most = here > most ? here : most;
    }
    const char *framework = frameworks[run->framework];
    const char *class = zl_hf_class_name(&run->model);
    if (most == 0 && run->framework == ZL_TORCH_DEEPSPEED) {
        const uint32_t v = run->ds.version;
        snprintf(why, size, "deepspeed %u.%u.%u was not measured", v / 1000000, v / 1000 % 1000,
                 v % 1000);
    } else if (most == 0) {
        snprintf(why, size, "%s was not measured", framework);
    } else if (most == 1) {
        snprintf(why, size, "%s was not measured at stage %u", framework, (unsigned)run->stage);
    } else if (most == 2) {
        snprintf(why, size, "%s at stage %u was not measured with %s", framework,
                 (unsigned)run->stage, class);
    } else if (most == 3) {
        snprintf(why, size, "%s of %s at stage %u was not measured in %s", framework, class,
                 (unsigned)run->stage, precisions[run->precision]);
    } else if (run->activations > 0) {
        snprintf(why, size, "the activations are given");
        return true;
    } else if (run->capability != MEASURED_CAPABILITY) {
        snprintf(why, size, "no GPU of compute capability %u.%u was measured", run->capability / 10,
                 run->capability % 10);
        return true;
    }
    return most < 4;
}
