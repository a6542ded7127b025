#define _DEFAULT_SOURCE
#include "comm/vigil.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "device/tick.h"

enum { TICK = 1000 }; /* milliseconds between two words about what a rank is doing */
static const uint32_t magic = 0x7a6c6e32;
/* A note that has begun comes whole at once. */
static const double note_seconds = 5.0;

typedef struct peer {
    int fd; /* -1: none, or done */
    zr_note doing;
} peer;

struct zr_vigil {
    uint64_t rank;
    uint64_t ranks;
    peer *peer;         /* (N) */
    struct pollfd *fds; /* (N + 1) */
    int wake[2];        /* a pipe */
    pthread_t thread;
    bool begun;
    atomic_bool leaving; /* what the others do is no news any more */
    _Atomic(const zr_activity *) activity;
};

static bool transfer(int fd, void *bytes, size_t size, bool send_it)
{
    unsigned char *at = bytes;
    while (size > 0) {
        const ssize_t moved = send_it ? send(fd, at, size, MSG_NOSIGNAL) : recv(fd, at, size, 0);
        if (moved < 0 && errno == EINTR) {
            continue;
        }
        if (moved <= 0) {
            return false;
        }
        at += moved;
        size -= (size_t)moved;
    }
    return true;
}

bool zr_note_send(int fd, const zr_note *note)
{
    zr_note copy = *note;
    copy.magic = magic;
    return transfer(fd, &copy, sizeof copy, true);
}

bool zr_note_receive(int fd, zr_note *note, double seconds)
{
    struct pollfd wanted = {.fd = fd, .events = POLLIN};
    return poll(&wanted, 1, seconds > 0.0 ? (int)(1e3 * seconds) : 0) > 0 &&
           transfer(fd, note, sizeof *note, false) && note->magic == magic;
}

bool zr_bytes_receive(int fd, void *bytes, size_t size)
{
    return transfer(fd, bytes, size, false);
}

zr_vigil *zr_vigil_new(uint64_t rank, uint64_t ranks)
{
    zr_vigil *const v = calloc(1, sizeof *v);
    if (v == NULL) {
        return NULL;
    }
    v->rank = rank;
    v->ranks = ranks;
    v->wake[0] = v->wake[1] = -1;
    v->peer = calloc((size_t)ranks, sizeof *v->peer);
    v->fds = calloc((size_t)ranks + 1, sizeof *v->fds);
    for (uint64_t r = 0; v->peer != NULL && r < ranks; r++) {
        v->peer[r].fd = -1;
    }
    if (v->peer == NULL || v->fds == NULL || pipe(v->wake) != 0) {
        zr_vigil_free(v);
        return NULL;
    }
    return v;
}

static void close_one(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
    *fd = -1;
}

void zr_vigil_free(zr_vigil *vigil)
{
    if (vigil == NULL) {
        return;
    }
    for (uint64_t r = 0; vigil->peer != NULL && r < vigil->ranks; r++) {
        close_one(&vigil->peer[r].fd);
    }
    close_one(&vigil->wake[0]);
    close_one(&vigil->wake[1]);
    free(vigil->fds);
    free(vigil->peer);
    free(vigil);
}

/* A machine that has gone is noticed within 20 seconds, whether or not anything is on its way. */
static void set_up(int fd)
{
    const int on = 1;
    const int idle = 5;
    const int every = 3;
    const int times = 3;
    const unsigned unanswered = 15000; /* milliseconds */
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered, sizeof unanswered);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

bool zr_vigil_add(zr_vigil *vigil, uint64_t rank, int fd)
{
    if (vigil->peer[rank].fd >= 0) {
        return false;
    }
    set_up(fd);
    vigil->peer[rank].fd = fd;
    return true;
}

static void tell(const zr_vigil *v, const zr_note *note)
{
    for (uint64_t r = 0; r < v->ranks; r++) {
        if (v->peer[r].fd >= 0) {
            (void)zr_note_send(v->peer[r].fd, note);
        }
    }
}

void zr_vigil_end(zr_vigil *vigil, uint64_t rank, int code)
{
    tell(vigil,
         &(zr_note){.kind = ZR_NOTE_FAILED, .rank = (uint32_t)rank, .value = (uint32_t)code});
}

zl_status zr_vigil_send(zr_vigil *vigil, const void *bytes, size_t size, zl_err *err)
{
    unsigned char copy[512];
    if (size > sizeof copy) {
        return zl_fail(err, ZL_E_BUG, "a meeting over %zu bytes", size);
    }
    memcpy(copy, bytes, size);
    for (uint64_t r = 0; r < vigil->ranks; r++) {
        const int fd = vigil->peer[r].fd;
        if (fd >= 0 && (!zr_note_send(fd, &(zr_note){.kind = ZR_NOTE_BYTES}) ||
                        !transfer(fd, copy, size, true))) {
            zr_vigil_end(vigil, r, ZL_E_RESOURCE);
            return zl_fail(err, ZL_E_RESOURCE, "rank %" PRIu64 " has gone during the first meeting",
                           r);
        }
    }
    return ZL_OK;
}

/* ---- the thread */

