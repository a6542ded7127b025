#define _DEFAULT_SOURCE
#include "train/job.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "zeroledger/bytes.h"
#include "zeroledger/error.h"
#include "zeroledger/text.h"
#include "zeroledger/vocab.h"

/* The third variable has to be there too, where the first two alone prove nothing. */
static const struct variables {
    const char *rank;
    const char *ranks;
    const char *proof;
    const char *local;
} launchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_RANK"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL, "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"PMI_RANK", "PMI_SIZE", NULL, "MPI_LOCALRANKID"},
    {"PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID", "SLURM_LOCALID"},
    /* a batch script has no step */
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID", "SLURM_LOCALID"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_ID", "SLURM_LOCALID"},
};

static bool number(const char *name, uint64_t *out)
{
    const char *const text = getenv(name);
    return text != NULL && zl_parse_count(name, text, out, NULL) == ZL_OK;
}

void zr_job_find(zr_job *out)
{
    *out = (zr_job){.started = false, .rank = 0, .ranks = 1};
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        const struct variables *const v = &launchers[i];
        uint64_t rank;
        uint64_t ranks;
        if ((v->proof == NULL || getenv(v->proof) != NULL) && number(v->rank, &rank) &&
            number(v->ranks, &ranks) && rank < ranks) {
            /* An interactive Slurm step of one task is a shell, not a job of one rank. */
            if (v->proof != NULL && ranks == 1) {
                continue;
            }
            uint64_t local = rank;
            (void)number(v->local, &local);
            *out = (zr_job){.started = true, .rank = rank, .ranks = ranks, .local = local};
            return;
        }
    }
}

/* The launcher's pid in front of the watch's path; 0 if there is no launcher. */
static pid_t launcher_pid(const char **path)
{
    const char *const text = getenv(ZR_WATCH_VARIABLE);
    if (text == NULL) {
        return 0;
    }
    char *after;
    const long pid = strtol(text, &after, 10);
    *path = after + (*after == ' ');
    return (pid_t)pid;
}

void zr_job_follow_parent(void)
{
    const pid_t parent = getppid();
    const char *path;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* Dead before we asked: then we have another parent, or the launcher inherited us already. */
    if (getppid() != parent || parent == launcher_pid(&path)) {
        _Exit((int)ZL_E_RESOURCE);
    }
}

zr_watch *zr_job_watch(const zr_job *job)
{
    static zr_watch unseen;
    const char *path = NULL;
    if (launcher_pid(&path) == 0) {
        return &unseen;
    }
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return &unseen;
    }
    const uint64_t size = zl_mul(job->ranks, sizeof(zr_watch));
    void *const p = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return p == MAP_FAILED ? &unseen : (zr_watch *)p + job->rank;
}

void zr_watch_words(uint32_t step, uint32_t beacon, char *text, size_t size)
{
    const uint32_t phase = (beacon & 255) - 1;
    const uint32_t visit = beacon >> 8;
    if (beacon == 0 || phase >= ZL_PHASE_COUNT || visit >= ZL_VISIT_COUNT) {
        (void)snprintf(text, size, " before its first phase");
    } else if (step == 0) {
        (void)snprintf(text, size, " in %s", zl_phase_name((zl_phase)phase));
    } else {
        (void)snprintf(text, size, " in step %" PRIu32 ", %s (%s)", step,
                       zl_phase_name((zl_phase)phase), zl_visit_name((zl_visit)visit));
    }
}
