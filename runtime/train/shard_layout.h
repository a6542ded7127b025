/* Where everything lies in a rank's file of a checkpoint, and what its head has to say. Private to
 * shard_file.c and its tests.
 *
 * The elements of a unit are the same for any number of ranks, but for the padding at its end: so a
 * file of rank r of N is a range of them, which other numbers of ranks cut in other ways.
 */
#ifndef ZR_SHARD_LAYOUT_H
#define ZR_SHARD_LAYOUT_H

#include <stdint.h>

#include "train/shard_file.h"

zr_shard_head zr_shard_head_of(const zr_shard_args *args);
zr_shard_row zr_shard_row_of(const zr_shard_args *args, uint64_t u);

/* Byte at which the elements of unit u begin. u = units: where they end. */
uint64_t zr_shard_offset(const zr_shard_args *args, uint64_t u);

/* The elements of unit u that are in the file, are owned by this rank, and are no padding behind
 * the last tensor. Empty: end <= begin. */
zr_range zr_shard_common(const zr_shard_args *args, uint64_t u);

/* ZL_E_INPUT, without the file's name, if it is no such file or one of a newer program. */
ZL_NODISCARD zl_status zr_shard_head_known(const zr_shard_head *head, zl_err *err);
/* ZL_E_INPUT naming the first field that differs. */
ZL_NODISCARD zl_status zr_shard_head_same(const zr_shard_head *head, const zr_shard_head *wanted,
                                          zl_err *err);

#endif
