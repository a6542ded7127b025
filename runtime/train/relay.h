/* What a launcher does for its ranks while they run: passes their output on, shows progress, and
 * says at the end why they failed.
 *
 *     zr_relay relay;
 *     zr_relay_open(&relay, &options, false);
 *     ZL_TRY(zr_relay_pipes(&relay, &ends, err));        // the ranks get the ends
 *     while (running) { zr_relay_pump(&relay, 200); ... waitpid ... }
 *     if (!zr_relay_verdict(&relay, status, &result, err)) { ... nobody has said why ... }
 *     zr_relay_close(&relay);
 */
#ifndef ZR_RELAY_H
#define ZR_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "train/banner.h"
#include "train/job.h"
#include "train/launch.h"
#include "zeroledger/error.h"

typedef struct zr_relay_stream {
    int fd; /* -1: closed */
    char line[4096];
    size_t held;
} zr_relay_stream;

typedef struct zr_relay {
    const zr_launch_options *options;
    zr_watch *watch; /* one per rank; NULL: none */
    int watch_fd;
    zr_relay_stream out;
    zr_relay_stream err;
    zr_banner banner; /* what is known of the failure */
    bool output_failed;
    uint32_t shown; /* step on the progress display */
} zr_relay;

/* The ranks' ends of standard output and standard error. */
typedef struct zr_relay_ends {
    int out;
    int err;
} zr_relay_ends;

/* Takes over signals that stop, and shares slots with the ranks through the environment. children:
 * the ranks are children of this process; else of another that it starts. The caller closes. */
void zr_relay_open(zr_relay *relay, const zr_launch_options *options, bool children);
void zr_relay_close(zr_relay *relay);

/* The caller closes the ends after its forks. */
ZL_NODISCARD zl_status zr_relay_pipes(zr_relay *relay, zr_relay_ends *ends, zl_err *err);

/* In the child that becomes a rank, or starts them: nothing to read, the ends to write to, a
 * process group of its own. False if that fails. */
bool zr_relay_enter(const zr_relay_ends *ends);

/* Waits up to so many milliseconds for output and passes it on; false if there was none. */
bool zr_relay_pump(zr_relay *relay, int milliseconds);
/* The job has to end: a signal, a standard output that takes nothing, or a rank that has failed. */
bool zr_relay_ending(const zr_relay *relay);
/* Of these, those that the ranks do not know of. */
bool zr_relay_stopped(const zr_relay *relay);

/* From the wait status of the job: its result, and the line to print, empty if a rank has printed
 * it. False if the job failed and nothing tells why. */
bool zr_relay_verdict(const zr_relay *relay, int status, zl_status *result, zl_err *err);

/* Seconds of a clock that only goes forward. */
double zr_relay_now(void);

#endif
