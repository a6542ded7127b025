#include "zeroledger/vocab.h"

#include <string.h>

typedef struct word {
    const char *name;
    const char *text;
} word;

static const word kinds[ZL_KIND_COUNT] = {
#define ZL_KIND(id, name, text) [ZL_KIND_##id] = {name, text},
#include "zeroledger/vocab.def"
};

static const word phases[ZL_PHASE_COUNT] = {
#define ZL_PHASE(id, name, text) [ZL_PHASE_##id] = {name, text},
#include "zeroledger/vocab.def"
};

static const word visits[ZL_VISIT_COUNT] = {
#define ZL_VISIT(id, name, text) [ZL_VISIT_##id] = {name, text},
#include "zeroledger/vocab.def"
};

static const word bufs[ZL_BUF_COUNT] = {
#define ZL_BUFFER(id, kind, name, text) [ZL_BUF_##id] = {name, text},
#include "zeroledger/vocab.def"
};

static const zl_kind buf_kinds[ZL_BUF_COUNT] = {
#define ZL_BUFFER(id, kind, name, text) [ZL_BUF_##id] = ZL_KIND_##kind,
#include "zeroledger/vocab.def"
};

static const char *const dtype_names[ZL_DTYPE_COUNT] = {
    [ZL_F32] = "fp32",
    [ZL_BF16] = "bf16",
    [ZL_F16] = "fp16",
};

static const uint64_t dtype_sizes[ZL_DTYPE_COUNT] = {
    [ZL_F32] = 4,
    [ZL_BF16] = 2,
    [ZL_F16] = 2,
};

static const char *const rung_names[ZL_RUNG_COUNT] = {
    [ZL_REQUESTED] = "requested",
    [ZL_GRANTED] = "granted",
};

const char *zl_kind_name(zl_kind kind)
{
    return kinds[kind].name;
}

const char *zl_kind_text(zl_kind kind)
{
    return kinds[kind].text;
}

const char *zl_phase_name(zl_phase phase)
{
    return phases[phase].name;
}

const char *zl_phase_text(zl_phase phase)
{
    return phases[phase].text;
}

const char *zl_visit_name(zl_visit visit)
{
    return visits[visit].name;
}

const char *zl_visit_text(zl_visit visit)
{
    return visits[visit].text;
}

const char *zl_buf_name(zl_buf buf)
{
    return bufs[buf].name;
}

const char *zl_buf_text(zl_buf buf)
{
    return bufs[buf].text;
}

zl_kind zl_buf_kind(zl_buf buf)
{
    return buf_kinds[buf];
}

const char *zl_dtype_name(zl_dtype dtype)
{
    return dtype_names[dtype];
}

uint64_t zl_dtype_size(zl_dtype dtype)
{
    return dtype_sizes[dtype];
}

const char *zl_rung_name(zl_rung rung)
{
    return rung_names[rung];
}

/* Index of the word, or count if it is not there. */
static unsigned find(const word *words, unsigned count, const char *name)
{
    unsigned i = 0;
    while (i < count && strcmp(words[i].name, name) != 0) {
        i++;
    }
    return i;
}

bool zl_kind_find(const char *name, zl_kind *out)
{
    const unsigned i = find(kinds, ZL_KIND_COUNT, name);
    if (i == ZL_KIND_COUNT) {
        return false;
    }
    *out = (zl_kind)i;
    return true;
}

bool zl_phase_find(const char *name, zl_phase *out)
{
    const unsigned i = find(phases, ZL_PHASE_COUNT, name);
    if (i == ZL_PHASE_COUNT) {
        return false;
    }
    *out = (zl_phase)i;
    return true;
}

bool zl_visit_find(const char *name, zl_visit *out)
{
    const unsigned i = find(visits, ZL_VISIT_COUNT, name);
    if (i == ZL_VISIT_COUNT) {
        return false;
    }
    *out = (zl_visit)i;
    return true;
}

bool zl_buf_find(const char *name, zl_buf *out)
{
    const unsigned i = find(bufs, ZL_BUF_COUNT, name);
    if (i == ZL_BUF_COUNT) {
        return false;
    }
    *out = (zl_buf)i;
    return true;
}
