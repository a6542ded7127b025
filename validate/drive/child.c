#define _GNU_SOURCE /* sigtimedwait, prctl */

#include "drive/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static sigset_t interruptions(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    return set;
}

zl_status zv_signals_block(zl_err *err)
{
    sigset_t set = interruptions();
    sigaddset(&set, SIGCHLD);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0) {
        return zl_fail(err, ZL_E_RESOURCE, "signals cannot be blocked: %s", strerror(errno));
    }
    return ZL_OK;
}

/* A pending signal is looked at and left pending. */
bool zv_interrupted(void)
{
    sigset_t pending;
    sigemptyset(&pending);
    sigpending(&pending);
    return sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1 ||
           sigismember(&pending, SIGHUP) == 1;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* In the child, between fork and exec: nothing but system calls and the environment. */
_Noreturn static void become(const zv_child *child, pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* kill -9 of the parent does not leave a trainer behind */
    if (getppid() != parent || chdir(child->folder) != 0) {
        _exit(127);
    }
    const int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const int out = open(child->log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (in < 0 || out < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0) {
        _exit(127);
    }
    unsetenv("ZR_FAULT");
    if (child->fault != NULL) {
        setenv("ZR_FAULT", child->fault, 1);
    }
    /* Ranks share the cores; threads of the BLAS would only fight for them. */
    setenv("OPENBLAS_NUM_THREADS", "1", 0);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execv(child->argv[0], child->argv);
    fprintf(stderr, "%s: %s\n", child->argv[0], strerror(errno));
    _exit(127);
}

/* Waits for SIGCHLD or an interruption, at most until `until` (0: for ever). Interruptions are put
 * back, so that zv_interrupted sees them. */
static void wait_for_news(double until)
{
    sigset_t set = interruptions();
    sigaddset(&set, SIGCHLD);
    const double left = until > 0 ? until - now() : 3600;
    const struct timespec t = {.tv_sec = (time_t)(left > 0 ? left : 0),
                               .tv_nsec = left > 0 && left < 1 ? (long)(1e9 * left) : 0};
    const int got = sigtimedwait(&set, NULL, &t);
    if (got > 0 && got != SIGCHLD) {
        raise(got);
    }
}

/* SIGTERM to the group, and SIGKILL to what is left of it two seconds later. */
static void end_group(pid_t pid, int *state)
{
    const double until = now() + 2;
    kill(-pid, SIGTERM);
    while (now() < until) {
        if (waitpid(pid, state, WNOHANG) == pid) {
            kill(-pid, SIGKILL);
            return;
        }
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    kill(-pid, SIGKILL);
    waitpid(pid, state, 0);
}

static zv_child_end watch(pid_t pid, double until, int *state)
{
    for (;;) {
        if (waitpid(pid, state, WNOHANG) == pid) {
            kill(-pid, SIGKILL);
            return WIFSIGNALED(*state) ? ZV_CHILD_SIGNALLED : ZV_CHILD_EXITED;
        }
        if (zv_interrupted() || (until > 0 && now() >= until)) {
            end_group(pid, state);
            return zv_interrupted() ? ZV_CHILD_INTERRUPTED : ZV_CHILD_TIMED_OUT;
        }
        wait_for_news(until);
    }
}

zl_status zv_child_run(const zv_child *child, zv_child_result *out, zl_err *err)
{
    const pid_t parent = getpid();
    const double begin = now();
    fflush(NULL);
    const pid_t pid = fork();
    if (pid < 0) {
        return zl_fail(err, ZL_E_RESOURCE, "%s cannot be started: %s", child->argv[0],
                       strerror(errno));
    }
    if (pid == 0) {
        become(child, parent);
    }
    setpgid(pid, pid); /* whoever is first; the child does it too */
    int state = 0;
    const zv_child_end end = watch(pid, child->limit > 0 ? begin + child->limit : 0, &state);
    *out = (zv_child_result){.end = end,
                             .code = WIFSIGNALED(state) ? WTERMSIG(state) : WEXITSTATUS(state),
                             .seconds = now() - begin};
    return ZL_OK;
}
