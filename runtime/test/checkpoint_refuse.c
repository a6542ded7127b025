/* A checkpoint that is damaged, incomplete, or of another training is refused, by file and reason,
 * before anything is loaded. */
#define _DEFAULT_SOURCE /* truncate */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "checkpoint_kit.h"
#include "train/folder.h"
#include "zeroledger/text.h"

static zl_status try_resume(const char *path, const zl_run *run, uint64_t seed, zl_err *err)
{
    zr_resume *resume = NULL;
    zr_track *track = NULL;
    zr_comm *comm = NULL;
    zr_engine *engine = NULL;
    const zr_resume_want want = {.run = run, .seed = seed};
    ZL_TRY(zr_resume_open(path, &want, &resume, err));
    assert_int_equal(zr_track_new(&(zr_track_options){.cap = 0}, &track, err), ZL_OK);
    assert_int_equal(zr_comm_new(0, 1, &comm, err), ZL_OK);
    const zr_engine_options options = {
        .run = run, .track = track, .comm = comm, .seed = seed, .resume = resume};
    const zl_status status = zr_engine_new(&options, &engine, err);
    zr_engine_free(engine);
    zr_comm_free(comm);
    zr_track_free(track);
    zr_resume_free(resume);
    return status;
}

static void refuses(const zl_run *run, const char *name, const char *reason)
{
    zl_err err = {0};
    assert_int_equal(try_resume(kit_root, run, 7, &err), ZL_E_INPUT);
    if (strstr(err.text, name) == NULL || strstr(err.text, reason) == NULL) {
        fail_msg("\"%s\" lacks \"%s\" or \"%s\"", err.text, name, reason);
    }
}

/* XORs one byte of a file of step 1; a negative place counts from the end. */
static void damage(const char *name, long at, int bits)
{
    char path[ZR_PATH];
    (void)snprintf(path, sizeof path, "%s/step-00000001/%s", kit_root, name);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    const int byte = fgetc(file);
    assert_int_equal(fseek(file, -1, SEEK_CUR), 0);
    assert_int_equal(fputc(byte ^ bits, file), byte ^ bits);
    assert_int_equal(fclose(file), 0);
}

/* And back again: the next check needs it whole. */
static void refuses_damage(const zl_run *run, const char *name, long at, int bits,
                           const char *reason)
{
    damage(name, at, bits);
    refuses(run, name, reason);
    damage(name, at, bits);
}

static void a_flipped_bit_is_found_wherever_it_is(void **state)
{
    (void)state;
    const zl_run run = kit_run(kit_model(ZL_FAMILY_GPT2));
    kit_save(run, 1, &(kit_start){.keep = 1});
    refuses_damage(&run, KIT_SHARD, 0, 1, "not a checkpoint of zl-train");
    refuses_damage(&run, KIT_SHARD, 8, 3, "version 2, this program reads version 1");
    static const long places[] = {16, 24, 40, 56, 64, 90, 159, 160, 70000, -9, -8, -1};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        refuses_damage(&run, KIT_SHARD, places[i], 1 << i % 8, "damaged");
    }
    zl_err err = {0};
    assert_int_equal(try_resume(kit_root, &run, 7, &err), ZL_OK);
    kit_clean();
}

/* Where the text has `old`, at the first place, its last letter changes to `new`. */
static void change_text(const char *name, const char *old, char new)
{
    char path[ZR_PATH];
    char *text = NULL;
    size_t size = 0;
    (void)snprintf(path, sizeof path, "%s/step-00000001/%s", kit_root, name);
    assert_int_equal(zl_file_read(path, &text, &size, NULL), ZL_OK);
    char *found = strstr(text, old);
    assert_non_null(found);
    found[strlen(old) - 1] = new;
    assert_int_equal(zl_file_write(path, text, size, NULL), ZL_OK);
    free(text);
}

