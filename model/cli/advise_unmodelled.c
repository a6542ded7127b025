/* What is known to help, but is not modelled: said, so that nobody takes silence for a no. */
#include "advise.h"

typedef struct hint {
    const char *what;
    const char *why;
    bool (*applies)(const zl_asked *asked);
} hint;

static bool given_activations(const zl_asked *asked)
{
    return !asked->native && asked->torch.activations > 0;
}

static bool walked_logits(const zl_asked *asked)
{
    return !asked->native && asked->torch.activations == 0;
}

static bool fsdp(const zl_asked *asked)
{
    return asked->run.framework == ZL_FRAMEWORK_FSDP1 || asked->run.framework == ZL_FRAMEWORK_FSDP2;
}

static bool zero3(const zl_asked *asked)
{
    return asked->run.framework == ZL_FRAMEWORK_DEEPSPEED && asked->run.stage == 3;
}

static bool walked(const zl_asked *asked)
{
    return !asked->native;
}

static const hint hints[] = {
    {"activation checkpointing, a smaller micro-batch, another attention",
     "activations were given as a number; leave --activations out where they are modelled, or give "
     "the smaller number",
     given_activations},
    {"a loss that is computed chunk by chunk with the head (fused linear cross-entropy)",
     "the logits (B T V) and their gradient are modelled whole", walked_logits},
    {"FSDP's CPU offload (CPUOffloadPolicy)", "parameters and states are modelled on the GPU",
     fsdp},
    {"ZeRO++ (zero_hpz_partition_size, zero_quantized_weights)",
     "not modelled; it saves network, "
     "not memory",
     zero3},
    {"sequence, tensor and pipeline parallelism", "only data parallelism is modelled", walked},
};

bool zl_unmodelled_at(const zl_asked *asked, size_t index, const char **what, const char **why)
{
    for (size_t i = 0; i < sizeof hints / sizeof hints[0]; i++) {
        if (hints[i].applies(asked) && index-- == 0) {
            *what = hints[i].what;
            *why = hints[i].why;
            return true;
        }
    }
    return false;
}
