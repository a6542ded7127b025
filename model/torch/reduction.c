/* What PyTorch's reduction kernels (aten/src/ATen/native/cuda/Reduce.cuh) keep in global memory
 * when several blocks work on one result: partial sums and a semaphore per block column. */
#include "torch/ops.h"
#include "zeroledger/bytes.h"

/* Limits of Reduce.cuh: threads of a block, of a warp; threads of a multiprocessor; what one thread
 * reads before it is worth splitting a column over several blocks (16), and the most (256). */
enum {
    BLOCK = 512,
    WARP = 32,
    SM_THREADS = 2048,
    THREAD_VALUES_MIN = 16,
    THREAD_VALUES_MAX = 256,
    VECTOR = 4,
    ACCUMULATOR_BYTES = 4,
    SEMAPHORE_BYTES = 4,
};

static uint64_t power_of_two_below(uint64_t x)
{
    uint64_t power = 1;
    while (power <= x / 2) {
        power *= 2;
    }
    return power;
}

static uint64_t split_over_blocks(uint64_t columns_of_blocks, uint64_t target, uint64_t values)
{
    if (values < THREAD_VALUES_MAX || columns_of_blocks > target) {
        return 1;
    }
    return zl_max(
        zl_min(zl_ceil_div(target, columns_of_blocks), zl_ceil_div(values, THREAD_VALUES_MIN)),
        zl_ceil_div(values, THREAD_VALUES_MAX));
}

static void touch(zt_process *p, uint64_t partial_sums, uint64_t semaphores)
{
    zt_storage sums = zt_new(p, partial_sums);
    zt_storage flags = zt_new(p, semaphores);
    zt_drop(p, &flags);
    zt_drop(p, &sums);
}

void zt_touch_column_reduction(zt_process *p, uint64_t rows, uint64_t columns)
{
    uint64_t vector = VECTOR;
    while (columns % vector != 0) {
        vector /= 2;
    }
    const uint64_t wide = power_of_two_below(columns / vector);
    uint64_t width = zl_min(wide, WARP);
    const uint64_t height = zl_min(power_of_two_below(rows), BLOCK / vector / width);
    width = zl_min(wide, BLOCK / vector / height);
    if (rows < zl_min(THREAD_VALUES_MIN * height, THREAD_VALUES_MAX)) {
        return;
    }
    const uint64_t across = zl_ceil_div(columns / vector, width);
    const uint64_t target = p->run->multiprocessors * (SM_THREADS / (width * height));
    const uint64_t blocks = split_over_blocks(across, target, zl_ceil_div(rows, height));
    if (blocks > 1) {
        touch(p, zl_mul(zl_mul(ACCUMULATOR_BYTES * columns, blocks), width * vector),
              SEMAPHORE_BYTES * across);
    }
}

void zt_touch_full_reduction(zt_process *p, uint64_t elements, uint32_t w)
{
    const uint64_t block = zl_min(power_of_two_below(zl_max(elements / VECTOR, 1)), BLOCK);
    const uint64_t target = p->run->multiprocessors * (SM_THREADS / block);
    const uint64_t blocks = split_over_blocks(1, target, zl_ceil_div(elements, block));
    if (blocks > 1) {
        touch(p, zl_mul(w, blocks), SEMAPHORE_BYTES);
    }
}

/* ---- CUB ---- */

/* Temporary storage of CUB's device algorithms, as PyTorch's wheels for CUDA 13 use them
 * (cub/device/ dispatch). Each array begins at a multiple of 256 bytes of memory that need not
 * begin at one. Tiles are those tuned for compute capability 9.0. */
enum { CUB_ALIGN = 256 };

static uint64_t cub_storage(uint64_t arrays)
{
    return zl_add(arrays, CUB_ALIGN - 1);
}

static uint64_t cub_array(uint64_t bytes)
{
    return zl_align_up(bytes, CUB_ALIGN);
}

uint64_t zt_radix_sort_scratch(uint64_t count, uint32_t bits)
{
    enum { SINGLE_TILE = 256 * 9, TILE = 384 * 12, DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS };
    enum { OFFSET_BYTES = 8, COUNTER_BYTES = 4, INT64_BYTES = 8 };
    if (count <= SINGLE_TILE) {
        return 1;
    }
    const uint64_t passes = zl_ceil_div(bits, DIGIT_BITS);
    const uint64_t alternate = passes > 1 ? zl_mul(count, INT64_BYTES) : 0;
    uint64_t arrays = cub_array(zl_prod(passes, DIGITS, OFFSET_BYTES));
    arrays = zl_add(arrays, cub_array(zl_prod(zl_ceil_div(count, TILE), DIGITS, COUNTER_BYTES)));
    arrays = zl_add(arrays, zl_mul(2, cub_array(alternate))); /* keys and values */
    arrays = zl_add(arrays, cub_array(zl_mul(passes, COUNTER_BYTES)));
    return cub_storage(arrays);
}

/* Descriptors of a decoupled look-back, one for each tile and for a warp before the first: a status
 * and a value in one word of twice the value's size. */
static uint64_t look_back(uint64_t tiles, uint64_t value_bytes)
{
    enum { WARP_BEFORE = 32 };
    const uint64_t descriptors = zl_prod(zl_add(tiles, WARP_BEFORE), 2, value_bytes);
    return cub_storage(cub_array(cub_storage(cub_array(descriptors))));
}

uint64_t zt_unique_scratch(uint64_t count)
{
    enum { TILE = 448 * 11, OFFSET_BYTES = 8 };
    return look_back(zl_ceil_div(count, TILE), OFFSET_BYTES);
}

uint64_t zt_scan_scratch(uint64_t count, uint32_t element_bytes)
{
    enum { TILE_32 = 128 * 24, TILE_64 = 224 * 12, INT32_BYTES = 4 };
    const uint64_t tile = element_bytes == INT32_BYTES ? TILE_32 : TILE_64;
    return look_back(zl_ceil_div(count, tile), element_bytes);
}
