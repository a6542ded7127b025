#include <stdio.h>

#include "cli/cli.h"
#include "records/field.h"

zl_status zv_cmd_field(const zv_settings *s, zl_err *err)
{
    char records[ZV_PATH_SIZE];
    zv_setup *setup = NULL;
    zv_field *field = NULL;
    zl_status status;
    ZL_TRY(zv_data_file("records/setup.json", records, err));
    ZL_TRY(zv_setup_load(records, &setup, err));
    ZL_TRY_GOTO(status, zv_field_load(s->operand[0], s->operand[1], setup, &field, err), out);
    status = zv_field_page(stdout, field, err);
out:
    zv_field_free(field);
    zv_setup_free(setup);
    return status;
}
