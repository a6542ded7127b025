#include "torch/deepspeed_coordinator.h"

#include <stdlib.h>
#include <string.h>

#include "zeroledger/bytes.h"

typedef enum trace_mode { MODE_INVALID, MODE_RECORD, MODE_COMPLETE } trace_mode;
typedef enum param_status { STATUS_ABSENT, STATUS_IN_FLIGHT, STATUS_PRESENT } param_status;

/* A use of a parameter: the step of the trace whose module owns it. */
typedef struct use {
    uint32_t param;
    uint32_t step;
} use;

/* What an exit of a module at a step of the trace releases. */
typedef struct answer {
    uint32_t module;
    uint32_t bits; /* of its own parameters */
    uint32_t next; /* another module at the same step; 0: none */
} answer;

typedef struct param_state {
    param_status status;
    uint32_t active;     /* modules that own it and are between entry and exit */
    int64_t scanned_for; /* last step whose use the prefetcher has passed; -1: none */
    bool marked;         /* member of the set that is being built */
} param_state;

struct zt_coordinator {
    const zt_coordinator_module *module;
    const zt_coordinator_param *param;
    uint32_t modules;
    uint32_t params;
    zt_coordinator_limits limits;
    zt_coordinator_calls calls;
    void *context;

    trace_mode mode;
    uint32_t *order; /* modules of a forward and backward, in order of entry */
    size_t steps;
    size_t order_capacity;
    use *uses; /* the parameters of those modules */
    size_t use_count;
    size_t next_use;     /* head of the fetch queue */
    uint32_t *answer_at; /* per step, the end of the last one included */
    answer *answer;      /* from 1 on */
    uint32_t answers;
    uint32_t answer_capacity;
    uint32_t step;
    int64_t available; /* elements gathered in this pass less those released in it */
    bool failed;

    param_state *state;
    bool *active;       /* per module */
    uint32_t *backward; /* modules in backward, oldest first */
    uint32_t backward_count;
    uint32_t *set; /* scratch: a set of parameters */
};

zt_coordinator *zt_coordinator_new(const zt_coordinator_module *module, uint32_t modules,
                                   const zt_coordinator_param *param, uint32_t params,
                                   zt_coordinator_limits limits, zt_coordinator_calls calls,
                                   void *context)
{
    zt_coordinator *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return NULL;
    }
    *c = (zt_coordinator){.module = module,
                          .param = param,
                          .modules = modules,
                          .params = params,
                          .limits = limits,
                          .calls = calls,
                          .context = context};
    c->state = calloc(params + 1, sizeof *c->state);
    c->set = calloc(params + 1, sizeof *c->set);
    c->active = calloc(modules + 1, sizeof *c->active);
    c->backward = calloc(modules + 1, sizeof *c->backward);
    if (c->state == NULL || c->set == NULL || c->active == NULL || c->backward == NULL) {
        zt_coordinator_free(c);
        return NULL;
    }
    for (uint32_t i = 0; i < params; i++) {
        c->state[i].scanned_for = -1;
    }
    return c;
}

void zt_coordinator_free(zt_coordinator *c)
{
    if (c != NULL) {
        free(c->order);
        free(c->uses);
        free(c->answer_at);
        free(c->answer);
        free(c->state);
        free(c->set);
        free(c->active);
        free(c->backward);
        free(c);
    }
}

bool zt_coordinator_present(const zt_coordinator *c, uint32_t param)
{
    return c->state[param].status != STATUS_ABSENT;
}

uint64_t zt_coordinator_elements(const zt_coordinator *c)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < c->params; i++) {
        sum = zl_add(sum, zt_coordinator_present(c, i) ? c->param[i].elements : 0);
    }
    return sum;
}

static void wait_for(zt_coordinator *c, uint32_t param)
{
    if (c->state[param].status == STATUS_IN_FLIGHT) {
        c->calls.wait(c->context, param);
        c->state[param].status = STATUS_PRESENT;
    }
}

static void release(zt_coordinator *c, uint32_t param)
{
    if (c->state[param].status == STATUS_PRESENT && c->state[param].active == 0) {
        c->calls.release(c->context, param);
        c->state[param].status = STATUS_ABSENT;
        c->available -= (int64_t)c->param[param].elements;
    }
}

void zt_coordinator_gathered(zt_coordinator *c, uint32_t param)
{
    c->state[param].status = STATUS_PRESENT;
}

