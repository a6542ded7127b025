/* Steps that repeat. What a program does to its allocator follows from the run alone, not from what
 * is cached or where a block lies, and once the first step has made the states of the optimizer all
 * steps do the same. So the second is written down, and the later ones need the allocator only;
 * that one does not repeat, its small blocks take turns. With somebody listening every step is
 * walked, and torch_repeat of the tests holds one against the other.
 *
 * A storage that outlives the step takes the place of one that the step found, such as the loss
 * that the training loop keeps; they are matched in the order in which they were made. A step that
 * leaves more or other storages behind than it found is no repetition. */
#include "torch/repeat.h"

#include <stdlib.h>

#include "torch/engine.h"
#include "zeroledger/bytes.h"

/* A storage that the step finds. */
struct zt_outsider {
    uint32_t born;
    uint32_t successor; /* of those that the step frees: index of its own storage */
    uint64_t bytes;
    uint16_t stream;
    bool freed;
    zt_block block;
};

void zt_repeat_begin(zt_process *p)
{
    zt_deeds *d = &p->engine->deeds;
    d->count = 0;
    d->outsiders = 0;
    d->first = p->engine->births;
    d->on = true;
}

static int by_birth(const void *a, const void *b)
{
    const uint32_t x = ((const struct zt_outsider *)a)->born;
    const uint32_t y = ((const struct zt_outsider *)b)->born;
    return x < y ? -1 : x > y;
}

static struct zt_outsider *outsider_of(const zt_deeds *d, uint32_t born)
{
    const struct zt_outsider key = {.born = born};
    return bsearch(&key, d->outsider, d->outsiders, sizeof *d->outsider, by_birth);
}

static void find_outsiders(zt_process *p)
{
    zt_deeds *d = &p->engine->deeds;
    uint32_t found = 0;
    for (uint32_t i = 0; i < d->count; i++) {
        found += d->at[i].born < d->first ? 1 : 0;
    }
    d->outsider = zt_arena(p, zl_max(found, 1), sizeof *d->outsider);
    found = 0;
    for (uint32_t i = 0; i < d->count; i++) {
        if (d->at[i].born < d->first) {
            d->outsider[found++].born = d->at[i].born;
        }
    }
    qsort(d->outsider, found, sizeof *d->outsider, by_birth);
    for (uint32_t i = 0; i < found; i++) {
        if (i == 0 || d->outsider[i].born != d->outsider[i - 1].born) {
            d->outsider[d->outsiders++] = d->outsider[i];
        }
    }
}

/* What the step does with them; false: it needs to be known where one is that it does not free. */
static bool note_outsiders(zt_deeds *d)
{
    for (uint32_t i = 0; i < d->count; i++) {
        const zt_deed *deed = &d->at[i];
        if (deed->born >= d->first) {
            continue;
        }
        struct zt_outsider *o = outsider_of(d, deed->born);
        if (deed->kind == ZT_DEED_FREE) {
            o->freed = true;
            o->bytes = deed->amount;
            o->stream = deed->stream;
        } else if (deed->kind == ZT_DEED_USE) {
            o->block = (zt_block)deed->amount;
        }
    }
    for (uint32_t i = 0; i < d->outsiders; i++) {
        if (!d->outsider[i].freed && d->outsider[i].block == ZT_NO_BLOCK) {
            return false;
        }
    }
    return true;
}

/* Storages that the step made and left behind, in the order in which they were made: each takes the
 * place of the next that it freed. */
static bool match(zt_process *p, zt_deeds *d)
{
    const uint32_t made = p->engine->births - d->first;
    const zt_deed **left = zt_arena(p, zl_max(made, 1), sizeof(zt_deed *));
    for (uint32_t i = 0; i < d->count; i++) {
        const zt_deed *deed = &d->at[i];
        if (deed->kind == ZT_DEED_ALLOC) {
            left[deed->born - d->first] = deed;
        } else if (deed->kind == ZT_DEED_FREE && deed->born >= d->first) {
            left[deed->born - d->first] = NULL;
        }
    }
    uint32_t next = 0;
    for (uint32_t i = 0; i < d->outsiders; i++) {
        struct zt_outsider *o = &d->outsider[i];
        if (!o->freed) {
            continue;
        }
        while (next < made && left[next] == NULL) {
            next++;
        }
        if (next == made || left[next]->amount != o->bytes || left[next]->stream != o->stream) {
            return false;
        }
        o->successor = next++;
    }
    while (next < made && left[next] == NULL) {
        next++;
    }
    return next == made;
}

bool zt_repeat_end(zt_process *p)
{
    zt_deeds *d = &p->engine->deeds;
    d->on = false;
    find_outsiders(p);
    return note_outsiders(d) && match(p, d);
}

/* Where a deed finds its storage's block. */
static zt_block *block_of(const zt_deeds *d, const zt_deed *deed)
{
    return deed->born >= d->first ? &d->block[deed->born - d->first]
                                  : &outsider_of(d, deed->born)->block;
}

static void mark_again(zt_process *p, int32_t step, size_t index)
{
    const zl_mark before = p->marks->mark[index];
    zl_mark *mark = zt_mark_new(p, step, before.at);
    mark->device_used = zl_add(mark->reserved, zl_sub(before.device_used, before.reserved));
    mark->host_rss = before.host_rss;
    mark->host_hwm = before.host_hwm;
}

void zt_repeat(zt_process *p, int32_t step)
{
    const zt_deeds *d = &p->engine->deeds;
    zt_allocator *a = p->allocator;
    for (uint32_t i = 0; i < d->outsiders; i++) {
        struct zt_outsider *o = &d->outsider[i];
        o->block = o->freed ? d->block[o->successor] : o->block;
    }
    for (uint32_t i = 0; i < d->count; i++) {
        const zt_deed *deed = &d->at[i];
        switch ((zt_deed_kind)deed->kind) {
        case ZT_DEED_ALLOC:
            d->block[deed->born - d->first] = zt_allocate(p, deed->amount, deed->stream);
            break;
        case ZT_DEED_FREE:
            zt_free(a, *block_of(d, deed));
            break;
        case ZT_DEED_USE:
            zt_record_stream(a, *block_of(d, deed), deed->stream);
            break;
        case ZT_DEED_OUTLAST:
            zt_outlast(a, *block_of(d, deed), (uint32_t)deed->amount,
                       (uint32_t)(deed->amount >> 32));
            break;
        case ZT_DEED_IDLE:
            zt_device_idle(a);
            break;
        case ZT_DEED_EMPTY:
            zt_empty_cache(a);
            break;
        case ZT_DEED_RESET:
            zt_reset_peaks(a);
            break;
        case ZT_DEED_MARK:
            (void)mark_again(p, step, deed->amount);
            break;
        }
    }
}
