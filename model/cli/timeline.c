#define ZLIB_CONST /* what deflate reads it does not write */
#include "timeline.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "zeroledger/bytes.h"

void zl_timeline_init(zl_timeline *t)
{
    *t = (zl_timeline){.framework = "", .settings = ""};
}

void zl_timeline_free(zl_timeline *t)
{
    free(t->event);
    free(t->allocation);
    free(t->phase);
    *t = (zl_timeline){0};
}

/* A heap array with room for one more item; NULL: out of memory, the array stands as it was, and
 * `failed` is set. */
static void *grown(zl_timeline *t, void *array, size_t used, size_t *room, size_t size)
{
    if (array != NULL && used < *room) {
        return array;
    }
    const size_t more = *room == 0 ? 1024 : 2 * *room;
    void *const larger = realloc(array, more * size);
    if (larger == NULL) {
        t->failed = true;
        return NULL;
    }
    *room = more;
    return larger;
}

static void add(zl_timeline *t, zl_timeline_event event)
{
    zl_timeline_event *const all = grown(t, t->event, t->events, &t->event_room, sizeof *t->event);
    if (all != NULL) {
        event.time = t->now;
        t->now += event.what == ZL_TIMELINE_RENAME ? 0 : 1;
        all[t->events++] = event;
        t->event = all;
    }
}

size_t zl_timeline_alloc(zl_timeline *t, const zl_allocation *allocation)
{
    zl_allocation *const all =
        grown(t, t->allocation, t->allocations, &t->allocation_room, sizeof *t->allocation);
    if (all == NULL) {
        return 0;
    }
    all[t->allocations] = *allocation;
    all[t->allocations].last = allocation->name;
    t->allocation = all;
    add(t, (zl_timeline_event){.what = ZL_TIMELINE_ALLOC, .allocation = t->allocations});
    return t->allocations++;
}

void zl_timeline_give(zl_timeline *t, zl_timeline_what what, size_t allocation)
{
    add(t, (zl_timeline_event){.what = what, .allocation = allocation});
}

void zl_timeline_take(zl_timeline *t, zl_timeline_what what, zl_timeline_segment segment)
{
    add(t, (zl_timeline_event){.what = what, .segment = segment});
}

bool zl_timeline_same_name(const zl_timeline_name *a, const zl_timeline_name *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->kind, b->kind) == 0 && a->owner == b->owner;
}

void zl_timeline_rename(zl_timeline *t, size_t allocation, zl_timeline_name name)
{
    const zl_timeline_event *const last = t->events > 0 ? &t->event[t->events - 1] : NULL;
    zl_allocation *const a = &t->allocation[allocation];
    if (zl_timeline_same_name(&a->last, &name)) {
        return;
    }
    a->last = name;
    if (last != NULL && last->what == ZL_TIMELINE_ALLOC && last->allocation == allocation) {
        a->name = name;
    } else {
        add(t, (zl_timeline_event){
                   .what = ZL_TIMELINE_RENAME, .allocation = allocation, .name = name});
    }
}

void zl_timeline_phase_add(zl_timeline *t, const zl_timeline_phase *phase)
{
    zl_timeline_phase *const all = grown(t, t->phase, t->phases, &t->phase_room, sizeof *t->phase);
    if (all != NULL) {
        all[t->phases++] = *phase;
        t->phase = all;
    }
}

/* ---- sums ---- */

/* Amounts that rise and fall; the first fall below 0 stays. */
static void lower(uint64_t *amount, uint64_t bytes)
{
    *amount = zl_sub(*amount, bytes);
}

