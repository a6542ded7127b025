/* The validator refuses what the schemas refuse: every case is an example with one edit. */
#define _XOPEN_SOURCE 700

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schema.h"
#include "zeroledger/text.h"

static zl_status check_text(const char *schema, const char *text, zl_err *err)
{
    zt_schemas schemas = {.folder = ZT_SCHEMA_DIR};
    zl_json_doc *doc = NULL;
    ZL_TRY(zl_json_parse("edited", text, strlen(text), &doc, err));
    const zl_status status = zt_schema_check(&schemas, schema, zl_json_root(doc), err);
    zl_json_free(doc);
    zt_schemas_release(&schemas);
    return status;
}

/* The example with the first `from` replaced; fails the test if it has none. */
static char *edited(const char *example, const char *from, const char *to)
{
    char path[4096];
    char *text = NULL;
    size_t size = 0;
    snprintf(path, sizeof path, "%s/examples/%s.json", ZT_SCHEMA_DIR, example);
    assert_int_equal(zl_file_read(path, &text, &size, NULL), ZL_OK);
    const char *at = strstr(text, from);
    if (at == NULL) {
        fail_msg("%s has no %s", path, from);
        return text;
    }
    const size_t room = size + strlen(to) + 1;
    char *result = malloc(room);
    assert_non_null(result);
    snprintf(result, room, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    free(text);
    return result;
}

static void bad_documents_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *from;
        const char *to;
        const char *part; /* of the error */
    } cases[] = {
        {"run", "zeroledger.run/1", "zeroledger.run/2", "schema: is not the value"},
        {"run", "\"stage\": 3", "\"stage\": 4", "stage: is none of the values"},
        {"run", "\"stage\": 3", "\"stages\": 3", "stage is missing"},
        {"run", "\"seq\": ", "\"extra\": 1, \"seq\": ", "unknown key extra"},
        {"run", "\"tied\": true", "\"tied\": 1", "model.tied: is not of type boolean"},
        {"run", "\"layers\": 4", "\"layers\": 0", "model.layers: must be at least 1"},
        {"run", "\"layers\": 4", "\"layers\": 4.5", "model.layers: is not of type integer"},
        {"run", "\"layers\": 4", "\"layers\": null", "model.layers: is not of type integer"},
        {"ledger", "\"run_id\": \"", "\"run_id\": \"x", "run_id: must match"},
        {"ledger", "\"buffer\": \"param", "\"buffer\": \"parm", "buffer: is none of the values"},
        {"ledger", "\"at_peak\"", "\"at_pike\"", "at_peak is missing"},
        {"ledger", "\"granule\": 256", "\"granule\": -256", "granule: must be at least 1"},
        {"replay", "\"step\": -1", "\"step\": -1.5", "marks[0].step: is not of type integer"},
        {"compare", "\"verdict\": \"agrees\"", "\"verdict\": \"close\"", "verdict: is none"},
        {"decode", "\"low\": ", "\"low\": -", "asked.low: must be at least 0"},
        {"terms", "\"shards\": true", "\"shards\": \"yes\"", "shards: is not of type boolean"},
        {"fit", "micro_batch", "sequence", "quantity: is none of the values"},
        {"list", "\"what\": \"", "\"what\": \"x", "what: is none of the values"},
        {"train", "\"loss\": ", "\"loss\": \"nan\", \"was\": ", "loss: is not of type"},
        {"train", "\"date\": \"2", "\"date\": \"at 2", "provenance.date: must match"},
        {"cases", "\"stage\"", "\"stages\"", "the name stages"},
        {"cases", "\"requested\": 0", "\"requested\": 1", "tolerance.requested: is not the value"},
        {"verdict", "\"outcome\": \"equal\"", "\"outcome\": \"fine\"", "outcome: is none"},
        {"mutants", "\"kind\": ", "\"kinds\": ", "expect: fits none of the forms"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char schema[64];
        zl_err err = {0};
        snprintf(schema, sizeof schema, "%s.schema.json", cases[i].name);
        char *text = edited(cases[i].name, cases[i].from, cases[i].to);
        const zl_status status = check_text(schema, text, &err);
        free(text);
        if (status != ZL_NO || strstr(err.text, cases[i].part) == NULL) {
            fail_msg("%s, %s: got %d with \"%s\"", cases[i].name, cases[i].to, (int)status,
                     err.text);
        }
    }
}

static void an_unknown_keyword_is_an_error(void **state)
{
    (void)state;
    static const char schema[] = "{\"type\": \"object\", \"maxProperties\": 3}";
    char folder[] = "schema-test-XXXXXX";
    char path[64];
    zl_err err = {0};
    zl_json_doc *doc = NULL;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/x.schema.json", folder);
    assert_int_equal(zl_file_write(path, schema, strlen(schema), &err), ZL_OK);
    zt_schemas schemas = {.folder = folder};
    assert_int_equal(zl_json_parse("x", "{}", 2, &doc, &err), ZL_OK);
    assert_int_equal(zt_schema_check(&schemas, "x.schema.json", zl_json_root(doc), &err),
                     ZL_E_INPUT);
    assert_non_null(strstr(err.text, "maxProperties"));
    zl_json_free(doc);
    zt_schemas_release(&schemas);
    assert_int_equal(remove(path), 0);
    assert_int_equal(remove(folder), 0);
}

static void null_passes_where_it_may(void **state)
{
    (void)state;
    zl_err err = {0};
    char *text = edited("train", "\"grad_norm\": ", "\"grad_norm\": null, \"x\": ");
    assert_int_equal(check_text("train.schema.json", text, &err), ZL_NO);
    assert_non_null(strstr(err.text, "unknown key x")); /* the null itself passed */
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_documents_are_refused),
        cmocka_unit_test(an_unknown_keyword_is_an_error),
        cmocka_unit_test(null_passes_where_it_may),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
