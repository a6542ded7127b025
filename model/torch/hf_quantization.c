/* Sources: transformers/utils/quantization_config.py and quantizers/ of 5.17; bitsandbytes
 * functional.py (quantize_4bit, QuantState) and nn/modules.py; AutoGPTQ's and AutoAWQ's qlinear
 * classes for what they register; integrations/finegrained_fp8.py. */
#include "torch/hf_quantization.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "torch/hf_shapes.h"
#include "zeroledger/bytes.h"

enum { HALF_BYTES = 2, FLOAT_BYTES = 4, INT32_BYTES = 4, BYTE_BITS = 8 };
/* bitsandbytes: elements of a scale, and scales of a scale of scales. */
enum { BNB_BLOCK = 64, BNB_NESTED_BLOCK = 256 };

/* ---- reading ---- */

static bool flag_of(zl_json object, const char *key)
{
    const zl_json value = zl_json_get(object, key);
    bool flag = false;
    return zl_json_is_bool(value) && zl_json_bool(value, &flag, NULL) == ZL_OK && flag;
}

static zl_status count_of(zl_json object, const char *key, uint64_t absent, uint64_t *out,
                          zl_err *err)
{
    const zl_json value = zl_json_get(object, key);
    *out = absent;
    return value.node != NULL ? zl_json_u64(value, out, err) : ZL_OK;
}

/* Names of modules, joined; those that transformers skips where the list is absent. */
static zl_status read_skipped(zl_json list, const char *absent, zl_hf_quantization *out,
                              zl_err *err)
{
    size_t used = 0;
    snprintf(out->skipped, sizeof out->skipped, "%s", list.node == NULL ? absent : "");
    for (size_t i = 0; i < zl_json_size(list); i++) {
        const char *name = NULL;
        ZL_TRY(zl_json_string(zl_json_item(list, i), &name, err));
        const int more = snprintf(out->skipped + used, sizeof out->skipped - used, "%s%s",
                                  i > 0 ? "," : "", name);
        used += (size_t)more;
        if (used >= sizeof out->skipped) {
            return zl_fail(err, ZL_E_UNMODELLED, "%s names more modules than are modelled",
                           list.path);
        }
    }
    return ZL_OK;
}

static zl_status read_bitsandbytes(zl_json q, zl_hf_quantization *out, zl_err *err)
{
    const bool four = flag_of(q, "load_in_4bit") || flag_of(q, "_load_in_4bit");
    const bool eight = flag_of(q, "load_in_8bit") || flag_of(q, "_load_in_8bit");
    if (four == eight) {
        return zl_fail(err, ZL_E_INPUT, "%s must have load_in_4bit or load_in_8bit true, got %s",
                       q.path, four ? "both" : "neither");
    }
    out->kind = four ? ZL_HF_BNB_4BIT : ZL_HF_BNB_8BIT;
    out->bits = four ? BYTE_BITS / 2 : BYTE_BITS;
    out->group = BNB_BLOCK;
    out->double_quantised = flag_of(q, "bnb_4bit_use_double_quant");
    return read_skipped(zl_json_get(q, "llm_int8_skip_modules"), "lm_head", out, err);
}

/* GPTQ and AWQ pack into 32-bit integers. group_size -1: one group of all inputs. */
static zl_status read_packed(zl_json q, zl_hf_quantization_kind kind, zl_hf_quantization *out,
                             zl_err *err)
{
    const zl_json group = zl_json_get(q, "group_size");
    double size = 128;
    ZL_TRY(count_of(q, "bits", BYTE_BITS / 2, &out->bits, err));
    if (group.node != NULL) {
        ZL_TRY(zl_json_real(group, &size, err));
    }
    if (out->bits < 2 || out->bits > BYTE_BITS || size < -1 || size > 1e6) {
        return zl_fail(err, ZL_E_INPUT, "%s must have 2 to 8 bits and a group_size, or -1", q.path);
    }
    out->kind = kind;
    out->group = size > 0 ? (uint64_t)size : 0;
    return read_skipped(zl_json_get(q, "modules_to_not_convert"), "", out, err);
}

static zl_status read_fp8(zl_json q, zl_hf_quantization *out, zl_err *err)
{
    const zl_json block = zl_json_get(q, "weight_block_size");
    out->kind = ZL_HF_FP8;
    out->bits = BYTE_BITS;
    for (size_t i = 0; i < 2 && zl_json_is_array(block); i++) {
        ZL_TRY(zl_json_u64(zl_json_item(block, i), &out->block[i], err));
    }
    return read_skipped(zl_json_get(q, "modules_to_not_convert"), "lm_head", out, err);
}

