/* zl fit of the native framework: the closed form's answer and what limits it. */
#include "explain.h"
#include "fit.h"

static zl_status find_terms(const zl_run *run, const zl_fit *fit, zl_limit *out, zl_err *err)
{
    zl_ledger *ledger = NULL;
    zl_terms terms;
    zl_share share[ZL_LIMIT_TERMS];
    ZL_TRY(zl_predicted(run, 0, &ledger, err));
    const zl_status status = zl_terms_get(ledger, fit->visit, fit->phase, false, &terms, err);
    zl_ledger_free(ledger);
    ZL_TRY(status);
    out->visit = zl_visit_name(fit->visit);
    out->phase = zl_phase_name(fit->phase);
    snprintf(out->where, sizeof out->where, "%s", zl_cell_label(fit->visit, fit->phase).text);
    out->terms = zl_terms_largest(&terms, true, share, ZL_LIMIT_TERMS);
    for (size_t i = 0; i < out->terms; i++) {
        out->term[i].bytes = share[i].bytes;
        snprintf(out->term[i].text, sizeof out->term[i].text, "%s", zl_buf_name(share[i].buffer));
    }
    return ZL_OK;
}

zl_status zl_fit_native(zl_fitting *f, zl_err *err)
{
    ZL_TRY(zl_solve(&f->run, &f->question, &f->fit, err));
    const zl_fit *fit = &f->fit;
    zl_run limited = f->run;
    const zl_trial *trial = fit->next.tried ? &fit->next : &fit->best;
    ZL_TRY(zl_quantity_set(f->question.quantity, trial->value, &limited, err));
    ZL_TRY(find_terms(&limited, fit, &f->limit, err));
    if (fit->next.tried) {
        ZL_TRY(
            zl_levers_find(&limited, NULL, 0, zl_fitting_option(f), trial->bytes, &f->limit, err));
    }
    const uint64_t value = fit->found ? fit->best.value : fit->next.value;
    return zl_quantity_set(f->question.quantity, value, &f->run, err);
}
