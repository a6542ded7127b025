/* The tensors that a run description carries, as base/safetensors.h writes them, as a list. */
#ifndef ZL_TENSOR_TREE_H
#define ZL_TENSOR_TREE_H

#include "torch/tensor_list.h"
#include "zeroledger/error.h"
#include "zeroledger/json.h"

/* Adds the tensors of a "tensors" object to an empty list, numbered parts in the order of their
 * numbers and before the others. ZL_E_INPUT names what is no tensor; the list is empty then. */
ZL_NODISCARD zl_status zl_tensor_tree_read(zl_json tensors, zl_tensor_list *out, zl_err *err);

#endif
