#include "torch/log_read.h"

#include <stdlib.h>
#include <string.h>

#include "zeroledger/bytes.h"
#include "zeroledger/json.h"

static const uint64_t gib = UINT64_C(1) << 30;

static const char *const figures[ZT_FIGURE_COUNT] = {
    [ZT_REQUESTED] = "requested",     [ZT_PEAK_REQUESTED] = "peak_requested",
    [ZT_ALLOCATED] = "allocated",     [ZT_PEAK_ALLOCATED] = "peak_allocated",
    [ZT_RESERVED] = "reserved",       [ZT_PEAK_RESERVED] = "peak_reserved",
    [ZT_DEVICE_USED] = "device_used", [ZT_HOST_USED] = "host_used",
};

static const char *const sources[ZT_SOURCE_COUNT] = {
    [ZT_SEE_MEMORY_USAGE] = "see_memory_usage",
    [ZT_GIGABYTES] = "see_memory_usage",
    [ZT_THROUGHPUT_TIMER] = "ThroughputTimer",
    [ZT_OVERFLOW] = "overflow",
    [ZT_MEMORY_SUMMARY] = "memory_summary",
    [ZT_OUT_OF_MEMORY] = "out of memory",
    [ZT_NVIDIA_SMI] = "nvidia-smi",
    [ZT_SNAPSHOT] = "snapshot",
};

const char *zt_figure_name(zt_figure figure)
{
    return figures[figure];
}

const char *zt_source_name(zt_source source)
{
    return sources[source];
}

zt_sighting *zt_log_add(zt_log_reader *r, zt_source source, const char *at)
{
    enum { STEP = 64 };
    if (r->log.count % STEP == 0) {
        zt_sighting *more =
            realloc(r->log.sighting, (r->log.count + STEP) * sizeof *r->log.sighting);
        if (more == NULL) {
            r->failed = true;
            return NULL;
        }
        r->log.sighting = more;
    }
    for (; r->counted < (size_t)(at - r->text); r->counted++) {
        r->line += r->text[r->counted] == '\n' ? 1 : 0;
    }
    zt_sighting *s = &r->log.sighting[r->log.count++];
    *s = (zt_sighting){.source = source, .line = r->line};
    return s;
}

/* ---- the message above the figures ---- */

