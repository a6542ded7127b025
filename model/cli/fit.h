/* Capacity questions: the memory that is asked about, which several commands take, and what `zl
 * fit` says beside its answer. */
#ifndef ZL_CLI_FIT_H
#define ZL_CLI_FIT_H

#include "cmd.h"
#include "zeroledger/json.h"
#include "zeroledger/solve.h"

typedef struct zl_torch_run zl_torch_run; /* torch.h */
typedef struct zl_walked zl_walked;       /* frameworks.h */

typedef struct zl_capacity {
    const char *gpu; /* NULL: a capacity was given */
    uint64_t capacity;
    uint64_t headroom;
    uint64_t usable;
} zl_capacity;

/* The rows of a command that takes one. */
#define ZL_CAPACITY_OPTIONS                                                                        \
    {"capacity", NULL, "BYTES", NULL, "memory of a device, as in 24GiB or 80GB"},                  \
        {"gpu", NULL, "NAME", NULL, "capacity of a known GPU ('zl list gpus')"},                   \
    {                                                                                              \
        "headroom", NULL, "SHARE", NULL, "keep this free: 5%, or bytes as in 2GiB (default 0)"     \
    }

/* Reads them. ZL_E_USAGE unless there is either a capacity or a GPU, and more of it than headroom.
 */
zl_status zl_capacity_read(const zl_args *args, zl_capacity *out, zl_err *err);
/* The line of a page about it; members of the object that is open. */
void zl_capacity_say(zl_page *page, const zl_capacity *c);
void zl_capacity_json(const zl_capacity *c, zl_json_writer *w);

/* ---- what limits the answer ---- */

enum { ZL_LIMIT_TERMS = 4, ZL_LEVERS_SHOWN = 3 };

/* A knob turned, and the largest peak of the whole run with it. */
typedef struct zl_lever {
    char text[192]; /* "--recompute full" */
    uint64_t bytes;
} zl_lever;

/* The largest peak of the value that does not fit, or of the answer where every better one does. */
typedef struct zl_limit {
    const char *visit, *phase;
    char where[64]; /* "backward", "forward of the first step" */
    size_t terms;
    zl_lever term[ZL_LIMIT_TERMS]; /* the largest there, requested bytes */
    size_t levers;
    zl_lever lever[ZL_LEVERS_SHOWN]; /* the strongest first */
} zl_limit;

/* Finds the levers of a checked run whose largest peak has so many bytes. Of a framework torch is
 * the same run, and rank is walked. The knob named `without` is not among them. */
zl_status zl_levers_find(const zl_run *run, const zl_torch_run *torch, uint64_t rank,
                         const char *without, uint64_t bytes, zl_limit *out, zl_err *err);

/* A question and its answer. */
typedef struct zl_fitting {
    zl_capacity c;
    zl_question question;
    bool anything; /* no range was asked about */
    zl_fit fit;
    zl_run run; /* of the answer; nothing fits: of what comes nearest */
    zl_limit limit;
} zl_fitting;

/* The value whose peak is explained. */
uint64_t zl_fitting_limited(const zl_fitting *f);
/* The option that the quantity is: "--micro-batch". */
const char *zl_fitting_option(const zl_fitting *f);

/* Answer the question of f->run, which becomes the run of the answer. Of a framework *w is what a
 * page begins with. */
zl_status zl_fit_native(zl_fitting *f, zl_err *err);
zl_status zl_fit_walked(const zl_args *args, zl_fitting *f, zl_walked *w, zl_err *err);

#endif
