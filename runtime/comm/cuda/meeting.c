#define _DEFAULT_SOURCE
#include "comm/cuda/meeting.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Nodes of a job may start minutes apart. */
static const double patience = 180.0;
static const char usual_port[] = "29500"; /* torchrun's */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void rest(void)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    (void)nanosleep(&pause, NULL);
}

/* ---- the launcher's file: the bytes, then a 1 that says they are there */

static zl_status meet_at_board(const char *path, bool first, void *bytes, size_t size, zl_err *err)
{
    const char there = 1;
    char seen = 0;
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return zl_fail(err, ZL_E_RESOURCE, "%s: %s", path, strerror(errno));
    }
    bool done = false;
    if (first) {
        done =
            pwrite(fd, bytes, size, 0) == (ssize_t)size && pwrite(fd, &there, 1, (off_t)size) == 1;
    } else {
        const double deadline = now() + patience;
        while (now() < deadline && !(pread(fd, &seen, 1, (off_t)size) == 1 && seen == there)) {
            rest();
        }
        done = seen == there && pread(fd, bytes, size, 0) == (ssize_t)size;
    }
    close(fd);
    return done ? ZL_OK
                : zl_fail(err, ZL_E_RESOURCE, "rank 0 gave no sign of life within %.0f seconds",
                          patience);
}

/* ---- sockets */

static zl_status transfer(int fd, void *bytes, size_t size, bool send_it, zl_err *err)
{
    unsigned char *at = bytes;
    while (size > 0) {
        const ssize_t moved = send_it ? send(fd, at, size, MSG_NOSIGNAL) : recv(fd, at, size, 0);
        if (moved < 0 && errno == EINTR) {
            continue;
        }
        if (moved <= 0) {
            return zl_fail(err, ZL_E_RESOURCE, "the ranks' first meeting: %s",
                           moved == 0 ? "the other side has gone" : strerror(errno));
        }
        at += moved;
        size -= (size_t)moved;
    }
    return ZL_OK;
}

/* Accepts all others, one after the other, and gives each the bytes. */
static zl_status serve(int listener, uint64_t others, void *bytes, size_t size, zl_err *err)
{
    const double deadline = now() + patience;
    for (uint64_t served = 0; served < others;) {
        struct pollfd wanted = {.fd = listener, .events = POLLIN};
        const int ready = poll(&wanted, 1, 100);
        if (ready <= 0 && now() > deadline) {
            return zl_fail(err, ZL_E_RESOURCE,
                           "%" PRIu64 " of %" PRIu64 " other ranks came within %.0f seconds",
                           served, others, patience);
        }
        if (ready <= 0) {
            continue;
        }
        const int fd = accept(listener, NULL, NULL);
        if (fd < 0) {
            continue;
        }
        const zl_status status = transfer(fd, bytes, size, true, err);
        close(fd);
        ZL_TRY(status);
        served++;
    }
    return ZL_OK;
}

static int open_listener(const struct addrinfo *place)
{
    const int on = 1;
    const int fd = socket(place->ai_family, place->ai_socktype | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, place->ai_addr, place->ai_addrlen) != 0 || listen(fd, 1024) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static int connect_once(const struct addrinfo *places)
{
    for (const struct addrinfo *p = places; p != NULL; p = p->ai_next) {
        const int fd = socket(p->ai_family, p->ai_socktype | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, p->ai_addr, p->ai_addrlen) == 0) {
            return fd;
        }
        if (fd >= 0) {
            close(fd);
        }
    }
    return -1;
}

/* torchrun's own agent listens at the port that it names: the next one is free. */
static void choose_port(char *port, size_t size)
{
    const char *const said = getenv("MASTER_PORT");
    const long number = strtol(said != NULL ? said : usual_port, NULL, 10);
    const bool taken = getenv("TORCHELASTIC_RUN_ID") != NULL;
    (void)snprintf(port, size, "%ld", number + (taken ? 1 : 0));
}

static zl_status meet_over_network(const char *host, uint64_t rank, uint64_t ranks, void *bytes,
                                   size_t size, zl_err *err)
{
    char port[24];
    choose_port(port, sizeof port);
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = rank == 0 ? AI_PASSIVE : 0};
    struct addrinfo *places = NULL;
    if (getaddrinfo(rank == 0 ? NULL : host, port, &hints, &places) != 0) {
        return zl_fail(err, ZL_E_RESOURCE, "MASTER_ADDR %s, MASTER_PORT %s: no such place", host,
                       port);
    }
    const double deadline = now() + patience;
    int fd = -1;
    while (fd < 0 && now() < deadline) {
        fd = rank == 0 ? open_listener(places) : connect_once(places);
        if (fd < 0 && rank == 0) {
            break;
        }
        if (fd < 0) {
            rest();
        }
    }
    const int failure = errno;
    freeaddrinfo(places);
    if (fd < 0) {
        return zl_fail(err, ZL_E_RESOURCE, "%s port %s: %s",
                       rank == 0 ? "rank 0 cannot listen at" : host, port, strerror(failure));
    }
    const zl_status status =
        rank == 0 ? serve(fd, ranks - 1, bytes, size, err) : transfer(fd, bytes, size, false, err);
    close(fd);
    return status;
}

zl_status zr_meet(uint64_t rank, uint64_t ranks, void *bytes, size_t size, zl_err *err)
{
    const char *const board = getenv(ZR_BOARD_VARIABLE);
    const char *const host = getenv("MASTER_ADDR");
    if (board != NULL) {
        return meet_at_board(board, rank == 0, bytes, size, err);
    }
    return meet_over_network(host != NULL ? host : "127.0.0.1", rank, ranks, bytes, size, err);
}
