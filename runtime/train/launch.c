#define _DEFAULT_SOURCE /* nanosleep */
#include "train/launch.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "train/mpirun.h"
#include "train/relay.h"

/* After the first sign of failure or a stop signal mpirun gets this long to end by itself. */
static const double patience = 10.0;
/* Exit code of a child that could not become mpirun, as shells have it. */
enum { EXEC_FAILED = 127 };

/* In the child: becomes mpirun. */
static void become_mpirun(char *const *argv, pid_t launcher, const zr_relay_ends *ends)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != launcher || !zr_relay_enter(ends)) {
        _Exit(ZL_E_RESOURCE);
    }
    execvp(argv[0], argv);
    _Exit(EXEC_FAILED);
}

static zl_status start(zr_relay *relay, char *const *argv, pid_t *mpirun, zl_err *err)
{
    zr_relay_ends ends;
    ZL_TRY(zr_relay_pipes(relay, &ends, err));
    const pid_t launcher = getpid();
    *mpirun = fork();
    if (*mpirun == 0) {
        become_mpirun(argv, launcher, &ends);
    }
    close(ends.out);
    close(ends.err);
    return *mpirun > 0 ? ZL_OK : zl_fail(err, ZL_E_RESOURCE, "fork: %s", strerror(errno));
}

/* Passes everything on until mpirun has ended; ends it where it does not end by itself. */
static int attend(zr_relay *relay, pid_t mpirun)
{
    double deadline = 0.0;
    bool open = true;
    int status = 0;
    bool running = true;
    while (running || open) {
        open = zr_relay_pump(relay, running ? 200 : 20); /* at the end: until nothing more comes */
        if (running && waitpid(mpirun, &status, WNOHANG) == mpirun) {
            running = false;
        }
        if (running && zr_relay_ending(relay) && deadline == 0.0) {
            deadline = zr_relay_now() + patience;
            if (zr_relay_stopped(relay)) {
                kill(mpirun, SIGTERM);
            }
        }
        if (running && deadline != 0.0 && zr_relay_now() > deadline) {
            kill(-mpirun, SIGKILL); /* its ranks follow: zr_job_follow_parent */
        }
    }
    return status;
}

/* Ranks that lost mpirun became our children; they are dying, wait until they are gone. */
static void reap(void)
{
    for (int i = 0; i < 500; i++) {
        const pid_t pid = waitpid(-1, NULL, WNOHANG);
        if (pid < 0) {
            return;
        }
        if (pid == 0) {
            const struct timespec pause = {.tv_nsec = 10000000};
            (void)nanosleep(&pause, NULL);
        }
    }
}

static zl_status verdict(const zr_relay *relay, int status, zl_err *err)
{
    zl_status result;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : (int)ZL_E_RESOURCE;
    const char *const said = relay->banner.swallowed;
    if (zr_relay_verdict(relay, status, &result, err)) {
        return result;
    }
    if (code == EXEC_FAILED && said[0] == '\0') {
        return zl_fail(err, ZL_E_RESOURCE,
                       "mpirun is not found, and %" PRIu64 " ranks need it; install openmpi-bin, "
                       "or start the ranks with srun",
                       relay->options->ranks);
    }
    if (WIFSIGNALED(status)) {
        return zl_fail(err, ZL_E_RESOURCE, "mpirun was killed by signal %d (%s)", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
    }
    return zl_fail(err, ZL_E_RESOURCE, "mpirun ended with exit code %d: %s", code,
                   said[0] != '\0' ? said : "it gave no reason");
}

zl_status zr_launch(const zr_launch_options *options, zl_err *err)
{
    zr_mpirun mpirun;
    zr_relay relay;
    pid_t pid = 0;
    ZL_TRY(zr_mpirun_init(&mpirun, options->ranks, options->argv, err));
    zr_relay_open(&relay, options, false);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    zl_status status = start(&relay, mpirun.argv, &pid, err);
    if (status == ZL_OK) {
        const int ended = attend(&relay, pid);
        reap();
        status = verdict(&relay, ended, err);
    }
    zr_relay_close(&relay);
    zr_mpirun_release(&mpirun);
    return status;
}
