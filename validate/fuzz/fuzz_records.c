/* Records of measured runs, one a line. A line that is a record is read as one, without the walk
 * that would follow; files without any go the whole way. */
#define _DEFAULT_SOURCE /* strtok_r */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "records/judgement.h"

static const char no_setup[] = "{\"source\": \"\", \"fsdp2_meta_init\": [\"a\"]}";

static bool read_line(const char *line, const zv_setup *setup)
{
    zl_json_doc *doc = NULL;
    zl_err err = {0};
    zv_record record;
    zl_torch_run run;
    uint64_t number = 0;
    if (zl_json_parse("record", line, strlen(line), &doc, &err) != ZL_OK) {
        return false;
    }
    const zl_status status = zv_record_read(zl_json_root(doc), setup, NULL, NULL, &record, &err);
    if (status == ZL_OK) {
        zl_json rank = {0};
        for (size_t i = 0; zl_json_each(record.ranks, &i, &rank);) {
            (void)!zv_record_rank(&record, rank, &run, &number, &err);
        }
    }
    zl_json_free(doc);
    return status == ZL_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static zv_setup *setup = NULL;
    char *const text = zl_fuzz_text(data, size);
    char *rest = NULL;
    bool record = false;
    zl_err err = {0};
    if (setup == NULL &&
        zv_setup_load(zl_fuzz_file(0, (const uint8_t *)no_setup, sizeof no_setup - 1), &setup,
                      &err) != ZL_OK) {
        abort();
    }
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        record |= read_line(line, setup);
    }
    free(text);
    if (!record) {
        zv_judgement all = {0};
        (void)!zv_judge_file(zl_fuzz_file(0, data, size), setup, NULL, NULL, &all, &err);
        zv_judgement_release(&all);
    }
    return 0;
}
