/* What other calculators answered for measured runs, beside the measurement and our prediction of
 * the same figure.
 *
 *     zv_answer *answer = NULL;
 *     size_t count = 0;
 *     ZL_TRY(zv_answers_load("peers.json", &judgement, &answer, &count, err));
 *     ... answer[0].theirs, answer[0].measured ...
 *     free(answer);
 */
#ifndef ZV_ANSWERS_H
#define ZV_ANSWERS_H

#include "records/judgement.h"

typedef enum zv_asked {
    ZV_STEP_PEAK,             /* the largest allocated bytes of the last step */
    ZV_STATES_AFTER_BACKWARD, /* allocated bytes where all gradients exist */
    ZV_STATES_BEFORE_FORWARD, /* allocated bytes where none does */
    ZV_ASKED_COUNT
} zv_asked;

enum { ZV_PEER_SIZE = 64 };

typedef struct zv_answer {
    char peer[ZV_PEER_SIZE];
    zv_asked asked;
    const zv_judged *record; /* borrowed from the judgement */
    bool answered;           /* false: it has no answer for such a run */
    uint64_t theirs, ours, measured;
} zv_answer;

/* Reads [{"config_id", "peer", "predicted_bytes", "measured_bytes", "rel_error"}]; the caller frees
 * *out with free(). ZL_E_INPUT: no such file, a run without its record, or a measurement that is
 * not the record's. */
ZL_NODISCARD zl_status zv_answers_load(const char *path, const zv_judgement *all, zv_answer **out,
                                       size_t *count, zl_err *err);

/* The last step of a record that was not skipped; -1: there is none. */
int64_t zv_last_step(const zv_judged *record);

/* The largest value of a quantity over the marks of a step of rank 0; at: only marks of that name,
 * or NULL. False: there is no such mark. */
bool zv_largest_of(const zv_judged *record, int64_t step, const char *at, zv_quantity quantity,
                   uint64_t *measured, uint64_t *predicted);

#endif
