/* zl fit of a framework other than native: the walk runs out of memory, or it does not. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "explain_framework.h"
#include "fit.h"
#include "zeroledger/bytes.h"

/* More sequences than any device holds. */
static const uint64_t batch_limit = UINT64_C(1) << 24;

enum { TERMS_SHOWN = 4 };

typedef struct reply {
    zl_walked w;
    uint64_t best;
    uint64_t best_bytes, next_bytes; /* largest allocated: within the capacity; without a limit */
    zl_span limit;                   /* where one more has its largest peak */
    bool cold;
    zl_named_bytes term[TERMS_SHOWN]; /* the largest there */
    size_t terms;
} reply;

static uint64_t largest(const zl_marks *marks)
{
    uint64_t most = 0;
    for (size_t i = 0; i < marks->count; i++) {
        most = zl_max(most, marks->mark[i].peak_allocated);
    }
    return most;
}

/* Walks with PyTorch's allocator limited to the capacity: it frees what it caches before it fails.
 */
static zl_status fits(const zl_walked *w, uint64_t usable, uint64_t n, bool *out, uint64_t *bytes,
                      zl_err *err)
{
    zl_torch_run run = w->torch;
    zl_marks marks = {0};
    zl_err found = {.status = ZL_OK};
    run.micro_batch = n;
    run.device_total = usable;
    const zl_status status = zl_torch_predict(&run, w->rank, &marks, &found);
    *out = status == ZL_OK;
    *bytes = largest(&marks);
    zl_marks_clear(&marks);
    return status == ZL_OK || status == ZL_NO ? ZL_OK : zl_fail(err, status, "%s", found.text);
}

static zl_status search(reply *r, uint64_t usable, zl_err *err)
{
    uint64_t low = 0; /* fits */
    uint64_t high = 1;
    uint64_t bytes = 0;
    bool yes = true;
    while (yes) {
        ZL_TRY(fits(&r->w, usable, high, &yes, &bytes, err));
        if (yes) {
            low = high;
            r->best_bytes = bytes;
            high = zl_mul(2, high);
        }
        if (high > batch_limit) {
            return zl_fail(err, ZL_E_USAGE,
                           "a micro-batch of %" PRIu64 " still fits; capacity is not what limits "
                           "this run",
                           low);
        }
    }
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        ZL_TRY(fits(&r->w, usable, middle, &yes, &bytes, err));
        *(yes ? &low : &high) = middle;
        r->best_bytes = yes ? bytes : r->best_bytes;
    }
    r->best = low;
    return ZL_OK;
}

/* What is alive at the largest peak of one more, walked without a limit. */
static zl_status find_limit(reply *r, zl_err *err)
{
    zl_torch_run run = r->w.torch;
    zl_moments moments = {0};
    const zl_moment *most = NULL;
    run.micro_batch = zl_add(r->best, 1);
    ZL_TRY(zl_torch_explain(&run, r->w.rank, &moments, err));
    for (int i = 0; i < 2 * ZL_SPANS; i++) {
        const zl_span span = (zl_span)(i / 2);
        const bool cold = i % 2 == 1 && span != ZL_SPAN_INIT;
        const zl_moment *m = zl_span_moment(&moments, span, cold, run.steps);
        if (m != NULL && (most == NULL || m->mark.peak_allocated > most->mark.peak_allocated)) {
            most = m;
            r->limit = span;
            r->cold = cold;
        }
    }
    for (size_t i = 0; most != NULL && i < most->peak.count && i < TERMS_SHOWN; i++) {
        r->term[r->terms++] = most->peak.term[i];
    }
    r->next_bytes = most != NULL ? most->mark.peak_allocated : 0;
    zl_moments_clear(&moments);
    return ZL_OK;
}

