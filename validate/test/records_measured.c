/* model/torch/measured.def, which decides what is called "predicted only", lists exactly what the
 * committed records measured. ZL_BLESS=1 writes it again. */
#define _POSIX_C_SOURCE 200809L

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "records/record.h"
#include "zeroledger/text.h"

enum { ROWS_MAX = 512, ROW_SIZE = 160, TEXT_SIZE = ROWS_MAX * ROW_SIZE };

/* A sort key, then what is printed. */
typedef struct rows {
    char row[ROWS_MAX][2][ROW_SIZE];
    size_t count;
} rows;

static const char head[] =
    "/* Combinations that validate/records holds measurements of; unit.records_measured writes "
    "it.\n"
    " * framework, release (0 outside DeepSpeed), stage, architecture, precision */\n";

static void add(rows *r, const zl_torch_run *run)
{
    const uint32_t release = run->framework == ZL_TORCH_DEEPSPEED ? run->ds.version : 0;
    char key[ROW_SIZE];
    char row[ROW_SIZE];
    snprintf(row, sizeof row, "MEASURED(\"%s\", %u, %u, \"%s\", \"%s\")\n",
             zl_torch_framework_name(run->framework), release, (unsigned)run->stage,
             zl_hf_class_name(&run->model), zl_torch_precision_name(run->precision));
    snprintf(key, sizeof key, "%02d %09u %u %s %s", (int)run->framework, release,
             (unsigned)run->stage, zl_hf_class_name(&run->model),
             zl_torch_precision_name(run->precision));
    for (size_t i = 0; i < r->count; i++) {
        if (strcmp(r->row[i][0], key) == 0) {
            return;
        }
    }
    assert_true(r->count < ROWS_MAX);
    memcpy(r->row[r->count][0], key, sizeof key);
    memcpy(r->row[r->count++][1], row, sizeof row);
}

static void add_file(rows *r, const zv_setup *setup, const char *path)
{
    char *text = NULL;
    size_t size = 0;
    zl_err err = {.status = ZL_OK};
    if (zl_file_read(path, &text, &size, &err) != ZL_OK) {
        fail_msg("%s", err.text);
    }
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        zl_json_doc *doc = NULL;
        zv_record record;
        assert_int_equal(zl_json_parse(path, line, strlen(line), &doc, &err), ZL_OK);
        if (zv_record_read(zl_json_root(doc), setup, NULL, NULL, &record, NULL) == ZL_OK) {
            add(r, &record.run);
        }
        zl_json_free(doc);
    }
    free(text);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void the_table_is_what_the_records_measured(void **state)
{
    static const char *const files[] = {
        ZV_RECORDS "/torch-h200.jsonl",       ZV_RECORDS "/torch-lora-h200.jsonl",
        ZV_RECORDS "/deepspeed-h200.jsonl",   ZV_RECORDS "/extra/torch-extra.jsonl",
        ZV_RECORDS "/extra/torch-arch.jsonl", ZV_RECORDS "/extra/deepspeed-extra.jsonl"};
    (void)state;
    static rows r;
    static char wanted[TEXT_SIZE];
    zv_setup *setup = NULL;
    char *found = NULL;
    size_t size = 0;
    const char *bless = getenv("ZL_BLESS");
    assert_int_equal(zv_setup_load(ZV_RECORDS "/setup.json", &setup, NULL), ZL_OK);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        add_file(&r, setup, files[i]);
    }
    zv_setup_free(setup);
    assert_true(r.count > 0);
    qsort(r.row, r.count, sizeof r.row[0], by_key);
    size_t used = (size_t)snprintf(wanted, sizeof wanted, "%s", head);
    for (size_t i = 0; i < r.count; i++) {
        used += (size_t)snprintf(wanted + used, sizeof wanted - used, "%s", r.row[i][1]);
    }
    if (bless != NULL && strcmp(bless, "1") == 0) {
        assert_int_equal(zl_file_write(ZV_MEASURED, wanted, used, NULL), ZL_OK);
    }
    assert_int_equal(zl_file_read(ZV_MEASURED, &found, &size, NULL), ZL_OK);
    assert_string_equal(found, wanted);
    free(found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_what_the_records_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
