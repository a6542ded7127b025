/* quantization_config: what of a model is stored in fewer bits, and in how many bytes. */
#ifndef ZT_HF_QUANTIZATION_H
#define ZT_HF_QUANTIZATION_H

#include "torch/tensor_list.h"
#include "zeroledger/torch.h"

/* Fills out->quantization, nothing where config has none. ZL_E_UNMODELLED: another method. */
ZL_NODISCARD zl_status zt_quantization_read(zl_json config, zl_hf_config *out, zl_err *err);

#endif
