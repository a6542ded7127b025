/* The changes that help: one at a time, then the fewest together that fit.
 *
 * A knob by itself is tried at every level. In a set it has its strongest level, the one with the
 * smallest peak; a set that fits is then weakened, knob by knob, to the mildest levels that do.
 * Sets are looked for with cheap changes first: those that leave result and hardware alone, then
 * with more ranks, then with any. For each, adding the best change again and again gives one set
 * that fits; all smaller ones are then tried, as far as COMBINATIONS allows, to find a smaller one
 * or to know that there is none. */
#include <stdlib.h>
#include <string.h>

#include "advise.h"
#include "zeroledger/bytes.h"

enum { LEVELS = 16, COMBINATIONS = 800, BEST = 3, REFUTED = 3 };

/* Less than this part of the peak, or of the capacity if that is less, is nothing. */
enum { NOTICEABLE = 1000 };

/* More ranks than this are not asked for. */
static const uint64_t ranks_most = 65536;

typedef struct candidate {
    const zl_knob *knob;
    unsigned strongest;
} candidate;

typedef struct search {
    const zl_asked *asked;
    zl_advice *advice;
    candidate pool[ZL_KNOBS + 1]; /* knobs that lower some phase; room for one to try */
    size_t pooled;
    zl_turned turned; /* room for the change at hand */
    zl_set trial;
    zl_set before; /* what dependent knobs are tried on */
} search;

/* Members of a set by their place in the pool, in its order, and their levels. */
typedef struct members {
    size_t at[ZL_KNOBS];
    unsigned level[ZL_KNOBS];
    size_t count;
} members;

static bool notices(const search *s, uint64_t before, uint64_t after)
{
    const zl_asked *asked = s->asked;
    const uint64_t of = asked->limited ? zl_min(asked->now.peak, asked->c.usable) : asked->now.peak;
    return before > after && zl_mul(zl_saved(before, after), NOTICEABLE) >= of;
}

static bool lowers_peak(const search *s, const zl_outlook *o)
{
    return notices(s, s->asked->now.peak, o->peak) ||
           notices(s, s->asked->now.reserved, o->reserved);
}

/* Whether a change lowers some phase of what was before it. */
static bool lowers_any(const search *s, const zl_outlook *before, const zl_outlook *o)
{
    bool lowers = notices(s, before->reserved, o->reserved);
    for (size_t i = 0; i < ZL_OUTLOOK_PHASES; i++) {
        lowers |= notices(s, before->phase[i], o->phase[i]);
    }
    return lowers;
}

/* ---- one set ---- */

static void set_begin(const search *s, zl_set *set)
{
    *set = (zl_set){.price = ZL_PRICE_NONE, .run = s->asked->run};
}

/* Turns one more knob of the run in the set; false: it cannot be. */
static bool set_turn(search *s, const zl_knob *knob, unsigned level, zl_torch_run *torch,
                     zl_set *set)
{
    const zl_torch_run *now = s->asked->native ? NULL : torch;
    if (!zl_knob_turn(knob, level, &set->run, now, &s->turned) || !s->turned.possible) {
        return false;
    }
    set->run = s->turned.run;
    if (now != NULL) {
        *torch = s->turned.torch;
    }
    set->change[set->count++] = s->turned.change;
    set->price = knob->price > set->price ? knob->price : set->price;
    return true;
}

/* Predicts the run of a set that is complete. */
static zl_status set_end(const search *s, const zl_torch_run *torch, zl_depth depth, zl_set *set,
                         zl_err *err)
{
    const zl_outlook *now = &s->asked->now;
    ZL_TRY(zl_outlook_get(s->asked, &set->run, s->asked->native ? NULL : torch, depth,
                          &set->outlook, err));
    set->effect = zl_max(zl_saved(now->peak, set->outlook.peak),
                         zl_saved(now->reserved, set->outlook.reserved));
    return ZL_OK;
}

/* Makes the run of a set. lenient: what cannot be turned any more is left out. False: something
 * cannot be turned, and may not be left out. */
static bool set_members(search *s, const members *m, bool lenient, zl_torch_run *torch, zl_set *set)
{
    bool all = true;
    *torch = s->asked->torch;
    set_begin(s, set);
    for (size_t i = 0; i < m->count && (all || lenient); i++) {
        all = set_turn(s, s->pool[m->at[i]].knob, m->level[i], torch, set) && all;
    }
    return all || lenient;
}

