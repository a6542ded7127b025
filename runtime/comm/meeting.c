#define _DEFAULT_SOURCE
#include "comm/meeting.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "comm/vigil.h"
#include "device/tick.h"
#include "zeroledger/text.h"

/* Nodes of a job may start minutes apart. */
static const double patience = 180.0;
/* Once a rank is known to have failed, those that are still to come get this long to hear of it. */
static const double farewell = 20.0;
static const uint64_t usual_port = 29500; /* torchrun's */

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
        const double deadline = zr_tick_now() + patience;
        while (zr_tick_now() < deadline &&
               !(pread(fd, &seen, 1, (off_t)size) == 1 && seen == there)) {
            rest();
        }
        done = seen == there && pread(fd, bytes, size, 0) == (ssize_t)size;
    }
    close(fd);
    return done ? ZL_OK
                : zl_fail(err, ZL_E_RESOURCE, "rank 0 gave no sign of life within %.0f seconds",
                          patience);
}

/* ---- where rank 0 is */

bool zr_meeting_first_host(const char *list, char *host, size_t size)
{
    const size_t head = strcspn(list, "[,");
    const char *const inside = list[head] == '[' ? list + head + 1 : "";
    const size_t number = strcspn(inside, "-,]");
    if (head + number == 0 || head + number >= size) {
        return false;
    }
    memcpy(host, list, head);
    memcpy(host + head, inside, number);
    host[head + number] = '\0';
    return true;
}

static bool number_of(const char *variable, uint64_t *out)
{
    const char *const text = getenv(variable);
    return text != NULL && zl_parse_count(variable, text, out, NULL) == ZL_OK;
}

/* Jobs that share a node need ports of their own. */
static uint64_t port_of_job(void)
{
    const uint64_t lowest = 15000;
    const uint64_t range = 10000;
    uint64_t job = 0;
    uint64_t step = 0;
    if (!number_of("SLURM_JOB_ID", &job)) {
        return usual_port;
    }
    (void)number_of("SLURM_STEP_ID", &step);
    return lowest + (job + 97 * step) % range;
}

typedef struct place {
    char host[256];
    char port[24];
} place;

/* torchrun's own agent listens at the port that it names: the next one is free. */
static zl_status find_place(place *out, zl_err *err)
{
    const char *const host = getenv("MASTER_ADDR");
    const char *const nodes = getenv("SLURM_STEP_NODELIST");
    uint64_t port = port_of_job();
    uint64_t all = 0;
    uint64_t here = 0;
    if (number_of("MASTER_PORT", &port)) {
        port += getenv("TORCHELASTIC_RUN_ID") != NULL ? 1 : 0;
    }
    (void)snprintf(out->port, sizeof out->port, "%" PRIu64, port);
    if (host != NULL) {
        (void)snprintf(out->host, sizeof out->host, "%s", host);
        return ZL_OK;
    }
    if (nodes != NULL && zr_meeting_first_host(nodes, out->host, sizeof out->host)) {
        return ZL_OK;
    }
    if (number_of("OMPI_COMM_WORLD_SIZE", &all) && number_of("OMPI_COMM_WORLD_LOCAL_SIZE", &here) &&
        here < all) {
        return zl_fail(err, ZL_E_USAGE,
                       "the ranks are on several machines: say where rank 0 is, with mpirun -x "
                       "MASTER_ADDR=HOST");
    }
    (void)snprintf(out->host, sizeof out->host, "127.0.0.1");
    return ZL_OK;
}

/* ---- sockets */

