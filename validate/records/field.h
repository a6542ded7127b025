/* Field cases: figures that people published about their own runs, and what the library answers
 * when it is given the setup as they state it.
 *
 * Two files: field-cases.json has the publications, field-setup.json the setups in the keys of a
 * record's config, which published number each answer stands beside, and how near it has to be with
 * the reason. An answer never reads a published number.
 *
 *     zv_field *field = NULL;
 *     ZL_TRY(zv_field_load("field-cases.json", "field-setup.json", setup, &field, err));
 *     status = zv_field_page(stdout, field, err);
 *     zv_field_free(field);
 */
#ifndef ZV_FIELD_H
#define ZV_FIELD_H

#include <stdio.h>

#include "records/record.h"
#include "zeroledger/ledger.h"

typedef struct zv_field zv_field;

/* Caller frees *out. ZL_E_INPUT: not such files, or a case in one of them only. setup as for
 * zv_record_read; it has to live as long as *out. */
ZL_NODISCARD zl_status zv_field_load(const char *cases, const char *setups, const zv_setup *setup,
                                     zv_field **out, zl_err *err);
void zv_field_free(zv_field *field);

/* docs/field-cases.md. ZL_NO after the whole page if an asserted answer is not what was published,
 * and names the first. */
ZL_NODISCARD zl_status zv_field_page(FILE *out, const zv_field *field, zl_err *err);

/* ---- inside ---- */

struct zv_field {
    zl_json_doc *cases_doc, *setups_doc;
    zl_json cases, setups; /* arrays; the same ids in the same order */
    zl_json gpus, models;
    const zv_setup *setup;
};

/* What the library answers for one setup. */
typedef struct zv_field_answer {
    const char *name;
    zl_torch_run run;
    zl_moments moments;  /* empty if native or refused */
    zl_ledger *ledger;   /* NULL: not native */
    zl_status status;    /* ZL_OK, ZL_NO: does not fit, ZL_E_UNMODELLED */
    char says[512];      /* why not */
    uint64_t request[3]; /* does not fit: bytes asked for, allocated, reserved */
} zv_field_answer;

/* One run of a case's setup. The caller clears *out in any case. */
ZL_NODISCARD zl_status zv_field_ask(const zv_field *field, zl_json setup, zl_json run,
                                    zv_field_answer *out, zl_err *err);
void zv_field_answer_clear(zv_field_answer *answer);

/* One published number beside its answer. */
typedef struct zv_field_figure {
    char what[160], published[32], ours[32], off[16], allowed[32];
    const char *why;
    bool asserted, right;
} zv_field_figure;

/* `figure` is a row of the case's setup, answers those of its runs in order. */
ZL_NODISCARD zl_status zv_field_figure_of(zl_json published, zl_json figure,
                                          const zv_field_answer *answers, size_t count,
                                          zv_field_figure *out, zl_err *err);
/* The moment of that name in the last step, or before the first; NULL: none. */
const zl_moment *zv_field_moment(const zv_field_answer *answer, const char *at);
uint64_t zv_field_term(const zl_alive *alive, const char *name);

#endif
