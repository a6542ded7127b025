/* The caching allocator equals the naive one, on random sequences over every option: addresses and
 * statistics after each call, all pieces at the end.
 *
 *     torch_property [RUNS]         or ZL_RUNS=RUNS
 *     ZL_SEED=SEED torch_property   repeats
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "torch_naive.h"
#include "walk_random.h"
#include "zeroledger/text.h"

static const uint64_t usual_runs = ZL_USUAL_RUNS;
static const uint64_t mib = UINT64_C(1) << 20;

enum { LIVE_MAX = 400, STREAMS = 4 };

/* Blocks that both sides hold. */
typedef struct live {
    zt_block block;
    uint64_t address;
    uint32_t stream;
    bool waiting;
    bool recorded;
} live;

typedef struct game {
    zl_random *random;
    zt_allocator_options options;
    zt_allocator *fast;
    naive *slow;
    live at[LIVE_MAX];
    size_t count;
    char last[128]; /* what was done last, for the report */
} game;

static uint64_t between(game *g, uint64_t low, uint64_t high)
{
    return zl_random_between(g->random, low, high);
}

static bool one_in(game *g, uint64_t n)
{
    return between(g, 1, n) == 1;
}

static void choose_options(game *g)
{
    zt_alloc_conf conf = zt_alloc_conf_default();
    conf.expandable_segments = one_in(g, 3);
    if (one_in(g, 3)) {
        conf.large_segment_size = between(g, 11, 40) * mib;
        conf.max_non_split_rounding = conf.large_segment_size;
    }
    if (one_in(g, 3)) {
        conf.max_split_size = conf.large_segment_size + between(g, 0, 40) * mib;
    }
    if (one_in(g, 3)) {
        conf.max_non_split_rounding = conf.large_segment_size + between(g, 0, 20) * mib;
    }
    if (one_in(g, 4)) {
        conf.garbage_collection_threshold = (double)between(g, 1, 99) / 100.0;
    }
    if (one_in(g, 4)) {
        conf.per_process_memory_fraction = (double)between(g, 50, 100) / 100.0;
    }
    for (int i = 0; one_in(g, 2) && i < ZT_ROUNDUP_INTERVALS; i++) {
        conf.roundup_power2_divisions[i] =
            one_in(g, 3) ? 0 : (uint32_t)1 << between(g, 0, one_in(g, 9) ? 24 : 5);
    }
    g->options = (zt_allocator_options){
        .conf = conf,
        .addresses = one_in(g, 2) ? ZT_ASCENDING : ZT_DESCENDING,
        .waiting = one_in(g, 2) ? ZT_WAIT_NEXT_ALLOC : ZT_WAIT_SYNC,
        .device_total =
            one_in(g, 3) ? 0
                         : between(g, 50, 450) * 2 * mib + (one_in(g, 2) ? 0 : between(g, 0, mib)),
    };
    if (g->options.device_total != 0 && one_in(g, 2)) {
        g->options.device_free = between(g, 50 * mib, g->options.device_total);
    }
}

/* Around every bound of the rules, and few distinct sizes, so that ties occur. */
static uint64_t choose_size(game *g)
{
    static const uint64_t bounds[] = {512,
                                      1024,
                                      65536,
                                      UINT64_C(1) << 20,
                                      2097152,
                                      UINT64_C(9) << 20,
                                      UINT64_C(10) << 20,
                                      UINT64_C(16) << 20,
                                      UINT64_C(32) << 20};
    const size_t count = sizeof bounds / sizeof bounds[0];
    const uint64_t bound = bounds[between(g, 0, count - 1)];
    switch (between(g, 0, 5)) {
    case 0:
        return bound;
    case 1:
        return bound + between(g, 0, 2) * 512 + 1;
    case 2:
        return between(g, 0, bound);
    case 3:
        return between(g, 1, 12) * (bound / 4 + 1);
    case 4:
        return between(g, 1, 60) * mib;
    default:
        return between(g, 0, 3) * 1000;
    }
}

static void forget(game *g, size_t i)
{
    g->at[i] = g->at[--g->count];
}

static void forget_waiting(game *g)
{
    for (size_t i = g->count; i-- > 0;) {
        if (g->at[i].waiting) {
            forget(g, i);
        }
    }
}

