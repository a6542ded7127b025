#include "pickle.h"

#include <string.h>

/* Opcodes, named as in Python's own pickletools. */
enum {
    OP_MARK = '(',
    OP_STOP = '.',
    OP_BININT = 'J',
    OP_BININT1 = 'K',
    OP_BININT2 = 'M',
    OP_BINUNICODE = 'X',
    OP_EMPTY_DICT = '}',
    OP_EMPTY_LIST = ']',
    OP_APPENDS = 'e',
    OP_SETITEMS = 'u',
    OP_BINPUT = 'q',
    OP_LONG_BINPUT = 'r',
    OP_BINGET = 'h',
    OP_LONG_BINGET = 'j',
    OP_PROTO = 0x80,
    OP_LONG1 = 0x8a,
    OP_NEWTRUE = 0x88,
    OP_NEWFALSE = 0x89
};

/* Python itself adds a thousand values at a time; readers in JavaScript fail with many more. */
enum { BATCH = 1000 };

static void put(const zl_pickle *p, int byte)
{
    (void)fputc(byte, p->out);
}

/* Little-endian. */
static void put_bytes(const zl_pickle *p, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        put(p, (int)(value >> (8 * i) & 0xff));
    }
}

/* The values since the last MARK go into the list or dictionary below it. */
static void add_batch(zl_pickle *p, zl_pickle_open *o)
{
    put(p, o->dict ? OP_SETITEMS : OP_APPENDS);
    o->held = 0;
}

/* A value comes. */
static void next(zl_pickle *p)
{
    if (p->depth == 0) {
        return;
    }
    zl_pickle_open *const o = &p->open[p->depth - 1];
    if (o->held == BATCH) {
        add_batch(p, o);
    }
    if (o->held == 0) {
        put(p, OP_MARK);
    }
    o->held++;
}

void zl_pickle_begin(zl_pickle *p, FILE *out)
{
    *p = (zl_pickle){.out = out};
    put(p, OP_PROTO);
    put(p, 2);
}

void zl_pickle_stop(zl_pickle *p)
{
    put(p, OP_STOP);
}

static void begin(zl_pickle *p, bool dict)
{
    next(p);
    put(p, dict ? OP_EMPTY_DICT : OP_EMPTY_LIST);
    p->open[p->depth++] = (zl_pickle_open){.dict = dict};
}

void zl_pickle_dict(zl_pickle *p)
{
    begin(p, true);
}

void zl_pickle_list(zl_pickle *p)
{
    begin(p, false);
}

void zl_pickle_end(zl_pickle *p)
{
    zl_pickle_open *const o = &p->open[--p->depth];
    if (o->held > 0) {
        add_batch(p, o);
    }
}

void zl_pickle_text(zl_pickle *p, const char *text)
{
    const size_t size = strlen(text);
    next(p);
    put(p, OP_BINUNICODE);
    put_bytes(p, size, 4);
    (void)fwrite(text, 1, size, p->out);
}

void zl_pickle_count(zl_pickle *p, uint64_t value)
{
    next(p);
    if (value <= UINT8_MAX) {
        put(p, OP_BININT1);
        put_bytes(p, value, 1);
    } else if (value <= UINT16_MAX) {
        put(p, OP_BININT2);
        put_bytes(p, value, 2);
    } else if (value <= INT32_MAX) {
        put(p, OP_BININT);
        put_bytes(p, value, 4);
    } else {
        unsigned bytes = 1; /* so that the highest bit, the sign, is 0 */
        while (bytes < 8 && value >> (8 * bytes - 1) != 0) {
            bytes++;
        }
        const bool wide = value > INT64_MAX;
        put(p, OP_LONG1);
        put(p, (int)bytes + (wide ? 1 : 0));
        put_bytes(p, value, bytes);
        if (wide) {
            put(p, 0);
        }
    }
}

void zl_pickle_bool(zl_pickle *p, bool value)
{
    next(p);
    put(p, value ? OP_NEWTRUE : OP_NEWFALSE);
}

uint32_t zl_pickle_keep(zl_pickle *p)
{
    const uint32_t number = p->kept++;
    if (number <= UINT8_MAX) {
        put(p, OP_BINPUT);
        put_bytes(p, number, 1);
    } else {
        put(p, OP_LONG_BINPUT);
        put_bytes(p, number, 4);
    }
    return number;
}

void zl_pickle_again(zl_pickle *p, uint32_t number)
{
    next(p);
    if (number <= UINT8_MAX) {
        put(p, OP_BINGET);
        put_bytes(p, number, 1);
    } else {
        put(p, OP_LONG_BINGET);
        put_bytes(p, number, 4);
    }
}
