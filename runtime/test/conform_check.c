/* The engine of the conformance test: inputs, calls, comparison. */
#include "conform_run.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define GUARD      256  /* bytes behind each buffer of the tested side */
#define GUARD_BYTE 0xA5 /* what they hold */
#define CALLS      2    /* of the tested side */

typedef struct type_info {
    const char *name;
    size_t bytes;
    int fraction; /* bits */
    int lowest;   /* exponent of the smallest normal number */
    double limit; /* of the relative error */
} type_info;

static const type_info types[CONFORM_TYPE_COUNT] = {
    [CONFORM_F32] = {"fp32", 4, 23, -126, 1e-5}, [CONFORM_BF16] = {"bf16", 2, 7, -126, 1e-2},
    [CONFORM_F16] = {"fp16", 2, 10, -14, 2e-3},  [CONFORM_F64] = {"fp64", 8, 52, -1022, 1e-12},
    [CONFORM_I32] = {"int32", 4, 0, 0, 0.0},
};

const char *conform_type_name(conform_type type)
{
    return types[type].name;
}

/* ------------------------------------------------------------------------------- cases */

conform_case conform_start(const char *op, zl_dtype dtype, conform_call *call, const void *shape)
{
    return (conform_case){.op = op, .dtype = dtype, .call = call, .shape = shape};
}

static void append(conform_case *c, conform_part part)
{
    if (c->n == CONFORM_PARTS_MAX) {
        abort(); /* a case of ours is wrong */
    }
    c->part[c->n++] = part;
}

void conform_in(conform_case *c, const char *name, conform_type type, size_t count, double low,
                double high)
{
    append(c, (conform_part){name, type, CONFORM_IN, count, low, high, false});
}

void conform_out(conform_case *c, const char *name, conform_type type, size_t count)
{
    append(c, (conform_part){name, type, CONFORM_OUT, count, 0.0, 0.0, false});
}

void conform_inout(conform_case *c, const char *name, conform_type type, size_t count, double low,
                   double high)
{
    append(c, (conform_part){name, type, CONFORM_INOUT, count, low, high, false});
}

void conform_scratch(conform_case *c, const char *name, conform_type type, size_t count)
{
    append(c, (conform_part){name, type, CONFORM_SCRATCH, count, 0.0, 0.0, false});
}

void conform_exactly(conform_case *c)
{
    c->part[c->n - 1].exact = true;
}

/* -------------------------------------------------------------------------- stored numbers */

/* Any binary format: the significand shifted under the exponent, whose carry is the right one. */
static uint64_t encode(const type_info *t, double value)
{
    const uint64_t sign = signbit(value) ? 1 : 0;
    int exponent = 0;
    (void)frexp(value, &exponent);
    exponent = exponent - 1 < t->lowest ? t->lowest : exponent - 1;
    const double units = nearbyint(ldexp(fabs(value), t->fraction - exponent));
    const uint64_t shift = (uint64_t)(exponent - t->lowest) << t->fraction;
    return sign << (t->bytes * 8 - 1) | ((uint64_t)units + (units > 0.0 ? shift : 0));
}

static double decode(const type_info *t, uint64_t bits)
{
    const int exponent_bits = (int)t->bytes * 8 - 1 - t->fraction;
    const uint64_t fraction = bits & ((UINT64_C(1) << t->fraction) - 1);
    const uint64_t last = (UINT64_C(1) << exponent_bits) - 1;
    const uint64_t exponent = bits >> t->fraction & last;
    double value = ldexp((double)fraction, t->lowest - t->fraction);
    if (exponent == last) {
        value = fraction != 0 ? (double)NAN : (double)INFINITY;
    } else if (exponent > 0) {
        const double significand = (double)(fraction | UINT64_C(1) << t->fraction);
        value = ldexp(significand, t->lowest - t->fraction + (int)exponent - 1);
    }
    return bits >> (t->bytes * 8 - 1) != 0 ? -value : value;
}

static void put_number(conform_type type, void *to, size_t i, double value)
{
    const type_info *t = &types[type];
    const uint64_t bits =
        type == CONFORM_I32 ? (uint64_t)(uint32_t)(int32_t)value : encode(t, value);
    memcpy((unsigned char *)to + i * t->bytes, &bits, t->bytes); /* little endian */
}

