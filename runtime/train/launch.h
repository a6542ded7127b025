/* `zl-train --ranks 4` on one machine: starts itself four times through mpirun, passes the output
 * on, and turns every way in which a job can die into one line and an exit code.
 *
 * mpirun's own banners are read, not shown: from them comes the number of a rank that was killed.
 * Nothing outlives the launcher: a signal to it ends the job, and its death does too.
 */
#ifndef ZR_LAUNCH_H
#define ZR_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include "zeroledger/error.h"

typedef struct zr_launch_options {
    uint64_t ranks;
    uint64_t steps;    /* for the progress display */
    bool progress;     /* show progress on stderr */
    char *const *argv; /* of this process: the ranks get the same */
} zr_launch_options;

/* Waits for the end of the job. ZL_OK, or the status of the rank that failed; then err->text is the
 * line to print, or empty if the rank has printed it. */
ZL_NODISCARD zl_status zr_launch(const zr_launch_options *options, zl_err *err);

#endif