/* False: the addresses differ. */
static bool play_alloc(game *g)
{
    const uint64_t bytes = choose_size(g);
    const uint32_t stream = (uint32_t)between(g, 0, between(g, 0, STREAMS - 1));
    const uint64_t retries = zt_allocator_stats(g->fast)->alloc_retries;
    const zt_block block = zt_alloc(g->fast, bytes, stream);
    const uint64_t address = naive_alloc(g->slow, bytes, stream);
    snprintf(g->last, sizeof g->last, "alloc %" PRIu64 " on stream %" PRIu32, bytes, stream);
    if (g->options.waiting == ZT_WAIT_NEXT_ALLOC
            ? bytes > 0
            : zt_allocator_stats(g->fast)->alloc_retries != retries) {
        forget_waiting(g);
    }
    if (zt_block_address(g->fast, block) != address) {
        return false;
    }
    if (block != ZT_NO_BLOCK) {
        g->at[g->count++] = (live){block, address, stream, false, false};
    }
    return true;
}

static void play_free(game *g)
{
    const size_t i = between(g, 0, g->count - 1);
    live *b = &g->at[i];
    snprintf(g->last, sizeof g->last, "free or complete %" PRIu64, b->address);
    if (b->waiting) {
        zt_complete(g->fast, b->block);
        naive_complete(g->slow, b->address);
        forget(g, i);
        return;
    }
    zt_free(g->fast, b->block);
    naive_free(g->slow, b->address);
    if (b->recorded) {
        b->waiting = true;
    } else {
        forget(g, i);
    }
}

static void play_record(game *g)
{
    live *b = &g->at[between(g, 0, g->count - 1)];
    const uint32_t stream = (uint32_t)between(g, 0, STREAMS - 1);
    snprintf(g->last, sizeof g->last, "record stream %" PRIu32, stream);
    if (!b->waiting) {
        zt_record_stream(g->fast, b->block, stream);
        naive_record(g->slow, b->address, stream);
        b->recorded |= stream != b->stream;
    }
}

static void play_rare(game *g)
{
    switch (between(g, 0, 3)) {
    case 0:
        snprintf(g->last, sizeof g->last, "empty the cache");
        zt_empty_cache(g->fast);
        naive_empty_cache(g->slow);
        forget_waiting(g);
        break;
    case 1:
        snprintf(g->last, sizeof g->last, "synchronize");
        zt_synchronize(g->fast);
        naive_synchronize(g->slow);
        forget_waiting(g);
        break;
    default:
        snprintf(g->last, sizeof g->last, "reset the peaks");
        zt_reset_peaks(g->fast);
        naive_reset_peaks(g->slow);
        break;
    }
}

/* Phases of more allocations and of more frees take turns, as forward and backward do. */
static bool play(game *g, bool growing)
{
    const uint64_t dice = between(g, 0, 99);
    if (dice < 3) {
        play_rare(g);
    } else if (dice < 8 && g->count > 0) {
        play_record(g);
    } else if (g->count == 0 || (g->count < LIVE_MAX && dice < (growing ? 75U : 35U))) {
        return play_alloc(g);
    } else {
        play_free(g);
    }
    return true;
}

static bool same_pieces(const game *g)
{
    zt_piece *pieces = NULL;
    size_t count = 0;
    size_t i = 0;
    zl_err err = {0};
    if (zt_allocator_pieces(g->fast, &pieces, &count, &err) != ZL_OK) {
        return false;
    }
    bool same = true;
    for (size_t k = 0; k < g->slow->count && same; k++) {
        const naive_piece *p = &g->slow->piece[k];
        if (p->state == NAIVE_HOLE) {
            continue;
        }
        const naive_piece *before = k > 0 ? p - 1 : NULL;
        const bool first =
            before == NULL || before->segment != p->segment || before->state == NAIVE_HOLE;
        same = i < count && pieces[i].address == p->address && pieces[i].size == p->size &&
               pieces[i].requested == p->asked && pieces[i].stream == p->stream &&
               pieces[i].small == (p->pool == 0) && pieces[i].first == first &&
               pieces[i].allocated == (p->state == NAIVE_USED) &&
               pieces[i].active == (p->state != NAIVE_FREE) &&
               pieces[i].expandable == g->options.conf.expandable_segments;
        i++;
    }
    same = same && i == count;
    free(pieces);
    return same;
}

