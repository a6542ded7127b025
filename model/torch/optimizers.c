/* What the optimizers of torch.optim and bitsandbytes allocate: states at their first step, and
 * temporaries of every step. */
#include "torch/eager.h"
#include "zeroledger/bytes.h"

enum { FLOAT_BYTES = 4, BYTE = 1 };

typedef struct target {
    uint64_t elements;
    uint32_t element_bytes;
    zt_storage temporary;
} target;

struct zt_optimizer {
    zl_torch_optimizer kind;
    target *target;
    uint32_t count, capacity;
    bool has_states;
    bool has_maps; /* bitsandbytes: the quantisation maps are on the device */
};

zt_optimizer *zt_optimizer_new(zt_process *p, zl_torch_optimizer kind)
{
    zt_optimizer *o = zt_arena(p, 1, sizeof *o);
    o->kind = kind;
    return o;
}

void zt_optimizer_add(zt_process *p, zt_optimizer *o, uint64_t elements, uint32_t element_bytes)
{
    enum { FIRST = 64 };
    if (o->count == o->capacity) {
        const uint32_t capacity = o->capacity == 0 ? FIRST : 2 * o->capacity;
        target *more = zt_arena(p, capacity, sizeof *more);
        for (uint32_t i = 0; i < o->count; i++) {
            more[i] = o->target[i];
        }
        o->target = more;
        o->capacity = capacity;
    }
    o->target[o->count++] = (target){.elements = elements, .element_bytes = element_bytes};
}

static uint64_t bytes_of(const target *t)
{
    return zl_mul(t->elements, t->element_bytes);
}

/* ---- states ---- */

/* exp_avg and exp_avg_sq; fused kernels count steps on the device, in fp32. */
static void adam_states(zt_process *p, const zt_optimizer *o)
{
    for (uint32_t i = 0; i < o->count; i++) {
        if (o->kind == ZL_TORCH_ADAMW_FUSED) {
            zt_new(p, FLOAT_BYTES);
        }
        zt_new(p, bytes_of(&o->target[i]));
        zt_new(p, bytes_of(&o->target[i]));
    }
}

/* The first momentum buffer is a clone of the gradient. */
static void sgd_states(zt_process *p, const zt_optimizer *o)
{
    for (uint32_t i = 0; i < o->count; i++) {
        zt_new(p, bytes_of(&o->target[i]));
    }
}

/* bitsandbytes, Optimizer2State.init_state: one byte per state and element, one fp32 per block of
 * 256 elements, two maps of 256 fp32 for all; tensors below 4096 elements keep fp32 states. */
static void adam8bit_states(zt_process *p, zt_optimizer *o)
{
    enum { BLOCK = 256, SMALL = 4096, MAP = 256 };
    for (uint32_t i = 0; i < o->count; i++) {
        const uint64_t elements = o->target[i].elements;
        if (elements < SMALL) {
            zt_new(p, zl_mul(elements, FLOAT_BYTES));
            zt_new(p, zl_mul(elements, FLOAT_BYTES));
            continue;
        }
        if (!o->has_maps) {
            zt_new(p, zl_mul(MAP, FLOAT_BYTES));
            zt_new(p, zl_mul(MAP, FLOAT_BYTES));
            o->has_maps = true;
        }
        const uint64_t scales = zl_mul(zl_ceil_div(elements, BLOCK), FLOAT_BYTES);
        zt_new(p, zl_mul(elements, BYTE));
        zt_new(p, zl_mul(elements, BYTE));
        zt_new(p, scales);
        zt_new(p, scales);
    }
}

static void make_states(zt_process *p, zt_optimizer *o)
{
    const char *what = zt_set_name(p, "optimizer states");
    switch (o->kind) {
    case ZL_TORCH_ADAMW_FUSED:
    case ZL_TORCH_ADAMW_FOREACH:
    case ZL_TORCH_ADAMW_LOOP:
        adam_states(p, o);
        break;
    case ZL_TORCH_SGD:
        sgd_states(p, o);
        break;
    case ZL_TORCH_ADAM8BIT:
        adam8bit_states(p, o);
        break;
    case ZL_TORCH_FROM_CONFIG:
    case ZL_TORCH_OPTIMIZER_COUNT:
        zt_fail(p, ZL_E_BUG, "an optimizer without a kind");
    }
    o->has_states = true;
    zt_set_name(p, what);
}

/* ---- temporaries ---- */

/* foreach: the square roots of all second moments at once; a Python list dies from its end. */
static void all_square_roots(zt_process *p, const zt_optimizer *o)
{
    for (uint32_t i = 0; i < o->count; i++) {
        o->target[i].temporary = zt_new(p, bytes_of(&o->target[i]));
    }
    for (uint32_t i = o->count; i-- > 0;) {
        zt_drop(p, &o->target[i].temporary);
    }
}

/* One tensor at a time: denom = exp_avg_sq.sqrt() / correction, a name that lives until the next
 * tensor's is made. */
static void square_roots_in_turn(zt_process *p, const zt_optimizer *o)
{
    zt_storage denominator = ZT_NO_STORAGE;
    for (uint32_t i = 0; i < o->count; i++) {
        zt_storage root = zt_new(p, bytes_of(&o->target[i]));
        zt_storage quotient = zt_new(p, bytes_of(&o->target[i]));
        zt_drop(p, &root);
        zt_drop(p, &denominator);
        denominator = quotient;
    }
    zt_drop(p, &denominator);
}

void zt_optimizer_step(zt_process *p, zt_optimizer *o)
{
    if (!o->has_states) {
        make_states(p, o);
    }
    if (o->kind == ZL_TORCH_ADAMW_FOREACH) {
        all_square_roots(p, o);
    } else if (o->kind == ZL_TORCH_ADAMW_LOOP) {
        square_roots_in_turn(p, o);
    }
}
