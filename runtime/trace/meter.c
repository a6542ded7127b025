#define _POSIX_C_SOURCE 200809L /* strdup */
#include "trace/meter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zeroledger/bytes.h"

/* Device memory is mapped in pages of this size, which no two cuMemAlloc regions share. */
static const uint64_t granule = (uint64_t)2 << 20;

typedef enum item_sort {
    ITEM_ADDRESS,  /* cuMemAlloc and the like, host memory */
    ITEM_PHYSICAL, /* cuMemCreate */
    ITEM_MAPPING,  /* of physical memory */
    ITEM_OBJECT,   /* a module or an array */
    ITEM_CALL      /* of which only the begin was seen */
} item_sort;

/* Something that was taken. Places are not used again: an old number never means a new thing. */
typedef struct zr_item {
    item_sort sort;
    bool live;
    uint64_t key;
    uint64_t bytes;
    uint64_t context;
    size_t row;      /* of whom; ITEM_MAPPING: the item that is mapped */
    uint64_t refs;   /* ITEM_PHYSICAL: handles and mappings; ITEM_CALL: traced bytes at its begin */
    bool in_granule; /* counted there */
    bool in_pool;
} zr_item;

static const size_t nothing = SIZE_MAX;

/* Room for one more element; false, with the status set, if memory is exhausted. */
static bool make_room(zr_meter *m, void *array, size_t used, size_t *room, size_t size)
{
    if (used < *room) {
        return true;
    }
    const size_t more = *room == 0 ? 64 : *room * 2;
    void *old;
    memcpy(&old, array, sizeof(old)); /* array is the address of a pointer of another type */
    void *const larger = realloc(old, more * size);
    if (larger == NULL) {
        m->status = ZL_E_RESOURCE;
        return false;
    }
    memcpy(array, &larger, sizeof(larger));
    *room = more;
    return true;
}

#define ROOM(m, array, used, room)                                                                 \
    make_room(m, &(m)->array, (m)->used, &(m)->room, sizeof(*(m)->array))

static void keep(zr_meter *m, zr_map *map, uint64_t key, uint64_t value)
{
    if (!zr_map_set(map, key, value)) {
        m->status = ZL_E_RESOURCE;
    }
}

static zr_traced_device *device_of(zr_meter *m, int device)
{
    if (device < 0 || device >= ZR_DEVICES_MAX) {
        return NULL;
    }
    m->device[device].present = true;
    return &m->device[device];
}

/* The row of whoever asks, which is made if there is none; `nothing` without memory. */
static size_t row_of(zr_meter *m, const zr_asked *asked)
{
    for (size_t i = 0; i < m->rows; i++) {
        const zr_row *const r = &m->row[i];
        if (r->device == asked->device && r->owner == asked->owner &&
            strncmp(r->call, asked->call, ZR_CALL_SIZE - 1) == 0) {
            return i;
        }
    }
    if (!ROOM(m, row, rows, row_room)) {
        return nothing;
    }
    zr_row *const r = &m->row[m->rows];
    *r = (zr_row){.device = asked->device, .owner = asked->owner};
    (void)snprintf(r->call, sizeof(r->call), "%s", asked->call);
    return m->rows++;
}

static void row_set(zr_meter *m, uint64_t time, size_t row, uint64_t bytes)
{
    zr_row *const r = &m->row[row];
    if (bytes == r->now) {
        return;
    }
    zr_traced_device *const d = device_of(m, r->device);
    if (d != NULL) {
        d->traced = zl_add(zl_sub(d->traced, r->now), bytes);
    }
    r->now = bytes;
    r->peak = zl_max(r->peak, bytes);
    if (ROOM(m, point, points, point_room)) {
        m->point[m->points++] = (zr_point){.time = time, .row = row, .bytes = bytes};
    }
}

/* What nobody asked for, but something holds: a row of its own. */
static void set_held(zr_meter *m, uint64_t time, const zr_asked *who, uint64_t held, uint64_t asked)
{
    const uint64_t bytes = held > asked ? held - asked : 0;
    const size_t row = row_of(m, who);
    if (row != nothing) {
        row_set(m, time, row, bytes);
    }
}

