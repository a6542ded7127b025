#include "json_scan.h"

#include <stdbool.h>
#include <string.h>

typedef struct scan {
    const char *name;
    const char *begin;
    const char *at;
    const char *end;
    char *blank;            /* the same text, in which comments and extra commas turn to spaces */
    zl_json_lapses *lapses; /* NULL: strict */
    const char *open;       /* a comment that nothing closes */
} scan;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The current character; 0 at the end and for a zero byte, which no rule accepts. */
static char look(const scan *s)
{
    return s->at < s->end ? *s->at : '\0';
}

zl_json_place zl_json_place_of(const char *begin, const char *at)
{
    zl_json_place place = {.line = 1, .column = 1};
    for (const char *c = begin; c < at; c++) {
        const bool inside = ((unsigned char)*c & 0xc0) == 0x80; /* of a UTF-8 character */
        place.column = *c == '\n' ? 1 : place.column + !inside;
        place.line += *c == '\n';
    }
    return place;
}

static zl_status bad(const scan *s, const char *expected, zl_err *err)
{
    const char *at = s->open != NULL ? s->open : s->at;
    const zl_json_place place = zl_json_place_of(s->begin, at);
    if (s->open != NULL) {
        return zl_fail(err, ZL_E_INPUT, "%.200s:%zu:%zu: expected */ behind the comment begun here",
                       s->name, place.line, place.column);
    }
    if (at >= s->end) {
        return zl_fail(err, ZL_E_INPUT,
                       "%.200s:%zu:%zu: expected %s, but the text ends; is the file complete?",
                       s->name, place.line, place.column, expected);
    }
    const unsigned char c = (unsigned char)*at;
    if (c > 0x20 && c < 0x7f) {
        return zl_fail(err, ZL_E_INPUT, "%.200s:%zu:%zu: expected %s, got '%c'", s->name,
                       place.line, place.column, expected, c);
    }
    return zl_fail(err, ZL_E_INPUT, "%.200s:%zu:%zu: expected %s, got byte 0x%02x", s->name,
                   place.line, place.column, expected, (unsigned)c);
}

/* Notes the first of its kind, and blanks it. */
static void forgive(const scan *s, uint64_t *line, const char *first, const char *end)
{
    if (*line == 0) {
        *line = zl_json_place_of(s->begin, first).line;
    }
    for (char *c = s->blank + (first - s->begin); c < s->blank + (end - s->begin); c++) {
        *c = (char)(*c == '\n' ? '\n' : ' ');
    }
}

/* "#" and "//" up to the end of the line, and what stands between slash-star and star-slash, as
 * hjson reads them. False: no comment begins here, or none that ends. */
static bool skip_comment(scan *s)
{
    const char *const first = s->at;
    const char next = (char)(s->end - first > 1 ? first[1] : '\0');
    const char *c = first;
    if (look(s) == '#' || (look(s) == '/' && next == '/')) {
        while (c < s->end && *c != '\n') {
            c++;
        }
    } else if (look(s) == '/' && next == '*') {
        for (c += 2; s->end - c > 1 && !(c[0] == '*' && c[1] == '/'); c++) {
        }
        if (s->end - c <= 1) {
            s->open = first;
            return false;
        }
        c += 2;
    } else {
        return false;
    }
    forgive(s, &s->lapses->comment, first, c);
    s->at = c;
    return true;
}

static void skip_space(scan *s)
{
    do {
        while (s->at < s->end &&
               (*s->at == ' ' || *s->at == '\t' || *s->at == '\n' || *s->at == '\r')) {
            s->at++;
        }
    } while (s->lapses != NULL && skip_comment(s));
}

static bool skip_digits(scan *s)
{
    const char *first = s->at;
    while (is_digit(look(s))) {
        s->at++;
    }
    return s->at > first;
}

