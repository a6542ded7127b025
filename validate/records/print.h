/* A judgement as text, JSON and the page docs/accuracy.md. */
#ifndef ZV_PRINT_H
#define ZV_PRINT_H

#include <stdio.h>

#include "records/causes.h"

/* Every row: measured, predicted, error. */
void zv_print_rows(FILE *out, const zv_judgement *all);
/* Means and maxima by framework, version and stage; the figures and their aims. */
ZL_NODISCARD zl_status zv_print_summary(FILE *out, const zv_judgement *all, zl_err *err);
/* One line for each miss. */
void zv_print_misses(FILE *out, const zv_miss *miss, size_t count);

/* The document "zeroledger.records/1" on standard output. */
ZL_NODISCARD zl_status zv_print_json(const zv_judgement *all, zl_err *err);

/* docs/accuracy.md: the same records give the same bytes. */
ZL_NODISCARD zl_status zv_print_page(FILE *out, const zv_judgement *all, const zv_miss *miss,
                                     size_t count, zl_err *err);

#endif