static const char *difference(const game *g)
{
    const zt_stats *a = zt_allocator_stats(g->fast);
    const zt_stats *b = &g->slow->stats;
    const struct {
        const char *name;
        zt_stat a, b;
    } pairs[] = {
        {"requested", a->requested, b->requested},
        {"allocated", a->allocated, b->allocated},
        {"active", a->active, b->active},
        {"reserved", a->reserved, b->reserved},
        {"inactive_split", a->inactive_split, b->inactive_split},
        {"segments", a->segments, b->segments},
        {"retries and ooms", {a->alloc_retries, a->ooms}, {b->alloc_retries, b->ooms}},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        if (pairs[i].a.current != pairs[i].b.current || pairs[i].a.peak != pairs[i].b.peak) {
            return pairs[i].name;
        }
    }
    return NULL;
}

static bool tell(const game *g, size_t step, const char *what)
{
    const zt_stats *a = zt_allocator_stats(g->fast);
    const zt_stats *b = &g->slow->stats;
    printf("step %zu (%s): %s differ; reserved %" PRIu64 " and %" PRIu64 ", expandable %d\n", step,
           g->last, what, a->reserved.current, b->reserved.current,
           g->options.conf.expandable_segments);
    return false;
}

static bool play_sequence(game *g)
{
    const size_t steps = between(g, 10, one_in(g, 50) ? 1500 : 150);
    bool growing = true;
    for (size_t step = 0; step < steps; step++) {
        growing = one_in(g, 30) ? !growing : growing;
        if (!play(g, growing)) {
            return tell(g, step, "addresses");
        }
        const char *what = difference(g);
        if (what != NULL) {
            return tell(g, step, what);
        }
    }
    zl_err err = {0};
    if (zt_allocator_status(g->fast, &err) != ZL_OK || g->slow->overflow) {
        printf("%s\n", g->slow->overflow ? "too many pieces for the naive list" : err.text);
        return false;
    }
    return same_pieces(g) ? true : tell(g, steps, "pieces");
}

/* What the sequences reached, so that a run that shows nothing shows that. */
typedef struct reach {
    uint64_t retries;
    uint64_t ooms;
    uint64_t expandable;
} reach;

static bool play_all(game *g, uint64_t runs)
{
    reach r = {0};
    for (uint64_t i = 0; i < runs; i++) {
        zl_err err = {0};
        choose_options(g);
        if (zt_allocator_new(&g->options, &g->fast, &err) != ZL_OK) {
            printf("sequence %" PRIu64 ": %s\n", i, err.text);
            return false;
        }
        naive_init(g->slow, &g->options);
        g->count = 0;
        const bool same = play_sequence(g);
        r.retries += g->slow->stats.alloc_retries > 0;
        r.ooms += g->slow->stats.ooms > 0;
        r.expandable += g->options.conf.expandable_segments;
        zt_allocator_free(g->fast);
        if (!same) {
            printf("in sequence %" PRIu64 "\n", i);
            return false;
        }
    }
    printf("%" PRIu64 " sequences agree; %" PRIu64 " released memory, %" PRIu64
           " ran out of it, %" PRIu64 " expandable\n",
           runs, r.retries, r.ooms, r.expandable);
    return runs < 100 || (r.retries > 0 && r.ooms > 0 && r.expandable > 0);
}

static zl_status read_count(const char *name, uint64_t *value, zl_err *err)
{
    const char *text = getenv(name);
    return text == NULL ? ZL_OK : zl_parse_count(name, text, value, err);
}

int main(int argc, char **argv)
{
    uint64_t runs = usual_runs;
    uint64_t seed = (uint64_t)time(NULL);
    zl_err err = {0};
    zl_status status = read_count("ZL_RUNS", &runs, &err);
    if (status == ZL_OK) {
        status = read_count("ZL_SEED", &seed, &err);
    }
    if (status == ZL_OK && argc == 2) {
        status = zl_parse_count("RUNS", argv[1], &runs, &err);
    }
    if (status != ZL_OK) {
        fprintf(stderr, "torch_property: %s\n", err.text);
        return (int)status;
    }
    printf("ZL_SEED=%" PRIu64 " ZL_RUNS=%" PRIu64 "\n", seed, runs);
    fflush(stdout);
    zl_random random = {.state = seed};
    game g = {.random = &random, .slow = malloc(sizeof(naive))};
    const bool same = g.slow != NULL && play_all(&g, runs);
    free(g.slow);
    return same ? EXIT_SUCCESS : EXIT_FAILURE;
}
