#include "torch_naive.h"

#include <string.h>

static const size_t NONE = SIZE_MAX; /* no piece */
static const uint64_t kib = 1024;
static const uint64_t mib = 1048576;

static uint64_t multiple(uint64_t x, uint64_t unit)
{
    return (x + unit - 1) / unit * unit;
}

static void up(zt_stat *s, uint64_t by)
{
    s->current += by;
    if (s->current > s->peak) {
        s->peak = s->current;
    }
}

static void down(zt_stat *s, uint64_t by)
{
    s->current -= by;
}

void naive_init(naive *n, const zt_allocator_options *options)
{
    memset(n, 0, sizeof *n);
    n->options = *options;
    if (n->options.device_total == 0) {
        n->options.device_total = kib * kib * kib * mib;
    }
    if (n->options.device_free == 0) {
        n->options.device_free = n->options.device_total;
    }
    n->edge = options->addresses == ZT_ASCENDING ? 2 * mib : (uint64_t)1 << 62;
}

/* ---- the list ---- */

static size_t index_of(const naive *n, uint64_t address)
{
    for (size_t i = 0; i < n->count; i++) {
        if (n->piece[i].address == address) {
            return i;
        }
    }
    return n->count;
}

static void put(naive *n, naive_piece piece)
{
    if (n->count == NAIVE_PIECES) {
        n->overflow = true;
        return;
    }
    size_t i = 0;
    while (i < n->count && n->piece[i].address < piece.address) {
        i++;
    }
    memmove(&n->piece[i + 1], &n->piece[i], (n->count - i) * sizeof piece);
    n->piece[i] = piece;
    n->count++;
}

static void take_out(naive *n, size_t i)
{
    n->count--;
    memmove(&n->piece[i], &n->piece[i + 1], (n->count - i) * sizeof n->piece[0]);
}

static bool joined(const naive *n, size_t i, size_t k)
{
    return i < n->count && k < n->count && n->piece[i].segment == n->piece[k].segment;
}

/* Has it a neighbour in its segment? */
static bool split(const naive *n, size_t i)
{
    return (i > 0 && joined(n, i - 1, i)) || joined(n, i, i + 1);
}

static void cut(naive *n, size_t i, uint64_t size)
{
    naive_piece tail = n->piece[i];
    tail.address += size;
    tail.size -= size;
    tail.asked = 0;
    tail.age_base = n->searches[tail.pool];
    n->piece[i].size = size;
    put(n, tail);
}

/* Two of a kind side by side become one; the bytes that came to piece i. */
static uint64_t melt(naive *n, size_t *i)
{
    uint64_t gained = 0;
    if (joined(n, *i, *i + 1) && n->piece[*i + 1].state == n->piece[*i].state) {
        gained += n->piece[*i + 1].size;
        n->piece[*i].size += n->piece[*i + 1].size;
        take_out(n, *i + 1);
    }
    if (*i > 0 && joined(n, *i - 1, *i) && n->piece[*i - 1].state == n->piece[*i].state) {
        gained += n->piece[*i - 1].size;
        n->piece[*i - 1].size += n->piece[*i].size;
        n->piece[*i - 1].age_base = n->piece[*i].age_base;
        take_out(n, *i);
        (*i)--;
    }
    return gained;
}

/* ---- sizes ---- */

static uint64_t rounded(const naive *n, uint64_t bytes)
{
    if (bytes < 512) {
        return 512;
    }
    size_t interval = 0;
    for (uint64_t start = 2 * mib; interval < 15 && bytes >= start; start *= 2) {
        interval++;
    }
    const uint64_t divisions = n->options.conf.roundup_power2_divisions[interval];
    if (divisions <= 1 || bytes <= 512 * divisions) {
        return multiple(bytes, 512);
    }
    uint64_t below = 1;
    while (below * 2 <= bytes) {
        below *= 2;
    }
    const uint64_t step = below / divisions;
    if (step == 0) {
        return below == bytes ? bytes : below * 2;
    }
    uint64_t size = below;
    while (size < bytes) {
        size += step;
    }
    return size;
}

static uint64_t segment_bytes(const naive *n, uint64_t size)
{
    if (size <= mib) {
        return 2 * mib;
    }
    return size < 10 * mib ? n->options.conf.large_segment_size : multiple(size, 2 * mib);
}

static uint64_t page_bytes(const naive *n, int pool)
{
    return pool == 0 ? 2 * mib : n->options.conf.large_segment_size;
}

static uint64_t allowed(const naive *n)
{
    return (uint64_t)(n->options.conf.per_process_memory_fraction *
                      (double)n->options.device_total);
}

/* ---- addresses ---- */

