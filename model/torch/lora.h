/* LoRA of peft: which modules have an adapter. */
#ifndef ZL_TORCH_LORA_H
#define ZL_TORCH_LORA_H

#include "torch/eager.h"
#include "zeroledger/torch.h"

/* "16:q_proj,v_proj": rank and the ends of dotted names; "16@0.05:..." has a dropout too;
 * "16:all-linear" means every linear layer but the output's; "16:/.*mlp.*_proj/" is a pattern of
 * Python that full names match. "" is no LoRA. ZL_E_UNMODELLED: a pattern that POSIX cannot say. */
ZL_NODISCARD zl_status zt_lora_read(const char *text, zl_torch_run *out, zl_err *err);

/* Whether a linear layer of this name below `parent` has an adapter: check_target_module_exists and
 * _maybe_include_all_linear_layers of peft/tuners/tuners_utils.py. */
bool zt_lora_targets(const zl_torch_run *run, const zt_module *parent, const char *name);

#endif
