/* The closed form equals the walk, on random runs over every option.
 *
 *     walk_property [RUNS]          or ZL_RUNS=RUNS
 *     ZL_SEED=SEED walk_property    repeats a sequence
 *
 * A first difference is shrunk to a plainer run, printed and saved as walk_property.run.json.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "walk/walk.h"
#include "walk_random.h"
#include "zeroledger/bytes.h"
#include "zeroledger/ledger.h"
#include "zeroledger/predict.h"
#include "zeroledger/text.h"

static const uint64_t usual_runs = ZL_USUAL_RUNS;
static const char saved_run[] = "walk_property.run.json";

typedef struct scale {
    uint64_t rank;    /* of the run at hand */
    zl_status status; /* what that run ended with; shrinking keeps it */
    zl_ledger *walked;
    zl_ledger *other;
    zl_planner *planner;
} scale;

static zl_status from_environment(const char *name, uint64_t *value, zl_err *err)
{
    const char *text = getenv(name);
    return text == NULL ? ZL_OK : zl_parse_count(name, text, value, err);
}

static void tell_difference(const zl_difference *d, FILE *stream)
{
    const bool of_kind = strcmp(d->what, "kind max") == 0;
    (void)fprintf(stream,
                  "%s %s, %s%s%s, %s: predicted %" PRIu64 ", walked %" PRIu64 " (%" PRIu64
                  " figures differ)\n",
                  zl_visit_name(d->visit), zl_phase_name(d->phase), d->what,
                  d->has_buffer || of_kind ? " of " : "",
                  d->has_buffer ? zl_buf_name(d->buffer)
                  : of_kind     ? zl_kind_name(d->kind)
                                : "",
                  zl_rung_name(d->rung), d->a, d->b, d->count);
}

/* ZL_OK: equal. ZL_NO: *d holds the first difference. Anything else: err says what failed. */
/* The short way to the largest peak passes over what cannot hold it: it has to find the walk's. */
static zl_status check_peak(const zl_run *run, const zl_ledger *walked, zl_err *err)
{
    uint64_t largest = 0;
    uint64_t bytes = 0;
    for (int v = 0; v < ZL_VISIT_COUNT; v++) {
        for (int p = 0; p < ZL_PHASE_COUNT; p++) {
            largest = zl_max(largest, walked->cell[v][p].peak[ZL_GRANTED]);
        }
    }
    ZL_TRY(zl_predict_peak(run, &bytes, NULL, NULL, err));
    if (bytes == largest) {
        return ZL_OK;
    }
    return zl_fail(err, ZL_NO, "largest peak: zl_predict_peak %" PRIu64 ", walk %" PRIu64, bytes,
                   largest);
}

/* A run with other counts. */
static zl_run sibling_of(const zl_run *run, zl_random *random)
{
    zl_run other = *run;
    uint64_t *const count[] = {&other.ranks,        &other.micro_batch, &other.seq,
                               &other.accumulation, &other.head_chunk,  &other.window,
                               &other.reduce_slots};
    for (size_t i = 0; i < sizeof count / sizeof count[0]; i++) {
        if (zl_random_between(random, 0, 2) == 0) {
            *count[i] = zl_random_between(random, 0, 9);
        }
    }
    return other;
}

/* A planner that has seen others of the same shape says what a fresh plan says. */
static zl_status check_planner(const zl_run *run, zl_planner *planner, zl_err *err)
{
    zl_random random = {.state = run->seq};
    for (int i = 0; i < 6; i++) {
        zl_run other = i == 0 ? *run : sibling_of(run, &random);
        zl_err refusal = {0};
        uint64_t bytes[2] = {0};
        zl_visit visit[2] = {ZL_VISIT_COLD, ZL_VISIT_COLD};
        zl_phase phase[2] = {ZL_PHASE_INIT, ZL_PHASE_INIT};
        if (zl_run_check(&other, &refusal) != ZL_OK) {
            continue;
        }
        ZL_TRY(zl_predict_peak(&other, &bytes[0], &visit[0], &phase[0], err));
        ZL_TRY(zl_planner_peak(planner, &other, &bytes[1], &visit[1], &phase[1], err));
        if (bytes[0] != bytes[1] || visit[0] != visit[1] || phase[0] != phase[1]) {
            return zl_fail(err, ZL_NO,
                           "sibling %d with ranks %" PRIu64 ", micro-batch %" PRIu64
                           ", seq %" PRIu64 ": peak %" PRIu64 ", of a planner %" PRIu64,
                           i, other.ranks, other.micro_batch, other.seq, bytes[0], bytes[1]);
        }
    }
    return ZL_OK;
}

