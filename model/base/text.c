#include "zeroledger/text.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text_internal.h"
#include "zeroledger/bytes.h"

/* Products of a count and a unit before rounding need more than 64 bits. */
__extension__ typedef unsigned __int128 wide;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool zl_count_scan(const char *text, uint64_t *out)
{
    uint64_t n = 0;
    const char *c = text;
    for (; is_digit(*c); c++) {
        n = zl_add(zl_mul(n, 10), (uint64_t)(*c - '0'));
    }
    if (c == text || *c != '\0' || zl_poisoned(n)) {
        return false;
    }
    *out = n;
    return true;
}

static const char *skip_digits(const char *c)
{
    while (is_digit(*c)) {
        c++;
    }
    return c;
}

/* End of a decimal number, or NULL. */
static const char *skip_real(const char *c)
{
    c += *c == '+' || *c == '-';
    const char *whole = c;
    c = skip_digits(c);
    bool digits = c > whole;
    if (*c == '.') {
        const char *fraction = c + 1;
        c = skip_digits(fraction);
        digits = digits || c > fraction;
    }
    if (!digits) {
        return NULL;
    }
    if (*c == 'e' || *c == 'E') {
        c++;
        c += *c == '+' || *c == '-';
        const char *exponent = c;
        c = skip_digits(c);
        return c > exponent ? c : NULL;
    }
    return c;
}

bool zl_real_scan(const char *text, double *out)
{
    const char *end = skip_real(text);
    const size_t length = strlen(text);
    char local[96];
    const char *point = localeconv()->decimal_point;
    if (end == NULL || *end != '\0' || length > 63 || strlen(point) > 16) {
        return false;
    }
    const char *dot = strchr(text, '.');
    if (dot != NULL) {
        snprintf(local, sizeof local, "%.*s%s%s", (int)(dot - text), text, point, dot + 1);
    } else {
        snprintf(local, sizeof local, "%s", text);
    }
    const double value = strtod(local, NULL);
    if (!isfinite(value)) {
        return false;
    }
    *out = value;
    return true;
}

void zl_real_format(double value, char text[ZL_REAL_SIZE])
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, ZL_REAL_SIZE, "%.*g", digits, value);
        const double back = strtod(text, NULL);
        if (back >= value && back <= value) {
            break;
        }
    }
    const char *point = localeconv()->decimal_point;
    char *at = strstr(text, point);
    if (at != NULL && strcmp(point, ".") != 0) {
        *at = '.';
        const char *rest = at + strlen(point);
        memmove(at + 1, rest, strlen(rest) + 1);
    }
}

void zl_join(const char *const *names, size_t count, char *text, size_t size)
{
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        const char *comma = i > 0 ? ", " : "";
        if (at + strlen(comma) + strlen(names[i]) + sizeof ", ..." > size) {
            snprintf(text + at, size - at, "%s...", comma);
            return;
        }
        at += (size_t)snprintf(text + at, size - at, "%s%s", comma, names[i]);
    }
}

zl_status zl_parse_count(const char *what, const char *text, uint64_t *out, zl_err *err)
{
    if (zl_count_scan(text, out)) {
        return ZL_OK;
    }
    if (*text != '\0' && *skip_digits(text) == '\0') {
        return zl_fail(err, ZL_E_USAGE, "%s must be below 2^64 - 1, got %.80s", what, text);
    }
    return zl_fail(err, ZL_E_USAGE,
                   "%s must be a whole number, got '%.80s'; write decimal digits only", what, text);
}

zl_status zl_parse_real(const char *what, const char *text, double *out, zl_err *err)
{
    if (zl_real_scan(text, out)) {
        return ZL_OK;
    }
    return zl_fail(err, ZL_E_USAGE, "%s must be a finite decimal number such as 0.1, got '%.80s'",
                   what, text);
}

typedef struct suffix {
    const char *name;
    uint64_t bytes;
} suffix;

static const suffix suffixes[] = {
    {"", 1},
    {"B", 1},
    {"K", 1024},
    {"KiB", 1024},
    {"KB", 1000},
    {"kB", 1000},
    {"M", 1048576},
    {"MiB", 1048576},
    {"MB", 1000000},
    {"G", 1073741824},
    {"GiB", 1073741824},
    {"GB", 1000000000},
    {"T", 1099511627776},
    {"TiB", 1099511627776},
    {"TB", 1000000000000},
};

static const suffix *suffix_find(const char *name)
{
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        if (strcmp(suffixes[i].name, name) == 0) {
            return &suffixes[i];
        }
    }
    return NULL;
}

/* n tenth-powers of a unit, rounded half up: digits "142" with 2 decimals is 1.42 units. */
static uint64_t scale(uint64_t digits, unsigned decimals, uint64_t unit)
{
    wide ten = 1;
    for (unsigned i = 0; i < decimals; i++) {
        ten *= 10;
    }
    const wide bytes = ((wide)digits * unit + ten / 2) / ten;
    return bytes >= ZL_POISON ? ZL_POISON : (uint64_t)bytes;
}

zl_status zl_parse_bytes(const char *what, const char *text, uint64_t *out, zl_err *err)
{
    uint64_t digits = 0;
    unsigned decimals = 0;
    bool point = false;
    const char *c = text;
    for (; is_digit(*c) || (*c == '.' && !point); c++) {
        if (*c == '.') {
            point = true;
            continue;
        }
        digits = zl_add(zl_mul(digits, 10), (uint64_t)(*c - '0'));
        decimals += point;
    }
    const suffix *unit = suffix_find(*c == ' ' ? c + 1 : c);
    if (c == text || !is_digit(c[-1]) || !is_digit(text[0]) || unit == NULL || decimals > 18) {
        return zl_fail(
            err, ZL_E_USAGE,
            "%s must be a size such as 24GiB, 80GB or 512, got '%.80s'; units are B, K, KB, "
            "KiB, M, MB, MiB, G, GB, GiB, T, TB, TiB",
            what, text);
    }
    const uint64_t bytes = zl_poisoned(digits) ? ZL_POISON : scale(digits, decimals, unit->bytes);
    if (zl_poisoned(bytes)) {
        return zl_fail(err, ZL_E_USAGE, "%s is beyond 64 bits, got '%.80s'; give a smaller size",
                       what, text);
    }
    *out = bytes;
    return ZL_OK;
}