static uint64_t new_address(naive *n, uint64_t size)
{
    const uint64_t whole = multiple(size, 2 * mib);
    if (n->options.addresses == ZT_ASCENDING) {
        n->edge += whole;
        return n->edge - whole;
    }
    for (size_t i = n->rests; whole <= 16 * mib && i > 0; i--) {
        if (n->rest_size[i - 1] >= whole) {
            n->rest_address[i - 1] += whole;
            n->rest_size[i - 1] -= whole;
            return n->rest_address[i - 1] - whole;
        }
    }
    const uint64_t slots = multiple(whole, 32 * mib);
    n->edge -= slots;
    n->rest_address[n->rests] = n->edge + whole;
    n->rest_size[n->rests++] = slots - whole;
    return n->edge;
}

/* ---- giving back ---- */

static void release(naive *n, size_t i)
{
    down(&n->stats.reserved, n->piece[i].size);
    down(&n->stats.segments, 1);
    take_out(n, i);
}

static void release_whole(naive *n)
{
    for (size_t i = n->count; i-- > 0;) {
        if (n->piece[i].state == NAIVE_FREE && !split(n, i)) {
            release(n, i);
        }
    }
}

/* Every whole page in a free piece becomes a hole, page by page. */
static void unmap_pages(naive *n)
{
    for (size_t i = 0; i < n->count; i++) {
        const naive_piece p = n->piece[i];
        const uint64_t page = page_bytes(n, p.pool);
        if (p.state != NAIVE_FREE) {
            continue;
        }
        const uint64_t from = p.segment + multiple(p.address - p.segment, page);
        const uint64_t to = p.segment + (p.address + p.size - p.segment) / page * page;
        if (from >= to) {
            continue;
        }
        if (to < p.address + p.size) {
            cut(n, i, to - p.address);
        }
        if (from > p.address) {
            cut(n, i, from - p.address);
            n->piece[i].age_base = n->searches[p.pool];
            i++;
        }
        n->piece[i].state = NAIVE_HOLE;
        down(&n->stats.reserved, to - from);
        melt(n, &i);
        if (!split(n, i)) {
            take_out(n, i);
            i--;
        }
    }
}

static void finish(naive *n, size_t i)
{
    naive_piece *p = &n->piece[i];
    down(&n->stats.active, p->size);
    down(&n->stats.requested, p->asked);
    p->state = NAIVE_FREE;
    p->asked = 0;
    p->recorded = false;
    p->age_base = n->searches[p->pool];
    const uint64_t gained = melt(n, &i);
    if (n->options.conf.expandable_segments) {
        return;
    }
    const uint64_t now = split(n, i) ? n->piece[i].size : 0;
    if (now >= gained) {
        up(&n->stats.inactive_split, now - gained);
    } else {
        down(&n->stats.inactive_split, gained - now);
    }
}

void naive_synchronize(naive *n)
{
    for (;;) {
        size_t oldest = n->count;
        for (size_t i = 0; i < n->count; i++) {
            if (n->piece[i].state == NAIVE_WAITING &&
                (oldest == n->count || n->piece[i].freed_as < n->piece[oldest].freed_as)) {
                oldest = i;
            }
        }
        if (oldest == n->count) {
            return;
        }
        finish(n, oldest);
    }
}

void naive_empty_cache(naive *n)
{
    naive_synchronize(n);
    if (n->options.conf.expandable_segments) {
        unmap_pages(n);
    } else {
        release_whole(n);
    }
}

static uint64_t age(const naive *n, size_t i)
{
    return n->searches[n->piece[i].pool] - n->piece[i].age_base;
}

static bool is_garbage(const naive *n, size_t i)
{
    return n->piece[i].state == NAIVE_FREE && n->piece[i].pool == 1 && !split(n, i);
}

static void collect_garbage(naive *n)
{
    const double share = n->options.conf.garbage_collection_threshold;
    const uint64_t limit = (uint64_t)(share * (double)allowed(n));
    if (share <= 0 || n->stats.reserved.current <= limit) {
        return;
    }
    const uint64_t goal = n->stats.reserved.current - limit;
    const uint64_t before = n->stats.reserved.current;
    for (;;) {
        uint64_t sum = 0;
        uint64_t count = 0;
        for (size_t i = 0; i < n->count; i++) {
            sum += is_garbage(n, i) ? age(n, i) : 0;
            count += is_garbage(n, i);
        }
        bool any = false;
        for (size_t i = n->count; count > 0 && i-- > 0;) {
            if (is_garbage(n, i) && (double)age(n, i) >= (double)sum / (double)count) {
                release(n, i);
                any = true;
            }
        }
        if (!any || before - n->stats.reserved.current >= goal) {
            return;
        }
    }
}