static zl_status scan_number(scan *s, zl_err *err)
{
    const char *first = s->at;
    s->at += look(s) == '-';
    if (look(s) == '0') {
        s->at++;
    } else if (!skip_digits(s)) {
        return bad(s, "a digit", err);
    }
    if (look(s) == '.') {
        s->at++;
        if (!skip_digits(s)) {
            return bad(s, "a digit behind the decimal point", err);
        }
    }
    if (look(s) == 'e' || look(s) == 'E') {
        s->at++;
        s->at += look(s) == '+' || look(s) == '-';
        if (!skip_digits(s)) {
            return bad(s, "a digit of the exponent", err);
        }
    }
    if (s->at - first >= ZL_JSON_NUMBER_SIZE) {
        s->at = first;
        return bad(s, "a number of at most 63 characters", err);
    }
    return ZL_OK;
}

/* Value of the four hex digits at c, or -1. */
static long hex4(const char *c, const char *end)
{
    long value = 0;
    for (int i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdefABCDEF";
        const char *digit = end - c > i && c[i] != '\0' ? strchr(digits, c[i]) : NULL;
        if (digit == NULL) {
            return -1;
        }
        const long n = digit - digits;
        value = 16 * value + (n < 16 ? n : n - 6);
    }
    return value;
}

/* Behind the backslash. */
static zl_status scan_escape(scan *s, zl_err *err)
{
    const char c = look(s);
    if (c == '\0' || strchr("\"\\/bfnrtu", c) == NULL) {
        return bad(s, "one of \" \\ / b f n r t u behind a backslash", err);
    }
    s->at++;
    if (c != 'u') {
        return ZL_OK;
    }
    const long first = hex4(s->at, s->end);
    if (first <= 0 || (first >= 0xdc00 && first < 0xe000)) {
        return bad(s, "four hex digits of a character other than 0", err);
    }
    s->at += 4;
    if (first < 0xd800 || first >= 0xdc00) {
        return ZL_OK;
    }
    const bool pair = s->end - s->at > 2 && s->at[0] == '\\' && s->at[1] == 'u';
    const long second = pair ? hex4(s->at + 2, s->end) : -1;
    if (second < 0xdc00 || second >= 0xe000) {
        return bad(s, "the second half of a surrogate pair", err);
    }
    s->at += 6;
    return ZL_OK;
}

