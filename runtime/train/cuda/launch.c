/* The launcher of GPU ranks: N copies of this program on one machine, rank r on GPU r. They learn
 * who they are as from torchrun, and meet in a file in memory that they share with the launcher. */
#define _GNU_SOURCE /* memfd_create */
#include "train/launch.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/meeting.h"
#include "device/device.h"
#include "train/relay.h"

enum { RANKS = 64 }; /* more GPUs than machines have */
/* A rank that has failed may still be telling why; then the others wait for it in vain. */
static const double patience = 3.0;

typedef struct launch {
    zr_relay relay;
    uint64_t ranks;
    pid_t pid[RANKS]; /* 0: has ended */
    uint64_t running;
    int status; /* of the rank that failed first; 0: none has */
    int board;
} launch;

/* This far nothing of CUDA has run in the process, or it is started anew: exec leaves nothing. */
static void become_rank(char *const *argv, pid_t launcher, const zr_relay_ends *ends)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher || !zr_relay_enter(ends)) {
        _Exit(ZL_E_RESOURCE);
    }
    execv("/proc/self/exe", argv);
    _Exit(ZL_E_RESOURCE);
}

static void set_number(const char *name, uint64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRIu64, value);
    setenv(name, text, 1);
}

static zl_status make_board(launch *l, zl_err *err)
{
    char path[64];
    l->board = memfd_create("zl-train board", MFD_CLOEXEC);
    if (l->board < 0) {
        return zl_fail(err, ZL_E_RESOURCE, "memfd_create: %s", strerror(errno));
    }
    (void)snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)getpid(), l->board);
    setenv(ZR_BOARD_VARIABLE, path, 1);
    return ZL_OK;
}

/* The environment is set here and inherited: between fork and exec nothing allocates. */
static zl_status start(launch *l, char *const *argv, zl_err *err)
{
    zr_relay_ends ends;
    ZL_TRY(make_board(l, err));
    ZL_TRY(zr_relay_pipes(&l->relay, &ends, err));
    const pid_t launcher = getpid();
    zl_status status = ZL_OK;
    set_number("WORLD_SIZE", l->ranks);
    for (uint64_t r = 0; r < l->ranks && status == ZL_OK; r++) {
        set_number("RANK", r);
        set_number("LOCAL_RANK", r);
        const pid_t pid = fork();
        if (pid == 0) {
            become_rank(argv, launcher, &ends);
        }
        if (pid < 0) {
            status = zl_fail(err, ZL_E_RESOURCE, "fork: %s", strerror(errno));
        } else {
            l->pid[r] = pid;
            l->running++;
        }
    }
    close(ends.out);
    close(ends.err);
    return status;
}

static void signal_all(const launch *l, int number)
{
    for (uint64_t r = 0; r < l->ranks; r++) {
        if (l->pid[r] > 0) {
            kill(l->pid[r], number);
        }
    }
}

/* The first failure is the job's. */
static void note_end(launch *l, pid_t pid, int status)
{
    for (uint64_t r = 0; r < l->ranks; r++) {
        if (l->pid[r] != pid) {
            continue;
        }
        l->pid[r] = 0;
        l->running--;
        if (status != 0 && l->status == 0) {
            zr_banner *const b = &l->relay.banner;
            l->status = status;
            b->dead = true;
            b->rank = r;
            b->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
            b->code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
        }
    }
}

static void attend(launch *l)
{
    double deadline = 0.0;
    bool open = true;
    while (l->running > 0 || open) {
        int status;
        open = zr_relay_pump(&l->relay, l->running > 0 ? 200 : 20);
        for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
            note_end(l, pid, status);
        }
        if (zr_relay_ending(&l->relay) && deadline == 0.0) {
            deadline = zr_relay_now() + patience;
            if (zr_relay_stopped(&l->relay)) {
                signal_all(l, SIGTERM);
            }
        }
        /* Who was killed says nothing, and what the others say about it is not the reason. */
        if (l->relay.banner.signal != 0 || (deadline != 0.0 && zr_relay_now() > deadline)) {
            signal_all(l, SIGKILL);
        }
    }
}

static zl_status verdict(const launch *l, zl_err *err)
{
    zl_status result;
    return zr_relay_verdict(&l->relay, l->status, &result, err)
               ? result
               : zl_fail(err, ZL_E_BUG, "the ranks ended with status %d and no reason", l->status);
}

zl_status zr_launch(const zr_launch_options *options, zl_err *err)
{
    launch l = {.ranks = options->ranks, .board = -1};
    ZL_TRY(zr_device_check(options->ranks, err));
    if (options->ranks > RANKS) {
        return zl_fail(err, ZL_E_USAGE, "at most %d ranks on one machine, got %" PRIu64, RANKS,
                       options->ranks);
    }
    zr_relay_open(&l.relay, options, true);
    zl_status status = start(&l, options->argv, err);
    if (status != ZL_OK) {
        signal_all(&l, SIGKILL);
    } else {
        attend(&l);
        status = verdict(&l, err);
    }
    zr_relay_close(&l.relay);
    if (l.board >= 0) {
        close(l.board);
    }
    return status;
}
