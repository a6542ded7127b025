#include "torch/alloc_conf.h"

#include <ctype.h>
#include <string.h>

#include "zeroledger/bytes.h"
#include "zeroledger/text.h"

/* Names and ranges: c10/core/AllocatorConfig.cpp and c10/cuda/CUDAAllocatorConfig.cpp. */

static const uint64_t mib = UINT64_C(1) << 20;
static const uint64_t min_large_segment_mib = 10;                 /* must be more: kMinLargeAlloc */
static const uint64_t default_large_segment = UINT64_C(20) << 20; /* kLargeBuffer */

enum { WORD_SIZE = 64 };

/* The text, read from left to right; spaces count for nothing. */
typedef struct cursor {
    const char *at;
} cursor;

static char peek(cursor *c)
{
    while (isspace((unsigned char)*c->at)) {
        c->at++;
    }
    return *c->at;
}

static bool eat(cursor *c, char what)
{
    const bool there = peek(c) == what;
    c->at += there;
    return there;
}

/* A word ends at one of ":,[]" or at the end. */
static zl_status take_word(cursor *c, const char *after, char word[WORD_SIZE], zl_err *err)
{
    size_t length = 0;
    while (peek(c) != '\0' && strchr(":,[]", *c->at) == NULL && length < WORD_SIZE - 1) {
        word[length++] = *c->at++;
    }
    word[length] = '\0';
    if (length == 0 || length == WORD_SIZE - 1) {
        return zl_fail(err, ZL_E_USAGE, "a word is %s after '%.40s' in the allocator's settings",
                       length == 0 ? "missing" : "too long", after);
    }
    return ZL_OK;
}

static zl_status expect(cursor *c, char what, const char *after, zl_err *err)
{
    if (eat(c, what)) {
        return ZL_OK;
    }
    return zl_fail(err, ZL_E_USAGE, "'%c' is missing after '%.40s' in the allocator's settings",
                   what, after);
}

static zl_status take_count(cursor *c, const char *name, uint64_t *out, zl_err *err)
{
    char word[WORD_SIZE];
    ZL_TRY(take_word(c, name, word, err));
    return zl_parse_count(name, word, out, err);
}

static zl_status take_mib(cursor *c, const char *name, uint64_t *out, zl_err *err)
{
    uint64_t count = 0;
    ZL_TRY(take_count(c, name, &count, err));
    *out = zl_mul(count, mib); /* poison is "without limit" */
    return ZL_OK;
}

static zl_status take_real(cursor *c, const char *name, double *out, zl_err *err)
{
    char word[WORD_SIZE];
    ZL_TRY(take_word(c, name, word, err));
    return zl_parse_real(name, word, out, err);
}

static zl_status take_bool(cursor *c, const char *name, bool *out, zl_err *err)
{
    char word[WORD_SIZE];
    ZL_TRY(take_word(c, name, word, err));
    if (strcmp(word, "True") != 0 && strcmp(word, "False") != 0) {
        return zl_fail(err, ZL_E_USAGE, "%s must be True or False, got '%s'", name, word);
    }
    *out = word[0] == 'T';
    return ZL_OK;
}

static bool is_power_of_two(uint64_t x)
{
    return x != 0 && (x & (x - 1)) == 0;
}

static zl_status take_divisions(cursor *c, const char *name, uint32_t *out, zl_err *err)
{
    uint64_t count = 0;
    ZL_TRY(take_count(c, name, &count, err));
    if ((count != 0 && !is_power_of_two(count)) || count > UINT32_MAX) {
        return zl_fail(err, ZL_E_USAGE, "%s must be 0 or a power of two below 2^32, got %llu", name,
                       (unsigned long long)count);
    }
    *out = (uint32_t)count;
    return ZL_OK;
}

/* The interval that begins at a size in MiB, itself a power of two. */
static zl_status interval_of(const char *name, const char *word, int *out, zl_err *err)
{
    uint64_t start = 0;
    ZL_TRY(zl_parse_count(name, word, &start, err));
    if (!is_power_of_two(start)) {
        return zl_fail(err, ZL_E_USAGE, "intervals of %s begin at a power of two, got %s", name,
                       word);
    }
    const int log2 = 63 - __builtin_clzll(start);
    *out = log2 < ZT_ROUNDUP_INTERVALS ? log2 : ZT_ROUNDUP_INTERVALS - 1;
    return ZL_OK;
}