static void the_small_files_are_protected_too(void **state)
{
    (void)state;
    const zl_run run = kit_run(kit_model(ZL_FAMILY_GPT2));
    kit_save(run, 1, &(kit_start){.keep = 1});
    change_text("manifest.json", "\"good_steps\": 0", '4');
    refuses(&run, "manifest.json", "damaged");
    change_text("manifest.json", "\"good_steps\": 4", '0');
    change_text("manifest.json", "zeroledger.checkpoint/1", '2');
    refuses(&run, "manifest.json", "schema must be \"zeroledger.checkpoint/1\"");
    change_text("manifest.json", "zeroledger.checkpoint/2", '1');
    change_text("manifest.json", "{", '[');
    refuses(&run, "manifest.json", "");
    change_text("manifest.json", "[", '{');
    change_text("run.json", "\"seq\": 11", '2');
    refuses(&run, "run.json", "its id is");
    change_text("run.json", "\"seq\": 12", '1');
    assert_int_equal(unlink(kit_path("latest")), 0);
    refuses(&run, kit_root, "neither manifest.json nor latest");
    zl_err err = {0};
    assert_int_equal(try_resume(kit_path("step-00000001"), &run, 7, &err), ZL_OK);
    assert_int_equal(zl_file_write(kit_path("latest"), "../else\n", 8, NULL), ZL_OK);
    refuses(&run, "latest", "is not the name of a step");
    kit_clean();
}

static void a_file_that_is_short_or_missing_is_refused(void **state)
{
    (void)state;
    const zl_run run = kit_run(kit_model(ZL_FAMILY_GPT2));
    char name[128];
    (void)snprintf(name, sizeof name, "step-00000001/%s", KIT_SHARD);
    kit_save(run, 1, &(kit_start){.keep = 1});
    assert_int_equal(truncate(kit_path(name), 136103), 0);
    refuses(&run, KIT_SHARD, "136103 bytes long, and manifest.json says 136104");
    assert_int_equal(unlink(kit_path(name)), 0);
    refuses(&run, KIT_SHARD, "No such file");
    assert_int_equal(unlink(kit_path("step-00000001/manifest.json")), 0);
    refuses(&run, "step-00000001/manifest.json", "No such file");
    kit_clean();
}

static void another_training_is_refused_by_field_and_values(void **state)
{
    (void)state;
    const zl_run good = kit_run(kit_model(ZL_FAMILY_GPT2));
    kit_save(good, 1, &(kit_start){.keep = 1});
    zl_run run = good;
    run.precision = ZL_PRECISION_BF16;
    refuses(&run, "step-00000001", "precision is fp32 there and bf16 in this run");
    run = good;
    run.optimizer = ZL_OPTIMIZER_SGD;
    refuses(&run, "step-00000001", "optimizer is adamw there and sgd in this run");
    run = good;
    run.model.layers = 3;
    refuses(&run, "step-00000001", "model.layers is 2 there and 3 in this run");
    run = good;
    run.model.tied = false;
    refuses(&run, "step-00000001", "model.tied is true there and false in this run");
    run = good;
    run.model.norm_eps = 1e-6;
    refuses(&run, "step-00000001", "model.norm_eps is ");
    run = kit_run(kit_model(ZL_FAMILY_BERT));
    refuses(&run, "step-00000001", "model.family is gpt2 there and bert in this run");
    zl_err err = {0};
    assert_int_equal(try_resume(kit_root, &good, 8, &err), ZL_E_INPUT);
    assert_non_null(strstr(err.text, "seed is 7 there and 8 in this run; say --seed 7"));
    kit_clean();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flipped_bit_is_found_wherever_it_is),
        cmocka_unit_test(the_small_files_are_protected_too),
        cmocka_unit_test(a_file_that_is_short_or_missing_is_refused),
        cmocka_unit_test(another_training_is_refused_by_field_and_values),
    };
    return cmocka_run_group_tests(tests, kit_make_root, kit_remove_root);
}