/* After every event: the rows that follow from others, then the peak. */
static void settle(zr_meter *m, uint64_t time, int device)
{
    zr_traced_device *const d = device_of(m, device);
    if (d == NULL) {
        return;
    }
    if (d->granules.room > 0) {
        const zr_asked who = {.device = device, .owner = ZR_OWNER_GRANULE, .call = "cuMemAlloc"};
        set_held(m, time, &who, d->granule_bytes, d->alloc_bytes);
    }
    if (d->pools.room > 0) {
        const zr_asked who = {.device = device, .owner = ZR_OWNER_POOL, .call = "cuMemAllocAsync"};
        set_held(m, time, &who, d->pool_bytes, d->pool_asked);
    }
    if (d->traced > d->peak) {
        d->peak = d->traced;
        d->peak_time = time;
        for (size_t i = 0; i < m->rows; i++) {
            m->row[i].at_peak = m->row[i].device == device ? m->row[i].now : m->row[i].at_peak;
        }
    }
}

/* One allocation more, or less, that touches the granule. */
static void count_granule(zr_meter *m, zr_traced_device *d, uint64_t at, bool in)
{
    uint64_t *const count = zr_map_find(&d->granules, at);
    if (in && count == NULL) {
        keep(m, &d->granules, at, 1);
        d->granule_bytes = zl_add(d->granule_bytes, granule);
    } else if (in) {
        ++*count;
    } else if (count != NULL && --*count == 0) {
        zr_map_remove(&d->granules, at);
        d->granule_bytes = zl_sub(d->granule_bytes, granule);
    }
}

/* Counts an allocation in the granules that its addresses touch, or out of them again. Others can
 * only touch its first and its last: those between are all its own, however many. */
static void count_granules(zr_meter *m, zr_traced_device *d, const zr_item *i, bool in)
{
    const uint64_t first = i->key & ~(granule - 1);
    const uint64_t end = zl_align_up(zl_add(i->key, i->bytes), granule);
    if (zl_poisoned(end)) {
        return;
    }
    const uint64_t bytes = zl_sub(end, first);
    const uint64_t edges = zl_min(bytes, zl_mul(2, granule));
    const uint64_t between = zl_sub(bytes, edges);
    if (bytes > 0) {
        count_granule(m, d, first, in);
    }
    if (bytes > granule) {
        count_granule(m, d, zl_sub(end, granule), in);
    }
    d->granule_bytes = in ? zl_add(d->granule_bytes, between) : zl_sub(d->granule_bytes, between);
    d->alloc_bytes = in ? zl_add(d->alloc_bytes, i->bytes) : zl_sub(d->alloc_bytes, i->bytes);
}

static size_t item_new(zr_meter *m, zr_item value, zr_map *map)
{
    if (!ROOM(m, item, items, item_room)) {
        return nothing;
    }
    value.live = true;
    m->item[m->items] = value;
    keep(m, map, value.key, m->items);
    return m->items++;
}

static zr_item *item_at(zr_meter *m, const zr_map *map, uint64_t key)
{
    const uint64_t *const place = zr_map_find(map, key);
    return place != NULL && m->item[*place].live ? &m->item[*place] : NULL;
}

/* An item's bytes into its row. */
static void take(zr_meter *m, uint64_t time, const zr_item *i)
{
    zr_row *const r = &m->row[i->row];
    zr_traced_device *const d = device_of(m, r->device);
    r->live++;
    r->made++;
    m->allocations++;
    if (d != NULL && i->in_granule) {
        count_granules(m, d, i, true);
    }
    if (d != NULL && i->in_pool) {
        d->pool_asked = zl_add(d->pool_asked, i->bytes);
    }
    row_set(m, time, i->row, zl_add(r->now, i->bytes));
    settle(m, time, r->device);
}