static double get_number(conform_type type, const void *from, size_t i)
{
    const type_info *t = &types[type];
    uint64_t bits = 0;
    memcpy(&bits, (const unsigned char *)from + i * t->bytes, t->bytes);
    return type == CONFORM_I32 ? (double)(int32_t)(uint32_t)bits : decode(t, bits);
}

/* Uniform in [0, 1): splitmix64 (Steele, Lea, Flood, OOPSLA 2014). */
static double next_random(conform_run *run)
{
    run->random += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t z = run->random;
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static size_t part_bytes(const conform_part *part)
{
    return part->count * types[part->type].bytes;
}

static bool is_read(const conform_part *part)
{
    return part->role == CONFORM_IN || part->role == CONFORM_INOUT;
}

static bool is_compared(const conform_part *part)
{
    return part->count > 0 && (part->role == CONFORM_OUT || part->role == CONFORM_INOUT);
}

static void fill_initial(conform_run *run, const conform_part *part, void *to)
{
    memset(to, 0xFF, part_bytes(part));
    for (size_t i = 0; is_read(part) && i < part->count; i++) {
        const double u = next_random(run);
        const double width = part->high - part->low;
        put_number(part->type, to, i,
                   part->type == CONFORM_I32 ? part->low + floor(u * (width + 1.0))
                                             : part->low + u * width);
    }
}

/* ------------------------------------------------------------------------------- one case */

typedef struct part_state {
    unsigned char *initial;
    unsigned char *want;
    unsigned char *got[CALLS]; /* with their guards */
    void *memory;              /* of the tested side */
} part_state;

typedef struct case_state {
    const conform_case *c;
    char shape[160];
    part_state part[CONFORM_PARTS_MAX];
} case_state;

static void complain(const case_state *s, const char *what, const char *detail)
{
    fprintf(stderr, "failed: %s %s (%s): %s: %s\n", s->c->op, types[s->c->dtype].name, s->shape,
            what, detail);
}

static void count_check(conform_run *run, conform_kind kind, bool good)
{
    run->checks[kind]++;
    run->failed[kind] += good ? 0 : 1;
}

static bool allocate(conform_run *run, case_state *s)
{
    for (size_t i = 0; i < s->c->n; i++) {
        const size_t bytes = part_bytes(&s->c->part[i]);
        part_state *p = &s->part[i];
        p->initial = malloc(bytes + GUARD);
        p->want = malloc(bytes + GUARD);
        p->memory = run->tested.module->get(run->tested.device, bytes + GUARD);
        bool good = p->initial != NULL && p->want != NULL && p->memory != NULL;
        for (int call = 0; call < CALLS; call++) {
            p->got[call] = malloc(bytes + GUARD);
            good = good && p->got[call] != NULL;
        }
        if (!good) {
            return false;
        }
        fill_initial(run, &s->c->part[i], p->initial);
        memset(p->initial + bytes, GUARD_BYTE, GUARD);
        memcpy(p->want, p->initial, bytes + GUARD);
    }
    return true;
}

static void release(conform_run *run, case_state *s)
{
    for (size_t i = 0; i < s->c->n; i++) {
        part_state *p = &s->part[i];
        free(p->initial);
        free(p->want);
        for (int call = 0; call < CALLS; call++) {
            free(p->got[call]);
        }
        if (p->memory != NULL) {
            run->tested.module->put(run->tested.device, p->memory);
        }
    }
}

static bool call_reference(conform_run *run, case_state *s)
{
    conform_env e = run->reference.env;
    for (size_t i = 0; i < s->c->n; i++) {
        e.p[i] = s->part[i].want;
    }
    return s->c->call(&e, s->c->shape) == ZL_OK;
}

static bool call_tested(conform_run *run, case_state *s, int call)
{
    const conform_side *side = &run->tested;
    conform_env e = side->env;
    bool good = true;
    for (size_t i = 0; i < s->c->n; i++) {
        e.p[i] = s->part[i].memory;
        good = good && side->module->write(side->device, e.p[i], s->part[i].initial,
                                           part_bytes(&s->c->part[i]) + GUARD);
    }
    good = good && s->c->call(&e, s->c->shape) == ZL_OK;
    for (size_t i = 0; good && i < s->c->n; i++) {
        good = side->module->read(side->device, s->part[i].got[call], e.p[i],
                                  part_bytes(&s->c->part[i]) + GUARD);
    }
    return good;
}

/* ----------------------------------------------------------------------------- comparison */

/* ||got - want|| / ||want||. Infinities have to be the same ones; a NaN is infinitely wrong. */
static double relative_error(const conform_part *part, const void *got, const void *want)
{
    double difference = 0.0;
    double norm = 0.0;
    for (size_t i = 0; i < part->count; i++) {
        const double g = get_number(part->type, got, i);
        const double w = get_number(part->type, want, i);
        if (isinf(w) && g == w) {
            continue;
        }
        if (!isfinite(g) || !isfinite(w)) {
            return (double)INFINITY;
        }
        difference += (g - w) * (g - w);
        norm += w * w;
    }
    if (norm > 0.0) {
        return sqrt(difference / norm);
    }
    return difference > 0.0 ? (double)INFINITY : 0.0;
}

static double limit_of(const conform_part *part)
{
    return part->exact ? 0.0 : types[part->type].limit;
}

static conform_row *row_of(conform_run *run, const conform_case *c, const conform_part *part)
{
    for (size_t i = 0; i < run->rows; i++) {
        conform_row *row = &run->row[i];
        if (row->type == part->type && strcmp(row->op, c->op) == 0 &&
            strcmp(row->part, part->name) == 0) {
            return row;
        }
    }
    if (run->rows == CONFORM_ROWS_MAX) {
        abort(); /* a table of ours is too small */
    }
    conform_row *row = &run->row[run->rows++];
    *row = (conform_row){.op = c->op, .part = part->name, .type = part->type};
    return row;
}

static void compare(conform_run *run, case_state *s, size_t i)
{
    const conform_part *part = &s->c->part[i];
    const double limit = limit_of(part);
    const double error = relative_error(part, s->part[i].got[0], s->part[i].want);
    const bool same = memcmp(s->part[i].got[0], s->part[i].want, part_bytes(part)) == 0;
    const bool good = same || (!part->exact && error < limit);
    conform_row *row = row_of(run, s->c, part);
    row->cases++;
    row->failed += good ? 0 : 1;
    row->limit = limit > row->limit ? limit : row->limit;
    row->worst = error > row->worst ? error : row->worst;
    count_check(run, CONFORM_AGREES, good);
    if (!good && run->fault == CONFORM_NO_FAULT) {
        char detail[96];
        snprintf(detail, sizeof detail, "relative error %.3g, allowed %.3g", error, limit);
        complain(s, part->name, detail);
    }
}

static void compare_calls(conform_run *run, case_state *s)
{
    bool same = true;
    for (size_t i = 0; i < s->c->n; i++) {
        const size_t bytes = part_bytes(&s->c->part[i]);
        if (memcmp(s->part[i].got[0], s->part[i].got[1], bytes) != 0) {
            same = false;
            if (run->fault == CONFORM_NO_FAULT) {
                complain(s, s->c->part[i].name, "a second call gave other bits");
            }
        }
    }
    count_check(run, CONFORM_REPEATS, same);
}

static void compare_surroundings(conform_run *run, case_state *s)
{
    bool intact = true;
    for (size_t i = 0; i < s->c->n; i++) {
        const part_state *p = &s->part[i];
        const size_t bytes = part_bytes(&s->c->part[i]);
        const size_t from = s->c->part[i].role == CONFORM_IN ? 0 : bytes;
        if (memcmp(p->got[0] + from, p->initial + from, bytes + GUARD - from) != 0) {
            intact = false;
            if (run->fault == CONFORM_NO_FAULT) {
                complain(s, s->c->part[i].name, "an input, or memory behind a buffer, was written");
            }
        }
    }
    count_check(run, CONFORM_INTACT, intact);
}

/* --------------------------------------------------------------------------------- faults */

/* More than what is allowed, and more than a unit of the element that is hit. */
static double damage_of(const conform_part *part, const void *want, double old)
{
    double norm = 0.0;
    for (size_t i = 0; i < part->count; i++) {
        const double w = get_number(part->type, want, i);
        norm += isfinite(w) ? w * w : 0.0;
    }
    if (part->type == CONFORM_I32 || !(norm > 0.0)) {
        return 1.0;
    }
    const double allowed = 3.0 * types[part->type].limit * sqrt(norm);
    const type_info *t = &types[part->type];
    const double unit = ldexp(fabs(old), -t->fraction) + ldexp(1.0, t->lowest - t->fraction);
    return allowed > unit ? allowed : unit;
}

static void damage_value(const conform_part *part, const part_state *p)
{
    const double got = get_number(part->type, p->got[0], 0);
    const double old = isfinite(got) ? got : 0.0;
    put_number(part->type, p->got[0], 0, old + damage_of(part, p->want, old));
}

static void inject_into(conform_fault fault, const conform_part *part, const part_state *p)
{
    switch (fault) {
    case CONFORM_FAULT_VALUE:
        if (is_compared(part)) {
            damage_value(part, p);
        }
        break;
    case CONFORM_FAULT_NAN:
        if (is_compared(part)) {
            memset(p->got[0], 0xFF, types[part->type].bytes);
        }
        break;
    case CONFORM_FAULT_REPEAT:
        p->got[1][0] ^= is_compared(part) ? 1 : 0;
        break;
    case CONFORM_FAULT_INPUT:
        p->got[0][0] ^= part->role == CONFORM_IN ? 1 : 0;
        break;
    case CONFORM_FAULT_GUARD:
        p->got[0][part_bytes(part)] ^= 1;
        break;
    case CONFORM_NO_FAULT:
    case CONFORM_FAULT_COUNT:
        break;
    }
}

static void inject(const conform_run *run, const case_state *s)
{
    bool has_input = false;
    for (size_t i = 0; i < s->c->n; i++) {
        has_input = has_input || (s->c->part[i].role == CONFORM_IN && s->c->part[i].count > 0);
    }
    const bool elsewhere = run->fault == CONFORM_FAULT_INPUT && !has_input;
    for (size_t i = 0; i < s->c->n; i++) {
        inject_into(elsewhere ? CONFORM_FAULT_GUARD : run->fault, &s->c->part[i], &s->part[i]);
    }
}

/* -------------------------------------------------------------------------------- the door */

static void check(conform_run *run, case_state *s)
{
    if (!allocate(run, s)) {
        complain(s, "memory", "there is none left");
        run->broken = true;
        return;
    }
    if (!call_reference(run, s)) {
        complain(s, "reference", "it refused the call");
        run->broken = true;
        return;
    }
    for (int call = 0; call < CALLS; call++) {
        if (!call_tested(run, s, call)) {
            complain(s, "call", "it was refused, or failed on the device");
            run->broken = true;
            return;
        }
    }
    inject(run, s);
    for (size_t i = 0; i < s->c->n; i++) {
        if (is_compared(&s->c->part[i])) {
            compare(run, s, i);
        }
    }
    compare_calls(run, s);
    compare_surroundings(run, s);
}

static bool left_out(const conform_run *run, const char *op)
{
    return run->broken || (run->only != NULL && strcmp(run->only, op) != 0);
}

static uint64_t elements(const conform_case *c)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < c->n; i++) {
        sum += c->part[i].count;
    }
    return sum;
}

void conform_check(conform_run *run, const conform_case *c, const char *format, ...)
{
    if (left_out(run, c->op) || elements(c) > run->largest) {
        return;
    }
    case_state s = {.c = c};
    va_list args;
    va_start(args, format);
    vsnprintf(s.shape, sizeof s.shape, format, args);
    va_end(args);
    check(run, &s);
    release(run, &s);
}

void conform_refused(conform_run *run, const char *op, conform_call *call, const void *shape)
{
    if (left_out(run, op)) {
        return;
    }
    conform_env reference = run->reference.env;
    conform_env tested = run->tested.env;
    for (size_t i = 0; i < CONFORM_PARTS_MAX; i++) { /* never followed */
        reference.p[i] = &reference;
        tested.p[i] = &tested;
    }
    const zl_status want = call(&reference, shape);
    const zl_status got = call(&tested, shape);
    const bool good = want == ZL_E_USAGE && got == ZL_E_USAGE;
    count_check(run, CONFORM_REFUSES, good);
    if (!good) {
        fprintf(stderr, "failed: %s: a wrong call gave %d, the reference %d\n", op, (int)got,
                (int)want);
    }
}