/* The record becomes the trace: the parameters of the modules, in order. */
static void complete(zt_coordinator *c)
{
    size_t count = 0;
    for (size_t i = 0; i < c->steps; i++) {
        count += c->module[c->order[i]].params;
    }
    /* Every entry has an exit; containers leave at the step of their last child. */
    c->answer_capacity = (uint32_t)c->steps + 2;
    c->uses = malloc((count + 1) * sizeof *c->uses);
    c->answer_at = calloc(c->steps + 2, sizeof *c->answer_at);
    c->answer = calloc(c->answer_capacity, sizeof *c->answer);
    if (c->uses == NULL || c->answer_at == NULL || c->answer == NULL) {
        c->failed = true;
        return;
    }
    for (size_t i = 0; i < c->steps; i++) {
        const zt_coordinator_module *m = &c->module[c->order[i]];
        for (uint32_t k = 0; k < m->params; k++) {
            c->uses[c->use_count++] = (use){.param = m->param[k], .step = (uint32_t)i};
        }
    }
    c->mode = MODE_COMPLETE;
}

/* reset_step: a complete pass lies behind. What is still in flight is waited for and dropped. */
void zt_coordinator_reset(zt_coordinator *c)
{
    for (uint32_t i = 0; i < c->params; i++) {
        if (c->state[i].status == STATUS_IN_FLIGHT) {
            wait_for(c, i);
            release(c, i);
        }
        c->state[i].scanned_for = -1;
    }
    if (c->mode == MODE_RECORD) {
        complete(c);
    } else if (c->mode == MODE_INVALID) {
        c->mode = MODE_RECORD;
    }
    c->next_use = 0;
    c->step = 0;
    c->available = 0;
}

static void invalidate(zt_coordinator *c)
{
    free(c->uses);
    free(c->answer_at);
    free(c->answer);
    c->uses = NULL;
    c->answer_at = NULL;
    c->answer = NULL;
    c->answers = 0;
    c->use_count = 0;
    c->next_use = 0;
    c->steps = 0;
    c->mode = MODE_INVALID;
    for (uint32_t i = 0; i < c->params; i++) {
        c->state[i].scanned_for = -1;
        if (c->state[i].status == STATUS_IN_FLIGHT) {
            wait_for(c, i);
            release(c, i);
        }
    }
}

static void record(zt_coordinator *c, uint32_t module)
{
    if (c->steps == c->order_capacity) {
        const size_t capacity = c->order_capacity == 0 ? 256 : 2 * c->order_capacity;
        uint32_t *larger = realloc(c->order, capacity * sizeof *larger);
        if (larger == NULL) {
            c->failed = true;
            return;
        }
        c->order = larger;
        c->order_capacity = capacity;
    }
    c->order[c->steps++] = module;
}

/* Gathers those of the set that are absent, in order of registration. */
static void gather(zt_coordinator *c, uint32_t *set, size_t count)
{
    size_t absent = 0;
    for (size_t i = 0; i < count; i++) {
        if (c->state[set[i]].status == STATUS_ABSENT) {
            set[absent++] = set[i];
            c->available += (int64_t)c->param[set[i]].elements;
        }
    }
    if (absent > 0) {
        c->calls.gather(c->context, set, absent);
        for (size_t i = 0; i < absent; i++) {
            c->state[set[i]].status = STATUS_IN_FLIGHT;
        }
    }
}

static int by_index(const void *a, const void *b)
{
    const uint32_t *x = a;
    const uint32_t *y = b;
    return (*x > *y) - (*x < *y);
}

/* The parameters of the module leave the fetch queue, with everything queued before them. */
static void pass_own(zt_coordinator *c, const zt_coordinator_module *m)
{
    size_t open = 0;
    for (uint32_t i = 0; i < m->params; i++) {
        open += c->state[m->param[i]].scanned_for < (int64_t)c->step ? 1 : 0;
    }
    for (; open > 0 && c->next_use < c->use_count; open--) {
        const use u = c->uses[c->next_use++];
        c->state[u.param].scanned_for = u.step;
    }
}

static void prefetch(zt_coordinator *c)
{
    const int64_t room = (int64_t)c->limits.live - c->available;
    const uint64_t most = room > 0 ? zl_min((uint64_t)room, c->limits.prefetch) : 0;
    uint64_t elements = 0;
    size_t count = 0;
    while (c->next_use < c->use_count && elements < most) {
        const use u = c->uses[c->next_use++];
        param_state *s = &c->state[u.param];
        if (s->scanned_for < (int64_t)u.step) {
            s->scanned_for = u.step;
        }
        if (s->status == STATUS_ABSENT && !s->marked) {
            s->marked = true;
            c->set[count++] = u.param;
            elements = zl_add(elements, c->param[u.param].elements);
        }
    }
    for (size_t i = 0; i < count; i++) {
        c->state[c->set[i]].marked = false;
    }
    qsort(c->set, count, sizeof *c->set, by_index);
    gather(c, c->set, count);
}

static void begin_backward(zt_coordinator *c, uint32_t module)
{
    for (uint32_t i = 0; i < c->backward_count; i++) {
        if (c->backward[i] == module) {
            return;
        }
    }
    c->backward[c->backward_count++] = module;
}

