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
    char why[128]; /* what of it was not measured */
} zl_walked;

/* Takes --rank, or finds the heaviest rank. Warnings go to the standard error. */
zl_status zl_walked_new(const zl_args *args, const zl_run *run, zl_walked *out, zl_err *err);

/* The largest reserved bytes of all marks. */
uint64_t zl_walked_reserved(const zl_walked *w);

/* Description, parameters, rank, whether it is predicted only. */
void zl_walked_head(zl_page *page, const zl_walked *w);
/* The same as members of the object that is open. */
void zl_walked_json(const zl_walked *w, zl_json_writer *j);

#endif