static zl_status weigh(const zl_run *run, scale *s, zl_difference *d, zl_err *err)
{
    const uint64_t rank = zl_min(s->rank, run->ranks - 1);
    *d = (zl_difference){0};
    ZL_TRY(zl_walk(run, rank, s->walked, err));
    ZL_TRY(zl_predict(run, rank, s->other, err));
    ZL_TRY(zl_ledger_compare(s->other, s->walked, false, d, err));
    if (d->found) {
        return ZL_NO;
    }
    ZL_TRY(check_peak(run, s->walked, err));
    return check_planner(run, s->planner, err);
}

static bool still_differs(const zl_run *run, void *context)
{
    scale *s = context;
    zl_difference d;
    zl_err err = {0};
    return weigh(run, s, &d, &err) == s->status;
}

static void report(zl_run *run, scale *s)
{
    zl_difference d = {0};
    zl_err err = {0};
    zl_random_shrink(run, still_differs, s);
    zl_random_print(run, stdout);
    const zl_status status = weigh(run, s, &d, &err);
    if (status == ZL_NO && d.found) {
        tell_difference(&d, stdout);
    } else {
        (void)printf("%s\n", err.text);
    }
    if (zl_run_save(run, saved_run, &err) == ZL_OK) {
        (void)printf("the run is saved: --run %s --rank %" PRIu64 "\n", saved_run,
                     zl_min(s->rank, run->ranks - 1));
    }
}

static int weigh_all(zl_random *random, uint64_t runs, scale *s)
{
    uint64_t refused = 0;
    zl_err refusal = {0};
    for (uint64_t i = 0; i < runs; i++) {
        zl_run run;
        zl_difference d = {0};
        zl_err err = {0};
        while (zl_random_run(random, &run, &refusal) != ZL_OK) {
            if (++refused > runs) {
                (void)printf("more than %" PRIu64 " random runs refused: %s\n", runs, refusal.text);
                return EXIT_FAILURE;
            }
        }
        s->rank = zl_random_between(random, 0, run.ranks - 1);
        s->status = weigh(&run, s, &d, &err);
        if (s->status != ZL_OK) {
            (void)printf("run %" PRIu64 " differs:\n", i);
            report(&run, s);
            return EXIT_FAILURE;
        }
    }
    (void)printf("%" PRIu64 " runs agree (%" PRIu64 " refused%s%s)\n", runs, refused,
                 refused > 0 ? ", first: " : "", refusal.text);
    return EXIT_SUCCESS;
}

static zl_status read_arguments(int argc, char **argv, uint64_t *runs, uint64_t *seed, zl_err *err)
{
    ZL_TRY(from_environment("ZL_RUNS", runs, err));
    ZL_TRY(from_environment("ZL_SEED", seed, err));
    if (argc > 2) {
        return zl_fail(err, ZL_E_USAGE, "one argument, the number of runs, got %d", argc - 1);
    }
    return argc == 2 ? zl_parse_count("RUNS", argv[1], runs, err) : ZL_OK;
}

int main(int argc, char **argv)
{
    uint64_t runs = usual_runs;
    uint64_t seed = (uint64_t)time(NULL);
    zl_err err = {0};
    if (read_arguments(argc, argv, &runs, &seed, &err) != ZL_OK) {
        (void)fprintf(stderr, "walk_property: %s\n", err.text);
        return (int)err.status;
    }
    (void)printf("ZL_SEED=%" PRIu64 " ZL_RUNS=%" PRIu64 "\n", seed, runs);
    (void)fflush(stdout);
    zl_random random = {.state = seed};
    scale s = {.walked = zl_ledger_new(), .other = zl_ledger_new(), .planner = zl_planner_new()};
    int code = ZL_E_RESOURCE;
    if (s.walked != NULL && s.other != NULL && s.planner != NULL) {
        code = weigh_all(&random, runs, &s);
    }
    zl_ledger_free(s.walked);
    zl_ledger_free(s.other);
    zl_planner_free(s.planner);
    return code;
}