static bool is_space(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

static const char *trimmed(const char *begin, const char *end)
{
    while (end > begin && is_space(end[-1])) {
        end--;
    }
    return end;
}

/* "[2026-11-30 03:07:31,889]", "[INFO]", "[utils.py:782:see_memory_usage]", but not "[begin]". */
static bool is_prefix(const char *begin, const char *end)
{
    const zt_cursor inside = {begin, (size_t)(end - begin)};
    return (begin + 1 < end && begin[1] >= '0' && begin[1] <= '9') ||
           zt_find(inside, "[INFO]") == begin || zt_find(inside, "see_memory_usage]") != NULL;
}

/* Without the prefix of the logger's next line, and the host that a launcher puts before it. */
static const char *without_prefix(const char *begin, const char *end)
{
    enum { PREFIX_MAX = 96 };
    bool some = false;
    end = trimmed(begin, end);
    while (end > begin && end[-1] == ']') {
        const char *open = end;
        while (open > begin && open[-1] != '[' && end - open < PREFIX_MAX) {
            open--;
        }
        if (open == begin || open[-1] != '[' || !is_prefix(open - 1, end)) {
            break;
        }
        end = trimmed(begin, open - 1);
        some = true;
    }
    if (some && end > begin && end[-1] == ':') {
        const char *word = end;
        while (word > begin && !is_space(word[-1])) {
            word--;
        }
        end = word == begin || word[-1] == '\n' ? trimmed(begin, word) : end;
    }
    return end;
}

/* Blanks squeezed, the rest printable. */
static void copy_message(const char *begin, const char *end, char *out)
{
    size_t used = 0;
    for (; begin < end && used + 1 < ZT_MESSAGE; begin++) {
        if (is_space(*begin)) {
            if (used > 0 && out[used - 1] != ' ') {
                out[used++] = ' ';
            }
        } else {
            out[used++] = *begin > ' ' && *begin < 127 ? *begin : '?';
        }
    }
    while (used > 0 && out[used - 1] == ' ') {
        used--;
    }
    out[used] = '\0';
}

/* Behind the last logger's tag, which may be some lines above where a terminal wrapped; without
 * one, the last line. */
static void read_message(const zt_log_reader *r, const char *figures_at, char *out)
{
    enum { BACK_MAX = 400 };
    static const char tag[] = "see_memory_usage]";
    const char *begin = r->last;
    if (figures_at - begin > BACK_MAX) {
        begin = figures_at - BACK_MAX;
    }
    const char *end = without_prefix(begin, figures_at);
    const char *tagged = NULL;
    for (const char *at = begin; at != NULL && at < end;) {
        at = zt_find((zt_cursor){at, (size_t)(end - at)}, tag);
        if (at != NULL) {
            at += strlen(tag);
            tagged = at;
        }
    }
    if (tagged == NULL) {
        tagged = end;
        while (tagged > begin && tagged[-1] != '\n' && tagged[-1] != '\r') {
            tagged--;
        }
    }
    copy_message(tagged, end, out);
}

/* ---- see_memory_usage ---- */

/* "MA 0.63 GB Max_MA 0.63 GB CA 0.63 GB Max_CA 1 GB", any space between the words: logs come
 * wrapped, and collapsed by issue trackers. */
static bool read_usage(zt_log_reader *r, zt_cursor *c)
{
    static const struct {
        const char *word;
        zt_figure figure;
        zt_rounding rounding;
    } words[] = {
        {"MA", ZT_ALLOCATED, ZT_TWO_DECIMALS},
        {"Max_MA", ZT_PEAK_ALLOCATED, ZT_TWO_DECIMALS},
        {"CA", ZT_RESERVED, ZT_TWO_DECIMALS},
        {"Max_CA", ZT_PEAK_RESERVED, ZT_AS_WRITTEN},
    };
    zt_cursor ahead = *c;
    zt_printed figure[ZT_FIGURE_COUNT] = {{0}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (!zt_take(&ahead, words[i].word) ||
            !zt_take_number(&ahead, gib, words[i].rounding, &figure[words[i].figure]) ||
            !zt_take(&ahead, "GB")) {
            return false;
        }
    }
    zt_sighting *s = zt_log_add(r, ZT_SEE_MEMORY_USAGE, c->at);
    if (s != NULL) {
        memcpy(s->figure, figure, sizeof figure);
        read_message(r, c->at, s->message);
    }
    *c = ahead;
    return true;
}

/* "CPU Virtual Memory:  used = 4.43 GB, percent = 1.8%" of the sighting before. */
static bool read_host(zt_log_reader *r, zt_cursor *c)
{
    zt_cursor ahead = *c;
    zt_printed used = {0};
    if (!zt_take(&ahead, "CPU Virtual Memory:") || !zt_take(&ahead, "used") ||
        !zt_take(&ahead, "=") || !zt_take_number(&ahead, gib, ZT_TWO_DECIMALS, &used) ||
        !zt_take(&ahead, "GB")) {
        return false;
    }
    (void)(zt_take(&ahead, ",") && zt_take(&ahead, "percent") && zt_take(&ahead, "="));
    while (ahead.left > 0 && ((*ahead.at >= '0' && *ahead.at <= '9') || *ahead.at == '.' ||
                              *ahead.at == '%' || *ahead.at == ' ')) {
        zt_advance(&ahead, 1);
    }
    if (r->log.count > 0 && r->log.sighting[r->log.count - 1].source == ZT_SEE_MEMORY_USAGE) {
        r->log.sighting[r->log.count - 1].figure[ZT_HOST_USED] = used;
    }
    *c = ahead;
    return true;
}

/* "Memory Allocated 0.123 GigaBytes" and three more, each with its own prefix. */
static bool read_gigabytes(zt_log_reader *r, zt_cursor *c)
{
    static const struct {
        const char *words;
        zt_figure figure;
    } lines[] = {
        {"Max Memory Allocated", ZT_PEAK_ALLOCATED},
        {"Cache Allocated", ZT_RESERVED},
        {"Max cache Allocated", ZT_PEAK_RESERVED},
    };
    enum { BETWEEN_MAX = 160 };
    zt_cursor ahead = *c;
    zt_printed figure[ZT_FIGURE_COUNT] = {{0}};
    if (!zt_take(&ahead, "Memory Allocated") ||
        !zt_take_number(&ahead, gib, ZT_AS_WRITTEN, &figure[ZT_ALLOCATED]) ||
        !zt_take(&ahead, "GigaBytes")) {
        return false;
    }
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        const zt_cursor near = {ahead.at, ahead.left < BETWEEN_MAX ? ahead.left : BETWEEN_MAX};
        const char *at = zt_find(near, lines[i].words);
        if (at == NULL) {
            break;
        }
        zt_advance(&ahead, (size_t)(at - ahead.at) + strlen(lines[i].words));
        (void)zt_take_number(&ahead, gib, ZT_AS_WRITTEN, &figure[lines[i].figure]);
        (void)zt_take(&ahead, "GigaBytes");
    }
    zt_sighting *s = zt_log_add(r, ZT_GIGABYTES, c->at);
    if (s != NULL) {
        memcpy(s->figure, figure, sizeof figure);
        read_message(r, c->at, s->message);
    }
    *c = ahead;
    return true;
}

