/* What a training run leaves behind: a line a step on standard output, train.json at the end. With
 * evaluation each step has one more number. */
#ifndef ZR_REPORT_H
#define ZR_REPORT_H

#include <stdint.h>

#include "train/engine.h"
#include "train/options.h"
#include "zeroledger/error.h"
#include "zeroledger/ledger.h"

typedef struct zr_step_record {
    zr_step_result result;
    double seconds;
    double tokens_per_second; /* of all ranks */
    uint64_t live;            /* granted bytes after the step */
    uint64_t peak;            /* granted bytes within it */
} zr_step_record;

typedef struct zr_report {
    const zr_options *options;
    const zr_step_record *step; /* (steps); those before `first` were another process's */
    uint64_t first;             /* 0 unless resumed */
    uint64_t hash;              /* of the parameters */
    uint64_t late_growth;       /* zr_track_late_growth */
    const zl_witness *witness;
    const zr_profile *profile; /* finished; NULL: none */
} zr_report;

/* Heading, and the line of step number `index` (from 0), in the format of the options; nothing if
 * they say quiet or JSON. A standard output that does not take it is ZL_E_RESOURCE. */
ZL_NODISCARD zl_status zr_report_begin(const zr_options *options, zl_err *err);
ZL_NODISCARD zl_status zr_report_step(const zr_options *options, uint64_t index,
                                      const zr_step_record *record, zl_err *err);

/* On standard error, for people: the sums of the profile, if there is one, and the speed. */
ZL_NODISCARD zl_status zr_report_speed(const zr_report *report, zl_err *err);

/* train.json into the folder of the options, if there is one, and to standard output if the format
 * is JSON. */
ZL_NODISCARD zl_status zr_report_save(const zr_report *report, zl_err *err);

/* "DIR/NAME"; too long is ZL_E_RESOURCE. */
ZL_NODISCARD zl_status zr_out_path(const zr_options *options, const char *name, char *path,
                                   size_t size, zl_err *err);
/* Where a run that saves puts its checkpoints. */
ZL_NODISCARD zl_status zr_out_checkpoint(const zr_options *options, char *path, size_t size,
                                         zl_err *err);
/* Makes the folder if it is not there. */
ZL_NODISCARD zl_status zr_out_folder(const zr_options *options, zl_err *err);

#endif
