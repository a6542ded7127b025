/* zl sweep: a grid of runs, a row for each. */
#include <inttypes.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frameworks.h"
#include "sweep.h"
#include "zeroledger/bytes.h"

const zl_option zl_sweep_options[] = {
    ZL_CAPACITY_OPTIONS,
    {"fits", NULL, NULL, NULL, "only rows of runs that fit"},
    {"kinds", NULL, NULL, NULL, "with the bytes of every kind at the peak; native only"},
    {"rank", NULL, "R", NULL, "of this rank; frameworks, by default the heaviest"},
    {"steps", NULL, "N", NULL, "optimizer steps that are walked; frameworks, default 4"},
    {"svg", NULL, "FILE", NULL, "a heat map of two options instead of rows"},
    {"jobs", NULL, "N", NULL, "threads; by default as many as processors"},
    {0},
};

static zl_status read_jobs(const zl_args *args, uint64_t *out, zl_err *err)
{
    const char *wish = zl_args_value(args, "jobs");
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    *out = processors > 0 ? zl_min((uint64_t)processors, ZL_JOBS_MAX) : 1;
    if (wish != NULL) {
        ZL_TRY(zl_parse_count("jobs", wish, out, err));
    }
    if (*out == 0 || *out > ZL_JOBS_MAX) {
        return zl_fail(err, ZL_E_USAGE, "jobs must be 1..%d, got %" PRIu64, ZL_JOBS_MAX, *out);
    }
    return ZL_OK;
}

static zl_status read_steps(const zl_args *args, zl_sweep *s, zl_err *err)
{
    const char *wish = zl_args_value(args, "steps");
    uint64_t steps = 0;
    if (wish == NULL) {
        return ZL_OK;
    }
    ZL_TRY(zl_parse_count("steps", wish, &steps, err));
    if (steps == 0 || steps > ZL_TORCH_STEPS_MAX) {
        return zl_fail(err, ZL_E_USAGE, "steps must be 1..%d, got %" PRIu64, ZL_TORCH_STEPS_MAX,
                       steps);
    }
    s->steps = (uint32_t)steps;
    return ZL_OK;
}

/* A capacity is asked about only where one is named. */
static zl_status read_capacity(const zl_args *args, zl_sweep *s, zl_err *err)
{
    static const char *const rows[] = {"capacity", "gpu", "headroom"};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        s->capped |= zl_args_value(args, rows[i]) != NULL;
    }
    s->only_fits = zl_args_value(args, "fits") != NULL;
    if (s->only_fits && !s->capped) {
        return zl_fail(err, ZL_E_USAGE, "--fits needs --capacity BYTES or --gpu NAME");
    }
    if (!s->capped) {
        return ZL_OK;
    }
    ZL_TRY(zl_capacity_read(args, &s->c, err));
    return s->c.usable > 0 ? ZL_OK
                           : zl_fail(err, ZL_E_USAGE,
                                     "capacity less headroom must be positive, got a capacity of "
                                     "%" PRIu64 " bytes and a headroom of %" PRIu64,
                                     s->c.capacity, s->c.headroom);
}

static void warn(void *context, const char *line)
{
    (void)context;
    fprintf(stderr, "zl sweep: warning: %s\n", line);
}

/* What a file has to say is said once, not for each point; what is wrong with it, by its points. */
static void read_files(const zl_sweep *s)
{
    for (size_t b = 0; b < s->grid.bases; b++) {
        zl_run run = s->grid.base[b];
        zl_torch_run torch;
        zl_err later = {.status = s->grid.refusal[b].status};
        if (later.status == ZL_OK && run.ds_config[0] != '\0') {
            later.status = zl_run_check(&run, &later);
        }
        if (later.status == ZL_OK && run.ds_config[0] != '\0') {
            later.status = zl_torch_run_from(&run, &torch, warn, NULL, &later);
        }
    }
}

static zl_status read_question(const zl_args *args, zl_sweep *s, zl_err *err)
{
    s->args = args;
    s->kinds = zl_args_value(args, "kinds") != NULL;
    ZL_TRY(read_capacity(args, s, err));
    ZL_TRY(read_steps(args, s, err));
    ZL_TRY(zl_grid_read(args, &s->grid, err));
    for (size_t b = 0; b < s->grid.bases; b++) {
        const bool native = s->grid.base[b].framework == ZL_FRAMEWORK_NATIVE;
        s->native |= native;
        s->framework |= !native;
    }
    if (s->kinds && s->framework) {
        return zl_fail(err, ZL_E_USAGE,
                       "--kinds speaks of the framework native; 'zl explain' names what others "
                       "keep");
    }
    if (s->native && zl_args_value(args, "rank") != NULL) {
        return zl_fail(err, ZL_E_USAGE,
                       "--rank speaks of other frameworks than native, whose ranks are alike");
    }
    if (s->native && s->steps > 0) {
        return zl_fail(err, ZL_E_USAGE,
                       "--steps speaks of other frameworks than native, which has a closed form");
    }
    read_files(s);
    return zl_args_value(args, "svg") != NULL ? zl_sweep_drawable(s, err) : ZL_OK;
}

static zl_status draw(zl_sweep *s, uint64_t jobs, const char *path, zl_stream_end *end, zl_err *err)
{
    zl_swept *answer = calloc(s->grid.points, sizeof *answer);
    if (answer == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory");
    }
    zl_status status = zl_sweep_stream(s, jobs, answer, end, err);
    if (status == ZL_OK) {
        status = zl_sweep_draw(s, answer, path, err);
    }
    free(answer);
    return status;
}

/* What the exit status says, and in formats without words the standard error. */
static zl_status conclude(const zl_sweep *s, const zl_stream_end *end, zl_err *err)
{
    const zl_tally *t = &end->tally;
    char text[256];
    if (end->closed) { /* nobody wants to know the rest */
        return ZL_OK;
    }
    if (t->answered == 0) {
        return zl_fail(err, end->first.status == ZL_NO ? ZL_E_USAGE : end->first.status,
                       "no point of %s has an answer; the first: %s", zl_count(t->points).text,
                       end->first.text);
    }
    if (t->answered < t->points &&
        (s->args->view.format == ZL_FORMAT_CSV || zl_args_value(s->args, "svg") != NULL)) {
        zl_tally_text(s, t, text, sizeof text);
        fprintf(stderr, "zl sweep: %s\n", text);
    }
    return s->capped && t->fit == 0 ? ZL_NO : ZL_OK;
}

static zl_status sweep(const zl_args *args, zl_sweep *s, zl_err *err)
{
    uint64_t jobs = 1;
    zl_stream_end end = {.closed = false};
    const char *picture = zl_args_value(args, "svg");
    ZL_TRY(read_jobs(args, &jobs, err));
    ZL_TRY(read_question(args, s, err));
    ZL_TRY(picture != NULL ? draw(s, jobs, picture, &end, err)
                           : zl_sweep_stream(s, jobs, NULL, &end, err));
    return conclude(s, &end, err);
}

/* What a walk frees the next one takes again: not back to the kernel in between. */
static void keep_freed_memory(void)
{
    enum { KEPT = 64 << 20, LARGE = 32 << 20 };
    (void)mallopt(M_TRIM_THRESHOLD, KEPT);
    (void)mallopt(M_MMAP_THRESHOLD, LARGE);
}

zl_status zl_cmd_sweep(const zl_args *args, zl_err *err)
{
    zl_sweep s = {.capped = false};
    keep_freed_memory();
    const zl_status status = sweep(args, &s, err);
    zl_grid_clear(&s.grid);
    return status;
}
