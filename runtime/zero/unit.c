#include "zero/unit.h"

#include <stddef.h>

#include "fault/fault.h"
#include "zeroledger/bytes.h"

/* Tensors and shards begin at multiples of this many bytes, so that any kernel and any transport
 * may use its widest loads. */
static const uint64_t ALIGNMENT = 256;

void zr_unit_init(zr_unit *unit)
{
    *unit = (zr_unit){.count = 0};
}

static void add(zr_unit *unit, zr_tensor tensor)
{
    unit->tensor[unit->count++] = tensor;
}

void zr_unit_matrix(zr_unit *unit, zr_role role, uint64_t rows, uint64_t cols, double deviation)
{
    add(unit,
        (zr_tensor){
            .role = role, .matrix = true, .start = deviation, .elements = zl_prod(rows, cols)});
}

void zr_unit_vector(zr_unit *unit, zr_role role, uint64_t elements, double value)
{
    add(unit, (zr_tensor){.role = role, .start = value, .elements = elements});
}

void zr_unit_close(zr_unit *unit, zl_dtype dtype, uint64_t ranks)
{
    const uint64_t size = zl_dtype_size(dtype);
    const uint64_t aligned = zl_exact_div(ALIGNMENT, size);
    uint64_t end = 0;
    for (uint64_t i = 0; i < unit->count; i++) {
        unit->tensor[i].offset = end;
        end = zl_add(end, zl_align_up(unit->tensor[i].elements, aligned));
    }
    uint64_t multiple = zl_mul(ranks, aligned);
    if (zr_fault(ZR_FAULT_PADDING_WRONG)) {
        multiple = zl_mul(multiple, 16); /* too far: too short would leave the last rank's memory */
    }
    unit->elements = zl_align_up(end, multiple);
    unit->shard = zl_exact_div(unit->elements, ranks);
}

const zr_tensor *zr_unit_find(const zr_unit *unit, zr_role role)
{
    for (uint64_t i = 0; i < unit->count; i++) {
        if (unit->tensor[i].role == role) {
            return &unit->tensor[i];
        }
    }
    return NULL;
}

uint64_t zr_unit_stretch_end(const zr_unit *unit, uint64_t index)
{
    return index + 1 < unit->count ? unit->tensor[index + 1].offset : unit->elements;
}

uint64_t zr_unit_logical(const zr_unit *unit)
{
    const zr_tensor *last = &unit->tensor[unit->count - 1];
    return zl_add(last->offset, last->elements);
}