static zl_status try_members(search *s, const members *m, zl_depth depth, bool lenient, zl_set *set,
                             zl_err *err)
{
    zl_torch_run torch;
    return set_members(s, m, lenient, &torch, set) ? set_end(s, &torch, depth, set, err) : ZL_OK;
}

static bool set_fits(const zl_set *set)
{
    return set->outlook.predicted && set->outlook.fits;
}

/* ---- one change at a time ---- */

/* Which level of a knob is shown: the mildest that fits, or that helps where nothing has to fit;
 * else the strongest. */
static zl_status try_knob(search *s, const zl_knob *knob, unsigned *shown, bool *helps, zl_err *err)
{
    const bool must_fit = !s->asked->now.fits;
    candidate c = {.knob = knob};
    uint64_t least = ZL_POISON;
    bool lowers = false;
    bool settled = false;
    *helps = false;
    for (unsigned level = 0; level < LEVELS; level++) {
        zl_torch_run torch = s->asked->torch;
        set_begin(s, &s->trial);
        if (!set_turn(s, knob, level, &torch, &s->trial)) {
            continue; /* this one cannot be; a stronger one may */
        }
        ZL_TRY(set_end(s, &torch, ZL_DEPTH_RANK, &s->trial, err));
        const zl_outlook *o = &s->trial.outlook;
        if (!o->predicted || !lowers_any(s, &s->asked->now, o)) {
            continue;
        }
        lowers = true;
        const bool better = o->peak <= least;
        least = zl_min(least, o->peak);
        c.strongest = better ? level : c.strongest;
        if (!settled && lowers_peak(s, o)) {
            settled = !must_fit || o->fits;
            *shown = settled || better ? level : *shown;
            *helps = true;
        }
    }
    if (lowers) {
        s->pool[s->pooled++] = c;
    }
    return ZL_OK;
}

static zl_status add_one(search *s, const zl_knob *knob, unsigned level, zl_err *err)
{
    zl_torch_run torch = s->asked->torch;
    zl_set *set = &s->advice->one[s->advice->ones];
    set_begin(s, set);
    if (!set_turn(s, knob, level, &torch, set)) {
        return ZL_OK;
    }
    ZL_TRY(set_end(s, &torch, ZL_DEPTH_ALL, set, err));
    s->advice->ones += set->outlook.predicted && lowers_peak(s, &set->outlook);
    return ZL_OK;
}

static int by_effect(const void *a, const void *b)
{
    const zl_set *x = a;
    const zl_set *y = b;
    if (x->effect != y->effect) {
        return x->effect < y->effect ? 1 : -1;
    }
    if (x->price != y->price) {
        return x->price < y->price ? -1 : 1;
    }
    return strcmp(x->change[0].knob->name, y->change[0].knob->name);
}

static zl_status find_ones(search *s, zl_err *err)
{
    const zl_knob *knob = NULL;
    for (size_t i = 0; (knob = zl_knob_at(i)) != NULL; i++) {
        unsigned level = 0;
        bool helps = false;
        ZL_TRY(try_knob(s, knob, &level, &helps, err));
        if (helps) {
            ZL_TRY(add_one(s, knob, level, err));
        }
    }
    qsort(s->advice->one, s->advice->ones, sizeof s->advice->one[0], by_effect);
    return ZL_OK;
}

/* ---- the fewest together ---- */

/* Keeps members in the order of the pool, which is that of the table. */
static void member_add(members *m, size_t at, unsigned level)
{
    size_t i = m->count++;
    for (; i > 0 && m->at[i - 1] > at; i--) {
        m->at[i] = m->at[i - 1];
        m->level[i] = m->level[i - 1];
    }
    m->at[i] = at;
    m->level[i] = level;
}

static void member_drop(members *m, size_t index)
{
    m->count--;
    for (size_t i = index; i < m->count; i++) {
        m->at[i] = m->at[i + 1];
        m->level[i] = m->level[i + 1];
    }
}

/* Everything up to a price at once; more ranks only if they are wanted, and then the fewest. */
static members everything(const search *s, zl_price price, bool more_ranks)
{
    members m = {.count = 0};
    for (size_t i = 0; i < s->pooled; i++) {
        const zl_price own = s->pool[i].knob->price;
        if (own == ZL_PRICE_RANKS ? more_ranks : own <= price) {
            member_add(&m, i, own == ZL_PRICE_RANKS ? 0 : s->pool[i].strongest);
        }
    }
    return m;
}