/* ---- ThroughputTimer and overflow ---- */

/* "global_step=4", or "0/4, SamplesPerSec" up to 0.6. */
static uint64_t step_before(const zt_log_reader *r, const char *at)
{
    enum { BACK_MAX = 240 };
    static const char word[] = "global_step=";
    const char *begin = at - r->last > BACK_MAX ? at - BACK_MAX : r->last;
    uint64_t step = 0;
    for (const char *next = begin; next != NULL && next < at;) {
        next = zt_find((zt_cursor){next, (size_t)(at - next)}, word);
        if (next != NULL) {
            next += strlen(word);
            zt_cursor c = {next, (size_t)(at - next)};
            (void)zt_take_count(&c, &step);
        }
    }
    const char *old = zt_find((zt_cursor){begin, (size_t)(at - begin)}, ", SamplesPerSec");
    if (step == 0 && old != NULL) {
        const char *digits = old;
        while (digits > begin && digits[-1] >= '0' && digits[-1] <= '9') {
            digits--;
        }
        zt_cursor c = {digits, (size_t)(old - digits)};
        if (digits > begin && digits[-1] == '/') {
            (void)zt_take_count(&c, &step);
        }
    }
    return step;
}

static bool read_timer(zt_log_reader *r, zt_cursor *c)
{
    zt_cursor ahead = *c;
    zt_printed now = {0};
    zt_printed most = {0};
    if (!zt_take(&ahead, "MemAllocated=") || !zt_take_number(&ahead, gib, ZT_TWO_DECIMALS, &now) ||
        !zt_take(&ahead, "GB")) {
        return false;
    }
    (void)(zt_take(&ahead, ",") && zt_take(&ahead, "MaxMemAllocated=") &&
           zt_take_number(&ahead, gib, ZT_TWO_DECIMALS, &most) && zt_take(&ahead, "GB"));
    zt_sighting *s = zt_log_add(r, ZT_THROUGHPUT_TIMER, c->at);
    if (s != NULL) {
        s->figure[ZT_ALLOCATED] = now;
        s->figure[ZT_PEAK_ALLOCATED] = most;
        s->number = step_before(r, c->at);
        memcpy(s->message, "end of step", sizeof "end of step");
    }
    *c = ahead;
    return true;
}

/* "[deepspeed] OVERFLOW! Rank 0 Skipping step." */
static bool read_overflow(zt_log_reader *r, zt_cursor *c)
{
    zt_cursor ahead = *c;
    enum { WORDS_MAX = 60 };
    if (!zt_take(&ahead, "OVERFLOW!") ||
        zt_find((zt_cursor){ahead.at, ahead.left < WORDS_MAX ? ahead.left : WORDS_MAX},
                "kipping step") == NULL) {
        return false;
    }
    zt_sighting *s = zt_log_add(r, ZT_OVERFLOW, c->at);
    if (s != NULL) {
        memcpy(s->message, "step skipped", sizeof "step skipped");
    }
    *c = ahead;
    return true;
}

/* ---- torch.cuda.memory_summary() ---- */

static void summary_row(zt_cursor table, const char *name, zt_printed *now, zt_printed *most)
{
    const char *at = zt_find(table, name);
    if (at != NULL) {
        zt_cursor c = {at, table.left - (size_t)(at - table.at)};
        (void)(zt_take(&c, name) && zt_take(&c, "|") && zt_take_bytes(&c, ZT_DOWN, now) &&
               zt_take(&c, "|") && zt_take_bytes(&c, ZT_DOWN, most));
    }
}

