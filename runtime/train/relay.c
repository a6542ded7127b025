#define _GNU_SOURCE /* memfd_create */
#include "train/relay.h"

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
#include "zeroledger/bytes.h"
#include "zeroledger/vocab.h"

static volatile sig_atomic_t stop_signal;

static void on_stop(int number)
{
    stop_signal = number;
}

double zr_relay_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The shared slots, and their place in the environment of the ranks. Without them a death has no
 * phase, that is all; so failures here are no errors. */
static void watch_open(zr_relay *relay, bool children)
{
    const uint64_t size = zl_mul(relay->options->ranks, sizeof(zr_watch));
    relay->watch_fd = memfd_create("zl-train ranks", 0);
    if (relay->watch_fd < 0 || ftruncate(relay->watch_fd, (off_t)size) != 0) {
        return;
    }
    void *const p =
        mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, relay->watch_fd, 0);
    if (p == MAP_FAILED) {
        return;
    }
    relay->watch = p;
    char text[96];
    (void)snprintf(text, sizeof(text), "%ld /proc/%ld/fd/%d", children ? -1L : (long)getpid(),
                   (long)getpid(), relay->watch_fd);
    setenv(ZR_WATCH_VARIABLE, text, 1);
}

void zr_relay_open(zr_relay *relay, const zr_launch_options *options, bool children)
{
    *relay = (zr_relay){.options = options, .watch_fd = -1, .out = {.fd = -1}, .err = {.fd = -1}};
    watch_open(relay, children);
    const struct sigaction stop = {.sa_handler = on_stop};
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGHUP, &stop, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static void progress_clear(zr_relay *relay)
{
    if (relay->shown != 0) {
        (void)fputs("\r\033[K", stderr);
        relay->shown = 0;
    }
}

void zr_relay_close(zr_relay *relay)
{
    progress_clear(relay);
    if (relay->watch != NULL) {
        munmap(relay->watch, (size_t)zl_mul(relay->options->ranks, sizeof(zr_watch)));
    }
    const int fds[] = {relay->watch_fd, relay->out.fd, relay->err.fd};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
}

zl_status zr_relay_pipes(zr_relay *relay, zr_relay_ends *ends, zl_err *err)
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
    relay->out.fd = out[0];
    relay->err.fd = words[0];
    *ends = (zr_relay_ends){.out = out[1], .err = words[1]};
    return ZL_OK;
}

bool zr_relay_enter(const zr_relay_ends *ends)
{
    setpgid(0, 0); /* the terminal's signals come to the launcher, which passes them on */
    const int null = open("/dev/null", O_RDONLY);
    signal(SIGPIPE, SIG_DFL);
    return null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(ends->out, STDOUT_FILENO) >= 0 &&
           dup2(ends->err, STDERR_FILENO) >= 0;
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

static void progress_show(zr_relay *relay)
{
    const uint32_t step = relay->watch != NULL ? relay->watch[0].step : 0;
    if (relay->options->progress && step != relay->shown) {
        (void)fprintf(stderr, "\rstep %" PRIu32 " of %" PRIu64, step, relay->options->steps);
        relay->shown = step;
    }
}

static void pass_words(zr_relay *relay, char *line)
{
    if (zr_banner_line(&relay->banner, line)) {
        progress_clear(relay);
        (void)fprintf(stderr, "%s\n", line);
    }
}

/* Reads what is there; false at the end of the stream. */
static bool pump(zr_relay *relay, zr_relay_stream *s)
{
    const ssize_t got = read(s->fd, s->line + s->held, sizeof(s->line) - 1 - s->held);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) {
        return true;
    }
    if (got <= 0) {
        close(s->fd);
        s->fd = -1;
        if (s->held > 0 && s == &relay->err) {
            s->line[s->held] = '\0';
            pass_words(relay, s->line);
        }
        return false;
    }
    s->held += (size_t)got;
    if (s == &relay->out) {
        relay->output_failed = relay->output_failed || !write_all(STDOUT_FILENO, s->line, s->held);
        s->held = 0;
        return true;
    }
    s->line[s->held] = '\0';
    char *line = s->line;
    for (char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        pass_words(relay, line);
    }
    s->held = strlen(line);
    memmove(s->line, line, s->held + 1);
    if (s->held == sizeof(s->line) - 1) { /* longer than any line of ours */
        pass_words(relay, s->line);
        s->held = 0;
    }
    return true;
}

bool zr_relay_pump(zr_relay *relay, int milliseconds)
{
    struct pollfd fds[2] = {{.fd = relay->out.fd, .events = POLLIN},
                            {.fd = relay->err.fd, .events = POLLIN}};
    const int ready = poll(fds, 2, milliseconds);
    if (ready > 0 && fds[0].revents != 0) {
        pump(relay, &relay->out);
    }
    if (ready > 0 && fds[1].revents != 0) {
        pump(relay, &relay->err);
    }
    progress_show(relay);
    return ready > 0;
}

bool zr_relay_stopped(const zr_relay *relay)
{
    return stop_signal != 0 || relay->output_failed;
}

bool zr_relay_ending(const zr_relay *relay)
{
    return zr_relay_stopped(relay) || relay->banner.told || relay->banner.dead;
}

/* What rank r was doing, from its slot: ", in step 3, backward (steady)". */
static void whereabouts(const zr_relay *relay, uint64_t rank, char *text, size_t size)
{
    text[0] = '\0';
    if (relay->watch == NULL || rank >= relay->options->ranks) {
        return;
    }
    const uint32_t beacon = relay->watch[rank].beacon;
    const uint32_t step = relay->watch[rank].step;
    zr_watch_words(step, beacon, text, size);
}

static zl_status dead(const zr_relay *relay, zl_err *err)
{
    const zr_banner *const b = &relay->banner;
    char where[128];
    whereabouts(relay, b->rank, where, sizeof(where));
    if (b->signal != 0) {
        return zl_fail(err, ZL_E_RESOURCE, "rank %" PRIu64 ": killed by signal %d (%s)%s", b->rank,
                       b->signal, strsignal(b->signal), where);
    }
    return zl_fail(err, ZL_E_RESOURCE, "rank %" PRIu64 ": ended with exit code %d%s", b->rank,
                   b->code, where);
}

bool zr_relay_verdict(const zr_relay *relay, int status, zl_status *result, zl_err *err)
{
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : (int)ZL_E_RESOURCE;
    if (stop_signal != 0) {
        *result = zl_fail(err, ZL_E_RESOURCE, "stopped by signal %d", (int)stop_signal);
    } else if (relay->output_failed) {
        *result =
            zl_fail(err, ZL_E_RESOURCE, "standard output cannot be written; the job was ended");
    } else if (code == 0) {
        *result = ZL_OK;
    } else if (relay->banner.told) { /* the rank's own words are out already */
        *result = code >= ZL_NO && code <= ZL_E_UNMODELLED ? (zl_status)code : ZL_E_RESOURCE;
        if (err != NULL) {
            err->status = *result;
        }
    } else if (relay->banner.dead) {
        *result = dead(relay, err);
    } else {
        return false;
    }
    return true;
}
