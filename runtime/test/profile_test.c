/* The profile of a training is JSON whose regions nest and add up to the time that passed; the
 * counted operations are those of the published formula. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/profile.h"
#include "device/tick.h"
#include "engine_kit.h"
#include "train/speed.h"
#include "zeroledger/json.h"

enum { STEPS = 4, EVENTS_MAX = 20000, DEPTH_MAX = 32 };

static const char path[] = "profile_test.json";

typedef struct event {
    char name[64];
    uint64_t tid;
    double begin; /* microseconds */
    double end;
} event;

static event events[EVENTS_MAX];

static void must(zl_status status, const zl_err *err)
{
    if (status != ZL_OK) {
        fail_msg("status %d: %s", (int)status, err->text);
    }
}

/* Trains and gives back the seconds that the steps took. */
static double train(const zl_run *run, zr_profile *profile)
{
    zr_track *track = NULL;
    zr_comm *comm = NULL;
    zr_engine *engine = NULL;
    zl_err err = {0};
    kit_data data = {.run = run};
    must(zr_track_new(&(zr_track_options){.cap = 0}, &track, &err), &err);
    must(zr_comm_new(0, 1, &comm, &err), &err);
    const zr_engine_options options = {.run = run,
                                       .track = track,
                                       .comm = comm,
                                       .seed = 1,
                                       .learning_rate = 1e-3,
                                       .beta1 = 0.9,
                                       .beta2 = 0.999,
                                       .eps = 1e-8,
                                       .profile = profile};
    must(zr_engine_new(&options, &engine, &err), &err);
    const double begin = zr_tick_now();
    for (int i = 0; i < STEPS; i++) {
        zr_step_result r;
        must(zr_engine_step(engine, kit_next, &data, &r, &err), &err);
    }
    const double seconds = zr_tick_now() - begin;
    must(zr_profile_finish(profile, &err), &err);
    zr_engine_free(engine);
    zr_comm_free(comm);
    zr_track_free(track);
    return seconds;
}

/* A model large enough that a step is mostly kernels. */
static zl_run slow_run(void)
{
    zl_run run = kit_run(kit_model(ZL_FAMILY_LLAMA));
    run.stage = 3;
    run.accumulation = 2;
    run.recompute = ZL_RECOMPUTE_FULL;
    run.micro_batch = 8;
    run.eval = true;
    return run;
}

static size_t read_events(void)
{
    zl_json_doc *doc = NULL;
    zl_err err = {0};
    size_t count = 0;
    must(zl_json_load(path, &doc, &err), &err);
    must(zl_json_schema(zl_json_root(doc), "zeroledger.profile/1", &err), &err);
    const zl_json all = zl_json_get(zl_json_root(doc), "traceEvents");
    size_t index = 0;
    zl_json item;
    while (zl_json_each(all, &index, &item)) {
        const char *kind = NULL;
        const char *name = NULL;
        double length = 0.0;
        must(zl_json_string(zl_json_get(item, "ph"), &kind, &err), &err);
        if (strcmp(kind, "X") != 0) {
            continue;
        }
        assert_true(count < EVENTS_MAX);
        event *const e = &events[count++];
        must(zl_json_string(zl_json_get(item, "name"), &name, &err), &err);
        must(zl_json_u64(zl_json_get(item, "tid"), &e->tid, &err), &err);
        must(zl_json_real(zl_json_get(item, "ts"), &e->begin, &err), &err);
        must(zl_json_real(zl_json_get(item, "dur"), &length, &err), &err);
        snprintf(e->name, sizeof e->name, "%s", name);
        e->end = e->begin + length;
    }
    zl_json_free(doc);
    return count;
}

