#include "base_test.h"
#include "zeroledger/ledger.h"

static void fill(zl_cell *cell, uint64_t unit)
{
    cell->present = true;
    cell->peak[ZL_REQUESTED] = 4 * unit;
    cell->peak[ZL_GRANTED] = 6 * unit;
    cell->line[ZL_BUF_PARAM_UNIT].bytes[ZL_REQUESTED] = (zl_amount){unit, unit, unit};
    cell->line[ZL_BUF_PARAM_UNIT].bytes[ZL_GRANTED] = (zl_amount){2 * unit, 2 * unit, 2 * unit};
    cell->line[ZL_BUF_ACT_QKV].bytes[ZL_REQUESTED] = (zl_amount){0, 3 * unit, 3 * unit};
    cell->line[ZL_BUF_ACT_QKV].bytes[ZL_GRANTED] = (zl_amount){0, 4 * unit, 4 * unit};
    cell->kind_max[ZL_KIND_PARAM][ZL_REQUESTED] = unit;
    cell->kind_max[ZL_KIND_PARAM][ZL_GRANTED] = 2 * unit;
    cell->kind_max[ZL_KIND_ACT][ZL_REQUESTED] = 3 * unit;
    cell->kind_max[ZL_KIND_ACT][ZL_GRANTED] = 4 * unit;
}

/* Two cells; the figures of the second are above 2^31. */
static zl_ledger *example(void)
{
    zl_err err = {.status = ZL_OK};
    zl_ledger *ledger = zl_ledger_new();
    assert_non_null(ledger);
    zl_run_init(&ledger->run);
    assert_ok(zl_run_set(&ledger->run, "model", "gpt2-tiny", &err), &err);
    assert_ok(zl_run_set(&ledger->run, "ranks", "2", &err), &err);
    assert_ok(zl_run_check(&ledger->run, &err), &err);
    ledger->origin = ZL_ORIGIN_MEASURED;
    ledger->rank = 1;
    ledger->granule = 256;
    fill(zl_ledger_cell(ledger, ZL_VISIT_COLD, ZL_PHASE_INIT), 256);
    fill(zl_ledger_cell(ledger, ZL_VISIT_STEADY, ZL_PHASE_FORWARD), UINT64_C(17179869184));
    return ledger;
}

static void save(const zl_ledger *ledger, const char *path)
{
    zl_err err = {.status = ZL_OK};
    assert_ok(zl_ledger_save(ledger, path, &err), &err);
}

static zl_ledger *load(const char *path)
{
    zl_err err = {.status = ZL_OK};
    zl_ledger *ledger = NULL;
    assert_ok(zl_ledger_load(path, &ledger, &err), &err);
    return ledger;
}

static void assert_round_trip(const zl_ledger *ledger)
{
    save(ledger, "a.json");
    zl_ledger *again = load("a.json");
    save(again, "b.json");
    char *a = read_text("a.json");
    char *b = read_text("b.json");
    assert_string_equal(a, b);
    free(a);
    free(b);
    zl_difference d = {.found = true};
    zl_err err = {.status = ZL_OK};
    assert_ok(zl_ledger_compare(ledger, again, false, &d, &err), &err);
    assert_false(d.found);
    assert_int_equal(again->origin, ledger->origin);
    assert_int_equal(again->rank, ledger->rank);
    assert_int_equal(again->granule, ledger->granule);
    assert_int_equal(again->loopback, ledger->loopback);
    assert_memory_equal(&again->witness, &ledger->witness, sizeof ledger->witness);
    zl_ledger_free(again);
}

static void loading_and_saving_changes_nothing(void **state)
{
    (void)state;
    zl_ledger *ledger = example();
    assert_round_trip(ledger);
    memset(&ledger->witness, 0, sizeof ledger->witness);
    ledger->witness.present = true;
    ledger->witness.arena_reserved = 5000000000;
    ledger->witness.arena_resident = 4999999999;
    ledger->witness.outside_cold = 1;
    ledger->witness.outside_steady = 0;
    assert_round_trip(ledger);
    ledger->loopback = true;
    assert_round_trip(ledger);
    zl_ledger_free(ledger);
}

