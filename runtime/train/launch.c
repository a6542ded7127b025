#define _GNU_SOURCE /* memfd_create */
#include "train/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "track/track.h"
#include "train/banner.h"
#include "train/job.h"
#include "train/mpirun.h"
#include "zeroledger/bytes.h"
#include "zeroledger/vocab.h"

/* After the first sign of failure or a stop signal mpirun gets this long to end by itself. */
static const double patience = 10.0;
/* Exit code of a child that could not become mpirun, as shells have it. */
enum { EXEC_FAILED = 127 };

typedef struct stream {
    int fd;
    char line[4096];
    size_t held;
} stream;

typedef struct launch {
    const zr_launch_options *options;
    zr_watch *watch; /* one per rank; NULL: none */
    int watch_fd;
    pid_t mpirun;
    stream out;
    stream err;
    zr_banner banner;
    bool output_failed;
    uint32_t shown; /* step on the progress display */
} launch;

static volatile sig_atomic_t stop_signal;

static void on_stop(int number)
{
    stop_signal = number;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The shared slots, and their place in the environment of the ranks. Without them a death has no
 * phase, that is all; so failures here are no errors. */
static void watch_open(launch *l)
{
    const uint64_t size = zl_mul(l->options->ranks, sizeof(zr_watch));
    l->watch_fd = memfd_create("zl-train ranks", 0);
    if (l->watch_fd < 0 || ftruncate(l->watch_fd, (off_t)size) != 0) {
        return;
    }
    void *const p = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, l->watch_fd, 0);
    if (p == MAP_FAILED) {
        return;
    }
    l->watch = p;
    char text[96];
    (void)snprintf(text, sizeof(text), "%ld /proc/%ld/fd/%d", (long)getpid(), (long)getpid(),
                   l->watch_fd);
    setenv(ZR_WATCH_VARIABLE, text, 1);
}

static void watch_close(launch *l)
{
    if (l->watch != NULL) {
        munmap(l->watch, (size_t)zl_mul(l->options->ranks, sizeof(zr_watch)));
    }
    if (l->watch_fd >= 0) {
        close(l->watch_fd);
    }
}

/* In the child: becomes mpirun. */
static void become_mpirun(char *const *argv, pid_t launcher, int out, int err)
{
    setpgid(0, 0); /* the terminal's signals come to the launcher, which passes them on */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    const int null = open("/dev/null", O_RDONLY);
    if (getppid() != launcher || null < 0 || dup2(null, STDIN_FILENO) < 0 ||
        dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0) {
        _Exit(ZL_E_RESOURCE);
    }
    signal(SIGPIPE, SIG_DFL);
    execvp(argv[0], argv);
    _Exit(EXEC_FAILED);
}

static zl_status start(launch *l, char *const *argv, zl_err *err)
{
    int out[2];
    int words[2];
    if (pipe2(out, O_CLOEXEC) != 0) {
        return zl_fail(err, ZL_E_RESOURCE, "pipe: %s", strerror(errno));
    }
    if (pipe2(words, O_CLOEXEC) != 0) {
        close(out[0]);
        close(out[1]);
        return zl_fail(err, ZL_E_RESOURCE, "pipe: %s", strerror(errno));
    }
    const pid_t launcher = getpid();
    l->mpirun = fork();
    if (l->mpirun == 0) {
        become_mpirun(argv, launcher, out[1], words[1]);
    }
    close(out[1]);
    close(words[1]);
    l->out.fd = out[0];
    l->err.fd = words[0];
    if (l->mpirun < 0) {
        close(out[0]);
        close(words[0]);
        return zl_fail(err, ZL_E_RESOURCE, "fork: %s", strerror(errno));
    }
    return ZL_OK;
}

static bool write_all(int fd, const char *text, size_t size)
{
    while (size > 0) {
        const ssize_t written = write(fd, text, size);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            return false;
        }
        text += written;
        size -= (size_t)written;
    }
    return true;
}

static void progress_clear(launch *l)
{
    if (l->shown != 0) {
        (void)fputs("\r\033[K", stderr);
        l->shown = 0;
    }
}

static void progress_show(launch *l)
{
    const uint32_t step = l->watch != NULL ? l->watch[0].step : 0;
    if (l->options->progress && step != l->shown) {
        (void)fprintf(stderr, "\rstep %" PRIu32 " of %" PRIu64, step, l->options->steps);
        l->shown = step;
    }
}

static void pass_words(launch *l, char *line)
{
    if (zr_banner_line(&l->banner, line)) {
        progress_clear(l);
        (void)fprintf(stderr, "%s\n", line);
    }
}

