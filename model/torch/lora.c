#include "torch/lora.h"

#include <regex.h>
#include <stdio.h>
#include <string.h>

#include "zeroledger/text.h"

static const char all_linear[] = "all-linear";

/* ---- reading ---- */

static zl_status read_names(const char *names, zl_torch_run *out, zl_err *err)
{
    for (const char *name = names; *name != '\0';) {
        const size_t length = strcspn(name, ",");
        if (length == 0 || length >= ZL_LORA_NAME || out->lora_targets == ZL_LORA_TARGETS_MAX) {
            return zl_fail(err, ZL_E_USAGE,
                           "targets of lora must be 1 to %d names shorter than %d, got '%.60s'",
                           ZL_LORA_TARGETS_MAX, ZL_LORA_NAME, names);
        }
        if (memchr(name, ':', length) != NULL) {
            return zl_fail(err, ZL_E_USAGE,
                           "'%.*s' is no name of a module; lora has one rank, as in 16:q_proj,"
                           "v_proj",
                           (int)length, name);
        }
        snprintf(out->lora_target[out->lora_targets++], ZL_LORA_NAME, "%.*s", (int)length, name);
        name += length + (name[length] == ',');
    }
    return ZL_OK;
}

enum { PIECE = 8 };

/* Behind a backslash: a sign stands for itself, d and w for their classes. False: something else.
 */
static bool translate_escape(char sign, char piece[PIECE])
{
    if (sign == 'd') {
        snprintf(piece, PIECE, "[0-9]");
    } else if (sign != '\0' && strchr("-_/", sign) != NULL) { /* undefined in POSIX */
        snprintf(piece, PIECE, "%c", sign);
    } else if (sign != '\0' && strchr(".|()[]{}*+?^$w", sign) != NULL) {
        snprintf(piece, PIECE, "\\%c", sign);
    } else {
        return false;
    }
    return true;
}

/* One piece of the pattern: how many of its signs, 0 if it cannot be said. For matches of whole
 * names a lazy repetition finds what a greedy one finds. */
static size_t translate_piece(const char *at, char piece[PIECE])
{
    snprintf(piece, PIECE, "%c", at[0]);
    if (strncmp(at, "(?:", 3) == 0) {
        return 3;
    }
    if (strncmp(at, "(?", 2) == 0) {
        return 0;
    }
    if (at[0] == '\\') {
        return translate_escape(at[1], piece) ? 2 : 0;
    }
    return strchr("*+?}", at[0]) != NULL && at[1] == '?' ? 2 : 1;
}

/* glibc compiles what is repeated once more for each + and for each count of {}, so that
 * repetitions of groups within groups cost time without end: of these a pattern may have a few.
 * `groups` counts them. Python itself refuses a repetition of a repetition. */
enum { GROUPS_MAX = 4 };

/* "{m,n}" with a number of more than two digits. */
static bool is_wide(const char *at)
{
    size_t digits = 0;
    for (const char *c = at + 1; *c != '\0' && *c != '}' && digits < 3; c++) {
        digits = *c == ',' ? 0 : digits + 1;
    }
    return digits == 3;
}

static bool can_repeat(char before, const char *at, unsigned *groups)
{
    if (strchr("*+?{", at[0]) == NULL) {
        return true;
    }
    if (at[0] == '{' && (before == ')' || is_wide(at))) {
        return false;
    }
    *groups += at[0] == '+' && before == ')' ? 1 : 0;
    return before != '\0' && strchr("*+?}", before) == NULL && *groups <= GROUPS_MAX;
}

/* A pattern of Python's re as an extended one of POSIX. */
static zl_status translate(const char *pattern, char *out, size_t size, zl_err *err)
{
    size_t used = 0;
    char before =
        '\0'; /* the sign that a repetition would repeat; 'x': one that stands for itself */
    unsigned groups = 0;
    for (const char *at = pattern; *at != '\0';) {
        char piece[PIECE];
        const size_t taken = can_repeat(before, at, &groups) ? translate_piece(at, piece) : 0;
        if (taken == 0 || used + sizeof piece >= size) {
            return zl_fail(err, ZL_E_UNMODELLED,
                           "the pattern of lora is not read from '%.40s' on; name the modules "
                           "instead",
                           at);
        }
        used += (size_t)snprintf(out + used, size - used, "%s", piece);
        before = (char)(at[0] == '\\' ? 'x' : at[0]);
        at += taken;
    }
    return ZL_OK;
}

