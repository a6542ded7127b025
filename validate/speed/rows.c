#include "rows.h"

#include <stdlib.h>

static zl_status word(zl_json object, const char *key, bool needed, const char **out, zl_err *err)
{
    const zl_json value = zl_json_get(object, key);
    *out = NULL;
    return value.node == NULL && !needed ? ZL_OK : zl_json_string(value, out, err);
}

static zl_status number(zl_json object, const char *key, bool needed, uint64_t *out, zl_err *err)
{
    const zl_json value = zl_json_get(object, key);
    *out = 0;
    return value.node == NULL && !needed ? ZL_OK : zl_json_u64(value, out, err);
}

static zl_status read_figures(zl_json object, speed_row *row, zl_err *err)
{
    ZL_TRY(number(object, "operations_per_token", true, &row->operations, err));
    ZL_TRY(number(object, "peak_allocated", true, &row->peak_allocated, err));
    ZL_TRY(number(object, "device_used", false, &row->device_used, err));
    ZL_TRY(zl_json_real(zl_json_get(object, "step_seconds"), &row->step_seconds, err));
    return row->step_seconds > 0.0
               ? ZL_OK
               : zl_fail(err, ZL_E_INPUT, "row %s: step_seconds must be positive", row->name);
}

static zl_status read_row(zl_json object, speed_row *row, zl_err *err)
{
    const zl_json compiled = zl_json_get(object, "compiled");
    ZL_TRY(word(object, "name", true, &row->name, err));
    ZL_TRY(word(object, "program", true, &row->program, err));
    ZL_TRY(word(object, "model", true, &row->model, err));
    ZL_TRY(word(object, "mode", false, &row->mode, err));
    ZL_TRY(word(object, "recompute", true, &row->recompute, err));
    ZL_TRY(word(object, "grad_dtype", false, &row->grad_dtype, err));
    ZL_TRY(word(object, "error", false, &row->error, err));
    ZL_TRY(number(object, "ranks", true, &row->ranks, err));
    ZL_TRY(number(object, "stage", false, &row->stage, err));
    ZL_TRY(number(object, "micro_batch", true, &row->micro_batch, err));
    ZL_TRY(number(object, "seq", true, &row->seq, err));
    ZL_TRY(number(object, "head_chunk", false, &row->head_chunk, err));
    if (compiled.node != NULL) {
        ZL_TRY(zl_json_bool(compiled, &row->compiled, err));
    }
    return row->error == NULL ? read_figures(object, row, err) : ZL_OK;
}

static zl_status read_rows(zl_json root, speed_file *file, zl_err *err)
{
    const zl_json rows = zl_json_get(root, "rows");
    ZL_TRY(zl_json_schema(root, "zeroledger.speed/1", err));
    ZL_TRY(word(root, "commit", true, &file->commit, err));
    ZL_TRY(word(root, "date", true, &file->date, err));
    ZL_TRY(word(root, "gpu", true, &file->gpu, err));
    ZL_TRY(word(root, "driver", true, &file->driver, err));
    ZL_TRY(word(root, "torch", true, &file->torch, err));
    file->count = zl_json_size(rows);
    file->row = calloc(file->count + 1, sizeof *file->row);
    if (file->row == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory");
    }
    for (size_t i = 0; i < file->count; i++) {
        ZL_TRY(read_row(zl_json_item(rows, i), &file->row[i], err));
    }
    return ZL_OK;
}

zl_status speed_load(const char *path, speed_file *out, zl_err *err)
{
    speed_file file = {.count = 0};
    ZL_TRY(zl_json_load(path, &file.doc, err));
    const zl_status status = read_rows(zl_json_root(file.doc), &file, err);
    if (status != ZL_OK) {
        speed_release(&file);
        zl_fail_at(err, path);
        return status;
    }
    *out = file;
    return ZL_OK;
}

void speed_release(speed_file *file)
{
    free(file->row);
    zl_json_free(file->doc);
}