static bool read_summary(zt_log_reader *r, zt_cursor *c)
{
    enum { TABLE_MAX = 5000 };
    static const char title[] = "memory summary, device ID";
    zt_cursor ahead = *c;
    if (!zt_take(&ahead, title)) {
        return false;
    }
    zt_cursor table = {ahead.at, ahead.left < TABLE_MAX ? ahead.left : TABLE_MAX};
    const char *next = zt_find(table, title);
    if (next != NULL) {
        table.left = (size_t)(next - table.at);
    }
    zt_sighting seen = {0};
    (void)zt_take_count(&ahead, &seen.number);
    summary_row(table, "| Allocated memory", &seen.figure[ZT_ALLOCATED],
                &seen.figure[ZT_PEAK_ALLOCATED]);
    summary_row(table, "| GPU reserved memory", &seen.figure[ZT_RESERVED],
                &seen.figure[ZT_PEAK_RESERVED]);
    summary_row(table, "| Requested memory", &seen.figure[ZT_REQUESTED],
                &seen.figure[ZT_PEAK_REQUESTED]);
    if (!seen.figure[ZT_ALLOCATED].present) {
        return false;
    }
    zt_sighting *s = zt_log_add(r, ZT_MEMORY_SUMMARY, c->at);
    if (s != NULL) {
        seen.source = s->source;
        seen.line = s->line;
        *s = seen;
        memcpy(s->message, "memory_summary", sizeof "memory_summary");
    }
    *c = ahead;
    return true;
}

/* ---- out of memory ---- */

static bool read_oom(zt_log_reader *r, zt_cursor *c)
{
    zt_cursor ahead = *c;
    zt_oom oom;
    if (!zt_oom_find(&ahead, &oom) || !oom.asked.present) {
        return false;
    }
    zt_sighting *s = zt_log_add(r, ZT_OUT_OF_MEMORY, c->at);
    if (s != NULL) {
        s->oom = oom;
        s->number = oom.device;
        s->figure[ZT_ALLOCATED] = oom.allocated;
        s->figure[ZT_RESERVED] = oom.reserved;
        memcpy(s->message, "out of memory", sizeof "out of memory");
    }
    *c = ahead;
    return true;
}

/* ---- a snapshot as JSON ---- */

static zl_status sum_segments(zl_json segments, zt_sighting *s, zl_err *err)
{
    static const struct {
        const char *key;
        zt_figure figure;
    } keys[] = {
        {"total_size", ZT_RESERVED},
        {"allocated_size", ZT_ALLOCATED},
        {"requested_size", ZT_REQUESTED},
    };
    zl_json first = zl_json_get(zl_json_item(segments, 0), "device");
    if (first.node != NULL) {
        ZL_TRY(zl_json_u64(first, &s->number, err));
    }
    zl_json segment;
    for (size_t i = 0; zl_json_each(segments, &i, &segment);) {
        uint64_t device = s->number;
        const zl_json of = zl_json_get(segment, "device");
        if (of.node != NULL) {
            ZL_TRY(zl_json_u64(of, &device, err));
        }
        for (size_t k = 0; k < sizeof keys / sizeof keys[0] && device == s->number; k++) {
            uint64_t bytes = 0;
            const zl_json value = zl_json_get(segment, keys[k].key);
            if (value.node != NULL) {
                ZL_TRY(zl_json_u64(value, &bytes, err));
                zt_printed *sum = &s->figure[keys[k].figure];
                *sum = (zt_printed){true, zl_add(sum->low, bytes), zl_add(sum->high, bytes),
                                    zl_add(sum->nominal, bytes)};
            }
        }
    }
    return ZL_OK;
}

/* What torch.cuda.memory._snapshot() returns, or torch.cuda.memory_snapshot(), the segments alone.
 * False: this is no JSON of a snapshot, and not meant to be. */
static bool looks_like_json(const zt_log_reader *r)
{
    zt_cursor c = {r->text, r->size};
    zt_skip_space(&c);
    return c.left > 0 && ((*c.at == '{' && zt_find(c, "\"segments\"") != NULL) ||
                          (*c.at == '[' && zt_find(c, "\"total_size\"") != NULL));
}