static bool release_oversize(naive *n, uint64_t size, int pool, uint32_t stream)
{
    const uint64_t bound = n->options.conf.max_split_size;
    const uint64_t key = size < bound ? bound : size;
    uint64_t released = 0;
    if (bound == UINT64_MAX || n->options.conf.expandable_segments) {
        return false;
    }
    while (released < key) {
        size_t best = n->count; /* the smallest that is enough, else the largest oversize one */
        for (size_t i = 0; i < n->count; i++) {
            const naive_piece *p = &n->piece[i];
            if (p->state != NAIVE_FREE || p->pool != pool || p->stream != stream ||
                p->size < bound) {
                continue;
            }
            const uint64_t other = best < n->count ? n->piece[best].size : 0;
            const bool enough = released == 0 && p->size >= key;
            const bool was_enough = released == 0 && other >= key;
            if (best == n->count || (enough && (!was_enough || p->size < other)) ||
                (!enough && !was_enough && p->size >= other)) {
                best = i;
            }
        }
        if (best == n->count) {
            return false;
        }
        released += n->piece[best].size;
        release(n, best);
    }
    return true;
}

/* ---- finding ---- */

static uint64_t could_grow_to(const naive *n, size_t i)
{
    return n->piece[i].size +
           (joined(n, i, i + 1) && n->piece[i + 1].state == NAIVE_HOLE ? n->piece[i + 1].size : 0);
}

/* The free piece of the stream that follows (size, address) in that order. */
static size_t next_free(const naive *n, int pool, uint32_t stream, uint64_t size, uint64_t address)
{
    size_t best = NONE;
    for (size_t i = 0; i < n->count; i++) {
        const naive_piece *p = &n->piece[i];
        const bool after = p->size > size || (p->size == size && p->address >= address);
        if (p->state == NAIVE_FREE && p->pool == pool && p->stream == stream && after &&
            (best == NONE || p->size < n->piece[best].size)) {
            best = i; /* the list is by address, so the first of equals is the lowest */
        }
    }
    return best;
}

static size_t find(naive *n, uint64_t size, int pool, uint32_t stream)
{
    const zt_alloc_conf *conf = &n->options.conf;
    if (conf->garbage_collection_threshold > 0) {
        n->searches[pool]++;
    }
    size_t i = next_free(n, pool, stream, size, 0);
    while (conf->expandable_segments && i != NONE) {
        const size_t k = next_free(n, pool, stream, n->piece[i].size, n->piece[i].address + 1);
        if (k == NONE || could_grow_to(n, k) >= could_grow_to(n, i)) {
            break;
        }
        i = k;
    }
    if (i == NONE) {
        return i;
    }
    if (size < conf->max_split_size && n->piece[i].size >= conf->max_split_size) {
        return NONE;
    }
    if (size >= conf->max_split_size && n->piece[i].size >= size + conf->max_non_split_rounding) {
        return NONE;
    }
    return i;
}

static bool device_has(const naive *n, uint64_t bytes)
{
    return n->stats.reserved.current + bytes <= n->options.device_free;
}

static naive_piece fresh(naive *n, uint64_t size, int pool, uint32_t stream)
{
    const uint64_t address = new_address(n, size);
    return (naive_piece){.address = address,
                         .segment = address,
                         .size = size,
                         .pool = pool,
                         .stream = stream,
                         .state = NAIVE_FREE};
}

/* Maps pages of a hole from its beginning; the free piece that holds them afterwards. */
static bool map(naive *n, size_t *i, uint64_t bytes)
{
    const uint64_t whole = multiple(bytes, page_bytes(n, n->piece[*i].pool));
    if (!device_has(n, whole)) {
        return false;
    }
    if (whole < n->piece[*i].size) {
        cut(n, *i, whole);
    }
    n->piece[*i].state = NAIVE_FREE;
    melt(n, i);
    n->piece[*i].age_base = n->searches[n->piece[*i].pool];
    up(&n->stats.reserved, whole);
    return true;
}

static uint64_t room_from(const naive *n, size_t i)
{
    uint64_t bytes = n->piece[i].size;
    for (size_t k = i + 1; joined(n, i, k); k++) {
        if (n->piece[k].state != NAIVE_FREE && n->piece[k].state != NAIVE_HOLE) {
            break;
        }
        bytes += n->piece[k].size;
    }
    return bytes;
}

static size_t find_room(const naive *n, uint64_t size, int pool, uint32_t stream)
{
    for (size_t i = 0; i < n->count; i++) {
        const naive_piece *p = &n->piece[i];
        if (p->state != NAIVE_HOLE || p->pool != pool || p->stream != stream) {
            continue;
        }
        const bool back = i > 0 && joined(n, i - 1, i) && n->piece[i - 1].state == NAIVE_FREE;
        const size_t start = back ? i - 1 : i;
        if (room_from(n, start) >= size) {
            return start;
        }
    }
    return NONE;
}

