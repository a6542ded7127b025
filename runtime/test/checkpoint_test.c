/* Checkpoints of one rank: going on is as if nothing had been, in every stage; the folder of the
 * checkpoints holds complete ones and nothing else. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "checkpoint_kit.h"
#include "train/folder.h"
#include "train/state.h"

enum { BEFORE = 2, AFTER = 3 };

/* Steps BEFORE + 1 to BEFORE + AFTER of `want`, and its parameters. */
static void check_goes_on(const zl_run *run, const kit_result *want)
{
    kit_result rest = {.steps = AFTER, .hash = want->hash};
    for (uint64_t i = 0; i < AFTER; i++) {
        rest.loss[i] = want->loss[BEFORE + i];
        rest.norm[i] = want->norm[BEFORE + i];
    }
    char what[256];
    zl_run_describe(run, what, sizeof what);
    kit_rig rig = kit_open_at(run, NULL, &(kit_start){.resume = kit_root});
    const kit_result have = kit_steps(&rig, AFTER);
    kit_close(&rig);
    kit_assert_same(&rest, &have, what);
}

static void check_uninterrupted(const zl_run *run)
{
    const kit_result want = kit_train(run, BEFORE + AFTER);
    kit_save(*run, BEFORE, &(kit_start){.keep = 1});
    check_goes_on(run, &want);
}

static void a_resumed_training_equals_an_uninterrupted_one(void **state)
{
    (void)state;
    for (int family = 0; family < ZL_FAMILY_COUNT; family++) {
        for (int precision = 0; precision < ZL_PRECISION_NATIVE_COUNT; precision++) {
            zl_run run = kit_run(kit_model((zl_family)family));
            run.precision = (zl_precision)precision;
            run.stage = (uint64_t)precision;
            check_uninterrupted(&run);
            run.stage = 3 - run.stage;
            run.dropout = 0.1;
            run.accumulation = 2;
            run.optimizer = ZL_OPTIMIZER_SGD;
            run.shard_copy = run.stage < 3 || run.precision == ZL_PRECISION_FP32;
            run.eval = true;
            check_uninterrupted(&run);
        }
    }
    kit_clean();
}

static void any_stage_goes_on_from_any_other(void **state)
{
    (void)state;
    for (int precision = 0; precision < 3; precision += 2) {
        zl_run run = kit_run(kit_model(ZL_FAMILY_BERT));
        run.precision = (zl_precision)precision;
        const kit_result want = kit_train(&run, BEFORE + AFTER);
        for (uint64_t from = 0; from < 4; from++) {
            run.stage = from;
            kit_save(run, BEFORE, &(kit_start){.keep = 1});
            for (run.stage = 0; run.stage < 4; run.stage++) {
                check_goes_on(&run, &want);
            }
        }
    }
    kit_clean();
}

static void put_u64(unsigned char *p, uint64_t value)
{
    for (int i = 0; i < 8; i++) {
        p[i] = (unsigned char)(value >> 8 * i);
    }
}

/* GPT-2 micro in fp32 (units of 64 elements): embedding 1272 -> 1280, 312 -> 320: 1600. Block:
 * norms and narrow biases 24 or 40 -> 64, seven of them; qkv 1728 + 72 -> 128; out 576; fc, proj
 * 960: 4800. Head 2 x 64. In all 1600 + 2 x 4800 + 128 = 11328 elements, three times 4 bytes:
 * 135936. Before them 64 + 4 x 24 = 160, behind them 8. Logical: 1280 + 312, 4736 + 24, 64 + 24. */
