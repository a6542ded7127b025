/* YAML as PyYAML's safe_load reads it. The expected values of scalars are those of the resolvers in
 * its resolver.py, worked out by hand. */
#include "base_test.h"

#include "cli/yaml_file.h"
#include "zeroledger/json.h"

static void scalars_are_what_yaml_1_1_says(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        zl_yaml_kind kind;
        const char *value;
    } cases[] = {
        {"NO", ZL_YAML_BOOL, "false"},
        {"no", ZL_YAML_BOOL, "false"},
        {"off", ZL_YAML_BOOL, "false"},
        {"Yes", ZL_YAML_BOOL, "true"},
        {"on", ZL_YAML_BOOL, "true"},
        {"nO", ZL_YAML_STRING, ""},
        {"y", ZL_YAML_STRING, ""}, /* of the specification, not of PyYAML */
        {"~", ZL_YAML_NULL, ""},
        {"", ZL_YAML_NULL, ""},
        {"Null", ZL_YAML_NULL, ""},
        {"none", ZL_YAML_STRING, ""},
        {"8", ZL_YAML_COUNT, "8"},
        {"+8", ZL_YAML_COUNT, "8"},
        {"0", ZL_YAML_COUNT, "0"},
        {"-0", ZL_YAML_COUNT, "0"},
        {"-8", ZL_YAML_REAL, "-8"},
        {"1_000_000", ZL_YAML_COUNT, "1000000"},
        {"010", ZL_YAML_COUNT, "8"}, /* octal */
        {"08", ZL_YAML_STRING, ""},
        {"0x1F", ZL_YAML_COUNT, "31"},
        {"0b101", ZL_YAML_COUNT, "5"},
        {"190:20:30", ZL_YAML_COUNT, "685230"}, /* ((190 x 60) + 20) x 60 + 30 */
        {"1:60", ZL_YAML_STRING, ""},
        {"18446744073709551616", ZL_YAML_STRING, ""},
        {"5e7", ZL_YAML_STRING, ""},
        {"5.0e7", ZL_YAML_STRING, ""},
        {"5.0e+7", ZL_YAML_REAL, "5.0e+7"},
        {"5.e-7", ZL_YAML_REAL, "5.e-7"},
        {"1e-5", ZL_YAML_STRING, ""},
        {"-1.5", ZL_YAML_REAL, "-1.5"},
        {".5", ZL_YAML_REAL, ".5"},
        {"1_0.5", ZL_YAML_REAL, "10.5"},
        {"1.2.3", ZL_YAML_STRING, ""},
        {"1.5x", ZL_YAML_STRING, ""},
        {".", ZL_YAML_STRING, ""},
        {"FULL_SHARD", ZL_YAML_STRING, ""},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char value[ZL_YAML_VALUE];
        const zl_yaml_kind kind = zl_yaml_resolve(cases[i].text, value);
        if (kind != cases[i].kind ||
            (kind != ZL_YAML_STRING && strcmp(value, cases[i].value) != 0)) {
            fail_msg("'%s': expected %d '%s', got %d '%s'", cases[i].text, (int)cases[i].kind,
                     cases[i].value, (int)kind, value);
        }
    }
}

static void keep_line(void *context, const char *line)
{
    snprintf(context, 320, "%s", line);
}

static void blocks_flows_and_quotes_become_json(void **state)
{
    (void)state;
    zl_err err = {.status = ZL_OK};
    zl_json_doc *doc = NULL;
    char warned[320] = "";
    size_t size = 0;
    write_text("a.yaml", "# a comment\n"
                         "plain: FSDP # behind it\n"
                         "quoted: 'no'\n"
                         "bare: no\n"
                         "anchored: &here 3\n"
                         "inner:\n"
                         "  list: [1, \"2\", {}]\n"
                         "  block:\n"
                         "  - a\n"
                         "  - null\n"
                         "str: !!str 5\n"
                         "number: 5e7\n");
    assert_ok(zl_yaml_load("a.yaml", &doc, keep_line, warned, &err), &err);
    zl_json_writer *w = zl_json_writer_new();
    zl_json_put(w, NULL, zl_json_root(doc));
    assert_string_equal(zl_json_writer_text(w, &size), "{\n"
                                                       "  \"plain\": \"FSDP\",\n"
                                                       "  \"quoted\": \"no\",\n"
                                                       "  \"bare\": false,\n"
                                                       "  \"anchored\": 3,\n"
                                                       "  \"inner\": {\n"
                                                       "    \"list\": [\n"
                                                       "      1,\n"
                                                       "      \"2\",\n"
                                                       "      {}\n"
                                                       "    ],\n"
                                                       "    \"block\": [\n"
                                                       "      \"a\",\n"
                                                       "      null\n"
                                                       "    ]\n"
                                                       "  },\n"
                                                       "  \"str\": \"5\",\n"
                                                       "  \"number\": \"5e7\"\n"
                                                       "}\n");
    zl_json_writer_free(w);
    zl_json_free(doc);
    assert_non_null(strstr(warned, "a.yaml:12: number: 5e7 is a text in YAML 1.1"));
}

static void what_is_not_read_is_named_with_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"a: &x [1]\nb: *x\n", "b.yaml:2:4: aliases are not read"},
        /* Nine of these would be a billion strings. */
        {"a: &a [l, l]\nb: &b [*a, *a]\n", "b.yaml:2:8: aliases are not read"},
        {"a: 1\n<<: {b: 2}\n", "b.yaml:2:1: merge keys are not read"},
        {"a: !!python/object:os.system 1\n", "b.yaml:1:4: tags are not read"},
        {"a: !thing [1]\n", "b.yaml:1:4: tags are not read"},
        {"a: 1\n---\nb: 2\n", "a second document"},
        {"", "the file is empty"},
        {"# nothing\n", "the file is empty"},
        {"a: [1\n", "b.yaml:2:1: did not find"},
        {"a: b: c\n", "b.yaml:1:5: mapping values are not allowed"},
        {"\ta: 1\n", "b.yaml:1:1: found character that cannot start any token"},
        {"? [1]\n: 2\n", "b.yaml:1:3: a key must be a text"},
        {"a: 1\na: 2\n", "a is given twice with different values"},
        {"a: \"\\0\"\n", "b.yaml:1:4: a text with a zero byte"},
        {"a: \xff\n", "b.yaml:"},
        {"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]\n",
         "nesting may be at most 32 deep"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        zl_err err = {.status = ZL_OK};
        zl_json_doc *doc = NULL;
        write_text("b.yaml", cases[i].text);
        const zl_status status = zl_yaml_load("b.yaml", &doc, NULL, NULL, &err);
        if (status != ZL_E_INPUT || strstr(err.text, cases[i].part) == NULL) {
            fail_msg("case %zu: expected \"%s\", got %d \"%s\"", i, cases[i].part, (int)status,
                     err.text);
        }
        assert_null(doc);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalars_are_what_yaml_1_1_says),
        cmocka_unit_test(blocks_flows_and_quotes_become_json),
        cmocka_unit_test(what_is_not_read_is_named_with_its_place),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