/* And out of it again. */
static void give(zr_meter *m, uint64_t time, zr_item *i)
{
    zr_row *const r = &m->row[i->row];
    zr_traced_device *const d = device_of(m, r->device);
    const int device = r->device;
    i->live = false;
    r->live--;
    m->releases++;
    if (d != NULL && i->in_granule) {
        count_granules(m, d, i, false);
    }
    if (d != NULL && i->in_pool) {
        d->pool_asked = zl_sub(d->pool_asked, i->bytes);
    }
    row_set(m, time, i->row, zl_sub(r->now, i->bytes));
    settle(m, time, device);
}

void zr_meter_release(zr_meter *m)
{
    for (size_t i = 0; i < m->owners; i++) {
        free(m->owner[i]);
    }
    for (int i = 0; i < ZR_DEVICES_MAX; i++) {
        zr_map_release(&m->device[i].granules);
        zr_map_release(&m->device[i].pools);
    }
    zr_map *const maps[] = {&m->address, &m->handle, &m->object, &m->mapping, &m->begun};
    for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
        zr_map_release(maps[i]);
    }
    free(m->owner);
    free(m->row);
    free(m->mark);
    free(m->then);
    free(m->point);
    free(m->refusal);
    free(m->item);
    *m = (zr_meter){0};
}

const char *zr_meter_owner_name(const zr_meter *m, uint32_t owner)
{
    switch (owner) {
    case ZR_OWNER_CONTEXT:
        return "(context)";
    case ZR_OWNER_POOL:
        return "(pool)";
    case ZR_OWNER_GRANULE:
        return "(granule)";
    default:
        return owner < m->owners && m->owner[owner] != NULL ? m->owner[owner] : "(unknown)";
    }
}

void zr_meter_owner(zr_meter *m, uint32_t id, const char *name)
{
    while (m->owners <= id) {
        if (!ROOM(m, owner, owners, owner_room)) {
            return;
        }
        m->owner[m->owners++] = NULL;
    }
    free(m->owner[id]);
    m->owner[id] = strdup(name);
    if (m->owner[id] == NULL) {
        m->status = ZL_E_RESOURCE;
    }
}

void zr_meter_context(zr_meter *m, uint64_t time, const zr_look *look, uint64_t context,
                      const char *name)
{
    zr_traced_device *const d = device_of(m, look->device);
    if (d == NULL || d->looked) { /* only the first is alone with the device */
        return;
    }
    const uint64_t used = zl_sub(look->total, look->available);
    const zr_asked who = {.device = look->device, .owner = ZR_OWNER_CONTEXT, .call = "context"};
    d->looked = true;
    d->total = look->total;
    (void)snprintf(d->name, sizeof(d->name), "%s", name);
    const size_t row = row_of(m, &who);
    if (row == nothing) {
        return;
    }
    const zr_item i = {.sort = ITEM_OBJECT,
                       .key = context,
                       .bytes = used > d->traced && !zl_poisoned(used) ? used - d->traced : 0,
                       .context = context,
                       .row = row};
    const size_t made = item_new(m, i, &m->object);
    if (made != nothing) {
        take(m, time, &m->item[made]);
    }
}

/* Physical memory is the process's; the rest dies with its context. */
void zr_meter_close(zr_meter *m, uint64_t time, uint64_t context)
{
    for (size_t i = 0; i < m->items; i++) {
        zr_item *const item = &m->item[i];
        if (item->live && item->context == context &&
            (item->sort == ITEM_ADDRESS || item->sort == ITEM_OBJECT)) {
            zr_map_remove(item->sort == ITEM_ADDRESS ? &m->address : &m->object, item->key);
            give(m, time, item);
        }
    }
}

static bool from_pool(const char *call)
{
    return strcmp(call, "cuMemAllocAsync") == 0 || strcmp(call, "cuMemAllocFromPoolAsync") == 0;
}

