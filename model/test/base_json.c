#include "base_test.h"
#include "zeroledger/json.h"

static zl_json_doc *parse(const char *text)
{
    zl_json_doc *doc = NULL;
    zl_err err = {.status = ZL_OK};
    assert_ok(zl_json_parse("x.json", text, strlen(text), &doc, &err), &err);
    return doc;
}

static void assert_refused(const char *text, size_t size, const char *part)
{
    zl_json_doc *doc = NULL;
    zl_err err = {.status = ZL_OK};
    assert_error(zl_json_parse("x.json", text, size, &doc, &err), &err, ZL_E_INPUT, part);
    assert_null(doc);
}

static void a_document_is_read(void **state)
{
    (void)state;
    zl_json_doc *doc = parse(" {\"a\": {\"b\": [1, true, \"x\", null]}, \"A\": 2}\n");
    const zl_json root = zl_json_root(doc);
    assert_int_equal(zl_json_size(root), 2);
    assert_string_equal(zl_json_key(root, 1), "A");
    assert_null(zl_json_key(root, 2));
    const zl_json b = zl_json_get(zl_json_get(root, "a"), "b");
    assert_true(zl_json_is_array(b));
    assert_string_equal(b.path, "a.b");
    assert_int_equal(zl_json_size(b), 4);
    assert_true(zl_json_is_number(zl_json_item(b, 0)));
    assert_true(zl_json_is_bool(zl_json_item(b, 1)));
    assert_true(zl_json_is_string(zl_json_item(b, 2)));
    assert_string_equal(zl_json_item(b, 2).path, "a.b[2]");
    assert_null(zl_json_item(b, 4).node);
    assert_null(zl_json_get(root, "c").node);
    assert_null(zl_json_get(b, "c").node);
    zl_json_free(doc);
    zl_json_free(NULL);
}

static void elements_come_one_after_another(void **state)
{
    (void)state;
    zl_json_doc *doc = parse("{\"a\": [7, [], null], \"b\": [], \"c\": 5}");
    const zl_json root = zl_json_root(doc);
    zl_json item = {0};
    size_t i = 0;
    while (zl_json_each(zl_json_get(root, "a"), &i, &item)) {
        assert_ptr_equal(item.node, zl_json_item(zl_json_get(root, "a"), i - 1).node);
    }
    assert_int_equal(i, 3);
    assert_string_equal(item.path, "a[2]");
    static const char *const empty[] = {"b", "c", "d"};
    for (size_t k = 0; k < COUNT_OF(empty); k++) {
        i = 0;
        assert_false(zl_json_each(zl_json_get(root, empty[k]), &i, &item));
    }
    assert_false(zl_json_each(root, &i, &item));
    zl_json_free(doc);
}

static void names_differ_by_case(void **state)
{
    (void)state;
    uint64_t n = 0;
    zl_err err = {.status = ZL_OK};
    zl_json_doc *doc = parse("{\"Stage\": 3}");
    assert_error(zl_json_u64(zl_json_get(zl_json_root(doc), "stage"), &n, &err), &err, ZL_E_INPUT,
                 "stage is missing");
    zl_json_free(doc);
}

static void null_is_absent_as_a_member(void **state)
{
    (void)state;
    zl_json_doc *doc = parse("{\"n_inner\": null}");
    assert_null(zl_json_get(zl_json_root(doc), "n_inner").node);
    zl_json_free(doc);
}

static void a_byte_order_mark_is_skipped(void **state)
{
    (void)state;
    zl_json_doc *doc = parse("\xef\xbb\xbf{}");
    assert_true(zl_json_is_object(zl_json_root(doc)));
    zl_json_free(doc);
}