/* "[256:1,512:2,>:4]": the first entry also holds below it, '>' above the one before it. */
static zl_status take_intervals(cursor *c, const char *name, uint32_t *divisions, zl_err *err)
{
    int last = -1;
    while (!eat(c, ']')) {
        char word[WORD_SIZE];
        uint32_t value = 0;
        int from = last + 1;
        int to = ZT_ROUNDUP_INTERVALS - 1;
        ZL_TRY(take_word(c, name, word, err));
        ZL_TRY(expect(c, ':', word, err));
        ZL_TRY(take_divisions(c, name, &value, err));
        if (strcmp(word, ">") != 0) {
            ZL_TRY(interval_of(name, word, &to, err));
            from = last < 0 ? 0 : to;
            last = to;
        }
        for (int i = from; i <= to; i++) {
            divisions[i] = value;
        }
        if (peek(c) != ']') {
            ZL_TRY(expect(c, ',', name, err));
        }
    }
    return ZL_OK;
}

static zl_status take_roundup(cursor *c, const char *name, uint32_t *divisions, zl_err *err)
{
    if (eat(c, '[')) {
        return take_intervals(c, name, divisions, err);
    }
    uint32_t all = 0;
    ZL_TRY(take_divisions(c, name, &all, err));
    for (int i = 0; i < ZT_ROUNDUP_INTERVALS; i++) {
        divisions[i] = all;
    }
    return ZL_OK;
}

static zl_status take_backend(cursor *c, const char *name, zl_err *err)
{
    char word[WORD_SIZE];
    ZL_TRY(take_word(c, name, word, err));
    if (strcmp(word, "native") == 0) {
        return ZL_OK;
    }
    return zl_fail(err, strcmp(word, "cudaMallocAsync") == 0 ? ZL_E_UNMODELLED : ZL_E_USAGE,
                   "backend %s of the allocator is not modelled; native is", word);
}

/* A setting that moves no device memory: its value is passed over. */
static zl_status skip_value(cursor *c, const char *name, zl_err *err)
{
    char word[WORD_SIZE];
    if (!eat(c, '[')) {
        return take_word(c, name, word, err);
    }
    while (!eat(c, ']')) {
        if (peek(c) == '\0') {
            return zl_fail(err, ZL_E_USAGE, "']' is missing after '%s' in the allocator's settings",
                           name);
        }
        c->at++;
    }
    return ZL_OK;
}

typedef enum setting {
    EXPANDABLE,
    MAX_SPLIT,
    MAX_NON_SPLIT,
    LARGE_SEGMENT,
    COLLECTION,
    FRACTION,
    ROUNDUP,
    BACKEND,
    WITHOUT_EFFECT,
    SETTING_COUNT
} setting;

/* Names from WITHOUT_EFFECT on: host memory, locks, CUDA graphs, address space. */
static const char *const names[] = {
    [EXPANDABLE] = "expandable_segments",
    [MAX_SPLIT] = "max_split_size_mb",
    [MAX_NON_SPLIT] = "max_non_split_rounding_mb",
    [LARGE_SEGMENT] = "large_segment_size_mb",
    [COLLECTION] = "garbage_collection_threshold",
    [FRACTION] = "per_process_memory_fraction",
    [ROUNDUP] = "roundup_power2_divisions",
    [BACKEND] = "backend",
    [WITHOUT_EFFECT] = "release_lock_on_cudamalloc",
    "graph_capture_record_stream_reuse",
    "expandable_segments_reserve",
    "expandable_segments_reserve_by_class",
    "pinned_use_cuda_host_register",
    "pinned_num_register_threads",
    "pinned_reserve_segment_size_mb",
    "pinned_use_background_threads",
    "pinned_free_catch_all",
};
enum { NAMES = sizeof names / sizeof names[0] };

static zl_status find_setting(const char *name, setting *out, zl_err *err)
{
    for (size_t i = 0; i < NAMES; i++) {
        if (strcmp(name, names[i]) == 0) {
            *out = i < WITHOUT_EFFECT ? (setting)i : WITHOUT_EFFECT;
            return ZL_OK;
        }
    }
    const char *near = zl_nearest(name, names, NAMES);
    return zl_fail(err, ZL_E_USAGE, "unknown setting '%s' of the allocator%s%s%s", name,
                   near != NULL ? "; did you mean '" : "", near != NULL ? near : "",
                   near != NULL ? "'?" : "");
}