static bool has(const members *m, size_t at)
{
    for (size_t i = 0; i < m->count; i++) {
        if (m->at[i] == at) {
            return true;
        }
    }
    return false;
}

static bool pooled(const search *s, const zl_knob *knob)
{
    for (size_t i = 0; i < s->pooled; i++) {
        if (s->pool[i].knob == knob) {
            return true;
        }
    }
    return false;
}

/* A knob on top of others; it joins the pool, behind them, if it lowers what they leave. */
static zl_status try_dependent(search *s, const zl_knob *knob, const members *others,
                               const zl_set *before, zl_err *err)
{
    candidate c = {.knob = knob};
    uint64_t least = ZL_POISON;
    bool lowers = false;
    for (unsigned level = 0; level < LEVELS; level++) {
        zl_torch_run torch;
        members m = *others;
        s->pool[s->pooled].knob = knob;
        member_add(&m, s->pooled, level);
        set_members(s, &m, true, &torch, &s->trial);
        if (s->trial.count == before->count) { /* it cannot be */
            continue;
        }
        ZL_TRY(set_end(s, &torch, ZL_DEPTH_RANK, &s->trial, err));
        const zl_outlook *o = &s->trial.outlook;
        if (o->predicted && lowers_any(s, &before->outlook, o)) {
            lowers = true;
            c.strongest = o->peak <= least ? level : c.strongest;
            least = zl_min(least, o->peak);
        }
    }
    s->pool[s->pooled] = c;
    s->pooled += lowers;
    return ZL_OK;
}

/* Some settings exist, or matter, only once others were changed: those of stage 3, or of
 * activations that something larger hid. */
static zl_status find_dependents(search *s, zl_err *err)
{
    const members others = everything(s, ZL_PRICE_TIME, true);
    const zl_knob *knob = NULL;
    ZL_TRY(try_members(s, &others, ZL_DEPTH_RANK, true, &s->trial, err));
    s->before = s->trial;
    for (size_t i = 0; s->before.outlook.predicted && (knob = zl_knob_at(i)) != NULL; i++) {
        if (!pooled(s, knob)) {
            ZL_TRY(try_dependent(s, knob, &others, &s->before, err));
        }
    }
    return ZL_OK;
}

/* The change that lowers the peak most, added to what there is; false: none does. */
static zl_status add_best(search *s, zl_price price, members *m, uint64_t *peak, bool *fits,
                          zl_err *err)
{
    members chosen = *m;
    uint64_t least = *peak;
    for (size_t i = 0; i < s->pooled && !*fits; i++) {
        members next = *m;
        if (s->pool[i].knob->price > price || has(m, i)) {
            continue;
        }
        member_add(&next, i, s->pool[i].strongest);
        ZL_TRY(try_members(s, &next, ZL_DEPTH_RANK, false, &s->trial, err));
        if (s->trial.outlook.predicted &&
            (s->trial.outlook.peak < least || s->trial.outlook.fits)) {
            least = s->trial.outlook.peak;
            chosen = next;
            *fits = s->trial.outlook.fits;
        }
    }
    *peak = least;
    *m = chosen;
    return ZL_OK;
}

/* Adds until it fits, then takes out what turned out not to be needed. */
static zl_status greedy(search *s, zl_price price, members *m, bool *fits, zl_err *err)
{
    uint64_t peak = s->asked->now.peak;
    size_t before = 0;
    *m = (members){.count = 0};
    *fits = false;
    do {
        before = m->count;
        ZL_TRY(add_best(s, price, m, &peak, fits, err));
    } while (!*fits && m->count > before && m->count < ZL_SET_MAX);
    for (size_t i = m->count; *fits && m->count > 1 && i-- > 0;) {
        members fewer = *m;
        member_drop(&fewer, i);
        ZL_TRY(try_members(s, &fewer, ZL_DEPTH_RANK, false, &s->trial, err));
        *m = set_fits(&s->trial) ? fewer : *m;
    }
    return ZL_OK;
}

/* The mildest levels that still fit. */
static zl_status weaken(search *s, members *m, zl_err *err)
{
    for (size_t i = m->count; i-- > 0;) {
        members milder = *m;
        for (milder.level[i] = 0; milder.level[i] < m->level[i]; milder.level[i]++) {
            ZL_TRY(try_members(s, &milder, ZL_DEPTH_RANK, false, &s->trial, err));
            if (set_fits(&s->trial)) {
                *m = milder;
                break;
            }
        }
    }
    return ZL_OK;
}

