/* The whole GPU below a ledger: the arena, NCCL's buffers, and calibrated constants. */
#include <inttypes.h>
#include <string.h>

#include "device.h"
#include "zeroledger/bytes.h"

zl_status zl_device_ask(const zl_args *args, const zl_run *run, zl_device_answer *out, zl_err *err)
{
    const char *const name = zl_args_value(args, "gpu");
    zl_device_answer a = {.asked = run->backend == ZL_BACKEND_CUDA &&
                                   run->framework == ZL_FRAMEWORK_NATIVE};
    const zl_gpu *gpu = NULL;
    if (name != NULL && !a.asked) {
        return zl_fail(err, ZL_E_USAGE,
                       "--gpu is for --backend cuda here: the whole GPU is predicted for it only");
    }
    if (name != NULL) {
        ZL_TRY(zl_gpu_find(name, &gpu, err));
    }
    if (a.asked) {
        zl_err why = {.status = ZL_OK};
        a.calibrated = zl_constants_find(gpu != NULL ? gpu->chip : "", NULL, NULL, &a.constants);
        const zl_status status = zl_predict_device(
            run, ZL_PLACEMENT_APART, false, a.calibrated ? &a.constants : NULL, &a.device, &why);
        if (status != ZL_OK && status != ZL_E_UNMODELLED) {
            return zl_fail(err, status, "%s", why.text);
        }
        if (status == ZL_E_UNMODELLED) { /* the ledger is, and can be shown all the same */
            a.device = (zl_device){.complete = false};
            (void)snprintf(a.device.missing, sizeof a.device.missing, "%.190s", why.text);
        }
    }
    if (a.asked && !a.calibrated && gpu != NULL) {
        (void)snprintf(a.device.missing, sizeof a.device.missing,
                       "no constants are calibrated on %s; zl validate calibrate makes them from "
                       "measured runs",
                       gpu->name);
    }
    *out = a;
    return ZL_OK;
}

/* Where a part's bytes come from. */
static void how(const zl_view *view, const zl_device *d, zl_device_part part, char *text,
                size_t size)
{
    switch (part) {
    case ZL_DEVICE_ARENA:
        (void)snprintf(text, size, "%s granted at the largest peak, and holes",
                       zl_bytes_in(view, d->peak).text);
        break;
    case ZL_DEVICE_NCCL:
        (void)snprintf(text, size, "12 MiB·%" PRIu64 " + 6 MiB·%" PRIu64 " + %s", d->nccl.rings,
                       zl_max(d->nccl.rings, d->nccl.pairs),
                       zl_bytes_named(view, d->nccl.own).text);
        break;
    case ZL_DEVICE_CONTEXT:
    case ZL_DEVICE_NCCL_CODE:
        (void)snprintf(text, size, "calibrated");
        break;
    case ZL_DEVICE_PART_COUNT:
        break;
    }
}

static void row(zl_table *table, const zl_view *view, const char *name, uint64_t bytes,
                const char *text)
{
    zl_table_text(table, "%s", name);
    zl_table_count(table, bytes);
    zl_table_text(table, "%s", zl_bytes_in(view, bytes).text);
    zl_table_text(table, "%s", text);
}

static zl_status print_parts(zl_page *page, const zl_device *d, zl_err *err)
{
    zl_table *table = zl_table_new();
    zl_table_column(table, "device", ZL_LEFT);
    zl_table_column(table, "bytes", ZL_RIGHT);
    zl_table_column(table, zl_byte_unit_name(page->view->unit), ZL_RIGHT);
    zl_table_column(table, "how", ZL_LEFT);
    for (int i = 0; i < ZL_DEVICE_PART_COUNT; i++) {
        const zl_device_part part = (zl_device_part)i;
        if (d->known[part] && d->part[part] > 0) {
            char text[160] = "";
            how(page->view, d, part, text, sizeof text);
            row(table, page->view, zl_device_part_name(part), d->part[part], text);
        }
    }
    if (d->complete) {
        row(table, page->view, "total", d->total, "");
    }
    const zl_status status = zl_page_table(page, table, err);
    zl_table_free(table);
    return status;
}

zl_status zl_device_print(zl_page *page, const zl_device_answer *a, zl_err *err)
{
    if (!a->asked) {
        return ZL_OK;
    }
    zl_page_break(page);
    if (a->calibrated) {
        zl_page_say(page,
                    "The whole GPU, calibrated on %s, driver %s, CUDA %s (%s):", a->constants.gpu,
                    a->constants.driver, a->constants.cuda, a->constants.date);
    } else {
        zl_page_say(page, "The whole GPU:");
    }
    zl_page_break(page);
    ZL_TRY(print_parts(page, &a->device, err));
    if (!a->device.complete) {
        zl_page_break(page);
        zl_page_say(page, "No total: %s.", a->device.missing);
    }
    return ZL_OK;
}

void zl_device_json(const zl_device_answer *a, zl_json_writer *w)
{
    if (!a->asked) {
        return;
    }
    zl_json_begin_object(w, "device");
    if (a->calibrated) {
        zl_json_begin_object(w, "calibrated_on");
        zl_json_put_string(w, "gpu", a->constants.gpu);
        zl_json_put_string(w, "driver", a->constants.driver);
        zl_json_put_string(w, "cuda", a->constants.cuda);
        zl_json_put_string(w, "commit", a->constants.commit);
        zl_json_put_string(w, "date", a->constants.date);
        zl_json_end(w);
    }
    zl_json_begin_array(w, "parts");
    for (int i = 0; i < ZL_DEVICE_PART_COUNT; i++) {
        if (a->device.known[i]) {
            zl_json_begin_object(w, NULL);
            zl_json_put_string(w, "part", zl_device_part_name((zl_device_part)i));
            zl_json_put_u64(w, "bytes", a->device.part[i]);
            zl_json_end(w);
        }
    }
    zl_json_end(w);
    if (a->device.complete) {
        zl_json_put_u64(w, "total", a->device.total);
    } else {
        zl_json_put_string(w, "missing", a->device.missing);
    }
    zl_json_end(w);
}