static zl_status take_setting(cursor *c, zt_alloc_conf *conf, zl_err *err)
{
    char name[WORD_SIZE];
    setting which = SETTING_COUNT;
    ZL_TRY(take_word(c, ",", name, err));
    ZL_TRY(find_setting(name, &which, err));
    ZL_TRY(expect(c, ':', name, err));
    switch (which) {
    case EXPANDABLE:
        return take_bool(c, name, &conf->expandable_segments, err);
    case MAX_SPLIT:
        return take_mib(c, name, &conf->max_split_size, err);
    case MAX_NON_SPLIT:
        return take_mib(c, name, &conf->max_non_split_rounding, err);
    case LARGE_SEGMENT:
        return take_mib(c, name, &conf->large_segment_size, err);
    case COLLECTION:
        return take_real(c, name, &conf->garbage_collection_threshold, err);
    case FRACTION:
        return take_real(c, name, &conf->per_process_memory_fraction, err);
    case ROUNDUP:
        return take_roundup(c, name, conf->roundup_power2_divisions, err);
    case BACKEND:
        return take_backend(c, name, err);
    case WITHOUT_EFFECT:
    case SETTING_COUNT:
        break;
    }
    return skip_value(c, name, err);
}

zt_alloc_conf zt_alloc_conf_default(void)
{
    return (zt_alloc_conf){.max_split_size = UINT64_MAX,
                           .max_non_split_rounding = default_large_segment,
                           .large_segment_size = default_large_segment,
                           .per_process_memory_fraction = 1.0};
}

zl_status zt_alloc_conf_check(const zt_alloc_conf *conf, zl_err *err)
{
    const uint64_t large = conf->large_segment_size;
    if (large <= zl_mul(min_large_segment_mib, mib) || large % mib != 0 || large > (mib << 20)) {
        return zl_fail(err, ZL_E_USAGE, "large_segment_size_mb must be above %d and below 2^20",
                       (int)min_large_segment_mib);
    }
    if (conf->max_split_size < large || conf->max_non_split_rounding < large) {
        return zl_fail(err, ZL_E_USAGE,
                       "%s must be at least the size of a large segment, 20 MiB "
                       "unless large_segment_size_mb says otherwise",
                       conf->max_split_size < large ? names[MAX_SPLIT] : names[MAX_NON_SPLIT]);
    }
    const double threshold = conf->garbage_collection_threshold;
    const double fraction = conf->per_process_memory_fraction;
    if (!(threshold >= 0.0 && threshold < 1.0) || !(fraction >= 0.0 && fraction <= 1.0)) {
        return zl_fail(err, ZL_E_USAGE, "%s must be a share from 0 to 1",
                       threshold >= 0.0 && threshold < 1.0 ? names[FRACTION] : names[COLLECTION]);
    }
    for (int i = 0; i < ZT_ROUNDUP_INTERVALS; i++) {
        const uint32_t divisions = conf->roundup_power2_divisions[i];
        if (divisions != 0 && !is_power_of_two(divisions)) {
            return zl_fail(err, ZL_E_USAGE, "%s must be powers of two", names[ROUNDUP]);
        }
    }
    return ZL_OK;
}

zl_status zt_alloc_conf_parse(const char *text, zt_alloc_conf *out, zl_err *err)
{
    zt_alloc_conf conf = zt_alloc_conf_default();
    cursor c = {text != NULL ? text : ""};
    conf.max_non_split_rounding = 0; /* follows the large segment unless it is set */
    while (peek(&c) != '\0') {
        ZL_TRY(take_setting(&c, &conf, err));
        if (peek(&c) != '\0') {
            ZL_TRY(expect(&c, ',', "a setting", err));
        }
    }
    if (conf.max_non_split_rounding == 0) {
        conf.max_non_split_rounding = conf.large_segment_size;
    }
    ZL_TRY(zt_alloc_conf_check(&conf, err));
    *out = conf;
    return ZL_OK;
}
