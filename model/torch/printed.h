/* Figures as programs print them, and the bytes that they may stand for.
 *
 *     zt_printed figure;
 *     zt_cursor c = {"3.14 GiB left", 13};
 *     if (zt_take_bytes(&c, ZT_AS_WRITTEN, &figure)) {
 *         // figure.low .. figure.high are all byte counts that print as 3.14 GiB
 *     }
 *
 * Nothing here trusts the text: it may hold any bytes and need not end.
 */
#ifndef ZT_PRINTED_H
#define ZT_PRINTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is left of a text. */
typedef struct zt_cursor {
    const char *at;
    size_t left;
} zt_cursor;

/* Byte counts, both ends included. */
typedef struct zt_printed {
    bool present;
    uint64_t low, high;
    uint64_t nominal; /* what the digits say */
} zt_printed;

/* How the program rounds: to the digits it writes, to two decimals of which zeros at the end are
 * not written (Python's round(x, 2)), or down (memory_summary, nvidia-smi). */
typedef enum zt_rounding { ZT_AS_WRITTEN, ZT_TWO_DECIMALS, ZT_DOWN, ZT_ROUNDING_COUNT } zt_rounding;

bool zt_agrees(const zt_printed *figure, uint64_t bytes);
/* "+low .. +high" of logged - bytes nearest to zero; 0 when they agree. */
int64_t zt_off_by(const zt_printed *figure, uint64_t bytes);

void zt_advance(zt_cursor *c, size_t bytes);
/* Blanks and ends of lines. */
void zt_skip_space(zt_cursor *c);
/* This text, after any space. False: it is not there, and nothing is taken. */
bool zt_take(zt_cursor *c, const char *word);
/* A decimal number without sign or exponent, of units of `unit` bytes. */
bool zt_take_number(zt_cursor *c, uint64_t unit, zt_rounding rounding, zt_printed *out);
/* A number and its unit: bytes, B, KB/KiB ... PB/PiB, all of them binary as in PyTorch. */
bool zt_take_bytes(zt_cursor *c, zt_rounding rounding, zt_printed *out);
/* A whole number of at most 18 digits. */
bool zt_take_count(zt_cursor *c, uint64_t *out);
/* Where `word` first occurs; NULL: nowhere. */
const char *zt_find(zt_cursor c, const char *word);

#endif
