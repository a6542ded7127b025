/* Reader of the headers of safetensors files: names, types and shapes of tensors, no weights.
 * Private to base/.
 *
 * What it makes is a JSON object that is small whatever the depth of the model, because numbered
 * parts of names with the same below them are written once:
 *
 *     {"tensors": {"model": {"embed_tokens": {"weight": "BF16[32000,4096]"},
 *                            "layers": {"0-31": {"input_layernorm": {"weight": "BF16[4096]"}}}}}}
 *
 * Members are the parts of dotted names. A set of numbers is written "0-3,5". A tensor whose name
 * is also the beginning of another's is the member "" of an object. torch/tensor_list.h reads it.
 */
#ifndef ZL_BASE_SAFETENSORS_H
#define ZL_BASE_SAFETENSORS_H

#include <stdbool.h>
#include <stdint.h>

#include "zeroledger/error.h"
#include "zeroledger/json.h"

/* More tensors than any published checkpoint has; more parts in a name than JSON nests. */
enum { ZL_TENSORS_MAX = 1 << 18, ZL_TENSOR_PARTS_MAX = 48 };

/* Whether a path ends in .safetensors or .safetensors.index.json. */
bool zl_safetensors_named(const char *path);

/* Reads a .safetensors file, or an index and the headers of the files it names, which lie beside
 * it. The caller frees the document. Its root has "tensors" and, where the index says a size that
 * its tensors do not add up to, "total_size" and "tensor_bytes". ZL_E_INPUT names the file and,
 * where it is one, the tensor. */
ZL_NODISCARD zl_status zl_safetensors_load(const char *path, zl_json_doc **out, zl_err *err);

/* Bits of one element; 0 of a type that safetensors does not have. */
uint32_t zl_safetensors_bits(const char *dtype);

#endif
