#include "predict/form.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void append(const char *symbol, uint64_t value, bool numbers, char *text, size_t size)
{
    const size_t used = strlen(text);
    const char *dot = used > 0 ? "·" : "";
    if (numbers) {
        (void)snprintf(text + used, size - used, "%s%" PRIu64, dot, value);
    } else {
        (void)snprintf(text + used, size - used, "%s%s", dot, symbol);
    }
}

void zl_form_text(zl_form form, const char *count_symbol, uint64_t count, const zl_dims *dims,
                  bool numbers, char *text, size_t size)
{
    text[0] = '\0';
    if (strcmp(count_symbol, "1") != 0) {
        append(count_symbol, count, numbers, text, size);
    }
    for (int i = 0; i < ZL_FORM_MAX && form.letter[i] != dim_none; i++) {
        const zl_dim letter = (zl_dim)form.letter[i];
        append(zl_dim_symbol(letter), dims->n[letter], numbers, text, size);
    }
}
