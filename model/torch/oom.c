#include "torch/oom.h"

#include <string.h>

#include "torch/segments.h"
#include "zeroledger/bytes.h"

static const char start[] = "Tried to allocate ";
static const char async_start[] = "Allocation on device ";
static const char host_start[] = "DefaultCPUAllocator: ";

/* c10/cuda/CUDACachingAllocator.cpp: kLargeBuffer, the segment of requests below zt_min_large. */
static const uint64_t large_segment = 20971520;
static const uint64_t no_limit = UINT64_C(1) << 60;
/* kRoundLarge up to 1.1, where every request above 1 MiB got a segment of its own. */
static const uint64_t old_granularity = 131072;

/* A message is shorter than this, with a dozen processes in it. */
enum { MESSAGE_MAX = 1600, WINDOW = 3200 };

/* The message without line breaks, so that phrases are found in wrapped ones as well. */
typedef struct message {
    char text[MESSAGE_MAX];
    size_t size;
    size_t taken; /* bytes of the log it stands for */
} message;

static bool is_space(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

static const char *nearer(const char *a, const char *b)
{
    return a == NULL || (b != NULL && b < a) ? b : a;
}

static const char *find_start(zt_cursor c)
{
    return nearer(zt_find(c, start), nearer(zt_find(c, async_start), zt_find(c, host_start)));
}

/* Up to the next message, or to a line that begins a traceback. */
static void squeeze(zt_cursor c, message *m)
{
    c.left = c.left < WINDOW ? c.left : WINDOW;
    const zt_cursor rest = {c.at + 1, c.left - 1};
    const char *const breaks[] = {find_start(rest), zt_find(rest, "\nTraceback"),
                                  zt_find(rest, "see_memory_usage]")};
    for (size_t i = 0; i < sizeof breaks / sizeof breaks[0]; i++) {
        if (breaks[i] != NULL && (size_t)(breaks[i] - c.at) < c.left) {
            c.left = (size_t)(breaks[i] - c.at);
        }
    }
    m->size = 0;
    m->taken = 0;
    for (; m->taken < c.left && m->size + 1 < sizeof m->text; m->taken++) {
        const char byte = c.at[m->taken];
        if (!is_space(byte)) {
            m->text[m->size++] = byte == '\0' ? '?' : byte;
        } else if (m->size > 0 && m->text[m->size - 1] != ' ') {
            m->text[m->size++] = ' ';
        }
    }
    m->text[m->size] = '\0';
}

static bool after(const message *m, const char *phrase, zt_printed *out)
{
    const char *at = strstr(m->text, phrase);
    if (at == NULL) {
        return false;
    }
    zt_cursor c = {at + strlen(phrase), m->size - (size_t)(at - m->text) - strlen(phrase)};
    return zt_take_bytes(&c, ZT_AS_WRITTEN, out);
}

/* The figure that ends where the phrase begins: "1.69 GiB" are two words. */
static bool before(const message *m, const char *phrase, zt_printed *out)
{
    const char *at = strstr(m->text, phrase);
    if (at == NULL) {
        return false;
    }
    size_t begin = (size_t)(at - m->text);
    for (int words = 0; words < 2 && begin > 0; words++) {
        begin -= m->text[begin - 1] == ' ' ? 1 : 0;
        while (begin > 0 && m->text[begin - 1] != ' ' && m->text[begin - 1] != '(') {
            begin--;
        }
    }
    zt_cursor c = {m->text + begin, (size_t)(at - m->text) - begin};
    return zt_take_bytes(&c, ZT_AS_WRITTEN, out) && c.left == 0;
}

static zt_printed sum(const zt_printed *a, const zt_printed *b)
{
    return a->present && b->present
               ? (zt_printed){true, zl_add(a->low, b->low), zl_add(a->high, b->high),
                              zl_add(a->nominal, b->nominal)}
               : *(a->present ? a : b);
}

/* a - b, not below 0. */
static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? zl_sub(a, b) : 0;
}

static void read_processes(const message *m, zt_oom *out)
{
    static const char word[] = "Process ";
    for (const char *at = strstr(m->text, word); at != NULL; at = strstr(at + 1, word)) {
        uint64_t id = 0;
        zt_printed one = {0};
        zt_cursor c = {at + strlen(word), m->size - (size_t)(at - m->text) - strlen(word)};
        if (zt_take_count(&c, &id) && zt_take(&c, "has") &&
            zt_take_bytes(&c, ZT_AS_WRITTEN, &one)) {
            out->others = sum(&out->others, &one);
            out->processes++;
        }
    }
}

static void read_device(const message *m, zt_oom *out)
{
    const char *at = strstr(m->text, "GPU ");
    if (at != NULL) {
        zt_cursor c = {at + 4, m->size - (size_t)(at - m->text) - 4};
        out->has_device = zt_take_count(&c, &out->device);
    }
}

static bool begins(const message *m, const char *with)
{
    return strncmp(m->text, with, strlen(with)) == 0;
}

