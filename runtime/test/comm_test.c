/* Collectives move every byte to its place, and reductions add in rank order in fp32, rounding
 * once. Runs under mpirun with 1 to 4 ranks, and alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "comm/comm.h"
#include "train/job.h"

static zr_comm *comm;
static zr_job job;

enum { SMALL_SCRATCH = 4096, LARGE_SCRATCH = 1 << 20 };
static unsigned char scratch[LARGE_SCRATCH];

/* One element of each rank, by bits. A sum in another order, or one that rounds on the way, gives
 * other bits:
 *   fp32  2^24, 1, 1, -2^24: 2^24 + 1 is no fp32 number and rounds back to 2^24, twice; then 0.
 *   bf16  256, 1, 1, 1: fp32 has 257 (tie, to even: 256), 258 (exact), 259 (tie, to even: 260).
 *   fp16  2048, 1, 1, 1: likewise 2048, 2050, 2052. */
static const struct numbers {
    zl_dtype dtype;
    uint64_t size;
    unsigned exponent; /* position of the exponent's lowest bit */
    uint32_t of_rank[4];
    uint32_t sum[5]; /* over the first N ranks */
} numbers[] = {
    {ZL_F32,
     4,
     23,
     {0x4b800000, 0x3f800000, 0x3f800000, 0xcb800000},
     {0, 0x4b800000, 0x4b800000, 0x4b800000, 0x00000000}},
    {ZL_BF16, 2, 7, {0x4380, 0x3f80, 0x3f80, 0x3f80}, {0, 0x4380, 0x4380, 0x4381, 0x4382}},
    {ZL_F16, 2, 10, {0x6800, 0x3c00, 0x3c00, 0x3c00}, {0, 0x6800, 0x6800, 0x6801, 0x6802}},
};
enum { NUMBERS = sizeof(numbers) / sizeof(numbers[0]) };

/* Element i of the whole buffer: times 1, 2, 4 or 8, which is exact, so that places differ. */
static uint32_t scaled(const struct numbers *n, uint32_t bits, uint64_t i)
{
    return bits == 0 ? 0 : bits + ((uint32_t)(i * 2654435761u >> 13 & 3) << n->exponent);
}

static void put(unsigned char *buffer, uint64_t size, uint64_t i, uint32_t bits)
{
    memcpy(buffer + i * size, &bits, (size_t)size); /* little-endian */
}

static uint32_t get(const unsigned char *buffer, uint64_t size, uint64_t i)
{
    uint32_t bits = 0;
    memcpy(&bits, buffer + i * size, (size_t)size);
    return bits;
}

static void check_reduction(const struct numbers *n, uint64_t count, bool in_place)
{
    zl_err err = {0};
    const uint64_t whole = job.ranks * count;
    unsigned char *const full = calloc((size_t)(whole + count), (size_t)n->size);
    assert_non_null(full);
    for (uint64_t i = 0; i < whole; i++) {
        put(full, n->size, i, scaled(n, n->of_rank[job.rank], i));
    }
    const uint64_t own = job.rank * count;
    unsigned char *const shard = full + (in_place ? own : whole) * n->size;
    assert_int_equal(zr_comm_reduce_scatter(comm, full, shard, count, n->dtype, &err), ZL_OK);
    assert_int_equal(zr_comm_wait(comm, &err), ZL_OK);
    for (uint64_t i = 0; i < count; i++) {
        assert_int_equal(get(shard, n->size, i), scaled(n, n->sum[job.ranks], own + i));
    }
    for (uint64_t i = 0; i < whole; i++) { /* the other pieces are as they were */
        if (!in_place || i < own || i >= own + count) {
            assert_int_equal(get(full, n->size, i), scaled(n, n->of_rank[job.rank], i));
        }
    }
    free(full);
}

static void reductions_add_in_rank_order_and_round_once(void **state)
{
    (void)state;
    const uint64_t counts[] = {1, 7, 1000, 300001};
    const uint64_t sizes[] = {SMALL_SCRATCH, LARGE_SCRATCH};
    for (size_t s = 0; s < 2; s++) {
        zr_comm_set_scratch(comm, scratch, sizes[s]);
        for (size_t c = 0; c < 4; c++) {
            for (size_t n = 0; n < NUMBERS; n++) {
                check_reduction(&numbers[n], counts[c], false);
                check_reduction(&numbers[n], counts[c], true);
            }
        }
    }
}

static unsigned char byte_of(uint64_t rank, uint64_t i)
{
    return (unsigned char)(i * 7 + rank * 101 + (i >> 8));
}

static void check_gather(uint64_t bytes, bool in_place)
{
    zl_err err = {0};
    unsigned char *const full = calloc((size_t)(job.ranks + 1), (size_t)bytes);
    assert_non_null(full);
    unsigned char *const shard = full + (in_place ? job.rank : job.ranks) * bytes;
    for (uint64_t i = 0; i < bytes; i++) {
        shard[i] = byte_of(job.rank, i);
    }
    assert_int_equal(zr_comm_all_gather(comm, shard, full, bytes, &err), ZL_OK);
    for (uint64_t r = 0; r < job.ranks; r++) {
        for (uint64_t i = 0; i < bytes; i++) {
            assert_int_equal(full[r * bytes + i], byte_of(r, i));
        }
    }
    free(full);
}

static void gathers_put_every_piece_in_its_place(void **state)
{
    (void)state;
    const uint64_t sizes[] = {1, 256, 4097, 3000000};
    for (size_t i = 0; i < 4; i++) {
        check_gather(sizes[i], false);
        check_gather(sizes[i], true);
    }
}

/* 2^53, 1, 1, 1 in rank order: 2^53 absorbs each 1 (tie to even), so only the order decides. */
static void sums_of_doubles_are_in_rank_order(void **state)
{
    (void)state;
    zl_err err = {0};
    double value = job.rank == 0 ? 9007199254740992.0 : 1.0;
    assert_int_equal(zr_comm_sum(comm, &value, &err), ZL_OK);
    assert_true(value == 9007199254740992.0);
    assert_int_equal(zr_comm_barrier(comm, &err), ZL_OK);
    assert_int_equal(zr_comm_rank(comm), job.rank);
    assert_int_equal(zr_comm_ranks(comm), job.ranks);
}

static void a_reduction_without_scratch_is_refused(void **state)
{
    (void)state;
    zl_err err = {0};
    float full[4] = {0};
    if (job.ranks == 1) {
        return;
    }
    zr_comm_set_scratch(comm, NULL, 0);
    assert_int_equal(zr_comm_reduce_scatter(comm, full, full, 1, ZL_F32, &err), ZL_E_BUG);
    zr_comm_set_scratch(comm, scratch, LARGE_SCRATCH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reductions_add_in_rank_order_and_round_once),
        cmocka_unit_test(gathers_put_every_piece_in_its_place),
        cmocka_unit_test(sums_of_doubles_are_in_rank_order),
        cmocka_unit_test(a_reduction_without_scratch_is_refused),
    };
    zl_err err = {0};
    zr_job_find(&job);
    if (zr_comm_new(job.rank, job.ranks, &comm, &err) != ZL_OK) {
        print_error("%s\n", err.text);
        return 1;
    }
    zr_comm_set_scratch(comm, scratch, LARGE_SCRATCH);
    const int failed = cmocka_run_group_tests_name("comm", tests, NULL, NULL);
    zr_comm_free(comm);
    return failed;
}
