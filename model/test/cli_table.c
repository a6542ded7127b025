/* Tables on lines of limited width, and bars. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/table.h"

static void prints(const zl_table *table, zl_look look, const char *expected)
{
    char *text = NULL;
    size_t size = 0;
    zl_err err = {0};
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    assert_int_equal(zl_table_print(table, &look, out, &err), ZL_OK);
    fclose(out);
    assert_string_equal(text, expected);
    free(text);
}

/* name 4, kind 4, and columns of 9, 5 and 11 characters: 4 + 4 + 9 + 5 + 11 + 4 x 2 = 41. */
static zl_table *sample(void)
{
    zl_table *table = zl_table_new();
    zl_table_column(table, "name", ZL_LEFT);
    zl_table_column(table, "kind", ZL_LEFT);
    zl_table_column(table, "bytes", ZL_RIGHT);
    zl_table_column(table, "share", ZL_RIGHT);
    zl_table_column(table, "text", ZL_LEFT);
    zl_table_text(table, "a");
    zl_table_text(table, "act");
    zl_table_count(table, 1234567);
    zl_table_text(table, "1 %%");
    zl_table_text(table, "one two six");
    zl_table_text(table, "bb");
    zl_table_text(table, "opt");
    zl_table_count(table, 7);
    zl_table_text(table, "99 %%");
    zl_table_text(table, "x");
    return table;
}

static void is_as_wide_as_it_needs_without_a_terminal(void **state)
{
    (void)state;
    zl_table *table = sample();
    const char *const whole = "name  kind      bytes  share  text\n"
                              "a     act   1,234,567    1 %  one two six\n"
                              "bb    opt           7   99 %  x\n";
    prints(table, (zl_look){.width = 0}, whole);
    prints(table, (zl_look){.width = 41}, whole);
    zl_table_free(table);
}

/* 40 is one too few, and the text is left 40 - 4 x 2 - 22 = 10 characters, fewer than text is
 * folded to. name and kind take 10, no more than a third of 40, and begin each block. */
static void repeats_the_first_columns_in_blocks(void **state)
{
    (void)state;
    zl_table *table = sample();
    prints(table, (zl_look){.width = 40},
           "name  kind      bytes  share\n"
           "a     act   1,234,567    1 %\n"
           "bb    opt           7   99 %\n"
           "\n"
           "name  kind  text\n"
           "a     act   one two six\n"
           "bb    opt   x\n");
    /* A third of 20 is less than name and kind. */
    prints(table, (zl_look){.width = 20},
           "name  kind\n"
           "a     act\n"
           "bb    opt\n"
           "\n"
           "name      bytes\n"
           "a     1,234,567\n"
           "bb            7\n"
           "\n"
           "name  share\n"
           "a       1 %\n"
           "bb     99 %\n"
           "\n"
           "name  text\n"
           "a     one two six\n"
           "bb    x\n");
    zl_table_free(table);
}

static void folds_text_between_words_and_figures_never(void **state)
{
    (void)state;
    zl_table *table = zl_table_new();
    zl_table_column(table, "name", ZL_LEFT);
    zl_table_column(table, "bytes", ZL_RIGHT);
    zl_table_column(table, "text", ZL_LEFT);
    zl_table_text(table, "gather");
    zl_table_count(table, 1234567890);
    zl_table_text(table, "a slot of a gathered transformer block, of which two live");
    zl_table_text(table, "x");
    zl_table_count(table, 1);
    zl_table_text(table, "short");
    /* 45 - 6 - 13 - 2 x 2 = 22 are left for the text. */
    prints(table, (zl_look){.width = 45, .color = true},
           "\033[1mname            bytes  text\033[0m\n"
           "gather  1,234,567,890  a slot of a gathered\n"
           "                       transformer block, of\n"
           "                       which two live\n"
           "x                   1  short\n");
    /* Narrower than the figure itself: the figure stays whole. */
    prints(table, (zl_look){.width = 10},
           "name            bytes\n"
           "gather  1,234,567,890\n"
           "x                   1\n"
           "\n"
           "name    text\n"
           "gather  a slot of a gathered transformer block, of which two live\n"
           "x       short\n");
    zl_table_free(table);
}

/* Of 20 characters for the largest: 20 x 50 / 80 = 12.5, and one of 80,000 rounds up to 1/8. */
static void bars_are_in_proportion(void **state)
{
    (void)state;
    zl_table *table = zl_table_new();
    zl_table_column(table, "name", ZL_LEFT);
    zl_table_column(table, "bytes", ZL_BAR);
    static const uint64_t bytes[] = {80000, 50000, 1, 0};
    for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++) {
        zl_table_text(table, "row");
        zl_table_count(table, bytes[i]);
    }
    prints(table, (zl_look){.width = 0},
           "name  bytes\n"
           "row   ####################\n"
           "row   #############\n"
           "row   #\n"
           "row   \n");
    prints(table, (zl_look){.format = ZL_FORMAT_TABLE, .utf8 = true},
           "name  bytes\n"
           "row   ████████████████████\n"
           "row   ████████████▌\n"
           "row   ▏\n"
           "row   \n");
    /* A line of 16 leaves 10 characters, and a wide one no more than 32. */
    prints(table, (zl_look){.width = 16},
           "name  bytes\n"
           "row   ##########\n"
           "row   #######\n"
           "row   #\n"
           "row   \n");
    prints(table, (zl_look){.width = 400},
           "name  bytes\n"
           "row   ################################\n"
           "row   ####################\n"
           "row   #\n"
           "row   \n");
    prints(table, (zl_look){.format = ZL_FORMAT_MD},
           "| name | bytes |\n"
           "|---|---|\n"
           "| row | #################### |\n"
           "| row | ############# |\n"
           "| row | # |\n"
           "| row |  |\n");
    zl_table_free(table);
}

static void a_row_cut_short_is_a_bug(void **state)
{
    (void)state;
    zl_err err = {0};
    zl_table *table = sample();
    zl_table_text(table, "alone");
    assert_int_equal(zl_table_print(table, &(zl_look){.width = 0}, stdout, &err), ZL_E_BUG);
    zl_table_free(table);
    assert_int_equal(zl_table_print(NULL, &(zl_look){.width = 0}, stdout, NULL), ZL_E_RESOURCE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_as_wide_as_it_needs_without_a_terminal),
        cmocka_unit_test(repeats_the_first_columns_in_blocks),
        cmocka_unit_test(folds_text_between_words_and_figures_never),
        cmocka_unit_test(bars_are_in_proportion),
        cmocka_unit_test(a_row_cut_short_is_a_bug),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
