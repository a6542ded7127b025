#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "records/print.h"

static void warn(void *context, const char *line)
{
    (void)context;
    fprintf(stderr, "zl-validate: %s\n", line);
}

zl_status zv_judge_operands(const zv_settings *s, zv_judgement *all, zl_err *err)
{
    char path[ZV_PATH_SIZE];
    zv_setup *setup = NULL;
    zl_status status = ZL_OK;
    ZL_TRY(zv_data_file("records/setup.json", path, err));
    ZL_TRY(zv_setup_load(path, &setup, err));
    for (unsigned i = 0; i < s->operands && status == ZL_OK; i++) {
        status = zv_judge_file(s->operand[i], setup, warn, NULL, all, err);
    }
    zv_setup_free(setup);
    return status;
}

/* The misses with their causes, alone or on the page. */
static zl_status print_with_causes(const zv_judgement *all, bool page, zl_err *err)
{
    char path[ZV_PATH_SIZE];
    zv_causes *causes = NULL;
    zv_miss *miss = NULL;
    size_t count = 0;
    zl_status status;
    ZL_TRY(zv_data_file("records/causes.json", path, err));
    ZL_TRY(zv_causes_load(path, &causes, err));
    ZL_TRY_GOTO(status, zv_misses_of(all, causes, &miss, &count, err), out);
    if (page) {
        status = zv_print_page(stdout, all, miss, count, err);
    } else {
        zv_print_misses(stdout, miss, count);
    }
out:
    free(miss);
    zv_causes_free(causes);
    return status;
}

static zl_status print_table(const zv_settings *s, const zv_judgement *all, zl_err *err)
{
    if (s->misses) {
        return print_with_causes(all, false, err);
    }
    if (!s->summary) {
        zv_print_rows(stdout, all);
    }
    return zv_print_summary(stdout, all, err);
}

zl_status zv_cmd_records(const zv_settings *s, zl_err *err)
{
    const bool json = strcmp(s->format, "json") == 0;
    const bool page = strcmp(s->format, "md") == 0;
    zv_judgement all = {0};
    zv_figures figures;
    zl_status status;
    if (!json && !page && strcmp(s->format, "table") != 0) {
        return zl_fail(err, ZL_E_USAGE, "--format must be table, json or md, got '%.40s'",
                       s->format);
    }
    ZL_TRY_GOTO(status, zv_judge_operands(s, &all, err), out);
    ZL_TRY_GOTO(status,
                json   ? zv_print_json(&all, err)
                : page ? print_with_causes(&all, true, err)
                       : print_table(s, &all, err),
                out);
    if (s->limits != NULL) {
        zv_figures_of(&all, &figures);
        status = zv_limits_check(s->limits, &figures, err);
    }
out:
    zv_judgement_release(&all);
    return status;
}
