/* Pickles, byte by byte as Python's pickletools describes them. */
#include "base_test.h"

#include "cli/pickle.h"

typedef struct written {
    zl_pickle p;
    char *text;
    size_t size;
} written;

static void begin(written *w)
{
    FILE *const out = open_memstream(&w->text, &w->size);
    assert_non_null(out);
    zl_pickle_begin(&w->p, out);
}

/* Ends it; protocol 2 in front, a full stop behind, and between them these bytes. */
static void is(written *w, const char *bytes, size_t size)
{
    zl_pickle_stop(&w->p);
    assert_int_equal(fclose(w->p.out), 0);
    assert_int_equal(w->size, size + 3);
    assert_memory_equal(w->text, "\x80\x02", 2);
    assert_memory_equal(w->text + 2, bytes, size);
    assert_int_equal(w->text[size + 2], '.');
    free(w->text);
}

#define IS(w, bytes) is(w, bytes, sizeof(bytes) - 1)

static void a_dictionary_is_its_keys_and_values(void **state)
{
    (void)state;
    written w;
    begin(&w);
    zl_pickle_dict(&w.p);
    zl_pickle_text(&w.p, "size");
    zl_pickle_count(&w.p, 512);
    zl_pickle_text(&w.p, "on");
    zl_pickle_bool(&w.p, true);
    zl_pickle_end(&w.p);
    IS(&w, "}(X\4\0\0\0sizeM\0\2X\2\0\0\0on\x88u");
}

/* The shortest form, and never a sign: the highest bit of LONG1's last byte is 0. */
static void counts_take_the_shortest_form(void **state)
{
    (void)state;
    written w;
    begin(&w);
    zl_pickle_list(&w.p);
    zl_pickle_count(&w.p, 0);
    zl_pickle_count(&w.p, 255);
    zl_pickle_count(&w.p, 256);
    zl_pickle_count(&w.p, 65536);
    zl_pickle_count(&w.p, 2147483647);
    zl_pickle_count(&w.p, 2147483648);
    zl_pickle_count(&w.p, UINT64_C(0x7f0000000000));
    zl_pickle_count(&w.p, UINT64_C(0x800000000000));
    zl_pickle_count(&w.p, INT64_MAX);
    zl_pickle_count(&w.p, UINT64_MAX);
    zl_pickle_end(&w.p);
    IS(&w, "](K\0K\xffM\0\1J\0\0\1\0J\xff\xff\xff\x7f"
           "\x8a\5\0\0\0\x80\0"
           "\x8a\6\0\0\0\0\0\x7f"
           "\x8a\7\0\0\0\0\0\x80\0"
           "\x8a\x8\xff\xff\xff\xff\xff\xff\xff\x7f"
           "\x8a\x9\xff\xff\xff\xff\xff\xff\xff\xff\0"
           "e");
}

static void what_is_kept_can_be_had_again(void **state)
{
    (void)state;
    written w;
    begin(&w);
    zl_pickle_list(&w.p);
    zl_pickle_list(&w.p);
    zl_pickle_end(&w.p);
    const uint32_t first = zl_pickle_keep(&w.p);
    zl_pickle_again(&w.p, first);
    zl_pickle_again(&w.p, 256); /* a number that takes more than a byte */
    zl_pickle_end(&w.p);
    IS(&w, "](]q\0h\0j\0\1\0\0e");
}

/* A thousand at a time: 1,001 values are two batches, 1 + 1,000 x 2 bytes + 1, and 1 + 2 + 1. */
static void long_lists_come_in_batches(void **state)
{
    (void)state;
    static char expected[2007];
    char *at = expected;
    written w;
    begin(&w);
    zl_pickle_list(&w.p);
    *at++ = ']';
    for (int i = 0; i < 1001; i++) {
        zl_pickle_count(&w.p, 7);
        if (i == 0 || i == 1000) {
            *at++ = '(';
        }
        *at++ = 'K';
        *at++ = 7;
        if (i == 999 || i == 1000) {
            *at++ = 'e';
        }
    }
    zl_pickle_end(&w.p);
    is(&w, expected, sizeof expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dictionary_is_its_keys_and_values),
        cmocka_unit_test(counts_take_the_shortest_form),
        cmocka_unit_test(what_is_kept_can_be_had_again),
        cmocka_unit_test(long_lists_come_in_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
