/* The tensors of a run description as a list: every numbered module has its own again. */
#include "base_test.h"

#include "torch/tensor_tree.h"
#include "zeroledger/json.h"

static zl_status read_tree(const char *text, zl_tensor_list *out, zl_err *err)
{
    zl_json_doc *doc = NULL;
    assert_ok(zl_json_parse("tensors", text, strlen(text), &doc, err), err);
    const zl_status status = zl_tensor_tree_read(zl_json_root(doc), out, err);
    zl_json_free(doc);
    return status;
}

static void numbered_modules_have_their_own_again(void **state)
{
    (void)state;
    static const char *const names[] = {"h.0.w", "h.1.w", "h.2.w", "h.10.w", "wte", "wte.absmax"};
    static const uint64_t rows[] = {2, 2, 3, 2, 5, 1};
    zl_tensor_list list = {0};
    zl_err err = {.status = ZL_OK};
    assert_ok(read_tree("{\"wte\":{\"\":\"U8[5]\",\"absmax\":\"F32[1]\"},"
                        "\"h\":{\"2\":{\"w\":\"BF16[3,4]\"},\"0-1,10\":{\"w\":\"BF16[2,4]\"}}}",
                        &list, &err),
              &err);
    assert_int_equal(list.count, 6);
    /* Parts that are words keep their order. */
    static const size_t order[] = {4, 5, 0, 1, 2, 3};
    for (size_t i = 0; i < 6; i++) {
        const zl_tensor_entry *entry = &list.entry[i];
        assert_string_equal(entry->name, names[order[i]]);
        assert_int_equal(entry->dim[0], rows[order[i]]);
    }
    assert_string_equal(list.entry[0].dtype, "U8");
    assert_int_equal(list.entry[2].rank, 2);
    assert_int_equal(list.entry[2].dim[1], 4);
    zl_tensor_list_clear(&list);
}

static void scalars_and_empty_tensors_are_tensors(void **state)
{
    (void)state;
    zl_tensor_list list = {0};
    zl_err err = {.status = ZL_OK};
    assert_ok(read_tree("{\"a\":\"F32[]\",\"b\":\"I64[0,3]\"}", &list, &err), &err);
    assert_int_equal(list.entry[0].rank, 0);
    assert_int_equal(zl_tensor_elements(&list.entry[0]), 1);
    assert_int_equal(zl_tensor_elements(&list.entry[1]), 0);
    zl_tensor_list_clear(&list);
}

static void what_is_no_tensor_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"{\"a\":\"BF16\"}", "a must be a tensor such as"},
        {"{\"a\":\"[4]\"}", "a must be a tensor such as"},
        {"{\"a\":\"BF16[4\"}", "a must be a tensor such as"},
        {"{\"a\":\"BF16[4]x\"}", "a must be a tensor such as"},
        {"{\"a\":\"BF16[4,]\"}", "a must be a tensor such as"},
        {"{\"a\":\"BF16[,4]\"}", "a must be a tensor such as"},
        {"{\"a\":\"BF16[-4]\"}", "a must be a tensor such as"},
        {"{\"a\":\"BF16[1,1,1,1,1,1,1,1,1]\"}", "a must be a tensor such as"},
        {"{\"a\":\"BF16[99999999999999999999]\"}", "a must be a tensor such as"},
        {"{\"a\":7}", "a must be a tensor or an object"},
        {"{\"a\":{}}", "a must be a tensor or an object"},
        {"[]", "must be a tensor or an object"},
        {"{\"h\":{\"0-1\":\"U8[1]\",\"1\":\"U8[1]\"}}", "the number 1 is there twice"},
        {"{\"h\":{\"0-999999\":\"U8[1]\"}}", "more than 262144"},
        /* 600 x 600 */
        {"{\"h\":{\"0-599\":{\"0-599\":\"U8[1]\"}}}", "more than 262144"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        zl_tensor_list list = {0};
        zl_err err = {.status = ZL_OK};
        assert_error(read_tree(cases[i].text, &list, &err), &err, ZL_E_INPUT, cases[i].part);
        assert_int_equal(list.count, 0);
    }
}

/* Not ascending, not a number, too large: parts like any other. */
static void keys_that_are_no_sets_are_names(void **state)
{
    (void)state;
    static const char *const keys[] = {"1-0", "3,2", "0-", "a-1", "12345678", "1,,2", "-1"};
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        char text[64];
        zl_tensor_list list = {0};
        zl_err err = {.status = ZL_OK};
        snprintf(text, sizeof text, "{\"%s\":\"U8[1]\"}", keys[i]);
        assert_ok(read_tree(text, &list, &err), &err);
        assert_int_equal(list.count, 1);
        assert_string_equal(list.entry[0].name, keys[i]);
        zl_tensor_list_clear(&list);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbered_modules_have_their_own_again),
        cmocka_unit_test(scalars_and_empty_tensors_are_tensors),
        cmocka_unit_test(what_is_no_tensor_is_named),
        cmocka_unit_test(keys_that_are_no_sets_are_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