zl_status zt_quantization_read(zl_json config, zl_hf_config *out, zl_err *err)
{
    const zl_json q = zl_json_get(config, "quantization_config");
    const char *method = "bitsandbytes";
    if (q.node == NULL) {
        return ZL_OK;
    }
    if (zl_json_get(q, "quant_method").node != NULL) {
        ZL_TRY(zl_json_string(zl_json_get(q, "quant_method"), &method, err));
    } else if (!flag_of(q, "load_in_4bit") && !flag_of(q, "load_in_8bit")) {
        return zl_fail(err, ZL_E_UNMODELLED,
                       "a quantization_config without quant_method is not "
                       "modelled");
    }
    if (strcmp(method, "bitsandbytes") == 0) {
        return read_bitsandbytes(q, &out->quantization, err);
    }
    if (strcmp(method, "gptq") == 0) {
        return read_packed(q, ZL_HF_GPTQ, &out->quantization, err);
    }
    if (strcmp(method, "awq") == 0) {
        return read_packed(q, ZL_HF_AWQ, &out->quantization, err);
    }
    if (strcmp(method, "fp8") == 0) {
        return read_fp8(q, &out->quantization, err);
    }
    return zl_fail(err, ZL_E_UNMODELLED,
                   "quantization_config of '%.40s' is not modelled; modelled: bitsandbytes, gptq, "
                   "awq, fp8",
                   method);
}

/* ---- bytes ---- */

/* "gate" skips "model.layers.0.mlp.gate.weight", as a part of the name. */
static bool is_skipped(const zl_hf_quantization *q, const char *name)
{
    char part[ZL_HF_SKIPPED + 2];
    char dotted[ZL_TENSOR_NAME + 2];
    snprintf(dotted, sizeof dotted, ".%s", name);
    for (const char *at = q->skipped; *at != '\0';) {
        const size_t length = strcspn(at, ",");
        snprintf(part, sizeof part, ".%.*s.", (int)length, at);
        if (length > 0 && strstr(dotted, part) != NULL) {
            return true;
        }
        at += length + (at[length] == ',');
    }
    return false;
}

static bool is_in_layer(const char *name)
{
    const char *digit = strpbrk(name, "0123456789");
    return digit != NULL && digit > name && digit[-1] == '.';
}

/* The weight of an nn.Linear (GPT-2: Conv1D). GPTQ and AWQ convert the layers only; a router is a
 * parameter of its own class. */
static bool is_quantised(const zl_hf_config *c, const zl_tensor_entry *t)
{
    const zl_hf_quantization *q = &c->quantization;
    const bool packed = q->kind == ZL_HF_GPTQ || q->kind == ZL_HF_AWQ;
    const size_t length = strlen(t->name);
    const bool weight = length > 7 && strcmp(t->name + length - 7, ".weight") == 0;
    const bool table = strstr(t->name, "embed") != NULL || strstr(t->name, ".wte.") != NULL ||
                       strstr(t->name, ".wpe.") != NULL;
    if (q->kind == ZL_HF_UNQUANTISED || t->buffer || t->tied != 0 || is_skipped(q, t->name)) {
        return false;
    }
    const bool matrix = t->rank == 2 && weight && !table && strstr(t->name, ".gate.") == NULL;
    const bool experts = t->rank == 3 && strstr(t->name, ".experts.") != NULL;
    return (matrix || experts) && (is_in_layer(t->name) || !packed);
}

/* Packed 4-bit numbers and absmax: fp32, or 8 bits with a second absmax and a mean. */
static uint64_t bnb_4bit_bytes(const zl_hf_quantization *q, uint64_t elements)
{
    const uint64_t blocks = zl_ceil_div(elements, BNB_BLOCK);
    const uint64_t nested =
        zl_add(blocks, zl_mul(FLOAT_BYTES, zl_add(zl_ceil_div(blocks, BNB_NESTED_BLOCK), 1)));
    return zl_add(zl_ceil_div(elements, 2),
                  q->double_quantised ? nested : zl_mul(FLOAT_BYTES, blocks));
}

/* qweight, qzeros and scales; GPTQ keeps the group of each input too. */
static uint64_t packed_bytes(const zl_hf_quantization *q, uint64_t out, uint64_t in)
{
    const uint64_t groups = q->group > 0 ? zl_ceil_div(in, q->group) : 1;
    const uint64_t weight = zl_ceil_div(zl_prod(out, in, q->bits), BYTE_BITS);
    const uint64_t zeros = zl_ceil_div(zl_prod(groups, out, q->bits), BYTE_BITS);
    const uint64_t order = q->kind == ZL_HF_GPTQ ? zl_mul(INT32_BYTES, in) : 0;
    return zl_add(zl_add(weight, zeros), zl_add(zl_prod(groups, out, HALF_BYTES), order));
}