/* Events come in the order in which they began; each lies inside all that are still open. */
static void assert_nested(size_t count, uint64_t tid)
{
    const double exact = 1e-6; /* the sum of two numbers of the file, in microseconds */
    const event *open[DEPTH_MAX];
    size_t depth = 0;
    for (size_t i = 0; i < count; i++) {
        const event *const e = &events[i];
        if (e->tid != tid) {
            continue;
        }
        while (depth > 0 && open[depth - 1]->end <= e->begin + exact) {
            depth--;
        }
        if (depth > 0 && e->end > open[depth - 1]->end + exact) {
            fail_msg("%s ends after %s, in which it began", e->name, open[depth - 1]->name);
        }
        assert_true(depth < DEPTH_MAX);
        open[depth++] = e;
    }
}

static double seconds_of(size_t count, uint64_t tid, const char *name, size_t length)
{
    double sum = 0.0;
    for (size_t i = 0; i < count; i++) {
        if (events[i].tid == tid && strncmp(events[i].name, name, length) == 0) {
            sum += 1e-6 * (events[i].end - events[i].begin);
        }
    }
    return sum;
}

static size_t count_of(size_t count, uint64_t tid, const char *name)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        found += events[i].tid == tid && strcmp(events[i].name, name) == 0;
    }
    return found;
}

static void a_profile_shows_the_schedule_and_all_the_time(void **state)
{
    (void)state;
    const zl_run run = slow_run();
    zr_profile *profile = NULL;
    zl_err err = {0};
    must(zr_profile_new(path, 0, &profile, &err), &err);
    const double seconds = train(&run, profile);
    const size_t count = read_events();
    for (uint64_t tid = 0; tid < ZR_PROFILE_TRACKS; tid++) {
        assert_nested(count, tid);
    }
    /* Two micro-steps in each of four steps; each block forward, backward and in eval. */
    assert_int_equal(count_of(count, ZR_PROFILE_COMPUTE, "forward"), 8);
    assert_int_equal(count_of(count, ZR_PROFILE_COMPUTE, "block 1"), 4 * (2 * 2 + 1));
    assert_int_equal(count_of(count, ZR_PROFILE_COMPUTE, "recompute"), 8 * run.model.layers);
    assert_int_equal(count_of(count, ZR_PROFILE_COMPUTE, "qkv: dW"), 8 * run.model.layers);
    assert_int_equal(count_of(count, ZR_PROFILE_COMPUTE, "eval"), 4);
    assert_int_equal(count_of(count, ZR_PROFILE_COMM, "reduce 1"), 8);
    /* The steps are the time that passed, and their phases nearly all of the steps. */
    const double steps = seconds_of(count, ZR_PROFILE_COMPUTE, "step ", 5);
    static const char *const phases[] = {"forward", "backward", "reduce",
                                         "step",    "eval",     "witness"};
    double inside = 0.0;
    for (size_t i = 0; i < sizeof phases / sizeof phases[0]; i++) {
        inside += seconds_of(count, ZR_PROFILE_COMPUTE, phases[i], strlen(phases[i]) + 1);
    }
    assert_true(steps <= seconds && steps > 0.9 * seconds);
    assert_true(inside <= steps && inside > 0.9 * steps);
    zr_profile_free(profile);
    unlink(path);
}

/* The first step warms up: three count. Shares are of all steps, parents before what is in them. */
static void sums_are_of_the_steps_that_count(void **state)
{
    (void)state;
    const zl_run run = slow_run();
    zr_profile *profile = NULL;
    zl_err err = {0};
    zr_profile_sum sum;
    must(zr_profile_new(path, 0, &profile, &err), &err);
    (void)train(&run, profile);
    double inside = 0.0;
    uint64_t roots = 0;
    for (uint64_t i = 0; zr_profile_sum_at(profile, i, &sum); i++) {
        if (sum.track == ZR_PROFILE_COMPUTE && sum.depth == 0) {
            roots++;
            assert_string_equal(sum.name, "step");
            assert_int_equal(sum.count, 3);
            assert_true(sum.share > 0.999 && sum.share < 1.001);
        }
        if (sum.track == ZR_PROFILE_COMPUTE && sum.depth == 1) {
            inside += sum.share;
        }
    }
    assert_int_equal(roots, 1);
    assert_true(inside > 0.9 && inside < 1.001);
    zr_profile_free(profile);
    unlink(path);
}