static size_t grow(naive *n, uint64_t size, int pool, uint32_t stream)
{
    size_t i = find_room(n, size, pool, stream);
    if (i == NONE) {
        const uint64_t page = page_bytes(n, pool);
        const uint64_t total = n->options.device_total;
        naive_piece hole = fresh(n, multiple(total + total / 8, page), pool, stream);
        hole.state = NAIVE_HOLE;
        put(n, hole);
        i = index_of(n, hole.address);
    }
    while (n->piece[i].state == NAIVE_HOLE || n->piece[i].size < size) {
        const bool hole = n->piece[i].state == NAIVE_HOLE;
        size_t k = hole ? i : i + 1;
        const uint64_t missing = hole ? size : size - n->piece[i].size;
        if (!map(n, &k, missing < n->piece[k].size ? missing : n->piece[k].size)) {
            return NONE;
        }
        i = k;
    }
    return i;
}

static size_t new_memory(naive *n, uint64_t size, int pool, uint32_t stream)
{
    const uint64_t bytes = segment_bytes(n, size);
    if (n->stats.reserved.current + bytes > allowed(n)) {
        return NONE;
    }
    if (n->options.conf.expandable_segments) {
        return grow(n, size, pool, stream);
    }
    if (!device_has(n, bytes)) {
        return NONE;
    }
    const naive_piece segment = fresh(n, bytes, pool, stream);
    put(n, segment);
    up(&n->stats.reserved, bytes);
    up(&n->stats.segments, 1);
    return index_of(n, segment.address);
}

static size_t obtain(naive *n, uint64_t size, int pool, uint32_t stream)
{
    size_t i = find(n, size, pool, stream);
    if (i != NONE) {
        return i;
    }
    collect_garbage(n);
    i = new_memory(n, size, pool, stream);
    if (i == NONE && release_oversize(n, size, pool, stream)) {
        i = new_memory(n, size, pool, stream);
    }
    if (i == NONE) {
        naive_empty_cache(n);
        n->stats.alloc_retries++;
        i = new_memory(n, size, pool, stream);
    }
    return i;
}

static bool splits(const naive *n, const naive_piece *p, uint64_t size)
{
    const uint64_t left = p->size - size;
    if (p->pool == 0 || n->options.conf.expandable_segments) {
        return left >= kib / 2;
    }
    return size < n->options.conf.max_split_size && left > mib;
}

uint64_t naive_alloc(naive *n, uint64_t bytes, uint32_t stream)
{
    if (bytes == 0) {
        return 0;
    }
    if (n->options.waiting == ZT_WAIT_NEXT_ALLOC) {
        naive_synchronize(n);
    }
    const uint64_t size = rounded(n, bytes);
    const size_t i = obtain(n, size, size <= mib ? 0 : 1, stream);
    if (i == NONE) {
        n->stats.ooms++;
        return 0;
    }
    const bool was_split = split(n, i);
    const bool counts = !n->options.conf.expandable_segments;
    const uint64_t whole = n->piece[i].size;
    const bool divides = splits(n, &n->piece[i], size);
    n->piece[i].state = NAIVE_USED;
    if (divides) {
        cut(n, i, size);
        n->piece[i + 1].state = NAIVE_FREE;
    }
    if (counts && was_split) {
        down(&n->stats.inactive_split, divides ? size : whole);
    } else if (counts && divides) {
        up(&n->stats.inactive_split, whole - size);
    }
    n->piece[i].asked = bytes;
    up(&n->stats.requested, bytes);
    up(&n->stats.allocated, n->piece[i].size);
    up(&n->stats.active, n->piece[i].size);
    return n->piece[i].address;
}

void naive_free(naive *n, uint64_t address)
{
    const size_t i = index_of(n, address);
    down(&n->stats.allocated, n->piece[i].size);
    n->piece[i].freed_as = n->frees++;
    if (n->piece[i].recorded) {
        n->piece[i].state = NAIVE_WAITING;
    } else {
        finish(n, i);
    }
}

void naive_record(naive *n, uint64_t address, uint32_t stream)
{
    naive_piece *p = &n->piece[index_of(n, address)];
    p->recorded |= p->stream != stream;
}

void naive_complete(naive *n, uint64_t address)
{
    finish(n, index_of(n, address));
}

void naive_reset_peaks(naive *n)
{
    zt_stat *const all[] = {&n->stats.requested, &n->stats.allocated,      &n->stats.active,
                            &n->stats.reserved,  &n->stats.inactive_split, &n->stats.segments};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        all[i]->peak = all[i]->current;
    }
}
