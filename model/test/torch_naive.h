/* PyTorch's caching allocator once more, in the dumbest way: one list of pieces by address,
 * searched from front to end for everything. Written from the description of the allocator alone;
 * shares with model/torch nothing but its options and the record of its statistics. Tests only.
 */
#ifndef ZL_TEST_TORCH_NAIVE_H
#define ZL_TEST_TORCH_NAIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "torch/caching_allocator.h"

enum { NAIVE_PIECES = 4096, NAIVE_POOLS = 2 };

typedef enum naive_state { NAIVE_FREE, NAIVE_USED, NAIVE_WAITING, NAIVE_HOLE } naive_state;

typedef struct naive_piece {
    uint64_t address, size, asked;
    uint64_t segment; /* address of its segment */
    uint64_t age_base;
    uint64_t freed_as; /* how many were freed before it */
    uint32_t stream;
    int pool; /* 0 small, 1 large */
    naive_state state;
    bool recorded;
} naive_piece;

typedef struct naive {
    zt_allocator_options options;
    naive_piece piece[NAIVE_PIECES]; /* by address */
    size_t count;
    uint64_t searches[NAIVE_POOLS];
    uint64_t frees;
    uint64_t edge; /* next address, whichever way it goes */
    uint64_t rest_address[NAIVE_PIECES], rest_size[NAIVE_PIECES];
    size_t rests;
    bool overflow; /* more pieces than there is room for */
    zt_stats stats;
} naive;

void naive_init(naive *n, const zt_allocator_options *options);
/* Addresses stand for blocks; 0: nothing. */
uint64_t naive_alloc(naive *n, uint64_t bytes, uint32_t stream);
void naive_free(naive *n, uint64_t address);
void naive_record(naive *n, uint64_t address, uint32_t stream);
void naive_complete(naive *n, uint64_t address);
void naive_synchronize(naive *n);
void naive_empty_cache(naive *n);
void naive_reset_peaks(naive *n);

#endif