static zl_status read_snapshot(zt_log_reader *r, zl_err *err)
{
    zl_json_doc *doc = NULL;
    ZL_TRY(zl_json_parse("snapshot", r->text, r->size, &doc, err));
    const zl_json root = zl_json_root(doc);
    const zl_json segments = zl_json_is_array(root) ? root : zl_json_get(root, "segments");
    zl_status status = ZL_OK;
    if (zl_json_size(segments) > 0) {
        zt_sighting *s = zt_log_add(r, ZT_SNAPSHOT, r->text);
        if (s != NULL) {
            status = sum_segments(segments, s, err);
            memcpy(s->message, "snapshot", sizeof "snapshot");
        }
    }
    zl_json_free(doc);
    return status;
}

/* ---- the log ---- */

static const struct {
    const char *begins;
    bool (*read)(zt_log_reader *r, zt_cursor *c);
} wordings[] = {
    {"MA", read_usage},
    {"CPU Virtual Memory:", read_host},
    {"Memory Allocated", read_gigabytes},
    {"MemAllocated=", read_timer},
    {"OVERFLOW!", read_overflow},
    {"memory summary, device ID", read_summary},
    {"Tried to allocate ", read_oom},
    {"Allocation on device ", read_oom},
    {"DefaultCPUAllocator: ", read_oom},
    {"memory.used", zt_log_read_smi},
};

enum { WORDINGS = sizeof wordings / sizeof wordings[0] };

/* Each wording is looked for once in the whole text, then again behind where it was read. */
static void read_text(zt_log_reader *r)
{
    const char *next[WORDINGS];
    zt_cursor c = {r->text, r->size};
    for (size_t i = 0; i < WORDINGS; i++) {
        next[i] = zt_find(c, wordings[i].begins);
    }
    while (!r->failed) {
        size_t first = WORDINGS;
        for (size_t i = 0; i < WORDINGS; i++) {
            if (next[i] != NULL && next[i] < c.at) {
                next[i] = zt_find(c, wordings[i].begins);
            }
            if (next[i] != NULL && (first == WORDINGS || next[i] < next[first])) {
                first = i;
            }
        }
        if (first == WORDINGS) {
            return;
        }
        zt_advance(&c, (size_t)(next[first] - c.at));
        if (wordings[first].read(r, &c)) {
            r->last = c.at;
        } else {
            zt_advance(&c, 1);
        }
    }
}

/* Protocol 2 or newer, as torch.cuda.memory._dump_snapshot() writes it. */
static bool is_pickle(const zt_log_reader *r)
{
    return r->size > 1 && (unsigned char)r->text[0] == 0x80 && r->text[1] >= 2 && r->text[1] <= 5;
}

zl_status zt_log_read(const char *text, size_t size, zt_log *out, zl_err *err)
{
    zt_log_reader r = {.text = text, .size = size, .line = 1, .last = text};
    zl_status status = ZL_OK;
    if (looks_like_json(&r)) {
        status = read_snapshot(&r, err);
    } else {
        read_text(&r);
    }
    if (status == ZL_OK && !r.failed && r.log.count == 0) {
        zt_log_read_bare_smi(&r);
    }
    if (status == ZL_OK && r.failed) {
        status = zl_fail(err, ZL_E_RESOURCE, "no memory for what the log says");
    }
    if (status == ZL_OK && r.log.count == 0 && is_pickle(&r)) {
        status = zl_fail(err, ZL_E_INPUT,
                         "a pickle; write it as JSON, as in python3 -c 'import json, pickle, sys; "
                         "json.dump(pickle.load(sys.stdin.buffer), sys.stdout)'");
    } else if (status == ZL_OK && r.log.count == 0) {
        status = zl_fail(err, ZL_E_INPUT,
                         "nothing is recognised; understood are DeepSpeed's see_memory_usage and "
                         "ThroughputTimer lines, torch.cuda.memory_summary(), out-of-memory "
                         "messages of PyTorch, memory snapshots as JSON, and nvidia-smi "
                         "--query-gpu=memory.used --format=csv with its header or its units");
    }
    if (status != ZL_OK) {
        zt_log_release(&r.log);
        return status;
    }
    *out = r.log;
    return ZL_OK;
}

void zt_log_release(zt_log *log)
{
    free(log->sighting);
    *log = (zt_log){0};
}