static void end_backward(zt_coordinator *c, uint32_t module)
{
    for (uint32_t i = c->backward_count; i-- > 0;) {
        if (c->backward[i] == module) {
            c->backward_count--;
            memmove(c->backward + i, c->backward + i + 1,
                    (c->backward_count - i) * sizeof *c->backward);
            return;
        }
    }
}

static void set_active(zt_coordinator *c, uint32_t module, bool active)
{
    if (c->active[module] != active) {
        const zt_coordinator_module *m = &c->module[module];
        for (uint32_t i = 0; i < m->params; i++) {
            c->state[m->param[i]].active += active ? 1U : UINT32_MAX;
        }
        c->active[module] = active;
    }
}

void zt_coordinator_enter(zt_coordinator *c, uint32_t module, bool backward)
{
    const zt_coordinator_module *m = &c->module[module];
    if (c->failed) {
        return;
    }
    if (c->mode == MODE_COMPLETE && (c->step >= c->steps || c->order[c->step] != module)) {
        invalidate(c);
    }
    if (c->mode == MODE_RECORD) {
        record(c, module);
    }
    if (backward) {
        begin_backward(c, module);
    }
    for (uint32_t i = 0; i < m->params; i++) {
        c->set[i] = m->param[i];
    }
    gather(c, c->set, m->params);
    set_active(c, module, true);
    for (uint32_t i = 0; i < m->params; i++) {
        wait_for(c, m->param[i]);
    }
    if (c->mode == MODE_COMPLETE) {
        pass_own(c, m);
        if (c->limits.prefetch > 0) {
            prefetch(c);
        }
    }
    c->step++;
}

/* __params_to_release: own parameters, but not what persists, what the prefetcher has passed over
 * because it was there, and what is used again within the reuse distance. A bit per parameter. */
static uint32_t released(zt_coordinator *c, const zt_coordinator_module *m)
{
    uint32_t open = 0;
    for (uint32_t i = 0; i < m->params; i++) {
        param_state *s = &c->state[m->param[i]];
        s->marked = !c->param[m->param[i]].persists && s->scanned_for <= (int64_t)c->step;
        open += s->marked ? 1 : 0;
    }
    uint64_t distance = 0;
    for (size_t step = c->step; open > 0 && step < c->steps && distance < c->limits.reuse; step++) {
        const zt_coordinator_module *next = &c->module[c->order[step]];
        for (uint32_t i = 0; i < next->params; i++) {
            param_state *s = &c->state[next->param[i]];
            open -= s->marked ? 1 : 0;
            s->marked = false;
            distance = zl_add(distance, c->param[next->param[i]].elements);
        }
    }
    uint32_t bits = 0;
    for (uint32_t i = 0; i < m->params; i++) {
        param_state *s = &c->state[m->param[i]];
        bits |= s->marked ? UINT32_C(1) << i : 0;
        s->marked = false;
    }
    return bits;
}

/* The answer for a module and a step is computed once and kept (functools.lru_cache), although it
 * depends on what the prefetcher did in that pass. */
static uint32_t released_once(zt_coordinator *c, uint32_t module)
{
    const zt_coordinator_module *m = &c->module[module];
    for (uint32_t at = c->answer_at[c->step]; at != 0; at = c->answer[at].next) {
        if (c->answer[at].module == module) {
            return c->answer[at].bits;
        }
    }
    const uint32_t bits = released(c, m);
    if (c->answers + 1 < c->answer_capacity) {
        c->answer[++c->answers] =
            (answer){.module = module, .bits = bits, .next = c->answer_at[c->step]};
        c->answer_at[c->step] = c->answers;
    }
    return bits;
}

void zt_coordinator_exit(zt_coordinator *c, uint32_t module)
{
    const zt_coordinator_module *m = &c->module[module];
    if (c->failed) {
        return;
    }
    const uint32_t bits = c->mode == MODE_COMPLETE ? released_once(c, module) : UINT32_MAX;
    end_backward(c, module);
    set_active(c, module, false);
    for (uint32_t i = 0; i < m->params; i++) {
        if ((bits >> i & 1) != 0) {
            release(c, m->param[i]);
        }
    }
}

void zt_coordinator_leftovers(zt_coordinator *c)
{
    while (c->backward_count > 0) {
        const uint32_t module = c->backward[--c->backward_count];
        const zt_coordinator_module *m = &c->module[module];
        set_active(c, module, false);
        for (uint32_t i = 0; i < m->params; i++) {
            if (!c->param[m->param[i]].persists) {
                release(c, m->param[i]);
            }
        }
    }
}

void zt_coordinator_release_all(zt_coordinator *c)
{
    c->backward_count = 0;
    for (uint32_t i = 0; i < c->modules; i++) {
        set_active(c, i, false);
    }
    for (uint32_t i = 0; i < c->params; i++) {
        wait_for(c, i);
        release(c, i);
    }
}
