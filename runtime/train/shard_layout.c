#include "train/shard_layout.h"

#include <inttypes.h>
#include <string.h>

#include "zeroledger/bytes.h"

_Static_assert(sizeof(zr_shard_head) == 64 && sizeof(zr_shard_row) == 24, "the file's own sizes");

/* As PNG has it: a byte beyond ASCII and a line's end show what a text transfer has done. */
static const unsigned char MAGIC[8] = {0x89, 'Z', 'L', 'C', 'K', 'P', 'T', '\n'};

/* Pinned: the numbers of zl_dtype are not. */
static uint32_t type_number(zl_dtype dtype)
{
    switch (dtype) {
    case ZL_F32:
        return 1;
    case ZL_BF16:
        return 2;
    case ZL_F16:
        return 3;
    case ZL_DTYPE_COUNT:
        break;
    }
    return 0;
}

zr_shard_head zr_shard_head_of(const zr_shard_args *args)
{
    const zr_zero *zero = args->zero;
    zr_shard_head head = {
        .version = ZR_SHARD_VERSION,
        .parts = (uint32_t)zr_part_count(zero),
        .weight_type = type_number(zr_part_dtype(zero, ZR_PART_WEIGHTS)),
        .state_type = type_number(zero->sdtype),
        .rank = args->rank,
        .ranks = args->ranks,
        .step = args->step,
        .units = zero->units,
        .bytes = zl_add(zr_shard_offset(args, zero->units), sizeof(uint64_t)),
    };
    memcpy(head.magic, MAGIC, sizeof head.magic);
    return head;
}

zr_shard_row zr_shard_row_of(const zr_shard_args *args, uint64_t u)
{
    const zr_zero *zero = args->zero;
    zr_unit unit = *zero->store[u].unit;
    zr_unit_close(&unit, zero->dtype, args->ranks);
    return (zr_shard_row){
        .kind = u == 0                ? 0
                : u + 1 < zero->units ? 1
                                      : 2,
        .logical = zr_unit_logical(&unit),
        .shard = unit.shard,
    };
}

static uint64_t unit_bytes(const zr_shard_args *args, uint64_t u)
{
    uint64_t size = 0;
    for (unsigned part = 0; part < zr_part_count(args->zero); part++) {
        size += zl_dtype_size(zr_part_dtype(args->zero, (zr_part)part));
    }
    return zl_mul(zr_shard_row_of(args, u).shard, size);
}

/* Embedding, equal blocks, head. */
uint64_t zr_shard_offset(const zr_shard_args *args, uint64_t u)
{
    const uint64_t units = args->zero->units;
    uint64_t offset = zl_add(sizeof(zr_shard_head), zl_mul(units, sizeof(zr_shard_row)));
    if (u > 0) {
        const uint64_t blocks = zl_min(u, units - 1) - 1;
        offset = zl_add(offset, unit_bytes(args, 0));
        offset = zl_add(offset, zl_mul(blocks, unit_bytes(args, 1)));
    }
    return u == units ? zl_add(offset, unit_bytes(args, units - 1)) : offset;
}

zr_range zr_shard_common(const zr_shard_args *args, uint64_t u)
{
    const zr_range owned = zr_zero_owned(args->zero, u);
    const zr_shard_row row = zr_shard_row_of(args, u);
    const uint64_t begin = zl_mul(args->rank, row.shard);
    return (zr_range){
        .begin = zl_max(owned.begin, begin),
        .end = zl_min(zl_min(owned.end, row.logical), zl_add(begin, row.shard)),
    };
}

zl_status zr_shard_head_known(const zr_shard_head *head, zl_err *err)
{
    if (memcmp(head->magic, MAGIC, sizeof head->magic) != 0) {
        return zl_fail(err, ZL_E_INPUT, "not a checkpoint of zl-train: it begins otherwise");
    }
    if (head->version != ZR_SHARD_VERSION) {
        return zl_fail(err, ZL_E_INPUT,
                       "its format is version %" PRIu32 ", this program reads version %d: use the "
                       "zl-train that wrote it",
                       head->version, ZR_SHARD_VERSION);
    }
    return ZL_OK;
}

zl_status zr_shard_head_same(const zr_shard_head *head, const zr_shard_head *wanted, zl_err *err)
{
    const struct {
        const char *name;
        uint64_t have;
        uint64_t want;
    } field[] = {
        {"number of parts", head->parts, wanted->parts},
        {"type of weights", head->weight_type, wanted->weight_type},
        {"type of states", head->state_type, wanted->state_type},
        {"rank", head->rank, wanted->rank},
        {"number of ranks", head->ranks, wanted->ranks},
        {"step", head->step, wanted->step},
        {"number of units", head->units, wanted->units},
        {"size", head->bytes, wanted->bytes},
    };
    for (size_t i = 0; i < sizeof field / sizeof field[0]; i++) {
        if (field[i].have != field[i].want) {
            return zl_fail(err, ZL_E_INPUT, "its %s is %" PRIu64 ", expected %" PRIu64,
                           field[i].name, field[i].have, field[i].want);
        }
    }
    return ZL_OK;
}