static void wrong_syntax_gives_line_and_column(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *part;
    } bad[] = {
        {"", "x.json:1:1: expected a value (string, number, object, array, true, false or null), "
             "but the text ends; is the file complete?"},
        {"{\"a\": 1,\n  \"b\": ", "x.json:2:8: expected a value"},
        {"{\"a\": 1,\n  \"b\" 2}", "x.json:2:7: expected ':' behind the key, got '2'"},
        {"{\"a\": 1,}", "x.json:1:9: expected a key in double quotes behind ',', got '}'"},
        {"[1, 2,]", "x.json:1:7: expected a value behind ',', got ']'"},
        {"[1 2]", "x.json:1:4: expected ',' or ']', got '2'"},
        {"{a: 1}", "x.json:1:2: expected a key in double quotes, got 'a'"},
        {"{\"a\": 1} x", "x.json:1:10: expected the end of the text behind one value, got 'x'"},
        {"{} {}", "the end of the text behind one value"},
        {"[\"abc", "expected \" that closes the string, but the text ends"},
        {"[\"a\nb\"]", "expected an escape sequence for a control character, got byte 0x0a"},
        {"[\"\\x\"]", "behind a backslash"},
        {"[\"\\u0000\"]", "a character other than 0"},
        {"[\"\\u12g4\"]", "four hex digits"},
        {"[\"\\ud800x\"]", "surrogate pair"},
        {"[\"\\udc00\"]", "four hex digits"},
        {"[\"\xff\"]", "a UTF-8 character"},
        {"[\"\xc0\x80\"]", "a UTF-8 character"},
        {"[\"\xed\xa0\x80\"]", "a UTF-8 character"},
        {"[NaN]", "got 'N'"},
        {"[-Infinity]", "got 'I'"},
        {"[01]", "got '1'"},
        {"[+1]", "got '+'"},
        {"[1.]", "a digit behind the decimal point"},
        {"[.5]", "got '.'"},
        {"[1e]", "a digit of the exponent"},
        {"[0x10]", "got 'x'"},
        {"[tru]", "expected a value"},
        {"// c\n[]", "got '/'"},
        {"[1111111111222222222233333333334444444444555555555566666666667777]", "63 characters"},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_refused(bad[i].text, strlen(bad[i].text), bad[i].part);
    }
    assert_refused("{}\0", 3, "got byte 0x00");
    assert_refused("[\"a\0b\"]", 7, "got byte 0x00");
    assert_refused("{}", 1, "the text ends");
}

static void good_strings_are_understood(void **state)
{
    (void)state;
    const char *text = NULL;
    zl_err err = {.status = ZL_OK};
    zl_json_doc *doc = parse("[\"\\u00e9\\ud83d\\ude00 \\\"\\\\\\/\\n\xc3\xa9\"]");
    assert_ok(zl_json_string(zl_json_item(zl_json_root(doc), 0), &text, &err), &err);
    assert_string_equal(text, "\xc3\xa9\xf0\x9f\x98\x80 \"\\/\n\xc3\xa9");
    zl_json_free(doc);
}

static void deep_nesting_is_refused_early(void **state)
{
    (void)state;
    enum { DEEP = 10000 };
    static char text[2 * DEEP + 1];
    memset(text, '[', DEEP);
    memset(text + DEEP, ']', DEEP);
    assert_refused(text, (size_t)2 * DEEP,
                   "x.json:1:65: expected at most 64 levels of nesting, got '['");
    assert_refused(text, DEEP, "at most 64 levels of nesting");
    zl_json_doc *doc = NULL;
    zl_err err = {.status = ZL_OK};
    assert_ok(zl_json_parse("x", text + DEEP - 64, 128, &doc, &err), &err);
    zl_json_free(doc);
}

static void duplicates_that_differ_are_refused(void **state)
{
    (void)state;
    const char *differ = "{\"m\": [0, {\"a\": 1, \"b\": 2, \"a\": 3}]}";
    const char *agree = "{\"a\": {\"x\": 1}, \"b\": 2, \"a\": {\"x\": 1}}";
    assert_refused(differ, strlen(differ),
                   "x.json:1:28: m[1].a is given twice with different values");
    const char *below = "{\"x\": \"\\\"y\\\":\",\n \"a\": {\"a\": \":\"},\n\n \"a\" :2}";
    assert_refused(below, strlen(below), "x.json:4:2: a is given twice");
    zl_json_doc *doc = parse(agree);
    zl_json_free(doc);
    doc = parse("{\"a\": 1, \"A\": 2}");
    zl_json_free(doc);
}

static zl_json_doc *parse_lenient(const char *text, zl_json_lapses *lapses)
{
    zl_json_doc *doc = NULL;
    zl_err err = {.status = ZL_OK};
    assert_ok(zl_json_parse_lenient("x.json", text, strlen(text), &doc, lapses, &err), &err);
    return doc;
}

