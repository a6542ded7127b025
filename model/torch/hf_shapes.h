/* What the classes of transformers register: every tensor of a model by name and shape. */
#ifndef ZT_HF_SHAPES_H
#define ZT_HF_SHAPES_H

#include "torch/tensor_list.h"
#include "zeroledger/torch.h"

/* Parameters, tied ones under both names, and buffers, in the order of registration of transformers
 * 5.17. The caller clears the list. ZL_E_INPUT: ZL_HF_TENSORS with a text that is none. */
ZL_NODISCARD zl_status zt_shapes_of(const zl_hf_config *model, zl_tensor_list *out, zl_err *err);

#endif