static void count(const zl_timeline *t, const zl_timeline_event *e, zl_timeline_peak *now)
{
    const zl_allocation *const a = &t->allocation[e->allocation];
    switch (e->what) {
    case ZL_TIMELINE_ALLOC:
        now->requested = zl_add(now->requested, a->requested);
        now->allocated = zl_add(now->allocated, a->size);
        break;
    case ZL_TIMELINE_FREE_REQUESTED:
        lower(&now->allocated, a->size);
        break;
    case ZL_TIMELINE_FREE_COMPLETED:
        lower(&now->requested, a->requested);
        break;
    case ZL_TIMELINE_SEGMENT_ALLOC:
    case ZL_TIMELINE_SEGMENT_MAP:
        now->reserved = zl_add(now->reserved, e->segment.size);
        break;
    case ZL_TIMELINE_SEGMENT_FREE:
    case ZL_TIMELINE_SEGMENT_UNMAP:
        lower(&now->reserved, e->segment.size);
        break;
    case ZL_TIMELINE_RENAME:
    case ZL_TIMELINE_WHAT_COUNT:
        break;
    }
}

zl_status zl_timeline_sum(const zl_timeline *t, zl_timeline_peak *out, zl_err *err)
{
    zl_timeline_peak now = {0};
    zl_timeline_peak peak = {0};
    for (size_t i = 0; i < t->events; i++) {
        count(t, &t->event[i], &now);
        peak.requested = zl_max(peak.requested, now.requested);
        peak.allocated = zl_max(peak.allocated, now.allocated);
        peak.reserved = zl_max(peak.reserved, now.reserved);
    }
    if (zl_poisoned(peak.requested) || zl_poisoned(peak.allocated) || zl_poisoned(peak.reserved)) {
        return zl_fail(err, ZL_E_BUG, "the timeline frees what is not there");
    }
    *out = peak;
    return ZL_OK;
}

bool zl_timeline_at_once(const zl_timeline *t, size_t i)
{
    return i + 1 < t->events && t->event[i + 1].what == ZL_TIMELINE_FREE_COMPLETED &&
           t->event[i + 1].allocation == t->event[i].allocation;
}

/* ---- addresses ---- */

/* Addresses that a segment had, and by how much they move. */
typedef struct stretch {
    uint64_t begin, end;
    uint64_t to;
} stretch;

static bool takes(const zl_timeline_event *e)
{
    return e->what == ZL_TIMELINE_SEGMENT_ALLOC || e->what == ZL_TIMELINE_SEGMENT_MAP;
}

static bool gives(const zl_timeline_event *e)
{
    return e->what == ZL_TIMELINE_SEGMENT_FREE || e->what == ZL_TIMELINE_SEGMENT_UNMAP;
}

static int by_begin(const void *x, const void *y)
{
    const stretch *const a = x;
    const stretch *const b = y;
    return a->begin < b->begin ? -1 : a->begin > b->begin;
}

/* Stretches that overlap or touch become one; returns how many are left. */
static size_t merge(stretch *s, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && s[i].begin <= s[kept - 1].end) {
            s[kept - 1].end = zl_max(s[kept - 1].end, s[i].end);
        } else {
            s[kept++] = s[i];
        }
    }
    return kept;
}

static uint64_t moved(const stretch *s, size_t count, uint64_t address)
{
    size_t low = 0;
    size_t high = count; /* the first stretch that begins above the address */
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (s[middle].begin <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low == 0 ? address : zl_add(s[low - 1].to, zl_sub(address, s[low - 1].begin));
}

zl_status zl_timeline_place(zl_timeline *t, zl_err *err)
{
    /* Where Linux maps things; and the space that stays between segments that lie far apart. */
    static const uint64_t bottom = UINT64_C(0x700000000000);
    static const uint64_t space = UINT64_C(32) << 30;
    size_t count = 0;
    stretch *const s = calloc(t->events + 1, sizeof *s);
    if (s == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "no memory for a timeline");
    }
    for (size_t i = 0; i < t->events; i++) {
        const zl_timeline_event *const e = &t->event[i];
        if (takes(e)) {
            s[count++] = (stretch){.begin = e->segment.address,
                                   .end = zl_add(e->segment.address, e->segment.size)};
        }
    }
    qsort(s, count, sizeof *s, by_begin);
    count = merge(s, count);
    for (size_t i = 0; i < count; i++) {
        s[i].to = i == 0 ? bottom
                         : zl_add(zl_add(s[i - 1].to, zl_sub(s[i - 1].end, s[i - 1].begin)),
                                  zl_min(space, zl_sub(s[i].begin, s[i - 1].end)));
    }
    for (size_t i = 0; i < t->events; i++) {
        zl_timeline_event *const e = &t->event[i];
        e->segment.address = takes(e) || gives(e) ? moved(s, count, e->segment.address) : 0;
    }
    for (size_t i = 0; i < t->allocations; i++) {
        t->allocation[i].address = moved(s, count, t->allocation[i].address);
    }
    free(s);
    return ZL_OK;
}

