/* Inverse questions: the most of one thing that fits in a capacity, or the least of it that is
 * enough, certified: the answer fits and its neighbour does not.
 *
 *     zl_question question = {.quantity = ZL_QUANTITY_RANKS, .capacity = usable};
 *     zl_fit fit;
 *     ZL_TRY(zl_solve(&run, &question, &fit, err));     // a run that passed zl_run_check
 *     if (fit.found) { ... fit.best.value ranks hold fit.best.bytes each ... }
 *
 * The native answer is exact: of all values in the range, none is better. Frameworks are walked
 * (torch.h), as seldom as possible, with PyTorch's allocator limited to the capacity. No value
 * beyond the first that asks for more than the capacity can fit. Before it the allocator's losses
 * decide, and a better value may fit where a worse one does not: up to 32 values are tried one by
 * one, and if the answer is among them none is better; farther away (and more than 4 tokens away
 * for seq) it is the end of a stretch of values that fit.
 */
#ifndef ZEROLEDGER_SOLVE_H
#define ZEROLEDGER_SOLVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zeroledger/predict.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is varied, and what of it is looked for. */
typedef enum zl_quantity {
    ZL_QUANTITY_MICRO_BATCH, /* the largest */
    ZL_QUANTITY_SEQ,         /* the longest */
    ZL_QUANTITY_LAYERS,      /* the most */
    ZL_QUANTITY_RANKS,       /* the fewest */
    ZL_QUANTITY_STAGE,       /* the lowest, which communicates least */
    ZL_QUANTITY_COUNT
} zl_quantity;

/* "micro_batch", "seq", "layers", "ranks", "stage" */
ZL_API const char *zl_quantity_name(zl_quantity quantity);

/* A GPU for the frameworks: it decides kernels and their scratch. */
typedef struct zl_chip {
    uint32_t multiprocessors, capability; /* 132, 90; 0: those of zl_torch_run_init */
} zl_chip;

typedef struct zl_question {
    zl_quantity quantity;
    uint64_t capacity; /* bytes, above 0 */
    uint64_t low;      /* smallest value that is of interest; 0: the run's smallest */
    uint64_t high;     /* largest; 0: whatever the run allows */
    zl_chip chip;
    bool one_rank; /* of a framework only `rank` is walked, else the heaviest */
    uint64_t rank;
} zl_question;

/* One value of the quantity. */
typedef struct zl_trial {
    bool tried; /* false: the value does not exist, and the rest is 0 */
    bool fits;
    uint64_t value;
    uint64_t bytes;    /* native: largest granted peak; frameworks: largest peak_allocated */
    uint64_t reserved; /* frameworks: largest peak_reserved without a limit; native 0 */
} zl_trial;

/* What keeps a better value from being the answer. */
typedef enum zl_fit_end {
    ZL_FIT_CAPACITY,  /* it does not fit */
    ZL_FIT_POSITIONS, /* the model's position table ends */
    ZL_FIT_WINDOW,    /* longer sequences than the sliding window are not modelled */
    ZL_FIT_RANGE,     /* the range asked about, or that there is, ends */
    ZL_FIT_END_COUNT
} zl_fit_end;

ZL_API const char *zl_fit_end_name(zl_fit_end end); /* "capacity", "positions", ... */

enum { ZL_STAGES = 4 };

typedef struct zl_fit {
    bool found;    /* some value fits */
    zl_trial best; /* the answer, if found */
    /* The better neighbour, which does not fit; not tried where there is none. Nothing found: the
     * most promising value, which does not fit either. */
    zl_trial next;
    zl_fit_end end;
    bool exact; /* no better value fits; else some that were not tried may, short of edge */
    uint64_t
        edge; /* frameworks: from this value on even what is asked for is too much; 0: none is */
    uint64_t floor; /* ranks, nothing found: bytes that no number of ranks in the range is below; 0:
                       not known */
    zl_trial stage[ZL_STAGES]; /* quantity stage: all that there are, by number */
    zl_visit visit;            /* native: where the peak of next falls, or of best where no next */
    zl_phase phase;
    /* Frameworks only. */
    uint64_t rank;   /* whose bytes these are */
    uint64_t looked; /* ranks that were compared, 1: they do not differ, or one was asked for */
    uint64_t walks;  /* how many it took */
    uint64_t parameters, trainable; /* elements, of the answer's model */
    char optimizer_class[48];
} zl_fit;

/* Solves. ZL_E_USAGE: a capacity of nothing, a range without values, given activations that do not
 * follow the quantity, or more fits than the search is for. What cannot be predicted at all is
 * reported as zl_predict_peak or zl_torch_predict do. */
ZL_API ZL_NODISCARD zl_status zl_solve(const zl_run *run, const zl_question *question, zl_fit *out,
                                       zl_err *err);

/* Sets the quantity of a run to a value; a ds_config.json that names it is changed with it. */
ZL_API ZL_NODISCARD zl_status zl_quantity_set(zl_quantity quantity, uint64_t value, zl_run *run,
                                              zl_err *err);

#ifdef __cplusplus
}
#endif
#endif
