/* A formula a person can read and a machine can evaluate: a product of letters.
 *
 *     const zl_form f = ZL_FORM(dim_B, dim_T, dim_C, dim_e);
 *     zl_form_value(f, &dims);                                        // 12582912
 *     zl_form_text(f, "L", 12, &dims, false, text, sizeof text);      // "L·B·T·C·e"
 *     zl_form_text(f, "L", 12, &dims, true, text, sizeof text);       // "12·8·1024·768·2"
 */
#ifndef ZL_FORM_H
#define ZL_FORM_H

#include <stddef.h>
#include <stdint.h>

#include "predict/dim.h"
#include "zeroledger/bytes.h"

enum { ZL_FORM_MAX = 6 };

typedef struct zl_form {
    uint8_t letter[ZL_FORM_MAX]; /* zl_dim, up to the first dim_none */
} zl_form;

#define ZL_FORM(...) ((zl_form){{__VA_ARGS__}})

/* The product, with overflow poison. */
static inline uint64_t zl_form_value(zl_form form, const zl_dims *dims)
{
    uint64_t value = 1;
    for (int i = 0; i < ZL_FORM_MAX && form.letter[i] != dim_none; i++) {
        value = zl_mul(value, dims->n[form.letter[i]]);
    }
    return value;
}

/* The letters, or with numbers true their values, after a count unless that is "1". Truncates to
 * size. */
void zl_form_text(zl_form form, const char *count_symbol, uint64_t count, const zl_dims *dims,
                  bool numbers, char *text, size_t size);

#endif