/* What hjson, the reader of DeepSpeed, reads, and nothing else of its grammar. */
static void lapses_are_forgiven_and_noted(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        zl_json_lapses lapses;
    } cases[] = {
        {"{\"a\": [1, 2]}", {0}},
        {"\xef\xbb\xbf{\"a\": [1, 2]}", {.mark = 1}},
        {"{\r\n\"a\": [1,\r\n2]\r\n}\r\n", {0}},
        {"# one\n{\"a\": [1, 2]} // two", {.comment = 1}},
        {"{\n\"a\": [1, # \"x\": }\n 2 /* * / [\n */ ]\n}", {.comment = 2}},
        {"{/**/\"a\"//\n:/***/[1#\n,2]}", {.comment = 1}},
        {"{\"a\":\n[1, 2,],}", {.comma = 2}},
        {"{\"a\": [1, 2\n, // behind a comma\n],\n\n}", {.comment = 2, .comma = 2}},
        {"{\"a\": [1, 2],\n\"a\": [1, 2],\n\"a\": [1, 2]}", {.repeat = 2}},
        {"#\xff\n{\"a\": [1, 2]}", {.comment = 1}},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        zl_json_lapses lapses = {7, 7, 7, 7};
        zl_json_doc *doc = parse_lenient(cases[i].text, &lapses);
        const zl_json a = zl_json_get(zl_json_root(doc), "a");
        uint64_t n = 0;
        assert_int_equal(zl_json_size(a), 2);
        assert_int_equal(zl_json_u64(zl_json_item(a, 1), &n, NULL), ZL_OK);
        assert_int_equal(n, 2);
        assert_memory_equal(&lapses, &cases[i].lapses, sizeof lapses);
        zl_json_free(doc);
    }
}

static void what_looks_like_a_comment_in_a_string_is_text(void **state)
{
    (void)state;
    zl_json_lapses lapses;
    const char *text = NULL;
    zl_json_doc *doc = parse_lenient("{\"#\": \"// /* ,]\"}", &lapses);
    assert_int_equal(zl_json_string(zl_json_get(zl_json_root(doc), "#"), &text, NULL), ZL_OK);
    assert_string_equal(text, "// /* ,]");
    assert_int_equal(lapses.comment + lapses.comma, 0);
    zl_json_free(doc);
}

static void everything_else_stays_an_error(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *part;
    } bad[] = {
        {"{\"a\": 1,,}", "x.json:1:9: expected a key in double quotes, got ','"},
        {"{,}", "x.json:1:2: expected a key in double quotes, got ','"},
        {"[,]", "x.json:1:2: expected a value"},
        {"{\"a\": 1, // c\n b: 2}", "x.json:2:2: expected a key in double quotes, got 'b'"},
        {"{\"a\": 1\n \"b\": 2}", "x.json:2:2: expected ',' or '}', got '\"'"},
        {"{\"a\": 1\n /* never", "x.json:2:2: expected */ behind the comment begun here"},
        {"{\"a\": 1 /* /", "x.json:1:9: expected */"},
        {"{\"a\": 1 / 2}", "x.json:1:9: expected ',' or '}', got '/'"},
        {"{\"a\": True}", "x.json:1:7: expected a value"},
        {"# only", "x.json:1:7: expected a value"},
        {"{\"\xc3\xa9\": x}", "x.json:1:7: expected a value"}, /* columns are characters */
        {"# c\n{\"a\": 1, \"a\": 2}", "x.json:2:10: a is given twice with different values"},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        zl_json_doc *doc = NULL;
        zl_json_lapses lapses = {0};
        zl_err err = {.status = ZL_OK};
        const zl_status status =
            zl_json_parse_lenient("x.json", bad[i].text, strlen(bad[i].text), &doc, &lapses, &err);
        assert_error(status, &err, ZL_E_INPUT, bad[i].part);
        assert_null(doc);
    }
}

static void our_own_files_may_not_repeat_a_key(void **state)
{
    (void)state;
    static const char *const keys[] = {"a", "b"};
    zl_err err = {.status = ZL_OK};
    zl_json_doc *doc = parse("{\"a\": 1, \"b\": 2, \"a\": 1}");
    assert_error(zl_json_only(zl_json_root(doc), keys, 2, &err), &err, ZL_E_INPUT,
                 "a is given twice");
    zl_json_free(doc);
}

static void unknown_keys_suggest_the_nearest(void **state)
{
    (void)state;
    static const char *const keys[] = {"stage", "ranks"};
    zl_err err = {.status = ZL_OK};
    zl_json_doc *doc = parse("{\"run\": {\"stag\": 1}}");
    const zl_json run = zl_json_get(zl_json_root(doc), "run");
    assert_error(zl_json_only(run, keys, 2, &err), &err, ZL_E_INPUT,
                 "run.stag is not a known key; did you mean stage");
    err = (zl_err){.status = ZL_OK};
    assert_error(zl_json_only(zl_json_get(run, "stag"), keys, 2, &err), &err, ZL_E_INPUT,
                 "run.stag must be an object, got 1");
    zl_json_free(doc);
}

