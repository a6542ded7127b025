/* zl_torch_explain: a walk that keeps account of what the requested bytes are. */
#include <stdlib.h>
#include <string.h>

#include "torch/predict.h"
#include "zeroledger/bytes.h"

/* Freed by the program, not yet by the allocator: another stream still uses it. */
static const char late_name[] = "freed late: another stream is not done with it";

enum { BLOCKS_FIRST = 1024 };

typedef struct account {
    zl_named_bytes live[ZL_TERMS_MAX]; /* in order of appearance */
    size_t count;
    uint8_t *name_of; /* per block: an index into live */
    size_t blocks;
    uint64_t peak; /* requested, since the last mark */
    zl_alive at_peak;
    bool fresh; /* the peak is now, and the newest block may still get its name */
    zl_moment *moment;
    size_t moments, capacity;
    bool failed;
} account;

static uint8_t index_of(account *a, const char *name)
{
    for (size_t i = 0; i < a->count; i++) {
        if (a->live[i].name == name || strcmp(a->live[i].name, name) == 0) {
            return (uint8_t)i;
        }
    }
    if (a->count == ZL_TERMS_MAX - 1) { /* one is for what is freed late */
        a->failed = true;
        return 0;
    }
    a->live[a->count] = (zl_named_bytes){.name = name};
    return (uint8_t)a->count++;
}

static int by_size(const void *x, const void *y)
{
    const zl_named_bytes *a = x;
    const zl_named_bytes *b = y;
    return a->bytes != b->bytes ? (a->bytes < b->bytes ? 1 : -1) : strcmp(a->name, b->name);
}

/* Everything that is alive, and what the allocator still counts besides. */
static void take(const account *a, uint64_t requested, zl_alive *out)
{
    uint64_t sum = 0;
    out->count = 0;
    for (size_t i = 0; i < a->count; i++) {
        sum = zl_add(sum, a->live[i].bytes);
        if (a->live[i].bytes > 0) {
            out->term[out->count++] = a->live[i];
        }
    }
    if (requested > sum) {
        out->term[out->count++] = (zl_named_bytes){late_name, requested - sum};
    }
}

static void settle(account *a)
{
    if (a->fresh) {
        take(a, a->peak, &a->at_peak);
        a->fresh = false;
    }
}

static uint8_t *name_at(account *a, zt_block block)
{
    if (block >= a->blocks) {
        const size_t blocks = 2 * (size_t)block + BLOCKS_FIRST;
        uint8_t *more = realloc(a->name_of, blocks);
        if (more == NULL) {
            a->failed = true;
            return a->name_of;
        }
        a->name_of = more;
        a->blocks = blocks;
    }
    return &a->name_of[block];
}

static void mark(account *a, const zt_happened *happened)
{
    if (a->moments == a->capacity) {
        const size_t capacity = 2 * a->capacity + 16;
        zl_moment *more = realloc(a->moment, capacity * sizeof *more);
        if (more == NULL) {
            a->failed = true;
            return;
        }
        a->moment = more;
        a->capacity = capacity;
    }
    zl_moment *moment = &a->moment[a->moments++];
    moment->peak = a->at_peak;
    take(a, happened->requested, &moment->here);
    a->peak = happened->requested;
    a->at_peak = moment->here;
}

static void hear(void *context, const zt_happened *happened)
{
    account *a = context;
    if (happened->what == ZT_COMPLETES || happened->what == ZT_SEGMENTS) {
        return; /* what frees and allocations say already */
    }
    if (happened->what == ZT_NAMES) {
        uint8_t *name = name_at(a, happened->block);
        a->live[*name].bytes = zl_sub(a->live[*name].bytes, happened->bytes);
        *name = index_of(a, happened->at);
        a->live[*name].bytes = zl_add(a->live[*name].bytes, happened->bytes);
        return;
    }
    settle(a);
    if (happened->what == ZT_ALLOCATES) {
        uint8_t *name = name_at(a, happened->block);
        *name = index_of(a, happened->at);
        a->live[*name].bytes = zl_add(a->live[*name].bytes, happened->bytes);
        a->fresh = happened->requested > a->peak;
        a->peak = zl_max(a->peak, happened->requested);
    } else if (happened->what == ZT_FREES) {
        const uint8_t name = *name_at(a, happened->block);
        a->live[name].bytes = zl_sub(a->live[name].bytes, happened->bytes);
    } else if (happened->what == ZT_MARKS) {
        mark(a, happened);
    } else {
        a->peak = happened->requested;
        take(a, a->peak, &a->at_peak);
    }
}

static zl_status check_sums(const zl_moment *moment, size_t count, zl_err *err)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t peak = 0;
        uint64_t here = 0;
        for (size_t k = 0; k < moment[i].peak.count; k++) {
            peak = zl_add(peak, moment[i].peak.term[k].bytes);
        }
        for (size_t k = 0; k < moment[i].here.count; k++) {
            here = zl_add(here, moment[i].here.term[k].bytes);
        }
        if (peak != moment[i].mark.peak_requested || here != moment[i].mark.requested) {
            return zl_fail(err, ZL_E_BUG, "the terms before mark %s of step %d do not add up",
                           moment[i].mark.at, (int)moment[i].mark.step);
        }
    }
    return ZL_OK;
}

zl_status zl_torch_explain(const zl_torch_run *run, uint64_t rank, zl_moments *out, zl_err *err)
{
    account *a = calloc(1, sizeof *a);
    zl_marks marks = {0};
    if (a == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "no memory for an account of this run");
    }
    zl_status status = zt_predict(run, rank, hear, a, &marks, err);
    if (status == ZL_OK && (a->failed || a->moments != marks.count)) {
        status = zl_fail(err, ZL_E_RESOURCE, "no memory for an account of this run");
    }
    for (size_t i = 0; i < marks.count && status == ZL_OK; i++) {
        zl_moment *moment = &a->moment[i];
        moment->mark = marks.mark[i];
        qsort(moment->peak.term, moment->peak.count, sizeof moment->peak.term[0], by_size);
        qsort(moment->here.term, moment->here.count, sizeof moment->here.term[0], by_size);
    }
    if (status == ZL_OK) {
        status = check_sums(a->moment, a->moments, err);
    }
    if (status == ZL_OK) {
        *out = (zl_moments){.moment = a->moment,
                            .count = a->moments,
                            .parameters = marks.parameters,
                            .trainable = marks.trainable,
                            .shards = marks.shards,
                            .row_shards = marks.row_shards,
                            .matrices = marks.matrices};
        memcpy(out->optimizer_class, marks.optimizer_class, sizeof out->optimizer_class);
        a->moment = NULL;
    }
    zl_marks_clear(&marks);
    free(a->moment);
    free(a->name_of);
    free(a);
    return status;
}

void zl_moments_clear(zl_moments *moments)
{
    free(moments->moment);
    *moments = (zl_moments){0};
}