static void the_shape_is_the_published_one(void **state)
{
    (void)state;
    zl_ledger *ledger = example();
    save(ledger, "shape.json");
    char *text = read_text("shape.json");
    const char *cells = strstr(text, "  \"rank\": 1,");
    assert_non_null(cells);
    static const char expected[] = "  \"rank\": 1,\n"
                                   "  \"granule\": 256,\n"
                                   "  \"cells\": [\n"
                                   "    {\n"
                                   "      \"visit\": \"cold\",\n"
                                   "      \"phase\": \"init\",\n"
                                   "      \"peak\": {\n"
                                   "        \"requested\": 1024,\n"
                                   "        \"granted\": 1536\n"
                                   "      },\n"
                                   "      \"kind_max\": [\n"
                                   "        {\n"
                                   "          \"kind\": \"param\",\n"
                                   "          \"requested\": 256,\n"
                                   "          \"granted\": 512\n"
                                   "        },\n"
                                   "        {\n"
                                   "          \"kind\": \"act\",\n"
                                   "          \"requested\": 768,\n"
                                   "          \"granted\": 1024\n"
                                   "        }\n"
                                   "      ],\n"
                                   "      \"buffers\": [\n"
                                   "        {\n"
                                   "          \"buffer\": \"param.unit\",\n"
                                   "          \"kind\": \"param\",\n"
                                   "          \"requested\": {\n"
                                   "            \"end\": 256,\n"
                                   "            \"at_peak\": 256,\n"
                                   "            \"max\": 256\n"
                                   "          },\n";
    assert_memory_equal(cells, expected, sizeof expected - 1);
    assert_non_null(strstr(text, "\"origin\": \"measured\""));
    assert_non_null(strstr(text, "\"granted\": 103079215104")); /* 6 x 16 GiB */
    assert_non_null(strstr(text, "\"run\": {\n    \"model\": {"));
    free(text);
    zl_ledger_free(ledger);
}

static void beyond_2_to_53_is_written_exactly_and_refused_on_reading(void **state)
{
    (void)state;
    zl_ledger *ledger = example();
    fill(zl_ledger_cell(ledger, ZL_VISIT_COLD, ZL_PHASE_INIT), (UINT64_C(1) << 53) + 1);
    save(ledger, "big.json");
    char *text = read_text("big.json");
    assert_non_null(strstr(text, "\"end\": 9007199254740993"));
    free(text);
    zl_ledger *again = NULL;
    zl_err err = {.status = ZL_OK};
    assert_error(zl_ledger_load("big.json", &again, &err), &err, ZL_E_INPUT, "up to 2^53");
    assert_null(again);
    zl_ledger_free(ledger);
}

static void assert_refused(const char *from, const char *to, zl_status status, const char *part)
{
    zl_ledger *ledger = example();
    save(ledger, "good.json");
    zl_ledger_free(ledger);
    char *text = read_text("good.json");
    char *bad = replaced(text, from, to);
    write_text("bad.json", bad);
    free(text);
    free(bad);
    ledger = NULL;
    zl_err err = {.status = ZL_OK};
    assert_error(zl_ledger_load("bad.json", &ledger, &err), &err, status, part);
    assert_non_null(strstr(err.text, "bad.json"));
    assert_null(ledger);
}

static void wrong_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *from;
        const char *to;
        const char *part;
    } wrong[] = {
        {"zeroledger.ledger/1", "zeroledger.run/1", "schema must be"},
        {"\"granule\"", "\"granules\"", "granules is not a known key; did you mean granule"},
        {"\"granule\": 256", "\"granule\": 0", "granule at least 1"},
        {"\"granule\": 256", "\"granule\": 256, \"granule\": 256", "granule is given twice"},
        {"\"rank\": 1", "\"rank\": 2", "rank must be below the run's ranks 2"},
        {"\"measured\"", "\"guessed\"", "origin must be predicted, measured, walked or imported"},
        {"\"stage\": 0", "\"stage\": 1", "the file was changed after it was written"},
        {"\"stage\": 0", "\"stage\": 0, \"schema\": \"x\"", "run.schema is not a known key"},
        {"\"stage\": 0", "\"stage\": 9", "stage must be 0..3, got 9"},
        {"\"phase\": \"init\"", "\"phase\": \"start\"",
         "cells[0].phase \"start\" is not in the vocab"},
        {"\"visit\": \"cold\"", "\"visit\": \"warm\"",
         "cells[0].visit \"warm\" is not in the vocab"},
        {"\"visit\": \"cold\",\n      \"phase\": \"init\"",
         "\"visit\": \"steady\",\n      \"phase\": \"forward\"",
         "cells[1]: forward of the steady visit"},
        {"\"buffer\": \"act.qkv\"", "\"buffer\": \"act.q\"",
         "buffer \"act.q\" is not in the vocabulary"},
        {"\"buffer\": \"act.qkv\"", "\"buffer\": \"param.unit\"",
         "kind of param.unit must be \"param\""},
        {"\"buffer\": \"act.qkv\",\n          \"kind\": \"act\"",
         "\"buffer\": \"param.unit\",\n          \"kind\": \"param\"", "param.unit is given twice"},
        {"\"kind\": \"act\"", "\"kind\": \"acts\"",
         "kind_max[1].kind \"acts\" is not in the vocabulary"},
        {"\"kind\": \"act\"", "\"kind\": \"param\"", "kind param is given twice"},
        {"\"requested\": 1024", "\"requested\": 1025",
         "adds up to 1024, but the requested peak is 1025"},
        {"\"granted\": 1536", "\"granted\": 1535", "adds up to 1536, but the granted peak is 1535"},
        {"\"requested\": 768", "\"requested\": 769", "its buffers allow 768..768"},
        {"\"requested\": 768", "\"requested\": 767", "its buffers allow 768..768"},
        {"\"end\": 256", "\"end\": 257", "buffers[0].requested: max 256 is below end 257"},
        {"\"end\": 256", "\"end\": -1",
         "buffers[0].requested.end must be a whole number that is not"},
        {"\"end\": 256", "\"end\": 1e999", "2^53"},
        {"\"end\": 256", "\"ende\": 256", "requested.ende is not a known key; did you mean end"},
        {"\"peak\": {", "\"peak\": [], \"x\": {", "cells[0].x is not a known key"},
        {"\"cells\": [", "\"cells\": 3, \"witness\": [", "witness must be an object"},
        {"\"kind_max\": [", "\"kind_max\": null, \"kind_max\": [", "kind_max is given twice"},
        {"\"buffers\": [", "\"buffers\": [1,", "buffers[0] must be an object, got 1"},
        {"\"loopback\": false", "\"loopback\": 0", "loopback must be"},
        {"\"rank\": 1,", "\"rank\": 1, \"witness\": {\"arena_reserved\": 1},",
         "arena_resident is missing"},
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_refused(wrong[i].from, wrong[i].to, ZL_E_INPUT, wrong[i].part);
    }
    assert_refused("\"native\"", "\"ddp\"", ZL_E_INPUT, "run.backend is not a known key");
}

