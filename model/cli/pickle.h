/* Python's pickle format, written: counts, texts, booleans, lists and dictionaries, in protocol 2,
 * which every Python from 2.3 on and PyTorch's own reader in JavaScript understand.
 *
 *     zl_pickle p;
 *     zl_pickle_begin(&p, out);
 *     zl_pickle_dict(&p);
 *     zl_pickle_text(&p, "size");
 *     zl_pickle_count(&p, 512);
 *     zl_pickle_end(&p);
 *     zl_pickle_stop(&p);                 // {"size": 512}
 *
 * A dictionary is its keys and values by turns. Failures of the stream are the caller's to find.
 */
#ifndef ZL_CLI_PICKLE_H
#define ZL_CLI_PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { ZL_PICKLE_DEPTH = 16 };

/* An open list or dictionary. */
typedef struct zl_pickle_open {
    bool dict;
    unsigned held; /* values since the last batch */
} zl_pickle_open;

typedef struct zl_pickle {
    FILE *out;
    zl_pickle_open open[ZL_PICKLE_DEPTH];
    size_t depth;
    uint32_t kept; /* values that can be had again */
} zl_pickle;

void zl_pickle_begin(zl_pickle *p, FILE *out);
void zl_pickle_stop(zl_pickle *p);

void zl_pickle_dict(zl_pickle *p);
void zl_pickle_list(zl_pickle *p);
void zl_pickle_end(zl_pickle *p);
void zl_pickle_text(zl_pickle *p, const char *text); /* UTF-8 */
void zl_pickle_count(zl_pickle *p, uint64_t value);
void zl_pickle_bool(zl_pickle *p, bool value);

/* Keeps the value just written; its number gets the same value again, as the same object. */
uint32_t zl_pickle_keep(zl_pickle *p);
void zl_pickle_again(zl_pickle *p, uint32_t number);

#endif
