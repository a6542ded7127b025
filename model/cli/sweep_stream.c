/* Workers of a sweep, and their rows in order on one stream. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sweep.h"
#include "zeroledger/bytes.h"

/* Points of a piece: a piece takes a millisecond or so. */
enum { NATIVE_PIECE = 1024, KINDS_PIECE = 32, FRAMEWORK_PIECE = 2 };

/* Ctrl-C. A handler may touch no more. */
static atomic_bool interrupted;

static void interrupt(int signal)
{
    (void)signal;
    atomic_store(&interrupted, true);
}

typedef struct stream {
    zl_sweep *sweep;
    zl_swept *keep; /* (points), or NULL: rows are printed */
    int fd;
    uint64_t piece, pieces;
    atomic_uint_fast64_t next; /* piece to be taken */
    atomic_bool over;          /* no more pieces */
    pthread_mutex_t lock;
    pthread_cond_t turned;
    uint64_t turn; /* piece to be written; from here on under the lock */
    bool written;  /* a row has been */
    bool closed;   /* the reader has gone */
    bool whole;    /* every piece so far was complete */
    zl_tally tally;
    zl_err first; /* the first point without an answer */
    zl_err failure;
} stream;

/* One worker's piece. */
typedef struct piece {
    uint64_t begin, end;
    bool complete;
    zl_ink ink;
    zl_tally tally;
    zl_err first;
    zl_err failure;
} piece;

/* ---- a piece ---- */

static void count(const zl_swept *answer, piece *p)
{
    const zl_status status = answer->refusal.status;
    p->tally.points++;
    p->tally.answered += status == ZL_OK;
    p->tally.fit += status == ZL_OK && answer->fits;
    p->tally.unmodelled += status == ZL_E_UNMODELLED;
    p->tally.impossible += status != ZL_OK && status != ZL_E_UNMODELLED;
    if (status != ZL_OK && p->first.status == ZL_OK) {
        p->first = answer->refusal;
    }
}

static void work_off(stream *s, zl_sweeper *sweeper, piece *p)
{
    zl_swept answer;
    for (uint64_t i = p->begin; i < p->end; i++) {
        if (atomic_load(&interrupted) || atomic_load(&s->over) ||
            zl_sweeper_ask(sweeper, i, &answer, &p->failure) != ZL_OK) {
            return;
        }
        count(&answer, p);
        if (s->keep != NULL) {
            s->keep[i] = answer;
        } else if (!s->sweep->only_fits || answer.fits) {
            zl_sweep_row(s->sweep, i, &answer, &p->ink);
        }
    }
    p->complete = true;
}

/* ---- the stream ---- */

static bool write_out(stream *s, const char *text, size_t size)
{
    while (size > 0 && !s->closed) {
        const ssize_t put = write(s->fd, text, size);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put < 0 && errno == EPIPE) { /* where the signal is ignored; else it ends us */
            s->closed = true;
        } else if (put < 0) {
            zl_fail(&s->failure, ZL_E_RESOURCE, "cannot write %.200s: %s", s->sweep->args->view.out,
                    strerror(errno));
            return false;
        } else {
            text += put;
            size -= (size_t)put;
        }
    }
    return !s->closed;
}

static bool write_ink(stream *s, const zl_ink *ink)
{
    if (ink->failed) {
        zl_fail(&s->failure, ZL_E_RESOURCE, "out of memory");
        return false;
    }
    /* The first row of JSON has no row before it. */
    const bool json = s->sweep->args->view.format == ZL_FORMAT_JSON;
    const size_t skipped = json && !s->written && ink->size > 0 ? 1 : 0;
    s->written |= ink->size > 0;
    return write_out(s, ink->text + skipped, ink->size - skipped);
}

static void add(zl_tally *sum, const zl_tally *more)
{
    sum->points += more->points;
    sum->answered += more->answered;
    sum->fit += more->fit;
    sum->impossible += more->impossible;
    sum->unmodelled += more->unmodelled;
}

/* Waits for the piece's turn and writes it. What comes after an incomplete one is not written. */
static void hand_over(stream *s, const piece *p, uint64_t number)
{
    pthread_mutex_lock(&s->lock);
    while (s->turn != number) {
        pthread_cond_wait(&s->turned, &s->lock);
    }
    if (s->whole) {
        add(&s->tally, &p->tally);
        s->first = s->first.status == ZL_OK ? p->first : s->first;
        s->failure = s->failure.status == ZL_OK ? p->failure : s->failure;
        s->whole = write_ink(s, &p->ink) && p->complete;
    }
    if (!s->whole) {
        atomic_store(&s->over, true);
    }
    s->turn++;
    pthread_cond_broadcast(&s->turned);
    pthread_mutex_unlock(&s->lock);
}

