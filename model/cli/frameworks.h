/* A run of a framework other than native, walked: what `zl predict` and `zl explain` start from. */
#ifndef ZL_CLI_FRAMEWORKS_H
#define ZL_CLI_FRAMEWORKS_H

#include "cmd.h"
#include "zeroledger/torch.h"

typedef struct zl_walked {
    zl_run run; /* with what its files decide */
    zl_torch_run torch;
    uint64_t rank;   /* the heaviest, or the one asked for */
    uint64_t looked; /* ranks that were compared; 0: one was asked for */
    zl_marks marks;  /* zl_marks_clear() */
    bool unmeasured;
    char why[128];         /* what of it was not measured */
    zl_hf_weights weights; /* of quantised ones, which are not walked: no marks; else zeros */
} zl_walked;

/* What kernels of the GPU that --gpu names decide; nothing without it. */
zl_status zl_walked_gpu(const zl_args *args, zl_torch_run *run, zl_err *err);
/* Walks the rank with the largest peak, the first of equals: of all, or of the first ones and the
 * last. *looked: how many were compared. The caller clears *out. */
zl_status zl_walk_heaviest(const zl_torch_run *run, uint64_t *rank, uint64_t *looked, zl_marks *out,
                           zl_err *err);
/* All but the walk: marks are empty, and the rank is that of --rank, if there is one: *wished. */
zl_status zl_walked_open(const zl_args *args, const zl_run *run, bool *wished, zl_walked *out,
                         zl_err *err);
/* Takes --rank, or finds the heaviest rank. Warnings go to the standard error. */
zl_status zl_walked_new(const zl_args *args, const zl_run *run, zl_walked *out, zl_err *err);
/* The same, but of a model whose operations are not modelled, where activations are not given, what
 * does not depend on them: torch.states_only is set. Of quantised weights their bytes only. The
 * command prints that and ends with zl_walked_verdict(). */
zl_status zl_walked_states(const zl_args *args, const zl_run *run, zl_walked *out, zl_err *err);
/* ZL_OK, or the ZL_E_UNMODELLED that says what is missing from an answer of zl_walked_states. */
zl_status zl_walked_verdict(const zl_walked *w, zl_err *err);

/* The largest reserved bytes of all marks. */
uint64_t zl_walked_reserved(const zl_walked *w);

/* Description, parameters, rank, whether it is predicted only. */
void zl_walked_head(zl_page *page, const zl_walked *w);
/* The same as members of the object that is open. */
void zl_walked_json(const zl_walked *w, zl_json_writer *j);

#endif