/* CUDAMallocAsyncAllocator.cpp; the limit that nobody set is the largest number. */
static void read_async(const message *m, zt_oom *out)
{
    zt_cursor c = {m->text + strlen(async_start), m->size - strlen(async_start)};
    if (strstr(m->text, " would exceed allowed memory. (out of memory)") == NULL) {
        return;
    }
    out->wording = ZT_OOM_ASYNC;
    out->has_device = zt_take_count(&c, &out->device);
    (void)after(m, "Currently allocated : ", &out->allocated);
    (void)after(m, "Requested : ", &out->asked);
    (void)after(m, "Device limit : ", &out->total);
    (void)after(m, "Free (according to CUDA): ", &out->free);
    (void)after(m, "memory fraction) : ", &out->allowed);
    out->allowed.present = out->allowed.present && out->allowed.low < no_limit;
}

static void read_host(const message *m, zt_oom *out)
{
    if (after(m, " you tried to allocate ", &out->asked)) {
        out->wording = ZT_OOM_HOST;
    }
}

static void read_message(const message *m, zt_oom *out)
{
    if (begins(m, async_start)) {
        read_async(m, out);
        return;
    }
    if (begins(m, host_start)) {
        read_host(m, out);
        return;
    }
    (void)after(m, start, &out->asked);
    (void)(before(m, " total capacity", &out->total) ||
           after(m, " total capacity of ", &out->total) ||
           after(m, " total capacty of ", &out->total));
    (void)(before(m, " is free", &out->free) || before(m, " free;", &out->free));
    (void)after(m, "this process has ", &out->own);
    (void)before(m, " allowed;", &out->allowed);
    (void)before(m, " allocated in private pools", &out->private_pools);
    read_processes(m, out);
    read_device(m, out);
    if (before(m, " is reserved by PyTorch but unallocated", &out->unallocated)) {
        out->wording = ZT_OOM_UNALLOCATED;
        (void)before(m, " is allocated by PyTorch", &out->allocated);
        if (out->allocated.present) {
            out->reserved = sum(&out->allocated, &out->unallocated);
        }
        return;
    }
    (void)before(m, " already allocated", &out->allocated);
    if (before(m, " reserved in total by PyTorch", &out->reserved)) {
        out->wording = ZT_OOM_RESERVED;
    } else if (before(m, " cached", &out->reserved)) {
        out->wording = ZT_OOM_CACHED;
    }
    if (out->reserved.present && out->allocated.present) {
        const zt_printed *all = &out->reserved;
        const zt_printed *used = &out->allocated;
        out->unallocated =
            (zt_printed){true, less(all->low, used->high), less(all->high, used->low),
                         less(all->nominal, used->nominal)};
    }
}

bool zt_oom_find(zt_cursor *c, zt_oom *out)
{
    message m;
    const char *at = find_start(*c);
    if (at == NULL) {
        return false;
    }
    zt_advance(c, (size_t)(at - c->at));
    squeeze(*c, &m);
    *out = (zt_oom){0};
    read_message(&m, out);
    /* What follows the figures may be of interest to others. */
    zt_advance(c, out->wording == ZT_OOM_BARE ? strlen(start) : m.taken);
    return true;
}

/* CUDA's pools do not tell what they hold in vain. */
static zt_oom_cause async_cause(const zt_oom *oom)
{
    const uint64_t all = zl_add(oom->allocated.nominal, oom->asked.nominal);
    if (!oom->allocated.present) {
        return ZT_OOM_UNKNOWN;
    }
    if (oom->allowed.present && oom->allowed.high < oom->total.low && all > oom->allowed.high) {
        return ZT_OOM_LIMIT;
    }
    return all > oom->total.nominal ? ZT_OOM_CAPACITY : ZT_OOM_UNKNOWN;
}

zt_oom_cause zt_oom_cause_of(const zt_oom *oom)
{
    if (oom->wording == ZT_OOM_HOST) {
        return ZT_OOM_CAPACITY;
    }
    if (!oom->asked.present || !oom->total.present) {
        return ZT_OOM_UNKNOWN;
    }
    if (oom->asked.low > oom->total.high) {
        return ZT_OOM_IMPOSSIBLE;
    }
    if (oom->wording == ZT_OOM_ASYNC) {
        return async_cause(oom);
    }
    if (!oom->free.present || !oom->unallocated.present) {
        return ZT_OOM_UNKNOWN;
    }
    if (oom->free.low >= oom->asked.high) {
        return ZT_OOM_LIMIT;
    }
    /* As printed: two roundings may hide a request that just fits. */
    return zl_add(oom->free.nominal, oom->unallocated.nominal) < oom->asked.nominal
               ? ZT_OOM_CAPACITY
               : ZT_OOM_FRAGMENTATION;
}

uint64_t zt_segment_bytes(uint64_t requested)
{
    const uint64_t size = zl_align_up(requested, zt_min_block);
    if (size <= zt_small_size) {
        return zt_small_segment;
    }
    return size < zt_min_large ? large_segment : zl_align_up(size, zt_large_granularity);
}

bool zt_oom_asks_for(const zt_oom *oom, uint64_t requested)
{
    if (requested == 0 || !oom->asked.present) {
        return false;
    }
    if (oom->wording == ZT_OOM_ASYNC || oom->wording == ZT_OOM_HOST) {
        return oom->wording == ZT_OOM_ASYNC && zt_agrees(&oom->asked, requested);
    }
    if (zt_agrees(&oom->asked, zt_segment_bytes(requested))) {
        return true;
    }
    return oom->wording == ZT_OOM_CACHED && requested > zt_small_size &&
           zt_agrees(&oom->asked, zl_align_up(requested, old_granularity));
}