/* A piece that was taken is handed over, whatever became of it: others wait for its turn. */
static void *work(void *argument)
{
    stream *s = argument;
    piece p = {0};
    zl_sweeper *sweeper = zl_sweeper_new(s->sweep);
    for (;;) {
        const uint64_t number = atomic_fetch_add(&s->next, 1);
        if (number >= s->pieces) {
            break;
        }
        const zl_ink ink = {.text = p.ink.text, .room = p.ink.room};
        p = (piece){.begin = zl_mul(number, s->piece), .ink = ink};
        p.end = zl_min(zl_add(p.begin, s->piece), s->sweep->grid.points);
        if (sweeper != NULL) {
            work_off(s, sweeper, &p);
        } else {
            zl_fail(&p.failure, ZL_E_RESOURCE, "out of memory");
        }
        hand_over(s, &p, number);
        if (!p.complete) {
            break;
        }
    }
    zl_sweeper_free(sweeper);
    free(p.ink.text);
    return NULL;
}

/* ---- all of it ---- */

static uint64_t piece_of(const zl_sweep *s, uint64_t jobs)
{
    const uint64_t usual = s->framework ? FRAMEWORK_PIECE : s->kinds ? KINDS_PIECE : NATIVE_PIECE;
    return zl_max(1, zl_min(usual, zl_ceil_div(s->grid.points, zl_mul(jobs, 4))));
}

/* The calling thread is one of the workers, so one is there in any case. */
static void work_together(stream *s, uint64_t jobs)
{
    pthread_t thread[ZL_JOBS_MAX];
    size_t started = 0;
    while (started + 1 < jobs && pthread_create(&thread[started], NULL, work, s) == 0) {
        started++;
    }
    (void)work(s);
    for (size_t i = 0; i < started; i++) {
        pthread_join(thread[i], NULL);
    }
}

static zl_status open_out(stream *s, zl_err *err)
{
    const char *path = s->sweep->args->view.out;
    s->fd = STDOUT_FILENO;
    if (s->keep == NULL && strcmp(path, "-") != 0) {
        s->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
    }
    return s->fd >= 0
               ? ZL_OK
               : zl_fail(err, ZL_E_RESOURCE, "cannot write %.200s: %s", path, strerror(errno));
}

static void close_out(stream *s)
{
    if (s->fd != STDOUT_FILENO && close(s->fd) != 0) {
        zl_fail(&s->failure, ZL_E_RESOURCE, "cannot write %.200s: %s", s->sweep->args->view.out,
                strerror(errno));
    }
}

static bool write_head(stream *s)
{
    zl_ink ink = {0};
    zl_sweep_head(s->sweep, &ink);
    const bool good = !ink.failed && write_out(s, ink.text, ink.size);
    free(ink.text);
    return good;
}

static void write_tail(stream *s)
{
    zl_ink ink = {0};
    zl_sweep_tail(s->sweep, &s->tally, s->whole, &ink);
    if (!ink.failed) {
        (void)write_out(s, ink.text, ink.size);
    }
    free(ink.text);
}

static void flow(stream *s, uint64_t jobs)
{
    s->whole = s->keep != NULL || write_head(s);
    if (s->whole) {
        work_together(s, jobs);
    }
    s->whole = s->whole && s->tally.points == s->sweep->grid.points;
    if (s->keep == NULL && s->failure.status == ZL_OK) {
        write_tail(s);
    }
}

zl_status zl_sweep_stream(zl_sweep *sweep, uint64_t jobs, zl_swept *keep, zl_stream_end *out,
                          zl_err *err)
{
    stream s = {.sweep = sweep, .keep = keep, .piece = piece_of(sweep, jobs)};
    struct sigaction before;
    struct sigaction ours = {.sa_handler = interrupt, .sa_flags = SA_RESTART};
    s.pieces = zl_ceil_div(sweep->grid.points, s.piece);
    ZL_TRY(open_out(&s, err));
    pthread_mutex_init(&s.lock, NULL);
    pthread_cond_init(&s.turned, NULL);
    sigemptyset(&ours.sa_mask);
    atomic_store(&interrupted, false);
    sigaction(SIGINT, &ours, &before);
    if (before.sa_handler == SIG_IGN) { /* as of a job in the background of a script */
        sigaction(SIGINT, &before, NULL);
    }
    flow(&s, jobs);
    close_out(&s);
    sigaction(SIGINT, &before, NULL);
    pthread_cond_destroy(&s.turned);
    pthread_mutex_destroy(&s.lock);
    if (atomic_load(&interrupted)) {
        raise(SIGINT); /* ends as any program does */
    }
    if (s.failure.status != ZL_OK) {
        return zl_fail(err, s.failure.status, "%s", s.failure.text);
    }
    *out = (zl_stream_end){.tally = s.tally, .first = s.first, .closed = s.closed};
    return ZL_OK;
}
