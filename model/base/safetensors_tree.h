/* The tensors of safetensors files as the JSON that a run description carries: safetensors.h has
 * the form. */
#ifndef ZL_BASE_SAFETENSORS_TREE_H
#define ZL_BASE_SAFETENSORS_TREE_H

#include <stddef.h>
#include <stdint.h>

#include "zeroledger/error.h"
#include "zeroledger/json.h"

enum { ZL_STORED_DIMS = 8 };

typedef struct zl_stored {
    const char *name;  /* borrowed from its header */
    const char *dtype; /* likewise */
    uint32_t rank;
    uint64_t dim[ZL_STORED_DIMS];
    uint64_t begin, end; /* in the bytes behind the header */
} zl_stored;

/* What an index says of the sum of all tensors, where it is wrong. */
typedef struct zl_stored_sizes {
    uint64_t said, found;
} zl_stored_sizes;

/* Sorts the tensors by name. *out: owned by the caller. ZL_E_INPUT: none, or a name that is there
 * twice. */
ZL_NODISCARD zl_status zl_stored_tree(zl_stored *t, size_t count, zl_stored_sizes total,
                                      zl_json_doc **out, zl_err *err);

#endif
