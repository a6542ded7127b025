/* The mixture of experts of MixtralForCausalLM, experts in grouped products. */
#ifndef ZT_HF_MIXTRAL_H
#define ZT_HF_MIXTRAL_H

#include "torch/modules.h"

typedef struct zt_experts zt_experts;

zt_experts *zt_experts_new(zt_process *p, zt_module *layer);
zt_tensor zt_call_experts(zt_process *p, const zt_experts *e, zt_tensor x);

#endif