static uint64_t fp8_bytes(const zl_hf_quantization *q, uint64_t out, uint64_t in)
{
    const uint64_t rows = q->block[0] > 0 ? zl_ceil_div(out, q->block[0]) : 1;
    const uint64_t columns = q->block[1] > 0 ? zl_ceil_div(in, q->block[1]) : 1;
    return zl_add(zl_mul(out, in), zl_prod(rows, columns, FLOAT_BYTES));
}

static uint64_t matrix_bytes(const zl_hf_quantization *q, uint64_t out, uint64_t in)
{
    switch (q->kind) {
    case ZL_HF_BNB_4BIT:
        return bnb_4bit_bytes(q, zl_mul(out, in));
    case ZL_HF_BNB_8BIT: /* and SCB, fp32 per row */
        return zl_add(zl_mul(out, in), zl_mul(FLOAT_BYTES, out));
    case ZL_HF_GPTQ:
    case ZL_HF_AWQ:
        return packed_bytes(q, out, in);
    case ZL_HF_FP8:
        return fp8_bytes(q, out, in);
    case ZL_HF_UNQUANTISED:
        break;
    }
    return 0;
}

/* Experts are that many matrices in a checkpoint. GPT-2's Conv1D has its outputs last. */
static uint64_t quantised_bytes(const zl_hf_config *c, const zl_tensor_entry *t)
{
    const bool turned = c->arch == ZL_HF_GPT2;
    const uint64_t out = t->dim[t->rank - (turned ? 1 : 2)];
    const uint64_t in = t->dim[t->rank - (turned ? 2 : 1)];
    return zl_mul(matrix_bytes(&c->quantization, out, in), t->rank == 3 ? t->dim[0] : 1);
}

static uint64_t stored_bytes(const char *dtype)
{
    static const struct {
        const char *name;
        uint64_t bytes;
    } dtypes[] = {{"float32", 4},  {"float", 4},   {"float16", 2}, {"half", 2},
                  {"bfloat16", 2}, {"float64", 8}, {"F32", 4},     {"F16", 2},
                  {"BF16", 2},     {"F64", 8},     {"F8_E4M3", 1}, {"F8_E5M2", 1}};
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (strcmp(dtypes[i].name, dtype) == 0) {
            return dtypes[i].bytes;
        }
    }
    return 0;
}

/* bitsandbytes leaves fused experts alone: they are no nn.Linear. */
static bool has_experts(const zl_hf_config *c)
{
    const zl_hf_quantization_kind kind = c->quantization.kind;
    return c->experts > 0 && (kind == ZL_HF_BNB_4BIT || kind == ZL_HF_BNB_8BIT);
}

zl_status zl_hf_weights_of(const zl_hf_config *model, zl_hf_weights *out, zl_err *err)
{
    zl_tensor_list list = {0};
    zl_hf_weights w = {.parameters = 0};
    bool known = true;
    if (has_experts(model)) {
        return zl_fail(err, ZL_E_UNMODELLED, "experts quantised by bitsandbytes are not modelled");
    }
    ZL_TRY(zt_shapes_of(model, &list, err));
    for (size_t i = 0; i < list.count; i++) {
        const zl_tensor_entry *t = &list.entry[i];
        if (t->buffer || t->tied != 0) {
            continue;
        }
        const uint64_t elements = zl_tensor_elements(t);
        const uint64_t element = stored_bytes(t->dtype[0] != '\0' ? t->dtype : model->stored);
        const bool quantised = is_quantised(model, t);
        known = known && (quantised || element > 0);
        w.tensors++;
        w.parameters = zl_add(w.parameters, elements);
        w.quantised = zl_add(w.quantised, quantised ? elements : 0);
        w.bytes =
            zl_add(w.bytes, quantised ? quantised_bytes(model, t) : zl_mul(elements, element));
    }
    zl_tensor_list_clear(&list);
    if (zl_poisoned(w.bytes) || zl_poisoned(w.parameters)) {
        return zl_fail(err, ZL_E_USAGE, "the weights of this model do not fit in 64 bits");
    }
    w.bytes = known ? w.bytes : 0;
    *out = w;
    return ZL_OK;
}
