/* A log of training beside the prediction of its run.
 *
 * The walk of the run gives instants: marks of the training loop, and the moments at which
 * DeepSpeed prints its memory_breakdown. Every sighting of the log that names such an instant is
 * compared with it, figure by figure; a peak covers the time since the log's figures before it,
 * which reset it.
 *
 *     zt_compared c;
 *     ZL_TRY(zt_log_compare(&log, &run, 0, &options, &c, err));
 *     printf("%zu of %zu figures agree\n", c.agree, c.agree + c.differ);
 *     zt_compared_release(&c);
 */
#ifndef ZT_LOG_COMPARE_H
#define ZT_LOG_COMPARE_H

#include "torch/log.h"
#include "zeroledger/torch.h"

typedef enum zt_verdict {
    ZT_NOT_COMPARED, /* nothing is predicted for it, or not for this moment */
    ZT_AGREES,       /* within the rounding of the log */
    ZT_DIFFERS,
    ZT_VERDICT_COUNT
} zt_verdict;

enum { ZT_AT = 48, ZT_CAUSE = 112 };

/* One figure of a sighting. */
typedef struct zt_beside {
    zt_verdict verdict;
    uint64_t predicted;
    int64_t off_by;       /* logged - predicted, the least that rounding leaves; 0: agrees */
    char cause[ZT_CAUSE]; /* the term whose bytes the difference is, "" where there is none */
} zt_beside;

typedef struct zt_row {
    size_t sighting; /* index into the log */
    uint64_t times;  /* sightings alike that this row stands for */
    bool placed;     /* the message belongs to an instant of the walk: */
    int32_t step;
    char at[ZT_AT];
    zt_beside figure[ZT_FIGURE_COUNT];
} zt_row;

typedef struct zt_compared {
    zt_row *row;
    size_t rows;
    size_t agree, differ; /* figures, repeated ones too */
} zt_compared;

typedef struct zt_compare_options {
    uint32_t first_step;   /* the log's first training step; 0 is the run's first */
    const char *resets_at; /* comma-separated marks at which the program itself resets the peaks,
                              "all", or NULL */
    const char *at;        /* mark to which figures without a place belong; NULL: "after_step" */
} zt_compare_options;

/* run.ds.memory_breakdown and run.skipped are taken from the log. The caller releases *out. */
ZL_NODISCARD zl_status zt_log_compare(const zt_log *log, const zl_torch_run *run, uint64_t rank,
                                      const zt_compare_options *options, zt_compared *out,
                                      zl_err *err);
/* The same without causes of differences, which cost a second walk. */
ZL_NODISCARD zl_status zt_log_compare_figures(const zt_log *log, const zl_torch_run *run,
                                              uint64_t rank, const zt_compare_options *options,
                                              zt_compared *out, zl_err *err);
void zt_compared_release(zt_compared *compared);

/* A setting of the run, changed. */
typedef struct zt_change {
    char text[64]; /* "overlap_comm true" */
    size_t agree, differ;
} zt_change;

/* Changes of one setting under which more figures agree, the best first; at most `room`. */
ZL_NODISCARD zl_status zt_log_changes(const zt_log *log, const zl_torch_run *run, uint64_t rank,
                                      const zt_compare_options *options, zt_change *out,
                                      size_t room, size_t *count, zl_err *err);

/* An allocation of the walk whose segment has the size of an out-of-memory message. */
typedef struct zt_candidate {
    const char *name;   /* static storage */
    uint64_t bytes;     /* as asked for */
    int32_t step;       /* of the first one */
    char before[ZT_AT]; /* the mark that comes next */
    uint64_t times;     /* how often in the walk */
    uint64_t allocated; /* by PyTorch just before the first that agrees, else the first */
    bool agrees;        /* with the message's allocated bytes */
} zt_candidate;

/* All of them, by name, size and phase; those that agree with the message's allocated bytes first.
 * The caller frees *out. */
ZL_NODISCARD zl_status zt_oom_candidates(const zt_oom *oom, const zl_torch_run *run, uint64_t rank,
                                         zt_candidate **out, size_t *count, zl_err *err);

#endif
