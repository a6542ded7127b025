/*
 * A run of the conformance test: two open modules, the options, and the rows of the result table.
 *
 *     conform_run *run = ...;                 // zeroed, with modules and seed
 *     conform_vector(run, ZL_F32);            // conform.h: each case adds to the table
 *     for (size_t i = 0; i < run->rows; i++) { ... run->row[i] ... }
 */
#ifndef ZR_TEST_CONFORM_RUN_H
#define ZR_TEST_CONFORM_RUN_H

#include "conform.h"

/* Deliberate damage to what the tested side returned, to see that each check can fail. */
typedef enum conform_fault {
    CONFORM_NO_FAULT,
    CONFORM_FAULT_VALUE,  /* one element is off by three times what is allowed */
    CONFORM_FAULT_NAN,    /* one element was never written */
    CONFORM_FAULT_REPEAT, /* the second call differs in one bit */
    CONFORM_FAULT_INPUT,  /* an input is changed */
    CONFORM_FAULT_GUARD,  /* one byte behind a buffer is changed */
    CONFORM_FAULT_COUNT
} conform_fault;

typedef enum conform_kind {
    CONFORM_AGREES,  /* one check for each output */
    CONFORM_REPEATS, /* one for each case */
    CONFORM_INTACT,  /* one for each case: inputs and surroundings */
    CONFORM_REFUSES,
    CONFORM_KIND_COUNT
} conform_kind;

typedef struct conform_side {
    const conform_module *module;
    conform_device *device;
    conform_env env; /* without the parts */
} conform_side;

typedef struct conform_row {
    const char *op;
    const char *part;
    conform_type type;
    uint32_t cases;
    uint32_t failed;
    double worst; /* relative error */
    double limit;
} conform_row;

#define CONFORM_ROWS_MAX 512

struct conform_run {
    conform_side reference;
    conform_side tested;
    conform_fault fault;
    const char *only; /* an operation, or NULL */
    uint64_t largest; /* elements of a case, its parts together */
    uint64_t seed;
    uint64_t random; /* state of the generator */
    uint32_t checks[CONFORM_KIND_COUNT];
    uint32_t failed[CONFORM_KIND_COUNT];
    bool broken; /* no memory, or the device has failed: nothing more can be said */
    size_t rows;
    conform_row row[CONFORM_ROWS_MAX];
};

const char *conform_type_name(conform_type type);

#endif
