/* zl advise: what lowers a run's peak, what it costs, and the fewest changes that make it fit.
 * Every figure is a prediction of the run with the change in it. */
#ifndef ZL_CLI_ADVISE_H
#define ZL_CLI_ADVISE_H

#include "explain_framework.h"
#include "fit.h"
#include "knobs.h"
#include "zeroledger/solve.h"

/* ---- one run ---- */

/* What an optimizer step asks of one rank beside memory; formulas and sources in advise_load.c.
 * Poison where it cannot be said. */
typedef struct zl_load {
    uint64_t flops;
    uint64_t network; /* bytes that it sends */
    uint64_t host;    /* bytes over PCIe to and from host memory */
} zl_load;

/* Elements of a model, and what its layers multiply. */
typedef struct zl_sizes {
    uint64_t parameters; /* tied ones once */
    uint64_t trainable;
} zl_sizes;

zl_load zl_load_of(const zl_run *run, const zl_torch_run *torch, zl_sizes sizes);

enum { ZL_OUTLOOK_PHASES = ZL_PHASE_COUNT };

/* What a run takes on its heaviest rank. */
typedef struct zl_outlook {
    bool predicted; /* false: it is not modelled, and the rest is 0 */
    bool fits;      /* true without a capacity */
    uint64_t rank;
    uint64_t peak;     /* native: granted; frameworks: allocated */
    uint64_t reserved; /* frameworks: by PyTorch's allocator, without a limit; native: peak */
    uint64_t phase[ZL_OUTLOOK_PHASES]; /* peak in each; 0 where it does not occur */
    size_t worst;                      /* the phase of the peak */
    zl_load load;
} zl_outlook;

/* The question, as it was asked. */
typedef struct zl_asked {
    zl_run run;
    zl_torch_run torch; /* not for native */
    zl_walked w;        /* frameworks: what the page begins with */
    bool native;
    bool limited; /* a capacity was given */
    zl_capacity c;
    bool one_rank; /* --rank was given: no other is looked at */
    uint64_t rank;
    zl_outlook now;
} zl_asked;

const zl_torch_run *zl_asked_torch(const zl_asked *asked);
/* Phases of native or of the others; NULL past the end. */
const char *zl_asked_phase(const zl_asked *asked, size_t index);

/* How much of a framework's run is walked; native ones are predicted whole. */
typedef enum zl_depth {
    ZL_DEPTH_FITS, /* two steps of one rank with the capacity as a limit: what fails there fails */
    ZL_DEPTH_RANK, /* the rank that was the heaviest as asked */
    ZL_DEPTH_ALL   /* every rank that may be the heaviest */
} zl_depth;

/* Predicts a run. What is not modelled is not predicted, and no failure. */
zl_status zl_outlook_get(const zl_asked *asked, const zl_run *run, const zl_torch_run *torch,
                         zl_depth depth, zl_outlook *out, zl_err *err);

/* ---- changes ---- */

enum { ZL_SET_MAX = 8, ZL_SETS_MAX = 8 };

/* Changes made together, and the run that comes of them. */
typedef struct zl_set {
    zl_change change[ZL_KNOBS];
    size_t count;
    zl_price price; /* the highest of them */
    zl_run run;
    zl_outlook outlook;
    uint64_t effect; /* bytes it saves, allocated or reserved, whichever is more */
    size_t refuted;  /* all sets of fewer changes, up to so many, were predicted: none fits */
    size_t from;     /* knobs that those were made of */
} zl_set;

typedef struct zl_advice {
    zl_set *one; /* one change each; the largest effect first */
    size_t ones;
    zl_set *set; /* several; the fewest first. Only where the run does not fit */
    size_t sets;
    zl_set *all;                 /* nothing fits: everything together; else NULL */
    bool ranked;                 /* how many ranks would hold it was asked */
    zl_fit ranks_now, ranks_all; /* as it is, and with everything that leaves the result alone */
} zl_advice;

zl_status zl_advice_find(const zl_asked *asked, zl_advice *out, zl_err *err);
void zl_advice_clear(zl_advice *advice);

/* What is known to help, but not modelled: the text for people, false past the end. */
bool zl_unmodelled_at(const zl_asked *asked, size_t index, const char **what, const char **why);

/* ---- printing ---- */

zl_status zl_advice_page(const zl_args *args, const zl_asked *asked, const zl_advice *advice,
                         zl_err *err);
zl_status zl_advice_json(const zl_args *args, const zl_asked *asked, const zl_advice *advice,
                         zl_err *err);

/* "same result", "other numerics or data" */
const char *zl_price_name(zl_price price);
/* Saved bytes of allocated memory, 0 if it grew. */
uint64_t zl_saved(uint64_t before, uint64_t after);

#endif