typedef struct byte_unit {
    const char *name;
    uint64_t bytes;
} byte_unit;

static const byte_unit byte_units[ZL_BYTES_COUNT] = {
    [ZL_BYTES_GIB] = {"GiB", 1073741824},
    [ZL_BYTES_GB] = {"GB", 1000000000},
    [ZL_BYTES_MIB] = {"MiB", 1048576},
    [ZL_BYTES_B] = {"B", 1},
};

bool zl_byte_unit_find(const char *name, zl_byte_unit *out)
{
    for (unsigned i = 0; i < ZL_BYTES_COUNT; i++) {
        if (strcmp(byte_units[i].name, name) == 0) {
            *out = (zl_byte_unit)i;
            return true;
        }
    }
    return false;
}

const char *zl_byte_unit_name(zl_byte_unit unit)
{
    return byte_units[unit].name;
}

void zl_format_bytes(uint64_t bytes, zl_byte_unit unit, int decimals, char *text, size_t size)
{
    const uint64_t one = byte_units[unit].bytes;
    const int places = unit == ZL_BYTES_B || decimals < 0 ? 0 : decimals > 9 ? 9 : decimals;
    uint64_t ten = 1;
    for (int i = 0; i < places; i++) {
        ten *= 10;
    }
    const wide scaled = ((wide)bytes * ten + one / 2) / one;
    const uint64_t whole = (uint64_t)(scaled / ten);
    const uint64_t fraction = (uint64_t)(scaled % ten);
    if (places == 0) {
        snprintf(text, size, "%" PRIu64, whole);
    } else {
        snprintf(text, size, "%" PRIu64 ".%0*" PRIu64, whole, places, fraction);
    }
}

void zl_format_count(uint64_t n, char *text, size_t size)
{
    char digits[24];
    const int length = snprintf(digits, sizeof digits, "%" PRIu64, n);
    size_t at = 0;
    for (int i = 0; i < length && at + 2 < size; i++) {
        if (i > 0 && (length - i) % 3 == 0) {
            text[at++] = ',';
        }
        text[at++] = digits[i];
    }
    if (size > 0) {
        text[at] = '\0';
    }
}

/* A name cut off after ENOUGH letters is as near as one with one letter wrong. */
enum { NEAR_SIZE = 64, ENOUGH = 3 };

/* ASCII only, whatever the locale says. */
static char lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

static bool begins(const char *name, const char *with, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (lower(name[i]) != lower(with[i])) {
            return false;
        }
    }
    return true;
}

/* Insertions, deletions and replacements that turn a into b, small and capital letters being one;
 * both shorter than NEAR_SIZE. */
static size_t distance(const char *a, const char *b)
{
    const size_t n = strlen(b);
    size_t row[NEAR_SIZE + 1];
    for (size_t j = 0; j <= n; j++) {
        row[j] = j;
    }
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t best = diagonal + (lower(a[i - 1]) != lower(b[j - 1]));
            diagonal = row[j];
            best = row[j] + 1 < best ? row[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            row[j] = best;
        }
    }
    return row[n];
}

const char *zl_nearest(const char *name, const char *const *names, size_t count)
{
    const size_t length = strlen(name);
    if (length == 0 || length >= NEAR_SIZE) {
        return NULL;
    }
    /* A third of the letters wrong and one more is still a slip, more than half is another word. */
    const size_t half = 1 + length / 2;
    size_t best = 2 + length / 3;
    best = best > half ? half : best;
    best = best > length ? length : best;
    const char *nearest = NULL;
    for (size_t i = 0; i < count; i++) {
        const size_t letters = strlen(names[i]);
        const size_t least = letters > length ? letters - length : length - letters;
        const bool cut_off = length >= ENOUGH && begins(names[i], name, length);
        if (letters >= NEAR_SIZE || (least >= best && !cut_off)) {
            continue;
        }
        size_t d = distance(name, names[i]);
        d = cut_off && d > 1 ? 1 : d;
        if (d < best) {
            best = d;
            nearest = names[i];
        }
    }
    return nearest;
}

static bool is_option(const char *word, size_t length, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strncmp(names[i], word, length) == 0) {
            return true;
        }
    }
    return false;
}

zl_status zl_options_known(char *const *argv, bool in_order, const char *const *names, size_t count,
                           zl_err *err)
{
    char word[NEAR_SIZE];
    for (size_t i = 1; argv[i] != NULL && strcmp(argv[i], "--") != 0; i++) {
        const size_t length = strcspn(argv[i], "=");
        if (argv[i][0] != '-' && in_order) {
            break;
        }
        if (strncmp(argv[i], "--", 2) != 0 || is_option(argv[i] + 2, length - 2, names, count)) {
            continue;
        }
        snprintf(word, sizeof word, "%.*s", (int)(length < 60 ? length - 2 : 58), argv[i] + 2);
        const char *near = zl_nearest(word, names, count);
        return zl_fail(err, ZL_E_USAGE, "unknown option '--%s'; %s%s%s", word,
                       near != NULL ? "did you mean '--" : "--help lists them",
                       near != NULL ? near : "", near != NULL ? "'?" : "");
    }
    return ZL_OK;
}