static void say(uint64_t rank, const char *where)
{
    char line[256];
    const int length = snprintf(
        line, sizeof line, "zl-train: rank %" PRIu64 ": ended without a word%s\n", rank, where);
    if (length > 0) {
        const ssize_t written = write(STDERR_FILENO, line, (size_t)length);
        (void)written;
    }
}

/* Tells the others, and reads what they have still to say: a connection that is closed over unread
 * words breaks, and what was told last is lost with it. They close theirs when they hear it. */
static void part(zr_vigil *v, const zr_note *last)
{
    const double linger = 2.0; /* seconds, for all of them together */
    const double deadline = zr_tick_now() + linger;
    zr_note note;
    tell(v, last);
    for (uint64_t r = 0; r < v->ranks; r++) {
        if (v->peer[r].fd >= 0) {
            (void)shutdown(v->peer[r].fd, SHUT_WR);
        }
    }
    for (uint64_t r = 0; r < v->ranks; r++) {
        while (v->peer[r].fd >= 0 &&
               zr_note_receive(v->peer[r].fd, &note, deadline - zr_tick_now())) {
        }
        close_one(&v->peer[r].fd);
    }
}

/* Another rank has failed: the others hear of it, and this process ends. */
static void end(zr_vigil *v, uint64_t rank, int code)
{
    if (!atomic_load(&v->leaving)) {
        part(v,
             &(zr_note){.kind = ZR_NOTE_FAILED, .rank = (uint32_t)rank, .value = (uint32_t)code});
        _Exit(code);
    }
}

static void lost(zr_vigil *v, uint64_t rank)
{
    char where[128] = "";
    const zr_activity *const a = atomic_load(&v->activity);
    const zr_note *const doing = &v->peer[rank].doing;
    close_one(&v->peer[rank].fd);
    if (atomic_load(&v->leaving)) {
        return;
    }
    if (a != NULL && doing->kind == ZR_NOTE_DOING) {
        a->words(doing->value, doing->more, where, sizeof where);
    }
    if (v->rank < 2) { /* the lowest of those that notice */
        say(rank, where);
    }
    end(v, rank, ZL_E_RESOURCE);
}

static void hear(zr_vigil *v, uint64_t rank)
{
    zr_note note;
    if (!zr_note_receive(v->peer[rank].fd, &note, note_seconds)) {
        lost(v, rank);
    } else if (note.kind == ZR_NOTE_FAILED) {
        end(v, note.rank, (int)note.value);
    } else if (note.kind == ZR_NOTE_BYE) {
        close_one(&v->peer[rank].fd);
    } else if (note.kind == ZR_NOTE_DOING) {
        v->peer[rank].doing = note;
    }
}

static void tell_doing(const zr_vigil *v)
{
    const zr_activity *const a = atomic_load(&v->activity);
    if (a != NULL) {
        tell(v, &(zr_note){.kind = ZR_NOTE_DOING,
                           .rank = (uint32_t)v->rank,
                           .value = *a->step,
                           .more = *a->beacon});
    }
}

static void *watch(void *context)
{
    zr_vigil *const v = context;
    double told = 0.0;
    while (!atomic_load(&v->leaving)) {
        for (uint64_t r = 0; r < v->ranks; r++) { /* a negative one is passed over */
            v->fds[r] = (struct pollfd){.fd = v->peer[r].fd, .events = POLLIN};
        }
        v->fds[v->ranks] = (struct pollfd){.fd = v->wake[0], .events = POLLIN};
        const int ready = poll(v->fds, (nfds_t)v->ranks + 1, TICK);
        for (uint64_t r = 0; ready > 0 && r < v->ranks; r++) {
            if (v->fds[r].revents != 0) {
                hear(v, r);
            }
        }
        if (zr_tick_now() > told + 1e-3 * TICK) {
            told = zr_tick_now();
            tell_doing(v);
        }
    }
    return NULL;
}

zl_status zr_vigil_begin(zr_vigil *vigil, zl_err *err)
{
    const int failure = pthread_create(&vigil->thread, NULL, watch, vigil);
    if (failure != 0) {
        return zl_fail(err, ZL_E_RESOURCE, "the thread that watches the other ranks: %s",
                       strerror(failure));
    }
    vigil->begun = true;
    return ZL_OK;
}

void zr_vigil_show(zr_vigil *vigil, const zr_activity *activity)
{
    atomic_store(&vigil->activity, activity);
}

static void stop(zr_vigil *v)
{
    atomic_store(&v->leaving, true);
    if (v->begun) {
        const ssize_t written = write(v->wake[1], "", 1);
        (void)written;
        (void)pthread_join(v->thread, NULL);
        v->begun = false;
    }
}

void zr_vigil_fail(zr_vigil *vigil, int code)
{
    stop(vigil);
    part(
        vigil,
        &(zr_note){.kind = ZR_NOTE_FAILED, .rank = (uint32_t)vigil->rank, .value = (uint32_t)code});
}

void zr_vigil_leave(zr_vigil *vigil)
{
    stop(vigil);
    part(vigil, &(zr_note){.kind = ZR_NOTE_BYE, .rank = (uint32_t)vigil->rank});
}
