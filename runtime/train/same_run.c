#include "train/same_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef enum shape_type { SHAPE_COUNT, SHAPE_FLAG, SHAPE_REAL } shape_type;

typedef struct shape {
    const char *name;
    shape_type type;
    size_t offset; /* in zl_model */
} shape;

static const shape shapes[] = {
    {"model.layers", SHAPE_COUNT, offsetof(zl_model, layers)},
    {"model.width", SHAPE_COUNT, offsetof(zl_model, width)},
    {"model.heads", SHAPE_COUNT, offsetof(zl_model, heads)},
    {"model.kv_heads", SHAPE_COUNT, offsetof(zl_model, kv_heads)},
    {"model.head_dim", SHAPE_COUNT, offsetof(zl_model, head_dim)},
    {"model.ffn", SHAPE_COUNT, offsetof(zl_model, ffn)},
    {"model.vocab", SHAPE_COUNT, offsetof(zl_model, vocab)},
    {"model.positions", SHAPE_COUNT, offsetof(zl_model, positions)},
    {"model.types", SHAPE_COUNT, offsetof(zl_model, types)},
    {"model.tied", SHAPE_FLAG, offsetof(zl_model, tied)},
    {"model.qkv_bias", SHAPE_FLAG, offsetof(zl_model, qkv_bias)},
    {"model.out_bias", SHAPE_FLAG, offsetof(zl_model, out_bias)},
    {"model.mlp_bias", SHAPE_FLAG, offsetof(zl_model, mlp_bias)},
    {"model.pooler", SHAPE_FLAG, offsetof(zl_model, pooler)},
    {"model.norm_eps", SHAPE_REAL, offsetof(zl_model, norm_eps)},
    {"model.rope_theta", SHAPE_REAL, offsetof(zl_model, rope_theta)},
};

enum { TEXT_SIZE = 32 };

/* As text, so that all fields are compared and told alike; 17 digits tell any two reals apart. */
static void text_of(const shape *s, const zl_model *model, char text[TEXT_SIZE])
{
    const char *at = (const char *)model + s->offset;
    uint64_t count;
    bool flag;
    double real;
    switch (s->type) {
    case SHAPE_COUNT:
        memcpy(&count, at, sizeof count);
        (void)snprintf(text, TEXT_SIZE, "%" PRIu64, count);
        break;
    case SHAPE_FLAG:
        memcpy(&flag, at, sizeof flag);
        (void)snprintf(text, TEXT_SIZE, "%s", flag ? "true" : "false");
        break;
    case SHAPE_REAL:
        memcpy(&real, at, sizeof real);
        (void)snprintf(text, TEXT_SIZE, "%.17g", real);
        break;
    }
}

static zl_status same(const char *name, const char *saved, const char *now, const char *where,
                      zl_err *err)
{
    if (strcmp(saved, now) == 0) {
        return ZL_OK;
    }
    return zl_fail(err, ZL_E_INPUT,
                   "%.200s: %s is %s there and %s in this run; only the same can go on", where,
                   name, saved, now);
}

static zl_status same_model(const zl_model *saved, const zl_model *now, const char *where,
                            zl_err *err)
{
    ZL_TRY(same("model.family", zl_family_name(saved->family), zl_family_name(now->family), where,
                err));
    ZL_TRY(same("model.activation", zl_activation_name(saved->activation),
                zl_activation_name(now->activation), where, err));
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        char a[TEXT_SIZE];
        char b[TEXT_SIZE];
        text_of(&shapes[i], saved, a);
        text_of(&shapes[i], now, b);
        ZL_TRY(same(shapes[i].name, a, b, where, err));
    }
    return ZL_OK;
}

zl_status zr_same_run(const zl_run *saved, const zl_run *now, const char *where, zl_err *err)
{
    ZL_TRY(same_model(&saved->model, &now->model, where, err));
    ZL_TRY(same("precision", zl_precision_name(saved->precision), zl_precision_name(now->precision),
                where, err));
    return same("optimizer", zl_optimizer_name(saved->optimizer), zl_optimizer_name(now->optimizer),
                where, err);
}