static zl_status fill_page(zl_page *page, const reply *r, const zl_capacity *c, zl_err *err)
{
    zl_walked_head(page, &r->w);
    zl_page_break(page);
    zl_capacity_say(page, c);
    if (r->best > 0) {
        zl_page_say(page, "Largest micro-batch: %s", zl_count(r->best).text);
    } else {
        zl_page_say(page, "Not even a micro-batch of 1 fits");
    }
    zl_page_break(page);
    ZL_TRY(zl_fit_rows(page, "peak_allocated, bytes", r->best, r->best_bytes, r->next_bytes, err));
    zl_page_break(page);
    zl_page_say(page, "Micro-batch %s would be largest in %s%s; most of it:",
                zl_count(zl_add(r->best, 1)).text, zl_span_name(r->limit),
                r->cold ? " of the first step" : "");
    for (size_t i = 0; i < r->terms; i++) {
        zl_page_say(page, "  %s %s", zl_bytes_named(page->view, r->term[i].bytes).text,
                    r->term[i].name);
    }
    zl_page_say(page, "The walk was given this capacity as the device's; PyTorch frees what it "
                      "caches before it gives up.");
    zl_page_say(page, "Context, NCCL and code come on top: leave headroom for them.");
    return ZL_OK;
}

static zl_status print_page(const zl_args *args, const reply *r, const zl_capacity *c, zl_err *err)
{
    zl_page page;
    ZL_TRY(zl_page_open(&page, &args->view, err));
    return zl_page_end(&page, fill_page(&page, r, c, err), err);
}

static zl_status print_json(const zl_args *args, const reply *r, const zl_capacity *c, zl_err *err)
{
    char id[ZL_RUN_ID_SIZE];
    zl_json_writer *j = zl_json_writer_new();
    zl_run_id(&r->w.run, id);
    zl_json_begin_object(j, NULL);
    zl_json_put_string(j, "schema", "zeroledger.fit/1");
    zl_json_put_string(j, "run_id", id);
    zl_capacity_json(c, j);
    zl_json_put_bool(j, "fits", r->best > 0);
    zl_json_put_u64(j, "best", r->best);
    zl_json_put_u64(j, "best_bytes", r->best_bytes);
    zl_json_put_u64(j, "next_bytes", r->next_bytes);
    zl_json_begin_object(j, "limit");
    zl_json_put_string(j, "visit", r->cold ? "cold" : "steady");
    zl_json_put_string(j, "phase", zl_span_name(r->limit));
    zl_json_begin_array(j, "terms");
    for (size_t i = 0; i < r->terms; i++) {
        zl_json_begin_object(j, NULL);
        zl_json_put_string(j, "name", r->term[i].name);
        zl_json_put_u64(j, "bytes", r->term[i].bytes);
        zl_json_end(j);
    }
    zl_json_end(j);
    zl_json_end(j);
    zl_json_end(j);
    const zl_status status = zl_json_writer_save(j, args->view.out, err);
    zl_json_writer_free(j);
    return status;
}

static zl_status answer(const zl_args *args, reply *r, const zl_capacity *c, zl_err *err)
{
    ZL_TRY(search(r, c->usable, err));
    ZL_TRY(find_limit(r, err));
    r->w.run.micro_batch = zl_max(r->best, 1); /* the run of the answer */
    ZL_TRY(args->view.format == ZL_FORMAT_JSON ? print_json(args, r, c, err)
                                               : print_page(args, r, c, err));
    return r->best > 0 ? ZL_OK : ZL_NO;
}

zl_status zl_fit_framework(const zl_args *args, const zl_run *run, const zl_capacity *c,
                           zl_err *err)
{
    reply r = {.best = 0};
    zl_run one = *run;
    if (c->usable == 0) { /* the walk would take it for no limit */
        return zl_fail(err, ZL_E_USAGE,
                       "capacity less headroom must be positive, got a capacity of %" PRIu64
                       " bytes and a headroom of %" PRIu64,
                       c->capacity, c->headroom);
    }
    if (run->ds_config[0] == '\0') {
        one.micro_batch = 1;
    }
    ZL_TRY(zl_walked_new(args, &one, &r.w, err));
    if (r.w.torch.activations > 0) {
        zl_marks_clear(&r.w.marks);
        return zl_fail(
            err, ZL_E_USAGE,
            "given activations do not grow with the micro-batch; leave --activations out");
    }
    const zl_status status = answer(args, &r, c, err);
    zl_marks_clear(&r.w.marks);
    return status;
}
