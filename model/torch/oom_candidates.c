/* zt_oom_candidates: the walk's allocations that would print an out-of-memory message's size. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "torch/log_compare.h"
#include "torch/predict.h"
#include "zeroledger/bytes.h"

typedef struct collector {
    const zt_oom *oom;
    zt_candidate *candidate;
    size_t count, capacity;
    size_t settled;  /* candidates before this one know the mark that follows them */
    zt_block block;  /* the newest allocation that counts, which may still be named */
    size_t newest;   /* its candidate */
    uint64_t before; /* allocated bytes before it */
    bool failed;
} collector;

static bool same(const zt_candidate *c, const char *name, uint64_t bytes)
{
    return c->bytes == bytes && (c->name == name || strcmp(c->name, name) == 0);
}

/* Candidates of the phase that goes on; those of earlier ones are settled. */
static zt_candidate *candidate_of(collector *c, const char *name, uint64_t bytes)
{
    for (size_t i = c->settled; i < c->count; i++) {
        if (same(&c->candidate[i], name, bytes)) {
            return &c->candidate[i];
        }
    }
    if (c->count == c->capacity) {
        const size_t capacity = 2 * c->capacity + 16;
        zt_candidate *more = realloc(c->candidate, capacity * sizeof *more);
        if (more == NULL) {
            c->failed = true;
            return NULL;
        }
        c->candidate = more;
        c->capacity = capacity;
    }
    zt_candidate *made = &c->candidate[c->count++];
    *made = (zt_candidate){.name = name, .bytes = bytes};
    return made;
}

static void count(collector *c, const char *name, uint64_t bytes)
{
    zt_candidate *one = candidate_of(c, name, bytes);
    if (one == NULL) {
        return;
    }
    const bool agrees = c->oom->allocated.present && zt_agrees(&c->oom->allocated, c->before);
    if (one->times == 0 || (agrees && !one->agrees)) {
        one->allocated = c->before;
        one->agrees = agrees;
    }
    one->times++;
    c->newest = (size_t)(one - c->candidate);
}

/* The allocation just counted has another name. */
static void rename_newest(collector *c, const zt_happened *happened)
{
    zt_candidate *one = &c->candidate[c->newest];
    if (same(one, happened->at, happened->bytes)) {
        return;
    }
    one->times--;
    if (one->times == 0) {
        *one = c->candidate[--c->count];
    }
    count(c, happened->at, happened->bytes);
}

/* A mark ends a phase: candidates like those of an earlier step's same phase join them. */
static void settle(collector *c, const zt_happened *mark)
{
    size_t kept = c->settled;
    for (size_t i = c->settled; i < c->count; i++) {
        zt_candidate now = c->candidate[i];
        now.step = mark->step;
        snprintf(now.before, sizeof now.before, "%s", mark->at);
        zt_candidate *earlier = NULL;
        for (size_t k = 0; k < c->settled && earlier == NULL; k++) {
            zt_candidate *one = &c->candidate[k];
            earlier =
                same(one, now.name, now.bytes) && strcmp(one->before, now.before) == 0 ? one : NULL;
        }
        if (earlier == NULL) {
            c->candidate[kept++] = now;
            continue;
        }
        earlier->times += now.times;
        if (now.agrees && !earlier->agrees) {
            earlier->agrees = true;
            earlier->allocated = now.allocated;
            earlier->step = now.step;
        }
    }
    c->count = kept;
    c->settled = kept;
}

static void hear(void *context, const zt_happened *happened)
{
    collector *c = context;
    if (happened->what == ZT_NAMES && c->block != ZT_NO_BLOCK && happened->block == c->block) {
        rename_newest(c, happened);
        return;
    }
    c->block = ZT_NO_BLOCK;
    if (happened->what == ZT_MARKS) {
        settle(c, happened);
    } else if (happened->what == ZT_ALLOCATES && zt_oom_asks_for(c->oom, happened->bytes)) {
        /* The smallest block that serves it; what a cached one is larger is at most 1 MiB. */
        c->before = zl_sub(happened->stats->allocated.current, zl_align_up(happened->bytes, 512));
        c->block = happened->block;
        count(c, happened->at, happened->bytes);
    }
}

static int by_agreement(const void *x, const void *y)
{
    const zt_candidate *a = x;
    const zt_candidate *b = y;
    if (a->agrees != b->agrees) {
        return a->agrees ? -1 : 1;
    }
    if (a->bytes != b->bytes) {
        return a->bytes < b->bytes ? 1 : -1;
    }
    const int name = strcmp(a->name, b->name);
    return name != 0 ? name : strcmp(a->before, b->before);
}

zl_status zt_oom_candidates(const zt_oom *oom, const zl_torch_run *run, uint64_t rank,
                            zt_candidate **out, size_t *count_out, zl_err *err)
{
    zl_marks marks = {0};
    collector c = {.oom = oom};
    zl_status status = zt_predict(run, rank, hear, &c, &marks, err);
    zl_marks_clear(&marks);
    if (status == ZL_OK && c.failed) {
        status = zl_fail(err, ZL_E_RESOURCE, "no memory for the allocations of this run");
    }
    if (status != ZL_OK) {
        free(c.candidate);
        return status;
    }
    if (c.settled > 0) {
        qsort(c.candidate, c.settled, sizeof *c.candidate, by_agreement);
    }
    *out = c.candidate;
    *count_out = c.settled;
    return ZL_OK;
}