static zl_status add_set(search *s, members m, size_t refuted, size_t from, zl_err *err)
{
    zl_advice *a = s->advice;
    if (a->sets == ZL_SETS_MAX) {
        return ZL_OK;
    }
    ZL_TRY(weaken(s, &m, err));
    zl_set *set = &a->set[a->sets];
    ZL_TRY(try_members(s, &m, ZL_DEPTH_ALL, false, set, err));
    set->refuted = refuted;
    set->from = from;
    a->sets += set_fits(set);
    return ZL_OK;
}

/* The sets of `size` that fit, the best ones: cheaper, then smaller peaks. */
typedef struct best {
    members set[BEST];
    uint64_t rank[BEST]; /* the smaller, the better */
    size_t count;
} best;

static void found_add(const search *s, const members *m, best *f)
{
    uint64_t prices = 0;
    for (size_t i = 0; i < m->count; i++) {
        prices += (uint64_t)s->pool[m->at[i]].knob->price;
    }
    /* Of a set's peak only MiB count here. */
    const uint64_t rank = zl_add(zl_mul(prices, UINT64_C(1) << 40), s->trial.outlook.peak >> 20);
    size_t i = f->count < BEST ? f->count++ : BEST - 1;
    if (i == BEST - 1 && f->count == BEST && f->rank[i] != 0 && f->rank[i] <= rank) {
        return;
    }
    for (; i > 0 && f->rank[i - 1] > rank; i--) {
        f->set[i] = f->set[i - 1];
        f->rank[i] = f->rank[i - 1];
    }
    f->set[i] = *m;
    f->rank[i] = rank;
}

/* The next choice of m->count places among `pick`, in order; false past the last. */
static bool next_choice(size_t *choice, size_t size, size_t from)
{
    for (size_t i = size; i-- > 0;) {
        if (choice[i] + size - i < from) {
            choice[i]++;
            for (size_t k = i + 1; k < size; k++) {
                choice[k] = choice[k - 1] + 1;
            }
            return true;
        }
    }
    return false;
}

static zl_status try_all_of(search *s, const size_t *usable, size_t from, size_t size, best *f,
                            zl_err *err)
{
    size_t choice[ZL_SET_MAX];
    for (size_t i = 0; i < size; i++) {
        choice[i] = i;
    }
    do {
        members m = {.count = size};
        for (size_t i = 0; i < size; i++) {
            m.at[i] = usable[choice[i]];
            m.level[i] = s->pool[m.at[i]].strongest;
        }
        ZL_TRY(try_members(s, &m, ZL_DEPTH_FITS, false, &s->trial, err));
        if (set_fits(&s->trial)) {
            found_add(s, &m, f);
        }
    } while (next_choice(choice, size, from));
    return ZL_OK;
}

static size_t choices(size_t from, size_t size)
{
    size_t count = 1;
    for (size_t i = 0; i < size; i++) {
        count = count * (from - i) / (i + 1);
    }
    return count;
}

static bool one_fits(const search *s, zl_price price)
{
    for (size_t i = 0; i < s->advice->ones; i++) {
        if (s->advice->one[i].outlook.fits && s->advice->one[i].price <= price) {
            return true;
        }
    }
    return false;
}

/* Sets of changes up to a price, of fewer than `below`; *size is theirs, 0: there are none. */
static zl_status find_sets(search *s, zl_price price, size_t below, size_t *size, zl_err *err)
{
    size_t usable[ZL_KNOBS];
    size_t from = 0;
    size_t refuted = 0;
    members m;
    bool fits = false;
    *size = 0;
    for (size_t i = 0; i < s->pooled; i++) {
        if (s->pool[i].knob->price <= price) {
            usable[from++] = i;
        }
    }
    ZL_TRY(greedy(s, price, &m, &fits, err));
    /* Sets as small as the one that is known are looked for too: there may be better ones. */
    const size_t known = fits && m.count < below ? m.count : 0;
    const size_t most = known > 0 ? known : zl_min(REFUTED, zl_sub(below, 1));
    for (size_t k = 1; k <= most && k <= from && choices(from, k) <= COMBINATIONS; k++) {
        best f = {.count = 0};
        const size_t before = s->advice->sets;
        ZL_TRY(try_all_of(s, usable, from, k, &f, err));
        for (size_t i = 0; i < f.count && k > 1; i++) { /* of one change there is a list already */
            ZL_TRY(add_set(s, f.set[i], refuted, from, err));
        }
        if (s->advice->sets > before || (k == 1 && one_fits(s, price))) {
            *size = k;
            return ZL_OK;
        }
        refuted = k;
    }
    *size = known;
    return known > 1 ? add_set(s, m, refuted, from, err) : ZL_OK;
}

