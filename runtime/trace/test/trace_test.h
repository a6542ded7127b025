/* What the tests of the meter share. */
#ifndef ZR_TRACE_TEST_H
#define ZR_TRACE_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "trace/meter.h"

static const uint64_t mib = (uint64_t)1 << 20;

/* The row of an owner; one with a device below all others where it has none. */
static inline zr_row row_named(const zr_meter *m, const char *owner, const char *call)
{
    for (size_t i = 0; i < m->rows; i++) {
        if (strcmp(zr_meter_owner_name(m, m->row[i].owner), owner) == 0 &&
            strcmp(m->row[i].call, call) == 0) {
            return m->row[i];
        }
    }
    return (zr_row){.device = -2, .now = UINT64_MAX, .peak = UINT64_MAX};
}

static inline uint64_t bytes_of(const zr_meter *m, const char *owner, const char *call)
{
    return row_named(m, owner, call).now;
}

/* The rows of a device always add up to what is traced. */
static inline void assert_adds_up(const zr_meter *m, int device)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < m->rows; i++) {
        sum += m->row[i].device == device ? m->row[i].now : 0;
    }
    assert_true(sum == m->device[device].traced);
}

#endif
