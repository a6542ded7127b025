#include "trace/judge.h"

#include <string.h>

#include "zeroledger/bytes.h"

/* The marks of one device that are judged: from, to and what is between them. */
typedef struct span {
    bool found;
    bool promised; /* the program set the first */
    size_t from;
    size_t to;
} span;

static uint64_t excess(uint64_t a, uint64_t b)
{
    return a > b ? zl_sub(a, b) : 0;
}

uint64_t zr_untraced(const zr_mark_seen *mark)
{
    return excess(mark->used, mark->traced);
}

uint64_t zr_overtraced(const zr_mark_seen *mark)
{
    return excess(mark->traced, mark->used);
}

static bool counts(const zr_mark_seen *mark, int device)
{
    return mark->device == device && mark->settled;
}

static span promised_span(const zr_meter *m, const char *warm, int device)
{
    span s = {.promised = true};
    for (size_t i = 0; i < m->marks; i++) {
        const zr_mark_seen *const mark = &m->mark[i];
        if (!s.found && counts(mark, device) && !mark->automatic && strcmp(mark->name, warm) == 0) {
            s.found = true;
            s.from = i;
        }
    }
    /* To the program's own last mark; if it set no other, to the last there is. */
    bool own = false;
    for (size_t i = s.from + 1; s.found && i < m->marks; i++) {
        const zr_mark_seen *const mark = &m->mark[i];
        if (counts(mark, device) && (!mark->automatic || !own)) {
            s.to = i;
            own = own || !mark->automatic;
        }
    }
    s.found = s.found && s.to > s.from;
    return s;
}

static span second_half(const zr_meter *m, int device)
{
    span s = {0};
    size_t all = 0;
    for (size_t i = 0; i < m->marks; i++) {
        all += counts(&m->mark[i], device) ? 1 : 0;
    }
    size_t seen = 0;
    for (size_t i = 0; i < m->marks; i++) {
        if (counts(&m->mark[i], device)) {
            s.from = seen == all / 2 ? i : s.from;
            s.to = i;
            seen++;
        }
    }
    s.found = all > 1 && s.to > s.from;
    return s;
}

/* The largest growth between two marks of the span, the later one after the earlier. */
static bool untraced_growth(const zr_meter *m, const span *s, uint64_t tolerance, int device,
                            zr_finding *out)
{
    size_t least = s->from;
    zr_finding worst = {.device = device};
    for (size_t i = s->from; i <= s->to; i++) {
        const zr_mark_seen *const b = &m->mark[i];
        const zr_mark_seen *const a = &m->mark[least];
        if (!counts(b, device)) {
            continue;
        }
        /* (b.used - b.traced) - (a.used - a.traced), where each of them may be negative */
        const uint64_t later = zl_add(b->used, a->traced);
        const uint64_t earlier = zl_add(a->used, b->traced);
        if (excess(later, earlier) > worst.bytes) {
            worst.bytes = excess(later, earlier);
            worst.from = least;
            worst.to = i;
        }
        least = later < earlier ? i : least;
    }
    *out = worst;
    return worst.bytes > tolerance;
}

static bool somebody(uint32_t owner)
{
    return owner != ZR_OWNER_CONTEXT && owner != ZR_OWNER_POOL && owner != ZR_OWNER_GRANULE;
}

/* A row that was not there yet had nothing. */
static bool row_growth(const zr_meter *m, const span *s, size_t row, zr_finding *out)
{
    const zr_mark_seen *const a = &m->mark[s->from];
    const zr_mark_seen *const b = &m->mark[s->to];
    const zr_row_then before = row < a->rows ? m->then[a->first + row] : (zr_row_then){0};
    const zr_row_then after = row < b->rows ? m->then[b->first + row] : (zr_row_then){0};
    *out = (zr_finding){.device = b->device,
                        .traced = true,
                        .row = row,
                        .bytes = excess(after.bytes, before.bytes),
                        .live = excess(after.live, before.live),
                        .from = s->from,
                        .to = s->to};
    return somebody(m->row[row].owner) && after.bytes > before.bytes;
}

size_t zr_judge(const zr_meter *m, const zr_judgement *j, zr_finding *out, size_t room)
{
    size_t found = 0;
    zr_finding f;
    for (int device = 0; device < ZR_DEVICES_MAX; device++) {
        span s = promised_span(m, j->warm, device);
        if (!s.found) {
            s = second_half(m, device);
        }
        if (!s.found) {
            continue;
        }
        if (untraced_growth(m, &s, j->tolerance, device, &f)) {
            if (found < room) {
                out[found] = f;
            }
            found++;
        }
        for (size_t row = 0; s.promised && row < m->rows; row++) {
            if (m->row[row].device == device && row_growth(m, &s, row, &f)) {
                if (found < room) {
                    out[found] = f;
                }
                found++;
            }
        }
    }
    return found;
}