/* ---- files ---- */

static bool ends_with(const char *path, const char *ending)
{
    const size_t length = strlen(path);
    const size_t size = strlen(ending);
    return length > size && strcmp(path + length - size, ending) == 0;
}

zl_status zl_timeline_check(const char *path, zl_err *err)
{
    if (ends_with(path, ".json") || ends_with(path, ".json.gz") || ends_with(path, ".pickle")) {
        return ZL_OK;
    }
    return zl_fail(err, ZL_E_USAGE,
                   "--timeline writes a trace for Perfetto to a file named *.json or *.json.gz, or "
                   "a snapshot for memory_viz to *.pickle, got %.200s",
                   path);
}

/* The text as a gzip file, without a date; the caller frees *out. */
static zl_status pack(const char *text, size_t size, char **out, size_t *packed, zl_err *err)
{
    enum { GZIP = 16, WINDOW = 15, MEMORY = 8 };
    z_stream z = {0};
    if (size > UINT32_MAX || deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, WINDOW + GZIP,
                                          MEMORY, Z_DEFAULT_STRATEGY) != Z_OK) {
        return zl_fail(err, ZL_E_RESOURCE, "no memory to pack a timeline of %zu bytes", size);
    }
    const size_t room = deflateBound(&z, size);
    char *const buffer = malloc(room);
    zl_status status = ZL_E_RESOURCE;
    if (buffer != NULL) {
        z.next_in = (const Bytef *)text;
        z.avail_in = (uInt)size;
        z.next_out = (Bytef *)buffer;
        z.avail_out = (uInt)room;
        status = deflate(&z, Z_FINISH) == Z_STREAM_END ? ZL_OK : ZL_E_RESOURCE;
    }
    *packed = z.total_out;
    (void)deflateEnd(&z);
    if (status != ZL_OK) {
        free(buffer);
        return zl_fail(err, status, "no memory to pack a timeline of %zu bytes", size);
    }
    *out = buffer;
    return ZL_OK;
}

static zl_status save_text(const char *text, size_t size, const char *path, zl_err *err)
{
    char *packed = NULL;
    size_t length = 0;
    if (!ends_with(path, ".gz")) {
        return zl_file_write(path, text, size, err);
    }
    ZL_TRY(pack(text, size, &packed, &length, err));
    const zl_status status = zl_file_write(path, packed, length, err);
    free(packed);
    return status;
}

zl_status zl_timeline_save(const zl_timeline *t, const char *path, zl_err *err)
{
    char *text = NULL;
    size_t size = 0;
    FILE *const out = open_memstream(&text, &size);
    if (out == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "no memory for a timeline");
    }
    zl_status status = ends_with(path, ".pickle") ? zl_timeline_snapshot(t, out, err)
                                                  : zl_timeline_perfetto(t, out, err);
    const bool broken = ferror(out) != 0;
    if ((fclose(out) != 0 || broken) && status == ZL_OK) {
        status = zl_fail(err, ZL_E_RESOURCE, "no memory for a timeline");
    }
    if (status == ZL_OK) {
        status = save_text(text, size, path, err);
    }
    free(text);
    return status;
}
