/* The memory that a question is about: --capacity or --gpu, less --headroom. */
#include <string.h>

#include "fit.h"
#include "zeroledger/bytes.h"

/* "5%" of the capacity, rounded up to the byte; four decimals of a percent count. */
static zl_status share_of(const char *text, uint64_t capacity, uint64_t *out, zl_err *err)
{
    char number[32];
    double percent = 0.0;
    snprintf(number, sizeof number, "%.*s", (int)strcspn(text, "%"), text);
    ZL_TRY(zl_parse_real("headroom", number, &percent, err));
    if (!(percent >= 0.0 && percent < 100.0) || strchr(text, '%')[1] != '\0') {
        return zl_fail(err, ZL_E_USAGE, "headroom must be from 0%% to below 100%%, got '%.60s'",
                       text);
    }
    const uint64_t million = 1000000;
    const uint64_t ppm = (uint64_t)(percent * 10000.0 + 0.5);
    const uint64_t rest = capacity % million;
    const uint64_t whole = zl_exact_div(zl_sub(capacity, rest), million);
    *out = zl_add(zl_mul(whole, ppm), zl_ceil_div(zl_mul(rest, ppm), million));
    return ZL_OK;
}

static zl_status read_size(const zl_args *args, zl_capacity *c, zl_err *err)
{
    const char *capacity = zl_args_value(args, "capacity");
    const zl_gpu *gpu = NULL;
    c->gpu = zl_args_value(args, "gpu");
    if ((capacity == NULL) == (c->gpu == NULL)) {
        return zl_fail(err, ZL_E_USAGE, "give either --capacity BYTES or --gpu NAME");
    }
    if (capacity != NULL) {
        return zl_parse_bytes("capacity", capacity, &c->capacity, err);
    }
    ZL_TRY(zl_gpu_find(c->gpu, &gpu, err));
    c->capacity = gpu->bytes;
    return ZL_OK;
}

zl_status zl_capacity_read(const zl_args *args, zl_capacity *out, zl_err *err)
{
    const char *headroom = zl_args_value(args, "headroom");
    zl_capacity c = {.gpu = NULL};
    ZL_TRY(read_size(args, &c, err));
    if (headroom != NULL && strchr(headroom, '%') != NULL) {
        ZL_TRY(share_of(headroom, c.capacity, &c.headroom, err));
    } else if (headroom != NULL) {
        ZL_TRY(zl_parse_bytes("headroom", headroom, &c.headroom, err));
    }
    if (c.headroom > c.capacity) {
        return zl_fail(err, ZL_E_USAGE, "headroom %.40s is more than the capacity of %s bytes",
                       headroom, zl_count(c.capacity).text);
    }
    c.usable = zl_sub(c.capacity, c.headroom);
    if (c.usable == 0) {
        return zl_fail(err, ZL_E_USAGE,
                       "capacity less headroom must be positive, got a capacity of %s bytes and a "
                       "headroom of %s",
                       zl_count(c.capacity).text, zl_count(c.headroom).text);
    }
    *out = c;
    return ZL_OK;
}

void zl_capacity_say(zl_page *page, const zl_capacity *c)
{
    const zl_view *view = page->view;
    zl_page_say(page, "Capacity%s%s %s, headroom %s, usable %s", c->gpu != NULL ? " of " : "",
                c->gpu != NULL ? c->gpu : "", zl_bytes_named(view, c->capacity).text,
                zl_bytes_named(view, c->headroom).text, zl_bytes_exact(view, c->usable).text);
}

void zl_capacity_json(const zl_capacity *c, zl_json_writer *w)
{
    if (c->gpu != NULL) {
        zl_json_put_string(w, "gpu", c->gpu);
    }
    zl_json_put_u64(w, "capacity", c->capacity);
    zl_json_put_u64(w, "headroom", c->headroom);
    zl_json_put_u64(w, "usable", c->usable);
}
