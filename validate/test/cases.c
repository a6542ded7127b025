/* Case files expand to named runs, and say where they are wrong. */
#define _DEFAULT_SOURCE /* mkstemp */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "drive/cases.h"

/* The file's text is a name, a tolerance and these groups. */
static zl_status load(const char *groups, zv_cases *out, zl_err *err)
{
    char path[] = "/tmp/zv-cases-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *const file = fdopen(fd, "w");
    assert_non_null(file);
    fprintf(
        file,
        "{\"schema\": \"zeroledger.cases/1\", \"name\": \"t\", \"tolerance\": {\"requested\": 0, "
        "\"granted\": 0, \"outside_steady\": 5}, \"groups\": [%s]}",
        groups);
    fclose(file);
    const zl_status status = zv_cases_load(path, out, err);
    unlink(path);
    return status;
}

static void axes_make_a_product_the_last_fastest(void **state)
{
    (void)state;
    zv_cases cases;
    assert_int_equal(load("{\"name\": \"g\", \"base\": {\"model\": \"gpt2-tiny\", \"seq\": 32},"
                          " \"axes\": {\"ranks\": [1, 2], \"stage\": [0, 1, 3]}}",
                          &cases, NULL),
                     ZL_OK);
    assert_int_equal(cases.count, 6);
    assert_int_equal(cases.tolerance.outside_steady, 5);
    assert_string_equal(cases.item[0].id, "gpt2-tiny/z0-n1-bf16-mixed-none-a1-t32");
    assert_string_equal(cases.item[1].id, "gpt2-tiny/z1-n1-bf16-mixed-none-a1-t32");
    assert_string_equal(cases.item[5].id, "gpt2-tiny/z3-n2-bf16-mixed-none-a1-t32");
    assert_int_equal(cases.item[5].run.ranks, 2);
    assert_int_equal(cases.item[5].run.seq, 32);
    assert_string_equal(cases.item[5].group, "g");
    zv_cases_release(&cases);
}

static void ids_name_every_choice(void **state)
{
    (void)state;
    zv_cases cases;
    assert_int_equal(
        load("{\"name\": \"g\", \"base\": {\"model\": \"gpt2-tiny\", \"gpus\": 4,"
             " \"stage\": \"3\", \"micro-batch\": 2, \"dropout\": 0.25, \"attention\": \"eager\","
             " \"no-shard-copy\": true, \"clip\": 0, \"recompute\": \"full\","
             " \"accumulation\": 2}}",
             &cases, NULL),
        ZL_OK);
    assert_int_equal(cases.count, 1);
    assert_string_equal(
        cases.item[0].id,
        "gpt2-tiny/z3-n4-bf16-mixed-full-a2-b2-eager-dropout0.25-clip0-no-shard-copy");
    assert_false(cases.item[0].run.shard_copy);
    zv_cases_release(&cases);
}

static void flag_that_is_false_is_not_set(void **state)
{
    (void)state;
    zv_cases cases;
    assert_int_equal(load("{\"name\": \"g\", \"base\": {\"model\": \"gpt2-tiny\", \"stage\": 3},"
                          " \"axes\": {\"no-shard-copy\": [false, true]}}",
                          &cases, NULL),
                     ZL_OK);
    assert_true(cases.item[0].run.shard_copy);
    assert_false(cases.item[1].run.shard_copy);
    zv_cases_release(&cases);
}

/* Each is an input error whose text holds the words after it. */
static const struct {
    const char *groups;
    const char *words;
} faults[] = {
    {"{\"name\": \"g\", \"base\": {\"model\": \"gpt2-tiny\"}, \"axis\": {}}", "axis"},
    {"{\"name\": \"g\", \"base\": {\"model\": \"gpt2-tiny\", \"stages\": 1}}", "stages"},
    {"{\"name\": \"g\", \"base\": {\"model\": \"gpt2-tiny\", \"stage\": 7}}", "got 7"},
    {"{\"name\": \"g\", \"base\": {\"model\": \"gpt2-tiny\", \"stage\": [1]}}",
     "groups[0].base.stage"},
    {"{\"name\": \"g\", \"base\": {\"model\": \"gpt2-tiny\"}, \"axes\": {\"stage\": []}}",
     "at least one"},
    {"{\"name\": \"g\", \"base\": {\"model\": \"gpt2-tiny\"}, \"axes\": {\"stage\": 1}}", "list"},
    {"{\"name\": \"g\", \"base\": {\"model\": \"gpt2-tiny\", \"stage\": 1}, \"axes\": {\"stage\": "
     "[1]}}",
     "base too"},
    {"{\"name\": \"g\", \"base\": {\"model\": \"gpt2-tiny\"}, \"axes\": {\"window\": [1, \"1\"]}}",
     "same case"},
    {"{\"name\": \"g\", \"base\": {\"model\": \"gpt2-tiny\"}, \"axes\": {\"clip\": [1, 1.0]}}",
     "same case"},
    {"{\"name\": \"g\", \"base\": {\"model\": \"gpt3-tiny\"}}", "gpt3-tiny"},
    {"{\"name\": \"g\"}", "groups[0]"},
    {"{\"base\": {\"model\": \"gpt2-tiny\"}}", "name"},
    {"", "groups: must be a list of at least one"},
};