static void fewer_granted_than_requested_is_refused(void **state)
{
    (void)state;
    zl_ledger *ledger = example();
    zl_ledger *again = NULL;
    zl_err err = {.status = ZL_OK};
    zl_cell *cell = zl_ledger_cell(ledger, ZL_VISIT_COLD, ZL_PHASE_INIT);
    cell->line[ZL_BUF_PARAM_UNIT].bytes[ZL_GRANTED] = (zl_amount){100, 100, 100};
    save(ledger, "less.json");
    assert_error(zl_ledger_load("less.json", &again, &err), &err, ZL_E_INPUT,
                 "fewer bytes of param.unit");
    zl_ledger_free(ledger);
}

/* Live at the exit is live within the visit. */
static void an_end_above_the_peak_is_refused(void **state)
{
    (void)state;
    zl_ledger *ledger = example();
    zl_ledger *again = NULL;
    zl_err err = {.status = ZL_OK};
    zl_cell *cell = zl_ledger_cell(ledger, ZL_VISIT_COLD, ZL_PHASE_INIT);
    cell->line[ZL_BUF_ACT_MID].bytes[ZL_REQUESTED] = (zl_amount){769, 0, 769};
    cell->line[ZL_BUF_ACT_MID].bytes[ZL_GRANTED] = (zl_amount){1024, 0, 1024};
    cell->kind_max[ZL_KIND_ACT][ZL_REQUESTED] = 769; /* 256 of param.unit are live at the end too */
    save(ledger, "end.json");
    assert_error(zl_ledger_load("end.json", &again, &err), &err, ZL_E_INPUT,
                 "end adds up to 1025, above the requested peak 1024");
    zl_ledger_free(ledger);
}

static void endless_lists_of_nothing_are_refused(void **state)
{
    (void)state;
    enum { LINES = 200000 };
    static const char line[] = "{\"kind\": \"act\", \"requested\": 0, \"granted\": 0},";
    char *many = malloc(LINES * (sizeof line - 1) + 32);
    assert_non_null(many);
    size_t at = (size_t)snprintf(many, 32, "\"kind_max\": [");
    for (int i = 0; i < LINES; i++) {
        memcpy(many + at, line, sizeof line);
        at += sizeof line - 1;
    }
    assert_refused("\"kind_max\": [", many, ZL_E_INPUT, "kind_max must have at most 17 elements");
    free(many);
}

static void unreadable_files_are_named(void **state)
{
    (void)state;
    zl_ledger *ledger = NULL;
    zl_err err = {.status = ZL_OK};
    assert_error(zl_ledger_load("missing.json", &ledger, &err), &err, ZL_E_INPUT, "missing.json");
    write_text("empty.json", "");
    err = (zl_err){.status = ZL_OK};
    assert_error(zl_ledger_load("empty.json", &ledger, &err), &err, ZL_E_INPUT,
                 "empty.json:1:1: expected a value");
    write_text("list.json", "[]");
    err = (zl_err){.status = ZL_OK};
    assert_error(zl_ledger_load("list.json", &ledger, &err), &err, ZL_E_INPUT, "must be an object");
    assert_null(ledger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loading_and_saving_changes_nothing),
        cmocka_unit_test(the_shape_is_the_published_one),
        cmocka_unit_test(beyond_2_to_53_is_written_exactly_and_refused_on_reading),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(fewer_granted_than_requested_is_refused),
        cmocka_unit_test(an_end_above_the_peak_is_refused),
        cmocka_unit_test(endless_lists_of_nothing_are_refused),
        cmocka_unit_test(unreadable_files_are_named),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