void zr_meter_alloc(zr_meter *m, uint64_t time, const zr_asked *asked, uint64_t address,
                    uint64_t bytes)
{
    const size_t row = row_of(m, asked);
    zr_item *const old = item_at(m, &m->address, address);
    if (old != NULL) { /* its end was not seen */
        give(m, time, old);
    }
    if (row == nothing) {
        return;
    }
    const bool pooled = from_pool(asked->call);
    const zr_item i = {.sort = ITEM_ADDRESS,
                       .key = address,
                       .bytes = bytes,
                       .context = asked->context,
                       .row = row,
                       .in_granule = asked->device >= 0 && !pooled,
                       .in_pool = asked->device >= 0 && pooled};
    const size_t made = item_new(m, i, &m->address);
    if (made != nothing) {
        take(m, time, &m->item[made]);
    }
}

void zr_meter_free(zr_meter *m, uint64_t time, uint64_t address)
{
    zr_item *const i = item_at(m, &m->address, address);
    if (i == NULL) {
        m->unknown++;
        return;
    }
    zr_map_remove(&m->address, address);
    give(m, time, i);
}

void zr_meter_create(zr_meter *m, uint64_t time, const zr_asked *asked, uint64_t handle,
                     uint64_t bytes)
{
    const size_t row = row_of(m, asked);
    if (row == nothing) {
        return;
    }
    const zr_item i = {.sort = ITEM_PHYSICAL, .key = handle, .bytes = bytes, .row = row, .refs = 1};
    const size_t made = item_new(m, i, &m->handle);
    if (made != nothing) {
        take(m, time, &m->item[made]);
    }
}

static void unreference(zr_meter *m, uint64_t time, zr_item *i)
{
    if (i->live && --i->refs == 0) {
        give(m, time, i);
    }
}

/* The mapping that an address is in; usually it is where one begins. */
static const zr_item *mapping_at(zr_meter *m, uint64_t address)
{
    const zr_item *const exact = item_at(m, &m->mapping, address);
    for (size_t i = m->items; exact == NULL && i > 0; i--) {
        const zr_item *const at = &m->item[i - 1];
        if (at->sort == ITEM_MAPPING && at->live && address >= at->key &&
            address - at->key < at->bytes) {
            return at;
        }
    }
    return exact;
}

void zr_meter_retain(zr_meter *m, uint64_t time, uint64_t handle, uint64_t address)
{
    (void)time;
    const zr_item *const mapping = mapping_at(m, address);
    if (mapping != NULL && mapping->row != nothing && m->item[mapping->row].live) {
        keep(m, &m->handle, handle, mapping->row);
        m->item[mapping->row].refs++;
    }
}

void zr_meter_drop(zr_meter *m, uint64_t time, uint64_t handle)
{
    zr_item *const i = item_at(m, &m->handle, handle);
    if (i == NULL) {
        m->unknown++;
        return;
    }
    unreference(m, time, i);
}

void zr_meter_map(zr_meter *m, uint64_t time, uint64_t address, uint64_t bytes, uint64_t handle)
{
    (void)time;
    const uint64_t *const place = zr_map_find(&m->handle, handle);
    const bool known = place != NULL && m->item[*place].live;
    const zr_item i = {.sort = ITEM_MAPPING,
                       .key = address,
                       .bytes = bytes,
                       .row = known ? (size_t)*place : nothing};
    if (known) {
        m->item[*place].refs++;
    }
    (void)item_new(m, i, &m->mapping);
}

/* The range consists of whole mappings, as the driver demands. */
void zr_meter_unmap(zr_meter *m, uint64_t time, uint64_t address, uint64_t bytes)
{
    for (uint64_t done = 0; done < bytes;) {
        zr_item *const i = item_at(m, &m->mapping, zl_add(address, done));
        if (i == NULL || i->bytes == 0) {
            m->unknown++;
            return;
        }
        done = zl_add(done, i->bytes);
        i->live = false;
        zr_map_remove(&m->mapping, i->key);
        if (i->row != nothing) {
            unreference(m, time, &m->item[i->row]);
        }
    }
}