static void faults_are_input_errors_that_name_the_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        zv_cases cases;
        zl_err err = {0};
        assert_int_equal(load(faults[i].groups, &cases, &err), ZL_E_INPUT);
        if (strstr(err.text, faults[i].words) == NULL) {
            fail_msg("\"%s\" is not in \"%s\"", faults[i].words, err.text);
        }
    }
}

static void tolerance_of_bytes_must_be_zero(void **state)
{
    (void)state;
    zv_cases cases;
    zl_err err = {0};
    char path[] = "/tmp/zv-cases-XXXXXX";
    FILE *const file = fdopen(mkstemp(path), "w");
    assert_non_null(file);
    fputs("{\"schema\": \"zeroledger.cases/1\", \"name\": \"t\", \"tolerance\": {\"requested\": 1, "
          "\"granted\": 0, \"outside_steady\": 5}, \"groups\": []}",
          file);
    fclose(file);
    assert_int_equal(zv_cases_load(path, &cases, &err), ZL_E_INPUT);
    assert_non_null(strstr(err.text, "must be 0"));
    unlink(path);
}

/* The files that come with the program: the size of each matrix is part of its claim. */
static void committed_files_load(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t cases;
    } files[] = {{"host", 101}, {"host-families", 48}, {"quickstart", 4}, {"smoke", 8}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[4096];
        zl_err err = {0};
        zv_cases cases;
        snprintf(path, sizeof path, "%s/%s.json", ZV_CASES, files[i].name);
        if (zv_cases_load(path, &cases, &err) != ZL_OK) {
            fail_msg("%s", err.text);
        }
        assert_int_equal(cases.count, files[i].cases);
        zv_cases_release(&cases);
    }
}

/* Every stage with every number of ranks, each with both precisions, both recompute modes and both
 * accumulations somewhere. */
static void host_matrix_covers_what_it_promises(void **state)
{
    (void)state;
    unsigned seen[4][5] = {{0}};
    zv_cases cases;
    assert_int_equal(zv_cases_load(ZV_CASES "/host.json", &cases, NULL), ZL_OK);
    for (size_t i = 0; i < cases.count; i++) {
        const zl_run *const run = &cases.item[i].run;
        unsigned *const cell = &seen[run->stage][run->ranks];
        *cell |= run->precision == ZL_PRECISION_FP32 ? 1U : 0;
        *cell |= run->precision == ZL_PRECISION_BF16_MIXED ? 2U : 0;
        *cell |= run->recompute == ZL_RECOMPUTE_NONE ? 4U : 0;
        *cell |= run->recompute == ZL_RECOMPUTE_FULL ? 8U : 0;
        *cell |= run->accumulation == 1 ? 16U : 0;
        *cell |= run->accumulation == 2 ? 32U : 0;
    }
    for (size_t stage = 0; stage < 4; stage++) {
        for (size_t ranks = 1; ranks <= 4; ranks++) {
            assert_int_equal(seen[stage][ranks], 63);
        }
    }
    zv_cases_release(&cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(axes_make_a_product_the_last_fastest),
        cmocka_unit_test(ids_name_every_choice),
        cmocka_unit_test(flag_that_is_false_is_not_set),
        cmocka_unit_test(faults_are_input_errors_that_name_the_place),
        cmocka_unit_test(tolerance_of_bytes_must_be_zero),
        cmocka_unit_test(committed_files_load),
        cmocka_unit_test(host_matrix_covers_what_it_promises),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