static void a_profile_needs_a_place(void **state)
{
    (void)state;
    zr_profile *profile = NULL;
    zl_err err = {0};
    assert_int_equal(zr_profile_new("no/such/folder/p.json", 0, &profile, &err), ZL_E_RESOURCE);
    assert_non_null(strstr(err.text, "no/such/folder/p.json"));
    zr_profile_begin(NULL, ZR_PROFILE_COMPUTE, "nothing", ZR_NO_NUMBER);
    assert_int_equal(zr_profile_end(NULL, ZR_PROFILE_COMPUTE, ZL_E_BUG), ZL_E_BUG);
}

static uint64_t operations(const char *model, const char *seq)
{
    zl_run run;
    zl_err err = {0};
    zl_run_init(&run);
    must(zl_run_set(&run, "model", model, &err), &err);
    must(zl_run_set(&run, "seq", seq, &err), &err);
    must(zl_run_check(&run, &err), &err);
    return zr_speed_operations(&run);
}

/* GPT-2: C 768, L 12, F 3072, V 50257, T 1024.
 *     blocks 12 x 768 x (2304 + 768 + 2 x 3072) = 84,934,656; head 50257 x 768 = 38,597,376
 *     6 x 123,532,032 + 12 x 12 x 768 x 1024 = 741,192,192 + 113,246,208
 * Llama 3.2 1B: C 2048, L 16, H 32, G 8, D 64, F 8192, V 128256, T 2048.
 *     blocks 16 x 2048 x (3072 + 2048 + 3 x 8192) = 973,078,528; head 262,668,288
 *     6 x 1,235,746,816 + 12 x 16 x 2048 x 2048 = 7,414,480,896 + 805,306,368
 * BERT large: C 1024, L 24, F 4096, V 30522, T 512; a transform, and a pooler once a sequence.
 *     blocks 24 x 1024 x (3072 + 1024 + 8192) = 301,989,888; head 1024 x (30522 + 1024) =
 * 32,303,104 6 x 334,292,992 + 12 x 24 x 1024 x 512 + 6 x 1024 x 1026 / 512 = 2,005,757,952 +
 * 150,994,944 + 12,312 */
static void operations_are_those_of_the_formula(void **state)
{
    (void)state;
    assert_int_equal(operations("gpt2", "1024"), 854438400);
    assert_int_equal(operations("llama-3.2-1b", "2048"), 8219787264);
    assert_int_equal(operations("bert-large-pretraining", "512"), 2156765208);
}

/* One rank of two, 1 x 16 tokens a step: the first step is left out, the median of 2 and 4 is 3. */
static void speed_is_the_median_without_the_first_step(void **state)
{
    (void)state;
    static const double seconds[] = {100.0, 4.0, 2.0};
    zl_run run;
    zl_err err = {0};
    zr_speed speed;
    zl_run_init(&run);
    must(zl_run_set(&run, "model", "gpt2-tiny", &err), &err);
    run.seq = 16;
    run.micro_batch = 1;
    run.ranks = 2;
    must(zr_speed_find(&run, seconds, 3, &speed, &err), &err);
    assert_int_equal(speed.warm_up, 1);
    assert_true(speed.seconds > 2.999 && speed.seconds < 3.001);
    assert_true(speed.tokens_per_second > 10.66 && speed.tokens_per_second < 10.67);
    must(zr_speed_find(&run, seconds, 1, &speed, &err), &err);
    assert_int_equal(speed.warm_up, 0);
    assert_true(speed.seconds > 99.9 && speed.seconds < 100.1);
    must(zr_speed_find(&run, NULL, 0, &speed, &err), &err);
    assert_true(speed.tokens_per_second < 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_profile_shows_the_schedule_and_all_the_time),
        cmocka_unit_test(sums_are_of_the_steps_that_count),
        cmocka_unit_test(a_profile_needs_a_place),
        cmocka_unit_test(operations_are_those_of_the_formula),
        cmocka_unit_test(speed_is_the_median_without_the_first_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