/* ---- nothing fits ---- */

static zl_status ask_ranks(const zl_asked *asked, const zl_run *run, zl_fit *out, zl_err *err)
{
    const zl_question question = {
        .quantity = ZL_QUANTITY_RANKS,
        .capacity = asked->c.usable,
        .high = ranks_most,
        .chip = {.multiprocessors = asked->native ? 0 : asked->torch.multiprocessors,
                 .capability = asked->native ? 0 : asked->torch.capability},
        .one_rank = asked->one_rank,
        .rank = asked->rank,
    };
    zl_err found = {.status = ZL_OK};
    const zl_status status = zl_solve(run, &question, out, &found);
    if (status == ZL_E_RESOURCE || status == ZL_E_BUG) {
        return zl_fail(err, status, "%s", found.text);
    }
    if (status != ZL_OK) { /* it has no such quantity */
        *out = (zl_fit){.found = false};
    }
    return ZL_OK;
}

static zl_status find_ranks(search *s, zl_err *err)
{
    zl_advice *a = s->advice;
    a->ranked = true;
    ZL_TRY(ask_ranks(s->asked, &s->asked->run, &a->ranks_now, err));
    const members m = everything(s, ZL_PRICE_TIME, true);
    ZL_TRY(try_members(s, &m, ZL_DEPTH_ALL, true, &s->trial, err));
    return s->trial.outlook.predicted ? ask_ranks(s->asked, &s->trial.run, &a->ranks_all, err)
                                      : ZL_OK;
}

/* What all changes leave; if that cannot be predicted, all that keep the result. */
static zl_status find_rest(search *s, zl_err *err)
{
    zl_advice *a = s->advice;
    a->all = calloc(1, sizeof *a->all);
    if (a->all == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory");
    }
    members m = everything(s, ZL_PRICE_RESULT, false);
    ZL_TRY(try_members(s, &m, ZL_DEPTH_ALL, true, a->all, err));
    if (a->all->outlook.predicted) {
        return ZL_OK;
    }
    m = everything(s, ZL_PRICE_TIME, false);
    return try_members(s, &m, ZL_DEPTH_ALL, true, a->all, err);
}

static zl_status find_all(search *s, zl_err *err)
{
    ZL_TRY(find_ones(s, err));
    if (s->asked->now.fits) {
        return ZL_OK;
    }
    ZL_TRY(find_dependents(s, err));
    size_t smallest = 0;
    for (int price = ZL_PRICE_TIME; price < ZL_PRICE_COUNT; price++) {
        size_t size = 0;
        const size_t below = smallest == 0 ? ZL_SET_MAX + 1 : smallest;
        if (below == 1) {
            break;
        }
        ZL_TRY(find_sets(s, (zl_price)price, below, &size, err));
        smallest = size > 0 ? size : smallest;
        if (price == ZL_PRICE_TIME && size == 0) {
            ZL_TRY(find_ranks(s, err));
        }
    }
    return smallest == 0 ? find_rest(s, err) : ZL_OK;
}

zl_status zl_advice_find(const zl_asked *asked, zl_advice *out, zl_err *err)
{
    *out = (zl_advice){.ones = 0};
    search *s = calloc(1, sizeof *s);
    out->one = calloc(ZL_KNOBS, sizeof *out->one);
    out->set = calloc(ZL_SETS_MAX, sizeof *out->set);
    zl_status status = ZL_OK;
    if (s == NULL || out->one == NULL || out->set == NULL) {
        status = zl_fail(err, ZL_E_RESOURCE, "out of memory");
    } else {
        s->asked = asked;
        s->advice = out;
        status = find_all(s, err);
    }
    free(s);
    if (status != ZL_OK) {
        zl_advice_clear(out);
    }
    return status;
}

void zl_advice_clear(zl_advice *advice)
{
    free(advice->one);
    free(advice->set);
    free(advice->all);
    *advice = (zl_advice){.ones = 0};
}
