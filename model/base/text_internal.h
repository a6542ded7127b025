/* Numbers as text, whatever the locale: the decimal point is always '.'. Private to base/. */
#ifndef ZL_BASE_TEXT_INTERNAL_H
#define ZL_BASE_TEXT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ZL_REAL_SIZE = 40 };

/* Shortest decimal text that reads back as the same finite value. */
void zl_real_format(double value, char text[ZL_REAL_SIZE]);

/* A decimal number, [sign] digits [. digits] [e exponent], that fills the text; false if it does
 * not, is longer than 63 characters, or is too large for a double. */
bool zl_real_scan(const char *text, double *out);

/* Decimal digits only, at least one, below ZL_POISON; false otherwise. */
bool zl_count_scan(const char *text, uint64_t *out);

/* "a, b, c" of the names, cut short with "..." if it does not fit. */
void zl_join(const char *const *names, size_t count, char *text, size_t size);

#endif