static int open_listener(const struct addrinfo *at)
{
    const int on = 1;
    const int fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, at->ai_addr, at->ai_addrlen) != 0 || listen(fd, 1024) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static int connect_once(const struct addrinfo *at)
{
    for (const struct addrinfo *p = at; p != NULL; p = p->ai_next) {
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

/* Rank 0 listens at all its addresses, the others look for it until the deadline. */
static zl_status open_socket(const place *at, bool first, double deadline, int *out, zl_err *err)
{
    const int own = strchr(at->host, ':') != NULL ? AF_INET6 : AF_INET;
    const int family = first ? own : AF_UNSPEC;
    const struct addrinfo hints = {
        .ai_socktype = SOCK_STREAM, .ai_flags = first ? AI_PASSIVE : 0, .ai_family = family};
    struct addrinfo *found = NULL;
    if (getaddrinfo(first ? NULL : at->host, at->port, &hints, &found) != 0) {
        return zl_fail(err, ZL_E_RESOURCE, "MASTER_ADDR %s, MASTER_PORT %s: no such place",
                       at->host, at->port);
    }
    int fd = first ? open_listener(found) : connect_once(found);
    while (fd < 0 && !first && zr_tick_now() < deadline) {
        rest();
        fd = connect_once(found);
    }
    const int failure = errno;
    freeaddrinfo(found);
    if (fd < 0) {
        return zl_fail(err, ZL_E_RESOURCE, "%s port %s: %s",
                       first ? "rank 0 cannot listen at" : at->host, at->port, strerror(failure));
    }
    *out = fd;
    return ZL_OK;
}

/* ---- rank 0 */

typedef struct host {
    zr_vigil *vigil;
    uint64_t ranks;
    uint64_t came; /* others that are known */
    int code;      /* of a rank that cannot take part; 0: none */
    uint64_t who;
} host;

/* One other rank; whoever does not say its number quickly is none of ours. */
static void greet(host *h, int fd)
{
    zr_note note;
    if (!zr_note_receive(fd, &note, 5.0) || note.kind != ZR_NOTE_HELLO || note.rank == 0 ||
        note.rank >= h->ranks || !zr_vigil_add(h->vigil, note.rank, fd)) {
        close(fd);
        return;
    }
    h->came++;
    if (note.value != 0 && h->code == 0) {
        h->code = (int)note.value;
        h->who = note.rank;
    }
}

/* Accepts all others, or as many as come. */
static void await(host *h, int listener, double deadline)
{
    while (h->came + 1 < h->ranks && zr_tick_now() < deadline) {
        struct pollfd wanted = {.fd = listener, .events = POLLIN};
        if (poll(&wanted, 1, 100) > 0) {
            const int fd = accept(listener, NULL, NULL);
            if (fd >= 0) {
                greet(h, fd);
            }
        }
        if (h->code != 0 && deadline > zr_tick_now() + farewell) {
            deadline = zr_tick_now() + farewell;
        }
    }
}

static zl_status host_meeting(host *h, int listener, void *bytes, size_t size, zl_err *err)
{
    await(h, listener, zr_tick_now() + (h->code == 0 ? patience : farewell));
    close(listener);
    if (h->code != 0) {
        zr_vigil_end(h->vigil, h->who, h->code);
        return zl_fail(err, (zl_status)h->code, "rank %" PRIu64 " cannot take part", h->who);
    }
    if (h->came + 1 < h->ranks) {
        zr_vigil_end(h->vigil, 0, ZL_E_RESOURCE);
        return zl_fail(err, ZL_E_RESOURCE,
                       "%" PRIu64 " of %" PRIu64 " other ranks came within %.0f seconds", h->came,
                       h->ranks - 1, patience);
    }
    return zr_vigil_send(h->vigil, bytes, size, err);
}

/* ---- the others */

static zl_status visit(zr_vigil *vigil, uint64_t rank, int fd, int code, void *bytes, size_t size,
                       zl_err *err)
{
    const zr_note hello = {.kind = ZR_NOTE_HELLO, .rank = (uint32_t)rank, .value = (uint32_t)code};
    zr_note answer;
    if (!zr_vigil_add(vigil, 0, fd)) {
        close(fd);
        return zl_fail(err, ZL_E_RESOURCE, "out of memory for the ranks' connections");
    }
    if (!zr_note_send(fd, &hello) || !zr_note_receive(fd, &answer, patience + farewell)) {
        return zl_fail(err, ZL_E_RESOURCE, "the ranks' first meeting: rank 0 has gone");
    }
    if (answer.kind == ZR_NOTE_FAILED) {
        return zl_fail(err, (zl_status)answer.value, "rank %" PRIu32 " cannot take part",
                       answer.rank);
    }
    return answer.kind == ZR_NOTE_BYTES && zr_bytes_receive(fd, bytes, size)
               ? ZL_OK
               : zl_fail(err, ZL_E_RESOURCE, "the ranks' first meeting: %s", strerror(errno));
}

/* This process has been at its meeting. */
static bool attended;

struct zr_meeting {
    zr_vigil *vigil;
};

/* code 0: takes part. */
static zl_status meet_over_network(uint64_t rank, uint64_t ranks, int code, void *bytes,
                                   size_t size, zr_vigil *vigil, zl_err *err)
{
    place at;
    int fd = -1;
    ZL_TRY(find_place(&at, err));
    ZL_TRY(
        open_socket(&at, rank == 0, zr_tick_now() + (code == 0 ? patience : farewell), &fd, err));
    if (rank != 0) {
        return visit(vigil, rank, fd, code, bytes, size, err);
    }
    host h = {.vigil = vigil, .ranks = ranks, .code = code};
    return host_meeting(&h, fd, bytes, size, err);
}

zl_status zr_meet(uint64_t rank, uint64_t ranks, void *bytes, size_t size, zr_meeting **out,
                  zl_err *err)
{
    const char *const board = getenv(ZR_BOARD_VARIABLE);
    *out = NULL;
    if (board != NULL) {
        return meet_at_board(board, rank == 0, bytes, size, err);
    }
    zr_meeting *const meeting = calloc(1, sizeof *meeting);
    zr_vigil *const vigil = zr_vigil_new(rank, ranks);
    if (meeting == NULL || vigil == NULL) {
        free(meeting);
        zr_vigil_free(vigil);
        return zl_fail(err, ZL_E_RESOURCE, "out of memory for the ranks' connections");
    }
    meeting->vigil = vigil;
    attended = true;
    zl_status status = meet_over_network(rank, ranks, 0, bytes, size, vigil, err);
    if (status == ZL_OK) {
        status = zr_vigil_begin(vigil, err);
    }
    if (status != ZL_OK) {
        zr_vigil_free(vigil);
        free(meeting);
        return status;
    }
    *out = meeting;
    return ZL_OK;
}

void zr_meeting_decline(uint64_t rank, uint64_t ranks, int code)
{
    zl_err err = {0};
    char nothing[1];
    const bool waited_for = getenv(ZR_BOARD_VARIABLE) == NULL && !attended;
    zr_vigil *const vigil = waited_for ? zr_vigil_new(rank, ranks) : NULL;
    if (vigil != NULL) {
        (void)meet_over_network(rank, ranks, code, nothing, 0, vigil, &err);
        zr_vigil_free(vigil);
    }
}

void zr_meeting_show(zr_meeting *meeting, const zr_activity *activity)
{
    if (meeting != NULL) {
        zr_vigil_show(meeting->vigil, activity);
    }
}

void zr_meeting_fail(zr_meeting *meeting, int code)
{
    if (meeting != NULL) {
        zr_vigil_fail(meeting->vigil, code);
    }
}

void zr_meeting_leave(zr_meeting *meeting)
{
    if (meeting != NULL) {
        zr_vigil_leave(meeting->vigil);
        zr_vigil_free(meeting->vigil);
        free(meeting);
    }
}
