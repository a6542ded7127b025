/* What `zl fit` of the native framework and of others share: the capacity that is asked about. */
#ifndef ZL_CLI_FIT_H
#define ZL_CLI_FIT_H

#include "cmd.h"
#include "zeroledger/json.h"

typedef struct zl_capacity {
    const char *gpu; /* NULL: a capacity was given */
    uint64_t capacity;
    uint64_t headroom;
    uint64_t usable;
} zl_capacity;

/* The line of a page about it; members of the object that is open, "quantity" the first. */
void zl_capacity_say(zl_page *page, const zl_capacity *c);
void zl_capacity_json(const zl_capacity *c, zl_json_writer *w);

/* The two rows that certify: the best and, below it, the next, which does not fit. `title` names
 * the column of bytes; best 0: nothing fits. */
zl_status zl_fit_rows(zl_page *page, const char *title, uint64_t best, uint64_t best_bytes,
                      uint64_t next_bytes, zl_err *err);

zl_status zl_fit_framework(const zl_args *args, const zl_run *run, const zl_capacity *c,
                           zl_err *err);

#endif
