#include "drive/case_id.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What stands before an option's value; options without a row are written with their name. */
static const struct {
    const char *option;
    const char *prefix; /* NULL: always in the id, from the run itself */
} prefixes[] = {
    {"model", NULL},       {"stage", NULL},         {"ranks", NULL},         {"precision", NULL},
    {"recompute", NULL},   {"accumulation", NULL},  {"micro-batch", "b"},    {"seq", "t"},
    {"attention", ""},     {"optimizer", ""},       {"head-chunk", "chunk"}, {"window", "w"},
    {"reduce-slots", "k"}, {"grad-dtype", "grad-"}, {"backend", ""},
};

/* False if the option is always in the id. */
static bool prefix_of(const char *option, char *prefix, size_t size)
{
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        if (strcmp(prefixes[i].option, option) == 0) {
            snprintf(prefix, size, "%s", prefixes[i].prefix == NULL ? "" : prefixes[i].prefix);
            return prefixes[i].prefix != NULL;
        }
    }
    snprintf(prefix, size, "%s", option);
    return true;
}

static void make_plain(char *text)
{
    for (; *text != '\0'; text++) {
        if (!isalnum((unsigned char)*text) && *text != '.' && *text != '-') {
            *text = '_';
        }
    }
}

void zv_case_id(const zl_run *run, zv_chosen chosen, void *context, char *id, size_t size)
{
    char model[sizeof run->model.name], rest[256];
    snprintf(model, sizeof model, "%s", run->model.name);
    char *const dot = strrchr(model, '.');
    if (dot != NULL && strcmp(dot, ".json") == 0) {
        *dot = '\0';
    }
    make_plain(model);
    size_t used = (size_t)snprintf(rest, sizeof rest, "z%" PRIu64 "-n%" PRIu64 "-%s-%s-a%" PRIu64,
                                   run->stage, run->ranks, zl_precision_name(run->precision),
                                   zl_recompute_name(run->recompute), run->accumulation);
    const zl_option *option;
    for (size_t i = 0; (option = zl_run_option(i)) != NULL; i++) {
        char prefix[64];
        const char *const text = chosen(context, option);
        if (text != NULL && prefix_of(option->name, prefix, sizeof prefix) && used < sizeof rest) {
            used += (size_t)snprintf(rest + used, sizeof rest - used, "-%s%s", prefix, text);
        }
    }
    make_plain(rest);
    snprintf(id, size, "%.*s/%.*s", (int)(sizeof model - 1), model, (int)(size - sizeof model - 2),
             rest);
}