/* "/.../" */
static zl_status read_pattern(const char *quoted, zl_torch_run *out, zl_err *err)
{
    regex_t compiled;
    char pattern[ZL_LORA_SIZE];
    char text[ZL_LORA_SIZE - 8] = "";
    char reason[80];
    snprintf(pattern, sizeof pattern, "%.*s", (int)strlen(quoted) - 2, quoted + 1);
    ZL_TRY(translate(pattern, text, sizeof text, err));
    snprintf(out->lora_pattern, sizeof out->lora_pattern, "^(%s)$", text);
    const int bad = regcomp(&compiled, out->lora_pattern, REG_EXTENDED | REG_NOSUB);
    if (bad != 0) {
        regerror(bad, &compiled, reason, sizeof reason);
        return zl_fail(err, ZL_E_USAGE, "the pattern %.80s of lora: %s", quoted, reason);
    }
    regfree(&compiled);
    return ZL_OK;
}

static zl_status read_rank(const char *text, size_t length, zl_torch_run *out, zl_err *err)
{
    char rank[48];
    if (length >= sizeof rank) {
        length = sizeof rank - 1;
    }
    snprintf(rank, sizeof rank, "%.*s", (int)length, text);
    char *at = strchr(rank, '@');
    if (at != NULL) {
        *at = '\0';
        ZL_TRY(zl_parse_real("the dropout of lora", at + 1, &out->lora_dropout, err));
        if (!(out->lora_dropout >= 0 && out->lora_dropout < 1)) {
            return zl_fail(err, ZL_E_USAGE, "the dropout of lora must be from 0 to below 1, got %s",
                           at + 1);
        }
    }
    ZL_TRY(zl_parse_count("lora", rank, &out->lora_rank, err));
    return out->lora_rank > 0
               ? ZL_OK
               : zl_fail(err, ZL_E_USAGE, "the rank of lora must be at least 1, got '%.60s'", text);
}

zl_status zt_lora_read(const char *text, zl_torch_run *out, zl_err *err)
{
    const char *colon = strchr(text, ':');
    if (text[0] == '\0') {
        return ZL_OK;
    }
    if (colon == NULL || colon[1] == '\0') {
        return zl_fail(err, ZL_E_USAGE,
                       "lora must be a rank and names of modules, as in 16:q_proj,v_proj, got "
                       "'%.60s'",
                       text);
    }
    const char *targets = colon + 1;
    const size_t length = strlen(targets);
    ZL_TRY(read_rank(text, (size_t)(colon - text), out, err));
    if (strcmp(targets, all_linear) == 0) {
        out->lora_all_linear = true;
        return ZL_OK;
    }
    if (targets[0] == '/' && length > 2 && targets[length - 1] == '/') {
        return read_pattern(targets, out, err);
    }
    return read_names(targets, out, err);
}

/* ---- asking ---- */

/* get_output_embeddings() of the classes that are modelled. */
static bool is_output(const char *name)
{
    static const char *const outputs[] = {"lm_head", "decoder", "embed_out", "vocab_projector"};
    bool found = false;
    for (size_t i = 0; i < sizeof outputs / sizeof outputs[0]; i++) {
        found |= strcmp(outputs[i], name) == 0;
    }
    return found;
}

/* Whether the dotted name of a module ends in the dotted end, at a dot. */
static bool ends_in(const zt_module *parent, const char *name, const char *end, size_t length)
{
    const size_t own = strlen(name);
    if (own > length || memcmp(end + length - own, name, own) != 0) {
        return false;
    }
    if (own == length) {
        return true;
    }
    return end[length - own - 1] == '.' && parent->parent != NULL && /* the root has no name */
           ends_in(parent->parent, parent->name, end, length - own - 1);
}

/* "model.layers.0.mlp.up_proj": the root has no name. Cut short where it is too long. */
static void full_name(const zt_module *parent, const char *name, char *out, size_t size)
{
    out[0] = '\0';
    if (parent->parent != NULL) {
        full_name(parent->parent, parent->name, out, size);
        snprintf(out + strlen(out), size - strlen(out), ".");
    }
    snprintf(out + strlen(out), size - strlen(out), "%s", name);
}

static bool matches(const char *pattern, const zt_module *parent, const char *name)
{
    regex_t compiled;
    char full[256];
    full_name(parent, name, full, sizeof full);
    if (regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB) != 0) {
        return false;
    }
    const bool found = regexec(&compiled, full, 0, NULL, 0) == 0;
    regfree(&compiled);
    return found;
}

bool zt_lora_targets(const zl_torch_run *run, const zt_module *parent, const char *name)
{
    if (run->lora_rank == 0) {
        return false;
    }
    if (run->lora_all_linear) {
        return !is_output(name);
    }
    if (run->lora_pattern[0] != '\0') {
        return matches(run->lora_pattern, parent, name);
    }
    for (uint32_t i = 0; i < run->lora_targets; i++) {
        const char *target = run->lora_target[i];
        if (ends_in(parent, name, target, strlen(target))) {
            return true;
        }
    }
    return false;
}
