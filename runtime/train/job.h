/* Which rank of which job this process is, told by whoever started it: torchrun or our own launcher
 * of GPU ranks, Open MPI, an MPI with the PMI variables (MPICH, Intel), or Slurm. Nobody: one rank,
 * or a launcher to be.
 *
 *     zr_job job;
 *     zr_job_find(&job);
 *     if (!job.started && ranks > 1) { ... zr_launch ... }
 */
#ifndef ZR_JOB_H
#define ZR_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct zr_job {
    bool started;   /* some launcher made this process a rank */
    uint64_t rank;  /* 0 if not started */
    uint64_t ranks; /* 1 if not started */
    uint64_t local; /* among the ranks of this machine, as far as the launcher says; else rank */
} zr_job;

void zr_job_find(zr_job *out);

/* Makes the kernel end this rank when the process that started it dies. */
void zr_job_follow_parent(void);

/* One slot per rank in memory that a launcher of the same machine shares with its ranks, so that it
 * can say what a rank was doing when it died. */
typedef struct zr_watch {
    volatile uint32_t step;   /* of the optimizer step that runs, from 1; 0: not training yet */
    volatile uint32_t beacon; /* ZR_BEACON of the phase entered last; 0: none */
} zr_watch;

/* Where the launcher says its watch is: "PID /proc/PID/fd/N"; the first number is -1 if ranks are
 * the launcher's own children. */
#define ZR_WATCH_VARIABLE "ZR_WATCH"

/* " in step 3, backward (steady)", from the words of a slot, as the end of a sentence. */
void zr_watch_words(uint32_t step, uint32_t beacon, char *text, size_t size);

/* This rank's slot; never NULL: without a launcher, a slot that nobody reads. */
zr_watch *zr_job_watch(const zr_job *job);

#endif