static void integers_are_exact_up_to_2_to_53(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t value;
    } good[] = {
        {"[0]", 0},
        {"[-0]", 0},
        {"[0.0]", 0},
        {"[0e5]", 0},
        {"[2147483648]", 2147483648},
        {"[85899345920]", 85899345920}, /* 80 GiB */
        {"[1e3]", 1000},
        {"[12.50e1]", 125},
        {"[1000e-3]", 1},
        {"[9007199254740991]", 9007199254740991},
        {"[9007199254740992]", 9007199254740992}, /* 2^53 */
    };
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        uint64_t n = 5;
        zl_err err = {.status = ZL_OK};
        zl_json_doc *doc = parse(good[i].text);
        assert_ok(zl_json_u64(zl_json_item(zl_json_root(doc), 0), &n, &err), &err);
        assert_true(n == good[i].value);
        zl_json_free(doc);
    }
}

static void other_numbers_are_not_integers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *part;
    } bad[] = {
        {"{\"n\": 9007199254740993}", "n must be a whole number up to 2^53"},
        {"{\"n\": 18446744073709551616}", "up to 2^53"},
        {"{\"n\": 1e999}", "up to 2^53"},
        {"{\"n\": 1e99999999999999999999}", "up to 2^53"},
        {"{\"n\": -3}", "not negative, got -3"},
        {"{\"n\": 1.5}", "n must be a whole number, got 1.5"},
        {"{\"n\": 1e-3}", "got 1e-3"},
        {"{\"n\": 4503599627370497.00001}", "n must be a whole number, got"},
        {"{\"n\": \"12\"}", "got the string \"12\""},
        {"{\"n\": true}", "got true"},
        {"{\"n\": []}", "got an array"},
        {"{\"n\": {}}", "got an object"},
        {"{\"n\": null}", "n is missing"},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        uint64_t n = 5;
        zl_err err = {.status = ZL_OK};
        zl_json_doc *doc = parse(bad[i].text);
        assert_error(zl_json_u64(zl_json_get(zl_json_root(doc), "n"), &n, &err), &err, ZL_E_INPUT,
                     bad[i].part);
        assert_int_equal(n, 5);
        zl_json_free(doc);
    }
}

static void every_number_keeps_its_own_text(void **state)
{
    (void)state;
    uint64_t n = 0;
    double x = 0;
    zl_err err = {.status = ZL_OK};
    zl_json_doc *doc = parse("{\"7\": \"8\\\"9\", \"a\": [1, {\"b\": -2.5e0}], \"c\": 3}");
    const zl_json root = zl_json_root(doc);
    assert_ok(zl_json_u64(zl_json_item(zl_json_get(root, "a"), 0), &n, &err), &err);
    assert_int_equal(n, 1);
    assert_ok(zl_json_real(zl_json_get(zl_json_item(zl_json_get(root, "a"), 1), "b"), &x, &err),
              &err);
    assert_true(x >= -2.5 && x <= -2.5);
    assert_ok(zl_json_u64(zl_json_get(root, "c"), &n, &err), &err);
    assert_int_equal(n, 3);
    zl_json_free(doc);
}

static void other_types_are_checked(void **state)
{
    (void)state;
    double x = 0;
    bool flag = false;
    const char *text = NULL;
    zl_json_doc *doc = parse("{\"x\": 1e999, \"f\": 1, \"s\": false, \"t\": true}");
    const zl_json root = zl_json_root(doc);
    zl_err err = {.status = ZL_OK};
    assert_error(zl_json_real(zl_json_get(root, "x"), &x, &err), &err, ZL_E_INPUT,
                 "x must be a finite");
    err = (zl_err){.status = ZL_OK};
    assert_error(zl_json_bool(zl_json_get(root, "f"), &flag, &err), &err, ZL_E_INPUT,
                 "f must be true or");
    err = (zl_err){.status = ZL_OK};
    assert_error(zl_json_string(zl_json_get(root, "s"), &text, &err), &err, ZL_E_INPUT,
                 "s must be a str");
    err = (zl_err){.status = ZL_OK};
    assert_ok(zl_json_bool(zl_json_get(root, "t"), &flag, &err), &err);
    assert_true(flag);
    zl_json_free(doc);
}