/* Reads what is there; false at the end of the stream. */
static bool pump(launch *l, stream *s)
{
    const ssize_t got = read(s->fd, s->line + s->held, sizeof(s->line) - 1 - s->held);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) {
        return true;
    }
    if (got <= 0) {
        close(s->fd);
        s->fd = -1;
        if (s->held > 0 && s == &l->err) {
            s->line[s->held] = '\0';
            pass_words(l, s->line);
        }
        return false;
    }
    s->held += (size_t)got;
    if (s == &l->out) {
        l->output_failed = l->output_failed || !write_all(STDOUT_FILENO, s->line, s->held);
        s->held = 0;
        return true;
    }
    s->line[s->held] = '\0';
    char *line = s->line;
    for (char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        pass_words(l, line);
    }
    s->held = strlen(line);
    memmove(s->line, line, s->held + 1);
    if (s->held == sizeof(s->line) - 1) { /* longer than any line of ours */
        pass_words(l, s->line);
        s->held = 0;
    }
    return true;
}

/* Passes everything on until mpirun has ended; ends it where it does not end by itself. */
static int attend(launch *l)
{
    double deadline = 0.0;
    bool open = true;
    int status = 0;
    bool running = true;
    while (running || open) {
        struct pollfd fds[2] = {{.fd = l->out.fd, .events = POLLIN},
                                {.fd = l->err.fd, .events = POLLIN}};
        const int ready = poll(fds, 2, running ? 200 : 20);
        if (ready > 0 && fds[0].revents != 0) {
            pump(l, &l->out);
        }
        if (ready > 0 && fds[1].revents != 0) {
            pump(l, &l->err);
        }
        open = ready > 0; /* after mpirun's end: until a look finds nothing more */
        if (running && waitpid(l->mpirun, &status, WNOHANG) == l->mpirun) {
            running = false;
        }
        const bool failing =
            stop_signal != 0 || l->output_failed || l->banner.told || l->banner.dead;
        if (running && failing && deadline == 0.0) {
            deadline = now() + patience;
            if (stop_signal != 0 || l->output_failed) {
                kill(l->mpirun, SIGTERM);
            }
        }
        if (running && deadline != 0.0 && now() > deadline) {
            kill(-l->mpirun, SIGKILL); /* its ranks follow: zr_job_follow_parent */
        }
        progress_show(l);
    }
    progress_clear(l);
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

/* What rank r was doing, from its slot: ", in step 3, backward (steady)". */
static void whereabouts(const launch *l, uint64_t rank, char *text, size_t size)
{
    text[0] = '\0';
    if (l->watch == NULL || rank >= l->options->ranks) {
        return;
    }
    const uint32_t beacon = l->watch[rank].beacon;
    const uint32_t step = l->watch[rank].step;
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

static zl_status verdict(const launch *l, int status, zl_err *err)
{
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : (int)ZL_E_RESOURCE;
    const zl_status as_status =
        code >= ZL_NO && code <= ZL_E_UNMODELLED ? (zl_status)code : ZL_E_RESOURCE;
    char where[128];
    if (stop_signal != 0) {
        return zl_fail(err, ZL_E_RESOURCE, "stopped by signal %d", (int)stop_signal);
    }
    if (l->output_failed) {
        return zl_fail(err, ZL_E_RESOURCE, "standard output cannot be written; the job was ended");
    }
    if (code == 0) {
        return ZL_OK;
    }
    if (l->banner.told) { /* the rank's own words are out already */
        if (err != NULL) {
            err->status = as_status;
        }
        return as_status;
    }
    if (l->banner.dead) {
        const zr_banner *const b = &l->banner;
        whereabouts(l, b->rank, where, sizeof(where));
        if (b->signal != 0) {
            return zl_fail(err, ZL_E_RESOURCE, "rank %" PRIu64 ": killed by signal %d (%s)%s",
                           b->rank, b->signal, strsignal(b->signal), where);
        }
        return zl_fail(err, ZL_E_RESOURCE, "rank %" PRIu64 ": ended with exit code %d%s", b->rank,
                       b->code, where);
    }
    if (code == EXEC_FAILED && l->banner.swallowed[0] == '\0') {
        return zl_fail(err, ZL_E_RESOURCE,
                       "mpirun is not found, and %" PRIu64 " ranks need it; install openmpi-bin, "
                       "or start the ranks with srun",
                       l->options->ranks);
    }
    return zl_fail(err, ZL_E_RESOURCE, "mpirun ended with exit code %d: %s", code,
                   l->banner.swallowed[0] != '\0' ? l->banner.swallowed : "it gave no reason");
}

zl_status zr_launch(const zr_launch_options *options, zl_err *err)
{
    zr_mpirun mpirun;
    ZL_TRY(zr_mpirun_init(&mpirun, options->ranks, options->argv, err));
    launch l = {.options = options, .watch_fd = -1, .out = {.fd = -1}, .err = {.fd = -1}};
    watch_open(&l);
    const struct sigaction stop = {.sa_handler = on_stop};
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGHUP, &stop, NULL);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    zl_status status = start(&l, mpirun.argv, err);
    if (status == ZL_OK) {
        const int ended = attend(&l);
        reap();
        status = verdict(&l, ended, err);
    }
    watch_close(&l);
    zr_mpirun_release(&mpirun);
    return status;
}