void zr_meter_pool(zr_meter *m, uint64_t time, int device, uint64_t pool, uint64_t reserved)
{
    zr_traced_device *const d = device_of(m, device);
    if (d == NULL) {
        return;
    }
    const uint64_t *const before = zr_map_find(&d->pools, pool);
    d->pool_bytes = zl_add(zl_sub(d->pool_bytes, before != NULL ? *before : 0), reserved);
    keep(m, &d->pools, pool, reserved);
    settle(m, time, device);
}

void zr_meter_before(zr_meter *m, uint64_t call_id, int device, uint64_t available)
{
    const zr_traced_device *const d = device_of(m, device);
    if (d != NULL) {
        const zr_item i = {
            .sort = ITEM_CALL, .key = call_id, .bytes = available, .refs = d->traced};
        (void)item_new(m, i, &m->begun);
    }
}

/* What the device lost meanwhile, without what others were seen to take. */
static uint64_t lost(zr_meter *m, uint64_t call_id, const zr_traced_device *d, uint64_t available)
{
    zr_item *const begin = item_at(m, &m->begun, call_id);
    if (begin == NULL || d == NULL) {
        return 0;
    }
    const uint64_t before = zl_add(begin->bytes, begin->refs);
    const uint64_t after = zl_add(available, d->traced);
    begin->live = false;
    zr_map_remove(&m->begun, call_id);
    return before > after ? before - after : 0;
}

void zr_meter_load(zr_meter *m, uint64_t time, uint64_t call_id, const zr_asked *asked,
                   uint64_t object, uint64_t available)
{
    const uint64_t bytes = lost(m, call_id, device_of(m, asked->device), available);
    const size_t row = row_of(m, asked);
    if (row == nothing) {
        return;
    }
    const zr_item i = {
        .sort = ITEM_OBJECT, .key = object, .bytes = bytes, .context = asked->context, .row = row};
    const size_t made = item_new(m, i, &m->object);
    if (made != nothing) {
        take(m, time, &m->item[made]);
    }
}

void zr_meter_unload(zr_meter *m, uint64_t time, uint64_t object)
{
    zr_item *const i = item_at(m, &m->object, object);
    if (i == NULL) {
        m->unknown++;
        return;
    }
    zr_map_remove(&m->object, object);
    give(m, time, i);
}

void zr_meter_refused(zr_meter *m, uint64_t time, const zr_asked *asked, uint64_t bytes,
                      uint64_t result)
{
    if (ROOM(m, refusal, refusals, refusal_room)) {
        zr_refusal *const r = &m->refusal[m->refusals++];
        *r = (zr_refusal){.time = time,
                          .device = asked->device,
                          .owner = asked->owner,
                          .bytes = bytes,
                          .result = result};
        (void)snprintf(r->call, sizeof(r->call), "%s", asked->call);
    }
}

void zr_meter_mark(zr_meter *m, uint64_t time, const zr_look *look, const char *name)
{
    zr_traced_device *const d = device_of(m, look->device);
    if (d == NULL || !ROOM(m, mark, marks, mark_room)) {
        return;
    }
    zr_mark_seen *const mark = &m->mark[m->marks];
    *mark = (zr_mark_seen){.time = time,
                           .device = look->device,
                           .automatic = look->automatic,
                           .settled = look->settled,
                           .used = zl_sub(look->total, look->available),
                           .traced = d->traced,
                           .first = m->thens,
                           .rows = m->rows};
    (void)snprintf(mark->name, sizeof(mark->name), "%s", name);
    d->used_peak = zl_max(d->used_peak, mark->used);
    for (size_t i = 0; i < m->rows; i++) {
        if (!ROOM(m, then, thens, then_room)) {
            return;
        }
        m->then[m->thens++] = (zr_row_then){.bytes = m->row[i].now, .live = m->row[i].live};
    }
    m->marks++;
}

void zr_meter_settled(zr_meter *m, uint64_t time)
{
    for (size_t i = m->marks; i > 0; i--) {
        if (m->mark[i - 1].time == time) {
            m->mark[i - 1].settled = true;
            return;
        }
    }
}