/* Bytes of the UTF-8 character at c, 0 if it is not one (overlong and surrogates included). */
static size_t utf8_length(const char *c, const char *end)
{
    const unsigned char lead = (unsigned char)*c;
    const size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (length == 0 || lead > 0xf4 || (size_t)(end - c) < length) {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if (((unsigned char)c[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    const unsigned char second = length > 1 ? (unsigned char)c[1] : 0x80;
    const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
    const bool beyond = (lead == 0xed && second > 0x9f) || (lead == 0xf4 && second > 0x8f);
    return overlong || beyond ? 0 : length;
}

static zl_status scan_string(scan *s, const char *what, zl_err *err)
{
    if (look(s) != '"') {
        return bad(s, what, err);
    }
    s->at++;
    while (look(s) != '"') {
        if (s->at >= s->end) {
            return bad(s, "\" that closes the string", err);
        }
        if (*s->at == '\\') {
            s->at++;
            ZL_TRY(scan_escape(s, err));
            continue;
        }
        const size_t length = utf8_length(s->at, s->end);
        if (length == 0) {
            return bad(s, "a UTF-8 character", err);
        }
        if ((unsigned char)*s->at < 0x20) {
            return bad(s, "an escape sequence for a control character", err);
        }
        s->at += length;
    }
    s->at++;
    return ZL_OK;
}

static zl_status scan_word(scan *s, zl_err *err)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const size_t length = strlen(words[i]);
        if ((size_t)(s->end - s->at) >= length && memcmp(s->at, words[i], length) == 0) {
            s->at += length;
            return ZL_OK;
        }
    }
    return bad(s, "a value (string, number, object, array, true, false or null)", err);
}

static zl_status scan_value(scan *s, int depth, zl_err *err);

static zl_status scan_key(scan *s, zl_err *err)
{
    ZL_TRY(scan_string(s, "a key in double quotes", err));
    skip_space(s);
    if (look(s) != ':') {
        return bad(s, "':' behind the key", err);
    }
    s->at++;
    return ZL_OK;
}

/* Behind '{' or '['. */
static zl_status scan_members(scan *s, int depth, bool object, zl_err *err)
{
    const char close = object ? '}' : ']';
    skip_space(s);
    while (look(s) != close) {
        if (object) {
            ZL_TRY(scan_key(s, err));
        }
        ZL_TRY(scan_value(s, depth + 1, err));
        skip_space(s);
        if (look(s) == close) {
            break;
        }
        if (look(s) != ',') {
            return bad(s, object ? "',' or '}'" : "',' or ']'", err);
        }
        const char *const comma = s->at++;
        skip_space(s);
        if (look(s) == close && s->lapses == NULL) {
            return bad(s, object ? "a key in double quotes behind ','" : "a value behind ','", err);
        }
        if (look(s) == close) {
            forgive(s, &s->lapses->comma, comma, comma + 1);
        }
    }
    s->at++;
    return ZL_OK;
}

static zl_status scan_value(scan *s, int depth, zl_err *err)
{
    skip_space(s);
    const char c = look(s);
    if (c == '{' || c == '[') {
        if (depth >= ZL_JSON_DEPTH) {
            return bad(s, "at most 64 levels of nesting", err);
        }
        s->at++;
        return scan_members(s, depth, c == '{', err);
    }
    if (c == '"') {
        return scan_string(s, "", err);
    }
    if (c == '-' || is_digit(c)) {
        return scan_number(s, err);
    }
    return scan_word(s, err);
}

static zl_status scan_text(scan *s, zl_err *err)
{
    ZL_TRY(scan_value(s, 0, err));
    skip_space(s);
    return s->at < s->end ? bad(s, "the end of the text behind one value", err) : ZL_OK;
}

zl_status zl_json_scan(const char *name, const char *text, size_t size, zl_err *err)
{
    scan s = {.name = name, .begin = text, .at = text, .end = text + size};
    return scan_text(&s, err);
}

zl_status zl_json_scan_lenient(const char *name, const char *text, size_t size, char *blanked,
                               zl_json_lapses *lapses, zl_err *err)
{
    scan s = {.name = name,
              .begin = text,
              .at = text,
              .end = text + size,
              .blank = blanked,
              .lapses = lapses};
    memcpy(blanked, text, size);
    return scan_text(&s, err);
}

/* Behind the string that begins at c. */
static const char *string_end(const char *c)
{
    for (c++; *c != '"'; c++) {
        c += *c == '\\';
    }
    return c + 1;
}

const char *zl_json_next_number(const char **cursor, const char *end, size_t *length)
{
    const char *c = *cursor;
    for (; c < end && *c != '-' && !is_digit(*c); c++) {
        if (*c == '"') {
            c = string_end(c) - 1;
        }
    }
    if (c >= end) {
        *cursor = end;
        return NULL;
    }
    const char *first = c;
    while (c < end && (is_digit(*c) || strchr("+-.eE", *c) != NULL)) {
        c++;
    }
    *cursor = c;
    *length = (size_t)(c - first);
    return first;
}

zl_json_place zl_json_key_place(const char *text, size_t size, size_t index)
{
    const char *const end = text + size;
    const char *at = text;
    for (const char *c = text; c < end; c++) {
        if (*c != '"') {
            continue;
        }
        at = c;
        for (c = string_end(c); c < end && strchr(" \t\r\n", *c) != NULL; c++) {
        }
        if (c < end && *c == ':' && index-- == 0) {
            break;
        }
        c--;
    }
    return zl_json_place_of(text, at);
}
