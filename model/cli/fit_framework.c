/* zl fit of a framework other than native: the walk runs out of memory, or it does not. */
#include <string.h>

#include "explain_framework.h"
#include "fit.h"

/* The largest peak of all, and what is alive there. */
static zl_status find_terms(const zl_torch_run *run, uint64_t rank, zl_limit *out, zl_err *err)
{
    zl_moments moments = {0};
    const zl_moment *most = NULL;
    ZL_TRY(zl_torch_explain(run, rank, &moments, err));
    for (int i = 0; i < 2 * ZL_SPANS; i++) {
        const zl_span span = (zl_span)(i / 2);
        const bool cold = i % 2 == 1 && span != ZL_SPAN_INIT;
        const zl_moment *m = zl_span_moment(&moments, span, cold, run->steps);
        if (m != NULL && (most == NULL || m->mark.peak_allocated > most->mark.peak_allocated)) {
            most = m;
            out->visit = cold ? "cold" : "steady";
            out->phase = zl_span_name(span);
            snprintf(out->where, sizeof out->where, "%s%s", out->phase,
                     cold ? " of the first step" : "");
        }
    }
    for (size_t i = 0; most != NULL && i < most->peak.count && i < ZL_LIMIT_TERMS; i++) {
        out->term[i].bytes = most->peak.term[i].bytes;
        snprintf(out->term[i].text, sizeof out->term[i].text, "%s", most->peak.term[i].name);
        out->terms = i + 1;
    }
    zl_moments_clear(&moments);
    return ZL_OK;
}

/* The run with a value of the quantity, and with the GPU of the one that was asked about. */
static zl_status with_value(const zl_fitting *f, const zl_walked *asked, uint64_t value,
                            zl_run *run, zl_torch_run *torch, zl_err *err)
{
    *run = asked->run;
    ZL_TRY(zl_quantity_set(f->question.quantity, value, run, err));
    ZL_TRY(zl_torch_run_from(run, torch, NULL, NULL, err));
    torch->multiprocessors = asked->torch.multiprocessors;
    torch->capability = asked->torch.capability;
    return ZL_OK;
}

static zl_status find_limit(zl_fitting *f, const zl_walked *asked, zl_err *err)
{
    const zl_trial *trial = f->fit.next.tried ? &f->fit.next : &f->fit.best;
    zl_run run;
    zl_torch_run torch;
    ZL_TRY(with_value(f, asked, trial->value, &run, &torch, err));
    ZL_TRY(find_terms(&torch, f->fit.rank, &f->limit, err));
    return f->fit.next.tried ? zl_levers_find(&run, &torch, f->fit.rank, zl_fitting_option(f),
                                              trial->bytes, &f->limit, err)
                             : ZL_OK;
}

static const char micro_key[] = "train_micro_batch_size_per_gpu";

/* "auto", which is what is asked. */
static bool leaves_batch_open(const zl_run *run)
{
    zl_json_doc *doc = NULL;
    if (run->ds_config[0] == '\0' || zl_json_parse("ds_config.json", run->ds_config,
                                                   strlen(run->ds_config), &doc, NULL) != ZL_OK) {
        return false;
    }
    const bool open = zl_json_is_string(zl_json_get(zl_json_root(doc), micro_key));
    zl_json_free(doc);
    return open;
}

zl_status zl_fit_walked(const zl_args *args, zl_fitting *f, zl_walked *w, zl_err *err)
{
    zl_fit *fit = &f->fit;
    if (f->question.quantity == ZL_QUANTITY_MICRO_BATCH && leaves_batch_open(&f->run)) {
        ZL_TRY(zl_run_set_config(&f->run, micro_key, "1", err)); /* where the search begins */
    }
    ZL_TRY(zl_walked_open(args, &f->run, &f->question.one_rank, w, err));
    f->question.rank = w->rank;
    f->question.chip = (zl_chip){w->torch.multiprocessors, w->torch.capability};
    ZL_TRY(zl_solve(&f->run, &f->question, fit, err));
    ZL_TRY(find_limit(f, w, err));
    const uint64_t value = fit->found ? fit->best.value : fit->next.value;
    zl_walked answer = *w;
    ZL_TRY(with_value(f, w, value, &answer.run, &answer.torch, err));
    answer.rank = fit->rank;
    answer.looked = fit->looked;
    answer.marks.parameters = fit->parameters;
    answer.marks.trainable = fit->trainable;
    snprintf(answer.marks.optimizer_class, sizeof answer.marks.optimizer_class, "%s",
             fit->optimizer_class);
    answer.unmeasured = zl_torch_unmeasured(&answer.torch, answer.why, sizeof answer.why);
    f->run = answer.run;
    *w = answer;
    return ZL_OK;
}
