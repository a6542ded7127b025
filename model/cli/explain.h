/* Parts of zl explain: terms of a peak, legend of their symbols, and what would make it smaller. */
#ifndef ZL_CLI_EXPLAIN_H
#define ZL_CLI_EXPLAIN_H

#include "cmd.h"

enum { ZL_EXPLAINED_MAX = 128 };

/* The terms of one peak, or of one visit's end. */
typedef struct zl_terms {
    zl_visit visit;
    zl_phase phase;
    bool end;
    uint64_t total[ZL_RUNG_COUNT]; /* the ledger's */
    size_t count;
    zl_term term[ZL_EXPLAINED_MAX];
} zl_terms;

/* Explains a cell's peak, or its end; ZL_E_BUG unless the terms add up to the ledger's total. */
zl_status zl_terms_get(const zl_ledger *ledger, zl_visit visit, zl_phase phase, bool end,
                       zl_terms *out, zl_err *err);
/* Bytes of one buffer added up, largest first: at most cap. Only those that shard or do not. */
typedef struct zl_share {
    zl_buf buffer;
    uint64_t bytes;
} zl_share;
size_t zl_terms_largest(const zl_terms *terms, bool also_sharded, zl_share *shares, size_t cap);
/* "act.qkv 1.125, act.ln1 0.375" in the view's unit. */
void zl_shares_text(const zl_view *view, const zl_share *shares, size_t count, char *text,
                    size_t size);

/* The meaning of a symbol that a formula uses, with its value in the run. */
typedef struct zl_symbol {
    const char *name;
    const char *text;
    uint64_t value;
} zl_symbol;
/* Those that occur in the terms, in the order of the legend; at most cap. */
size_t zl_symbols_used(const zl_run *run, const zl_terms *terms, zl_symbol *out, size_t cap);

/* A knob turned, and the granted peak of the same phase with it. */
typedef struct zl_lowered {
    const char *knob;
    char value[64];
    uint64_t peak;
} zl_lowered;

enum { ZL_SHARES_SHOWN = 3, ZL_LOWERED_SHOWN = 4 };

/* A phase of this run beside the same phase on one rank at stage 0; granted bytes. */
typedef struct zl_shrink {
    zl_visit visit;
    zl_phase phase;
    bool paired; /* the phase occurs there too */
    uint64_t whole_peak;
    uint64_t peak;
    uint64_t whole_end;
    uint64_t end;
    uint64_t unsharded; /* requested bytes at the peak that do not become 1/N */
    zl_share share[ZL_SHARES_SHOWN];
    size_t shares;
    zl_lowered lower[ZL_LOWERED_SHOWN]; /* the best first */
    size_t lowers;
} zl_shrink;

typedef struct zl_shrinks {
    size_t count;
    zl_shrink at[ZL_PHASE_COUNT];
} zl_shrinks;

zl_status zl_shrinks_get(const zl_ledger *ledger, zl_shrinks *out, zl_err *err);
zl_status zl_shrinks_print(zl_page *page, const zl_run *run, const zl_shrinks *all, zl_err *err);
void zl_shrinks_json(const zl_shrinks *all, zl_json_writer *w);

#endif
