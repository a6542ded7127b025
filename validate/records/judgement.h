/* Predictions of records, beside what was measured.
 *
 *     zv_judgement all = {0};
 *     ZL_TRY(zv_judge_file("records.jsonl", setup, warn, stderr, &all, err));
 *     ... all.record[0].row[0].measured ...
 *     zv_judgement_release(&all);
 */
#ifndef ZV_JUDGEMENT_H
#define ZV_JUDGEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "records/record.h"

typedef enum zv_quantity {
    ZV_REQUESTED,
    ZV_PEAK_REQUESTED,
    ZV_ALLOCATED,
    ZV_PEAK_ALLOCATED,
    ZV_RESERVED,
    ZV_PEAK_RESERVED,
    ZV_DEVICE_USED,
    ZV_HOST_RSS, /* only where a run keeps parameters or optimizer states on the host */
    ZV_HOST_HWM,
    ZV_QUANTITY_COUNT
} zv_quantity;

const char *zv_quantity_name(zv_quantity quantity); /* "peak_requested" */

enum { ZV_AT_SIZE = 24, ZV_WHY_SIZE = 512, ZV_FILE_SIZE = 64 };

/* One figure at one mark of one rank, bytes. */
typedef struct zv_row {
    uint64_t rank;
    int64_t step; /* -1: before the first */
    char at[ZV_AT_SIZE];
    zv_quantity quantity;
    uint64_t measured, predicted;
    bool judged; /* false: PyTorch itself is not deterministic there (zv_unjudged_reason) */
} zv_row;

typedef struct zv_judged {
    char file[ZV_FILE_SIZE]; /* the name of its file, without folders */
    char id[ZV_ID_SIZE];
    char framework[16], version[16], stage[4];
    bool deepspeed;
    bool modelled;
    char why[ZV_WHY_SIZE]; /* what is not modelled */
    zl_torch_run run;      /* what all ranks have in common */
    uint64_t parameters;   /* predicted, tied ones once */
    zv_row *row;
    size_t rows;
} zv_judged;

typedef struct zv_judgement {
    zv_judged *record;
    size_t records;
} zv_judgement;

/* Adds every record of a file. ZL_E_INPUT names the file and the line of the first bad one. */
ZL_NODISCARD zl_status zv_judge_file(const char *path, const zv_setup *setup, zl_warn *warn,
                                     void *context, zv_judgement *all, zl_err *err);
void zv_judgement_release(zv_judgement *all);

/* Why rows of such a record are left out of the figures, or NULL if none is. */
const char *zv_unjudged_reason(const zv_judged *record);

/* Predicted minus measured, cut to the range of the type. */
int64_t zv_row_error(const zv_row *row);
/* Its size in percent of the measured figure. */
double zv_row_percent(const zv_row *row);

#endif
