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
    } files[] = {{"host", 294}, {"quickstart", 4}, {"smoke", 8}};
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

/* What occurs somewhere among some cases; a bit for each value. */
typedef struct seen {
    unsigned ranks, precision, recompute, accumulation, attention, dropout, grad_dtype, optimizer;
    unsigned window, slots, chunk, clip, copy, tied, pooler, grouped, eval, save;
} seen;

static void look(seen *s, const zl_run *run)
{
    const zl_model *const m = &run->model;
    s->ranks |= 1U << run->ranks;
    s->precision |= 1U << run->precision;
    s->recompute |= 1U << run->recompute;
    s->accumulation |= 1U << run->accumulation;
    s->attention |= 1U << run->attention;
    s->dropout |= 1U << (run->dropout > 0);
    s->grad_dtype |= 1U << run->grad_dtype;
    s->optimizer |= 1U << run->optimizer;
    s->window |= 1U << run->window;
    s->slots |= 1U << run->reduce_slots;
    s->chunk |= 1U << (run->head_chunk > 0);
    s->clip |= 1U << (run->clip > 0);
    s->copy |= 1U << run->shard_copy;
    s->tied |= 1U << m->tied;
    s->pooler |= 1U << m->pooler;
    s->grouped |= 1U << (m->kv_heads < m->heads);
    s->eval |= 1U << run->eval;
    s->save |= 1U << run->save;
}

enum { OFF_AND_ON = 3, ONE_TO_THREE = 14, NONE_TO_THREE = 15, ONE_TO_FOUR = 30 };

/* Every family in every stage meets every value of every option, not every combination. */
static void host_matrix_covers_what_it_promises(void **state)
{
    (void)state;
    seen all[ZL_FAMILY_COUNT][4] = {{{0}}};
    zv_cases cases;
    assert_int_equal(zv_cases_load(ZV_CASES "/host.json", &cases, NULL), ZL_OK);
    for (size_t i = 0; i < cases.count; i++) {
        const zl_run *const run = &cases.item[i].run;
        look(&all[run->model.family][run->stage], run);
    }
    for (int family = 0; family < ZL_FAMILY_COUNT; family++) {
        for (int stage = 0; stage < 4; stage++) {
            const seen *const s = &all[family][stage];
            assert_int_equal(s->ranks, ONE_TO_FOUR);
            assert_int_equal(s->precision, (1 << ZL_PRECISION_NATIVE_COUNT) - 1);
            assert_int_equal(s->recompute, (1 << ZL_RECOMPUTE_COUNT) - 1);
            assert_int_equal(s->accumulation, ONE_TO_THREE);
            assert_int_equal(s->attention, (1 << ZL_ATTENTION_NATIVE_COUNT) - 1);
            assert_int_equal(s->grad_dtype, (1 << ZL_GRAD_COUNT) - 1);
            assert_int_equal(s->optimizer, (1 << ZL_OPTIMIZER_NATIVE_COUNT) - 1);
            assert_int_equal(s->dropout, OFF_AND_ON);
            assert_int_equal(s->chunk, OFF_AND_ON);
            assert_int_equal(s->clip, OFF_AND_ON);
            assert_int_equal(s->tied, OFF_AND_ON);
            assert_int_equal(s->eval, OFF_AND_ON);
        }
        assert_int_equal(all[family][0].save, OFF_AND_ON);
        assert_int_equal(all[family][3].save, OFF_AND_ON);
        assert_int_equal(all[family][2].slots, ONE_TO_THREE);
        assert_int_equal(all[family][3].slots, ONE_TO_THREE);
        assert_int_equal(all[family][3].window, NONE_TO_THREE);
        assert_int_equal(all[family][3].copy, OFF_AND_ON);
    }
    for (int stage = 0; stage < 4; stage++) {
        assert_int_equal(all[ZL_FAMILY_BERT][stage].pooler, OFF_AND_ON);
    }
    assert_int_equal(all[ZL_FAMILY_LLAMA][3].grouped, OFF_AND_ON);
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