static void the_file_is_what_its_description_says(void **state)
{
    (void)state;
    static const uint64_t rows[4][3] = {
        {0, 1592, 1600}, {1, 4760, 4800}, {1, 4760, 4800}, {2, 88, 128}};
    const zl_run run = kit_run(kit_model(ZL_FAMILY_GPT2));
    unsigned char want[160] = {0x89, 'Z', 'L', 'C', 'K', 'P', 'T', '\n', 1, 0, 0,
                               0,    3,   0,   0,   0,   1,   0,   0,    0, 1};
    unsigned char have[160];
    put_u64(want + 24, 0);
    put_u64(want + 32, 1);
    put_u64(want + 40, 1);
    put_u64(want + 48, 4);
    put_u64(want + 56, 136104);
    for (size_t u = 0; u < 4; u++) {
        put_u64(want + 64 + 24 * u, rows[u][0]);
        put_u64(want + 72 + 24 * u, rows[u][1]);
        put_u64(want + 80 + 24 * u, rows[u][2]);
    }
    kit_save(run, 1, &(kit_start){.keep = 1});
    char name[128];
    (void)snprintf(name, sizeof name, "step-00000001/%s", KIT_SHARD);
    FILE *file = fopen(kit_path(name), "rb");
    assert_non_null(file);
    assert_int_equal(fread(have, 1, sizeof have, file), sizeof have);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    assert_int_equal(ftell(file), 136104);
    (void)fclose(file);
    assert_memory_equal(want, have, sizeof want);
    kit_clean();
}

/* ---- what a folder of checkpoints looks like */

static void the_newest_stay_and_nothing_temporary(void **state)
{
    (void)state;
    const zl_run run = kit_run(kit_model(ZL_FAMILY_GPT2));
    assert_int_equal(mkdir(kit_path(".step-00000007.tmp"), 0777), 0); /* somebody was killed */
    kit_save(run, 5, &(kit_start){.keep = 2});
    assert_false(kit_there(".step-00000007.tmp"));
    assert_false(kit_there("step-00000003"));
    assert_true(kit_there("step-00000004/manifest.json"));
    assert_true(kit_there("step-00000005/manifest.json"));
    char resume[ZR_PATH];
    (void)snprintf(resume, sizeof resume, "%s/step-00000004", kit_root);
    /* Step 5 once more, in place of the old one: the newest up to it stay. */
    assert_int_equal(unlink(kit_path("step-00000005/run.json")), 0);
    kit_save(run, 1, &(kit_start){.keep = 1, .resume = resume});
    assert_true(kit_there("step-00000005/run.json"));
    assert_false(kit_there("step-00000004"));
    assert_false(kit_there(".step-00000005.tmp"));
    kit_clean();
}

static zl_status save_once(kit_rig *rig, zl_err *err)
{
    zr_step_result r;
    return zr_engine_step(rig->engine, kit_next, &rig->data, &r, err);
}

/* A file that may not grow stands for a full disk. */
static void a_full_disk_leaves_the_older_ones(void **state)
{
    (void)state;
    zl_run run = kit_run(kit_model(ZL_FAMILY_GPT2));
    run.save = true;
    struct rlimit before;
    zl_err err = {0};
    (void)signal(SIGXFSZ, SIG_IGN);
    kit_rig rig = kit_open_at(&run, NULL, &(kit_start){.root = kit_root});
    assert_int_equal(save_once(&rig, &err), ZL_OK);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit small = {.rlim_cur = 100000, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const zl_status status = save_once(&rig, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, ZL_E_RESOURCE);
    assert_non_null(strstr(err.text, KIT_SHARD));
    assert_non_null(strstr(err.text, strerror(EFBIG)));
    kit_close(&rig);
    assert_false(kit_there(".step-00000002.tmp"));
    assert_false(kit_there("step-00000002"));
    run.save = false;
    rig = kit_open_at(&run, NULL, &(kit_start){.resume = kit_root});
    assert_int_equal(rig.engine->step, 1);
    kit_close(&rig);
    kit_clean();
}

static void a_place_that_is_none_is_refused(void **state)
{
    (void)state;
    zl_err err = {0};
    assert_int_equal(zr_save_folder("/dev/null/ckpt", &err), ZL_E_RESOURCE);
    assert_string_equal(err.text, "/dev/null/ckpt: Not a directory");
    err = (zl_err){0};
    assert_int_equal(zr_save_folder("/dev/null", &err), ZL_E_RESOURCE);
    assert_string_equal(err.text, "/dev/null: Not a directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resumed_training_equals_an_uninterrupted_one),
        cmocka_unit_test(any_stage_goes_on_from_any_other),
        cmocka_unit_test(the_file_is_what_its_description_says),
        cmocka_unit_test(the_newest_stay_and_nothing_temporary),
        cmocka_unit_test(a_full_disk_leaves_the_older_ones),
        cmocka_unit_test(a_place_that_is_none_is_refused),
    };
    return cmocka_run_group_tests(tests, kit_make_root, kit_remove_root);
}
