#include "torch/printed.h"

#include <string.h>

#include "zeroledger/bytes.h"

/* Products of a figure and a unit before rounding need more than 64 bits. */
__extension__ typedef unsigned __int128 wide;

/* Digits that are read: more decimals than this are below a byte, more whole ones are no memory. */
enum { WHOLE_MAX = 13, DECIMALS_MAX = 9 };

bool zt_agrees(const zt_printed *figure, uint64_t bytes)
{
    return bytes >= figure->low && bytes <= figure->high;
}

int64_t zt_off_by(const zt_printed *figure, uint64_t bytes)
{
    if (zt_agrees(figure, bytes)) {
        return 0;
    }
    const bool above = figure->low > bytes;
    const uint64_t size = above ? zl_sub(figure->low, bytes) : zl_sub(bytes, figure->high);
    const int64_t most = size > INT64_MAX ? INT64_MAX : (int64_t)size;
    return above ? most : -most;
}

void zt_advance(zt_cursor *c, size_t bytes)
{
    const size_t step = bytes < c->left ? bytes : c->left;
    c->at += step;
    c->left -= step;
}

static bool is_space(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

void zt_skip_space(zt_cursor *c)
{
    while (c->left > 0 && is_space(*c->at)) {
        zt_advance(c, 1);
    }
}

bool zt_take(zt_cursor *c, const char *word)
{
    zt_cursor ahead = *c;
    const size_t length = strlen(word);
    zt_skip_space(&ahead);
    if (ahead.left < length || memcmp(ahead.at, word, length) != 0) {
        return false;
    }
    zt_advance(&ahead, length);
    *c = ahead;
    return true;
}

static bool is_digit(const zt_cursor *c)
{
    return c->left > 0 && *c->at >= '0' && *c->at <= '9';
}

bool zt_take_count(zt_cursor *c, uint64_t *out)
{
    enum { DIGITS_MAX = 18 };
    zt_cursor ahead = *c;
    uint64_t n = 0;
    int digits = 0;
    zt_skip_space(&ahead);
    for (; is_digit(&ahead) && digits <= DIGITS_MAX; digits++) {
        n = zl_add(zl_mul(n, 10), (uint64_t)(*ahead.at - '0'));
        zt_advance(&ahead, 1);
    }
    if (digits == 0 || digits > DIGITS_MAX) {
        return false;
    }
    *c = ahead;
    *out = n;
    return true;
}

/* Digits of a number, the point left out. */
typedef struct decimal {
    wide digits;
    int decimals;
} decimal;

static bool take_decimal(zt_cursor *c, decimal *out)
{
    zt_cursor ahead = *c;
    decimal d = {0};
    int whole = 0;
    for (; is_digit(&ahead); whole++) {
        if (whole == WHOLE_MAX) {
            return false;
        }
        d.digits = d.digits * 10 + (unsigned)(*ahead.at - '0');
        zt_advance(&ahead, 1);
    }
    if (whole == 0) {
        return false;
    }
    if (ahead.left > 1 && *ahead.at == '.' && ahead.at[1] >= '0' && ahead.at[1] <= '9') {
        zt_advance(&ahead, 1);
        for (; is_digit(&ahead); zt_advance(&ahead, 1)) {
            if (d.decimals < DECIMALS_MAX) {
                d.digits = d.digits * 10 + (unsigned)(*ahead.at - '0');
                d.decimals++;
            }
        }
    }
    *c = ahead;
    *out = d;
    return true;
}

static uint64_t narrow(wide x)
{
    return x >= ZL_POISON ? ZL_POISON - 1 : (uint64_t)x;
}

/* All x with round(x / unit, decimals) equal to the digits. */
static zt_printed range_of(decimal d, uint64_t unit, zt_rounding rounding)
{
    while (rounding == ZT_TWO_DECIMALS && d.decimals < 2) {
        d.digits *= 10;
        d.decimals++;
    }
    wide scale = 1;
    for (int i = 0; i < d.decimals; i++) {
        scale *= 10;
    }
    const uint64_t nominal = narrow((2 * d.digits * unit + scale) / (2 * scale));
    if (unit == 1 && d.decimals == 0) {
        return (zt_printed){true, nominal, nominal, nominal};
    }
    if (rounding == ZT_DOWN) {
        return (zt_printed){true, narrow((d.digits * unit + scale - 1) / scale),
                            narrow(((d.digits + 1) * unit + scale - 1) / scale - 1), nominal};
    }
    const wide twice = 2 * scale;
    const wide below = d.digits > 0 ? ((2 * d.digits - 1) * unit + twice - 1) / twice : 0;
    return (zt_printed){true, narrow(below), narrow((2 * d.digits + 1) * unit / twice), nominal};
}

bool zt_take_number(zt_cursor *c, uint64_t unit, zt_rounding rounding, zt_printed *out)
{
    zt_cursor ahead = *c;
    decimal d;
    zt_skip_space(&ahead);
    if (!take_decimal(&ahead, &d)) {
        return false;
    }
    *c = ahead;
    *out = range_of(d, unit, rounding);
    return true;
}

static bool take_unit(zt_cursor *c, uint64_t *out)
{
    static const char prefixes[] = "KMGTP";
    uint64_t unit = 1;
    zt_skip_space(c);
    if (zt_take(c, "bytes") || zt_take(c, "B")) {
        *out = 1;
        return true;
    }
    for (const char *p = prefixes; *p != '\0' && c->left > 0; p++) {
        unit = zl_mul(unit, 1024);
        if (*c->at == *p) {
            zt_advance(c, c->left > 1 && c->at[1] == 'i' ? 2 : 1);
            *out = unit;
            return c->left > 0 && *c->at == 'B' && zt_take(c, "B");
        }
    }
    return false;
}

bool zt_take_bytes(zt_cursor *c, zt_rounding rounding, zt_printed *out)
{
    zt_cursor ahead = *c;
    decimal d;
    uint64_t unit = 0;
    zt_skip_space(&ahead);
    if (!take_decimal(&ahead, &d) || !take_unit(&ahead, &unit)) {
        return false;
    }
    *c = ahead;
    *out = range_of(d, unit, rounding);
    return true;
}

const char *zt_find(zt_cursor c, const char *word)
{
    const size_t length = strlen(word);
    while (c.left >= length) {
        const char *first = memchr(c.at, word[0], c.left - length + 1);
        if (first == NULL) {
            return NULL;
        }
        if (memcmp(first, word, length) == 0) {
            return first;
        }
        zt_advance(&c, (size_t)(first - c.at) + 1);
    }
    return NULL;
}
