#include "base_test.h"
#include "zeroledger/json.h"

static void canonical_text_is_exact(void **state)
{
    (void)state;
    zl_json_writer *w = zl_json_writer_new();
    zl_json_begin_object(w, NULL);
    zl_json_put_string(w, "s", "a\"b\\c\n\t\x01\xc3\xa9");
    zl_json_put_u64(w, "big", 9007199254740991);
    zl_json_put_u64(w, "biggest", UINT64_MAX);
    zl_json_put_real(w, "x", 0.1);
    zl_json_put_bool(w, "yes", true);
    zl_json_put_null(w, "none");
    zl_json_begin_array(w, "list");
    zl_json_put_u64(w, NULL, 1);
    zl_json_begin_object(w, NULL);
    zl_json_end(w);
    zl_json_end(w);
    zl_json_begin_array(w, "empty");
    zl_json_end(w);
    zl_json_end(w);
    size_t size = 0;
    const char *text = zl_json_writer_text(w, &size);
    assert_string_equal(text, "{\n"
                              "  \"s\": \"a\\\"b\\\\c\\n\\t\\u0001\xc3\xa9\",\n"
                              "  \"big\": 9007199254740991,\n"
                              "  \"biggest\": 18446744073709551615,\n"
                              "  \"x\": 0.1,\n"
                              "  \"yes\": true,\n"
                              "  \"none\": null,\n"
                              "  \"list\": [\n"
                              "    1,\n"
                              "    {}\n"
                              "  ],\n"
                              "  \"empty\": []\n"
                              "}\n");
    assert_int_equal(size, strlen(text));
    zl_json_writer_free(w);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    static const double reals[] = {0.0, 0.1, 1e-12, 1.0 / 3.0, 5e-324, 1.7976931348623157e308,
                                   -2.5};
    zl_json_writer *w = zl_json_writer_new();
    zl_json_begin_array(w, NULL);
    for (size_t i = 0; i < COUNT_OF(reals); i++) {
        zl_json_put_real(w, NULL, reals[i]);
    }
    zl_json_end(w);
    zl_err err = {.status = ZL_OK};
    assert_ok(zl_json_writer_save(w, "reals.json", &err), &err);
    zl_json_writer_free(w);
    zl_json_doc *doc = NULL;
    assert_ok(zl_json_load("reals.json", &doc, &err), &err);
    for (size_t i = 0; i < COUNT_OF(reals); i++) {
        double x = 7;
        assert_ok(zl_json_real(zl_json_item(zl_json_root(doc), i), &x, &err), &err);
        assert_memory_equal(&x, &reals[i], sizeof x);
    }
    zl_json_free(doc);
}

static void assert_misuse(zl_json_writer *w)
{
    zl_err err = {.status = ZL_OK};
    assert_error(zl_json_writer_save(w, "never.json", &err), &err, ZL_E_BUG, "never.json");
    assert_int_equal(access("never.json", F_OK), -1);
    zl_json_writer_free(w);
}

static void a_parsed_value_is_written_again(void **state)
{
    (void)state;
    static const char text[] =
        "{\"a\": [1, 2.5, -3, 5e8, 1e-5, 1e400], \"b\": {\"c\": null, \"d\": true},"
        " \"e\": \"\\u0041\\n\", \"f\": {}}";
    static const char wanted[] =
        "{\n  \"a\": [\n    1,\n    2.5,\n    -3,\n    500000000,\n    1e-05,\n    1e400\n"
        "  ],\n  \"b\": {\n    \"c\": null,\n    \"d\": true\n  },\n"
        "  \"e\": \"A\\n\",\n  \"f\": {}\n}\n";
    zl_json_doc *doc = NULL;
    zl_err err = {.status = ZL_OK};
    assert_ok(zl_json_parse("text", text, strlen(text), &doc, &err), &err);
    zl_json_writer *w = zl_json_writer_new();
    zl_json_put(w, NULL, zl_json_root(doc));
    assert_string_equal(zl_json_writer_text(w, NULL), wanted);
    zl_json_writer_free(w);
    zl_json_free(doc);
}

static void misuse_is_a_bug_and_writes_nothing(void **state)
{
    (void)state;
    zl_json_writer *w = zl_json_writer_new();
    assert_misuse(w); /* empty */
    w = zl_json_writer_new();
    zl_json_begin_object(w, NULL);
    assert_misuse(w); /* not ended */
    w = zl_json_writer_new();
    zl_json_begin_object(w, NULL);
    zl_json_put_u64(w, NULL, 1);
    zl_json_end(w);
    assert_misuse(w); /* a member without a key */
    w = zl_json_writer_new();
    zl_json_begin_array(w, NULL);
    zl_json_put_u64(w, "key", 1);
    zl_json_end(w);
    assert_misuse(w); /* an element with a key */
    w = zl_json_writer_new();
    zl_json_end(w);
    assert_misuse(w); /* nothing to end */
    w = zl_json_writer_new();
    zl_json_put_real(w, NULL, 1e308 * 10);
    assert_misuse(w); /* infinite */
    w = zl_json_writer_new();
    zl_json_put_u64(w, NULL, 1);
    zl_json_put_u64(w, NULL, 2);
    assert_misuse(w); /* two documents */
    w = zl_json_writer_new();
    for (int i = 0; i < 65; i++) {
        zl_json_begin_array(w, NULL);
    }
    assert_null(zl_json_writer_text(w, NULL));
    assert_misuse(w); /* deeper than the reader accepts */
}

static void exhausted_memory_is_reported_at_the_end(void **state)
{
    (void)state;
    zl_err err = {.status = ZL_OK};
    zl_json_begin_object(NULL, NULL);
    zl_json_put_u64(NULL, "a", 1);
    zl_json_put_real(NULL, "a", 1);
    zl_json_end(NULL);
    assert_null(zl_json_writer_text(NULL, NULL));
    assert_error(zl_json_writer_save(NULL, "x.json", &err), &err, ZL_E_RESOURCE, "out of memory");
    zl_json_writer_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(canonical_text_is_exact),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(a_parsed_value_is_written_again),
        cmocka_unit_test(misuse_is_a_bug_and_writes_nothing),
        cmocka_unit_test(exhausted_memory_is_reported_at_the_end),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
