/* A sweep as JSON, one line for each point. */
#include <inttypes.h>
#include <string.h>

#include "sweep.h"

static void put_string(zl_ink *out, const char *text)
{
    zl_ink_put(out, "\"");
    for (; *text != '\0'; text++) {
        char escape[8];
        if (*text == '"' || *text == '\\') {
            zl_ink_put(out, "\\");
            zl_ink_bytes(out, text, 1);
        } else if ((unsigned char)*text < 0x20) {
            (void)snprintf(escape, sizeof escape, "\\u%04x", (unsigned)*text);
            zl_ink_put(out, escape);
        } else {
            zl_ink_bytes(out, text, 1);
        }
    }
    zl_ink_put(out, "\"");
}

static void put_key(zl_ink *out, const char *name, const char *behind)
{
    zl_ink_put(out, ", ");
    zl_ink_put(out, "\"");
    zl_ink_put(out, name);
    zl_ink_put(out, behind);
    zl_ink_put(out, "\": ");
}

/* Counts are numbers, whatever their text is; the rest is text. */
static void put_value(const zl_axis *axis, size_t index, zl_ink *out)
{
    const zl_axis_value *value = &axis->value[index];
    uint64_t number = value->number;
    const bool counts = axis->type == ZL_VALUE_COUNT;
    if (value->text == NULL ||
        (counts && zl_parse_count(axis->option->name, value->text, &number, NULL) == ZL_OK)) {
        zl_ink_count(out, number);
    } else {
        put_string(out, value->text);
    }
}

void zl_sweep_json_row(const zl_sweep *s, uint64_t point, const zl_swept *answer, zl_ink *out)
{
    uint32_t digit[ZL_AXES_MAX];
    char phase[ZL_PHASE_TEXT];
    zl_grid_digits(&s->grid, point, digit);
    zl_ink_put(out, ",\n    {\"at\": {");
    for (size_t i = 0; i < s->grid.axes; i++) {
        zl_ink_put(out, i == 0 ? "\"" : ", \"");
        zl_ink_put(out, s->grid.axis[i].option->name);
        zl_ink_put(out, "\": ");
        put_value(&s->grid.axis[i], digit[i], out);
    }
    zl_ink_put(out, "}, \"status\": \"");
    zl_ink_put(out, zl_swept_status(answer));
    zl_ink_put(out, "\"");
    if (answer->refusal.status != ZL_OK) {
        put_key(out, "reason", "");
        put_string(out, answer->refusal.text);
        zl_ink_put(out, "}");
        return;
    }
    put_key(out, "peak", "_bytes");
    zl_ink_count(out, answer->peak);
    if (answer->framework) {
        put_key(out, "reserved", "_bytes");
        zl_ink_count(out, answer->reserved);
    }
    put_key(out, "phase", "");
    put_string(out, zl_swept_phase(answer, phase));
    if (s->capped) {
        put_key(out, "fits", "");
        zl_ink_put(out, answer->fits ? "true" : "false");
    }
    for (int k = 0; s->kinds && k < ZL_KIND_COUNT; k++) {
        zl_ink_put(out, k == 0 ? ", \"kinds\": {\"" : ", \"");
        zl_ink_put(out, zl_kind_name((zl_kind)k));
        zl_ink_put(out, "\": ");
        zl_ink_count(out, answer->kind[k]);
    }
    zl_ink_put(out, s->kinds ? "}}" : "}");
}

void zl_sweep_json_head(const zl_sweep *s, zl_ink *out)
{
    const zl_setting *set = NULL;
    zl_ink_put(out, "{\n  \"schema\": \"zeroledger.sweep/1\",\n  \"fixed\": {");
    for (size_t i = 0; (set = zl_grid_setting(&s->grid, s->args, i)) != NULL; i++) {
        zl_ink_put(out, i == 0 ? "" : ", ");
        put_string(out, set->option->name);
        zl_ink_put(out, ": ");
        put_string(out, set->value);
    }
    zl_ink_put(out, "},\n  \"axes\": [");
    for (size_t i = 0; i < s->grid.axes; i++) {
        const zl_axis *axis = &s->grid.axis[i];
        zl_ink_put(out, i == 0 ? "\n    {\"option\": " : ",\n    {\"option\": ");
        put_string(out, axis->option->name);
        zl_ink_put(out, ", \"values\": [");
        for (size_t v = 0; v < axis->count; v++) {
            zl_ink_bytes(out, ", ", v > 0 ? 2 : 0);
            put_value(axis, v, out);
        }
        zl_ink_put(out, "]}");
    }
    zl_ink_put(out, s->grid.axes > 0 ? "\n  ]" : "]");
    if (s->capped) {
        zl_ink_put(out, ",\n  \"capacity\": ");
        zl_ink_count(out, s->c.capacity);
        zl_ink_put(out, ",\n  \"headroom\": ");
        zl_ink_count(out, s->c.headroom);
        zl_ink_put(out, ",\n  \"usable\": ");
        zl_ink_count(out, s->c.usable);
    }
    zl_ink_put(out, ",\n  \"points\": [");
}

void zl_sweep_json_tail(const zl_sweep *s, const zl_tally *tally, bool whole, zl_ink *out)
{
    zl_ink_put(out, "\n  ],\n  \"counts\": {\"points\": ");
    zl_ink_count(out, tally->points);
    put_key(out, "answered", "");
    zl_ink_count(out, tally->answered);
    if (s->capped) {
        put_key(out, "fit", "");
        zl_ink_count(out, tally->fit);
    }
    put_key(out, "impossible", "");
    zl_ink_count(out, tally->impossible);
    put_key(out, "not_modelled", "");
    zl_ink_count(out, tally->unmodelled);
    zl_ink_put(out, "},\n  \"complete\": ");
    zl_ink_put(out, whole ? "true\n}\n" : "false\n}\n");
}
