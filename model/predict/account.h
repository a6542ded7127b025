/* Terms, bags and moments: how bytes add up to a peak.
 *
 * A *term* is one buffer with its formula. A *bag* is a set of terms that live and die together. A
 * *moment* is a named instant at which the live bytes can be largest: a sum of bags, each taken so
 * many times. An *account* closes moments in program order and keeps the largest as the peak.
 *
 *     zl_bag stream = {0};
 *     zl_emit(book, &stream, ZL_BUF_ACT_RESIDUAL, dim_one, ZL_FORM(dim_B, dim_T, dim_C, dim_e));
 *     zl_account_open(&acc, book, cell);
 *     zl_take(&acc, &rest, 1);
 *     zl_keep(&acc);                                   // for all moments until the next zl_keep
 *     zl_take(&acc, &stream, layers + 1);
 *     zl_close_moment(&acc, "head", "loss known");
 */
#ifndef ZL_ACCOUNT_H
#define ZL_ACCOUNT_H

#include <stdbool.h>

#include "predict/form.h"
#include "zeroledger/ledger.h"
#include "zeroledger/vocab.h"

/* One buffer: `count` pieces of `form` bytes each. */
typedef struct zl_entry {
    zl_buf buffer;
    zl_dim count;
    zl_form form;
    uint64_t letters;              /* bit i: letter i is a factor; zl_book_index fills it in */
    uint64_t bytes[ZL_RUNG_COUNT]; /* all pieces together */
} zl_entry;

enum { ZL_BAG_MAX = 40 };
typedef struct zl_bag {
    uint64_t total[ZL_RUNG_COUNT];
    uint64_t letters; /* of all its terms; likewise */
    uint8_t count;
    uint8_t entry[ZL_BAG_MAX]; /* indices into the book */
} zl_bag;

/* All terms of a prediction, and the bags that hold some. */
enum { ZL_BOOK_MAX = 128, ZL_BAGS_MAX = 64 };
typedef struct zl_book {
    const zl_dims *dims;
    uint64_t granule;
    size_t count;
    size_t bags;
    zl_bag *bag[ZL_BAGS_MAX]; /* the plan's; it has fewer than this */
    zl_entry entry[ZL_BOOK_MAX];
} zl_book;

/* Writes a term into the book: the one door for formulas. Returns its index. */
uint8_t zl_write(zl_book *book, zl_buf buffer, zl_dim count, zl_form form);
void zl_put(zl_book *book, zl_bag *bag, uint8_t entry);
/* Both at once. */
void zl_emit(zl_book *book, zl_bag *bag, zl_buf buffer, zl_dim count, zl_form form);
/* Notes who depends on which letters; the book and its bags are complete. */
void zl_book_index(zl_book *book);
/* Some letters of an indexed book have other values now (bit i: letter i): granted bytes that
 * depend on them are evaluated again. Requested ones stay as they were: only peaks may be asked
 * for. */
void zl_book_update(zl_book *book, uint64_t letters);

/* A moment under construction or the peak: which bags, how many times. */
enum { ZL_PARTS_MAX = 16 }; /* the native schedule takes up to 13; one more is a bug, caught */
typedef struct zl_part {
    const zl_bag *bag;
    uint64_t times;
} zl_part;
typedef struct zl_moment {
    size_t count;
    zl_part part[ZL_PARTS_MAX];
    const char *where; /* of the block, or "" */
    const char *what;
} zl_moment;

typedef struct zl_account {
    const zl_book *book;
    zl_cell *cell; /* NULL, and most too: only the granted peak is wanted */
    uint64_t peak[ZL_RUNG_COUNT];
    bool any;                      /* a moment has been closed */
    uint64_t total[ZL_RUNG_COUNT]; /* of the moment under construction */
    uint64_t kept_total[ZL_RUNG_COUNT];
    size_t kept; /* parts that every moment starts with */
    zl_moment now;
    zl_moment peak_moment; /* of the requested peak; as the next, only where there is a cell */
    zl_moment end_moment;  /* the last one closed */
    uint64_t *most;        /* NULL, or per entry of the book the most pieces of any moment */
} zl_account;

/* cell may be NULL; else it is cleared and marked present. most is NULL afterwards. */
void zl_account_open(zl_account *acc, const zl_book *book, zl_cell *cell);
/* Empties the moment under construction, what was kept included. */
void zl_begin(zl_account *acc);
/* Every moment from now on starts with what has been taken since zl_begin. */
void zl_keep(zl_account *acc);
/* Only the granted peak is wanted, not what it consists of: its total is all that has to be kept.
 */
static inline bool zl_only_peaks(const zl_account *acc)
{
    return acc->cell == NULL && acc->most == NULL;
}
/* Remembers what a moment consists of. */
void zl_take_part(zl_account *acc, const zl_bag *bag, uint64_t times);
static inline void zl_take(zl_account *acc, const zl_bag *bag, uint64_t times)
{
    if (times == 0 || bag->count == 0) {
        return;
    }
    acc->total[ZL_GRANTED] = zl_add(acc->total[ZL_GRANTED], zl_mul(times, bag->total[ZL_GRANTED]));
    if (!zl_only_peaks(acc)) {
        acc->total[ZL_REQUESTED] =
            zl_add(acc->total[ZL_REQUESTED], zl_mul(times, bag->total[ZL_REQUESTED]));
        zl_take_part(acc, bag, times);
    }
}
/* Compares the moment with the peak so far (the first of equals stays) and starts the next one; the
 * last one closed is the end. */
void zl_close_moment(zl_account *acc, const char *where, const char *what);

#endif
