/* Philox-4x32-10 by position: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as
 * 1, 2, 3", SC 2011; the constants are the paper's. Several counters advance side by side. */
#include "kernel/host/host.h"

#define BLOCKS 16 /* counters at a time */
#define WORDS  64 /* 4 * BLOCKS */

typedef struct philox {
    uint32_t word[4][BLOCKS];
} philox;

static void philox_round(philox *restrict p, uint32_t key0, uint32_t key1)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        const uint64_t a = (uint64_t)p->word[0][i] * 0xD2511F53U;
        const uint64_t b = (uint64_t)p->word[2][i] * 0xCD9E8D57U;
        p->word[0][i] = (uint32_t)(b >> 32) ^ p->word[1][i] ^ key0;
        p->word[1][i] = (uint32_t)b;
        p->word[2][i] = (uint32_t)(a >> 32) ^ p->word[3][i] ^ key1;
        p->word[3][i] = (uint32_t)a;
    }
}

/* The words of counters block, block + 1, ... in the order of their elements. */
static ZR_HOST_WIDE void philox_blocks(uint32_t *restrict out, const zr_rng *rng, uint64_t block)
{
    philox p;
    for (size_t i = 0; i < BLOCKS; i++) {
        const uint64_t counter = block + i;
        p.word[0][i] = (uint32_t)counter;
        p.word[1][i] = (uint32_t)(counter >> 32);
        p.word[2][i] = (uint32_t)rng->stream;
        p.word[3][i] = (uint32_t)(rng->stream >> 32);
    }
    uint32_t key0 = (uint32_t)rng->seed;
    uint32_t key1 = (uint32_t)(rng->seed >> 32);
    for (int round = 0; round < 10; round++) {
        philox_round(&p, key0, key1);
        key0 += 0x9E3779B9U;
        key1 += 0xBB67AE85U;
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        for (size_t w = 0; w < 4; w++) {
            out[4 * i + w] = p.word[w][i];
        }
    }
}

void zr_host_random(uint32_t *restrict out, size_t n, const zr_rng *rng, uint64_t first)
{
    uint32_t words[WORDS];
    uint64_t element = rng->offset + first;
    size_t done = 0;
    while (done < n) {
        const size_t skip = (size_t)(element % 4);
        const size_t take = zr_host_min(WORDS - skip, n - done);
        philox_blocks(words, rng, element / 4);
        memcpy(out + done, words + skip, take * sizeof(uint32_t));
        done += take;
        element += take;
    }
}

void zr_host_mask(float *restrict out, size_t n, float p, const zr_rng *rng, uint64_t first)
{
    uint32_t words[ZR_HOST_CHUNK];
    const uint32_t threshold = (uint32_t)((double)p * 4294967296.0);
    const float kept = 1.0F / (1.0F - p);
    zr_host_random(words, n, rng, first);
    for (size_t i = 0; i < n; i++) {
        out[i] = words[i] < threshold ? 0.0F : kept;
    }
}
