/* Where the time of a training step goes: named regions on three tracks, as a file that Perfetto
 * and chrome://tracing open, and as sums. On a device a region begins and ends when its queue gets
 * there, by events; no tool has to be attached.
 *
 *     ZL_TRY(zr_profile_new("profile.json", rank, &profile, err));
 *     zr_profile_step_begin(profile, step, true);
 *     zr_profile_begin(profile, ZR_PROFILE_COMPUTE, "block", 3);
 *     status = ZR_TIMED(profile, "attention", zr_flash_forward(&args, stream));
 *     status = zr_profile_end(profile, ZR_PROFILE_COMPUTE, status);
 *     ZL_TRY(zr_profile_step_end(profile, err));
 *     ZL_TRY(zr_profile_finish(profile, err));
 *
 * Without a profile (NULL) begin and end do nothing. Regions of a track nest: each begun inside
 * another ends inside it. Names are borrowed for good: literals. A failure of the profile itself
 * comes out of zr_profile_step_end.
 */
#ifndef ZR_PROFILE_H
#define ZR_PROFILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "zeroledger/error.h"

typedef struct zr_profile zr_profile;

typedef enum zr_profile_track {
    ZR_PROFILE_HOST,    /* what the host does, and waits for */
    ZR_PROFILE_COMPUTE, /* the queue of the kernels */
    ZR_PROFILE_COMM,    /* the queue of communication */
    ZR_PROFILE_TRACKS
} zr_profile_track;

/* Of a region of which there is one. */
#define ZR_NO_NUMBER UINT64_MAX

/* Opens the file, which is written step by step. Caller frees *out. */
ZL_NODISCARD zl_status zr_profile_new(const char *path, uint64_t rank, zr_profile **out,
                                      zl_err *err);
void zr_profile_free(zr_profile *profile);

/* The queue whose time a track shows; NULL, as at first: the host's. Borrowed. */
void zr_profile_queue(zr_profile *profile, zr_profile_track track, void *queue);

/* Regions are begun and ended inside steps only; others are ignored. counts: the step is one of
 * those that the sums are about, which are about all if none is. The step's end waits for the
 * device only as far as the step before. */
void zr_profile_step_begin(zr_profile *profile, uint64_t step, bool counts);
ZL_NODISCARD zl_status zr_profile_step_end(zr_profile *profile, zl_err *err);

void zr_profile_begin(zr_profile *profile, zr_profile_track track, const char *name,
                      uint64_t number);
/* Ends the track's innermost region; gives back `status`, so that it can follow a call. */
zl_status zr_profile_end(zr_profile *profile, zr_profile_track track, zl_status status);

/* The same region on the host's track and on that of the kernels: the host's part in it, and the
 * device's. */
void zr_profile_begin_both(zr_profile *profile, const char *name, uint64_t number);
zl_status zr_profile_end_both(zr_profile *profile, zl_status status);

/* A call that gives a status, as a region of the compute track. */
#define ZR_TIMED(profile, name, call)                                                              \
    (zr_profile_begin((profile), ZR_PROFILE_COMPUTE, (name), ZR_NO_NUMBER),                        \
     zr_profile_end((profile), ZR_PROFILE_COMPUTE, (call)))

/* Waits for the last step, ends the file and closes it. */
ZL_NODISCARD zl_status zr_profile_finish(zr_profile *profile, zl_err *err);

/* All regions of the same name inside those of the same names, of the steps that count. */
typedef struct zr_profile_sum {
    zr_profile_track track;
    uint64_t depth; /* 0: the step */
    const char *name;
    uint64_t count;
    double seconds; /* of all, those inside included */
    double share;   /* of the seconds of all steps */
} zr_profile_sum;

/* The index-th sum, tracks in order, each followed by those inside it; false behind the last. After
 * zr_profile_finish. */
bool zr_profile_sum_at(const zr_profile *profile, uint64_t index, zr_profile_sum *out);
const char *zr_profile_track_name(zr_profile_track track);
/* A table of the sums, for people. */
void zr_profile_show(const zr_profile *profile, FILE *out);

#endif