static void the_schema_must_agree(void **state)
{
    (void)state;
    zl_err err = {.status = ZL_OK};
    zl_json_doc *doc = parse("{\"schema\": \"zeroledger.run/2\"}");
    assert_error(zl_json_schema(zl_json_root(doc), "zeroledger.run/1", &err), &err, ZL_E_INPUT,
                 "schema must be \"zeroledger.run/1\", got \"zeroledger.run/2\"");
    err = (zl_err){.status = ZL_OK};
    assert_ok(zl_json_schema(zl_json_root(doc), "zeroledger.run/2", &err), &err);
    zl_json_free(doc);
    doc = parse("[]");
    assert_error(zl_json_schema(zl_json_root(doc), "zeroledger.run/1", &err), &err, ZL_E_INPUT,
                 "the top level must be an object");
    zl_json_free(doc);
}

static void long_paths_are_cut(void **state)
{
    (void)state;
    char key[300];
    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = '\0';
    zl_json_doc *doc = parse("{}");
    const zl_json value = zl_json_get(zl_json_get(zl_json_root(doc), key), key);
    assert_true(strlen(value.path) < sizeof value.path);
    assert_non_null(strstr(value.path, "..."));
    zl_json_free(doc);
}

static void many_members_take_no_time(void **state)
{
    (void)state;
    enum { MEMBERS = 200000, EACH = 16 };
    char *text = malloc((size_t)MEMBERS * EACH + 3);
    assert_non_null(text);
    size_t at = 0;
    text[at++] = '{';
    for (unsigned i = 0; i < MEMBERS; i++) {
        at += (size_t)snprintf(text + at, EACH + 1, "%s\"k%06u\": 1", i > 0 ? ", " : "", i);
    }
    text[at++] = '}';
    text[at] = '\0';
    zl_json_doc *doc = parse(text);
    assert_int_equal(zl_json_size(zl_json_root(doc)), MEMBERS);
    zl_json_free(doc);
    free(text);
}

/* Any mutation of a good text is either read or refused with one line; never a crash. */
static void mutations_never_crash(void **state)
{
    (void)state;
    static const char good[] =
        "{\"a\": [1, -2.5e3, \"x\\u00e9\\n\"], \"b\": {\"c\": true, \"d\": null}}";
    static const char bytes[] = "{}[]\",:#/*\\u0d-1e.tfn\x80\xff\n ";
    uint64_t seed = 20240229;
    for (int round = 0; round < 50000; round++) {
        char text[sizeof good];
        memcpy(text, good, sizeof good);
        for (int i = 0; i < 3; i++) {
            seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            text[(seed >> 33) % (sizeof good - 1)] = bytes[(seed >> 20) % (sizeof bytes - 1)];
        }
        zl_json_doc *doc = NULL;
        zl_err err = {.status = ZL_OK};
        const size_t size = (seed >> 50) % sizeof good;
        zl_json_lapses lapses;
        const zl_status status = round % 2 == 0
                                     ? zl_json_parse("x", text, size, &doc, &err)
                                     : zl_json_parse_lenient("x", text, size, &doc, &lapses, &err);
        zl_json_free(doc);
        assert_int_equal(err.status, status);
        assert_true(status == ZL_OK || status == ZL_E_INPUT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_document_is_read),
        cmocka_unit_test(elements_come_one_after_another),
        cmocka_unit_test(names_differ_by_case),
        cmocka_unit_test(null_is_absent_as_a_member),
        cmocka_unit_test(a_byte_order_mark_is_skipped),
        cmocka_unit_test(wrong_syntax_gives_line_and_column),
        cmocka_unit_test(good_strings_are_understood),
        cmocka_unit_test(deep_nesting_is_refused_early),
        cmocka_unit_test(duplicates_that_differ_are_refused),
        cmocka_unit_test(lapses_are_forgiven_and_noted),
        cmocka_unit_test(what_looks_like_a_comment_in_a_string_is_text),
        cmocka_unit_test(everything_else_stays_an_error),
        cmocka_unit_test(our_own_files_may_not_repeat_a_key),
        cmocka_unit_test(unknown_keys_suggest_the_nearest),
        cmocka_unit_test(integers_are_exact_up_to_2_to_53),
        cmocka_unit_test(other_numbers_are_not_integers),
        cmocka_unit_test(every_number_keeps_its_own_text),
        cmocka_unit_test(other_types_are_checked),
        cmocka_unit_test(the_schema_must_agree),
        cmocka_unit_test(long_paths_are_cut),
        cmocka_unit_test(many_members_take_no_time),
        cmocka_unit_test(mutations_never_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
