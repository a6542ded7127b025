/* How long the walk of a training run in PyTorch takes inside a program: four steps of one rank.
 * Every round takes all subjects in turn; time is processor time. */
#include <stdio.h>

#include "bench.h"
#include "zeroledger/torch.h"

enum { ROUNDS = 15 };

static const char *const models[] = {"gpt2", "bert-large", "llama-3.2-1b", "gpt2-xl"};

typedef struct framework {
    const char *name;
    const char *stage; /* NULL: it has none */
    const char *ranks;
    const char *precision;
} framework;

static const framework frameworks[] = {
    {"single", NULL, "1", "bf16-autocast"},
    {"fsdp2", "3", "8", "bf16-mixed"},
    {"deepspeed", "3", "8", "bf16-mixed"},
};

enum {
    MODELS = sizeof models / sizeof models[0],
    FRAMEWORKS = sizeof frameworks / sizeof frameworks[0],
    SUBJECTS = MODELS * FRAMEWORKS
};

typedef struct subject {
    char name[64]; /* of the figure */
    zl_torch_run run;
    double ms[ROUNDS];
} subject;

static zl_status prepare(subject *s, const char *model, const framework *f, zl_err *err)
{
    zl_run run;
    zl_run_init(&run);
    ZL_TRY(zl_run_set(&run, "model", model, err));
    ZL_TRY(zl_run_set(&run, "framework", f->name, err));
    ZL_TRY(zl_run_set(&run, "ranks", f->ranks, err));
    ZL_TRY(zl_run_set(&run, "precision", f->precision, err));
    if (f->stage != NULL) {
        ZL_TRY(zl_run_set(&run, "stage", f->stage, err));
    }
    ZL_TRY(zl_run_check(&run, err));
    ZL_TRY(zl_torch_run_from(&run, &s->run, NULL, NULL, err));
    (void)snprintf(s->name, sizeof s->name, "zl_torch_predict, %s %s", model, f->name);
    return ZL_OK;
}

/* Milliseconds of one call. */
static zl_status time_walk(const zl_torch_run *run, double *ms, zl_err *err)
{
    zl_marks marks;
    const double begin = zb_cpu_seconds();
    ZL_TRY(zl_torch_predict(run, 0, &marks, err));
    zl_marks_clear(&marks);
    *ms = 1e3 * (zb_cpu_seconds() - begin);
    return ZL_OK;
}

static zl_status time_walks(zb_report *report, zl_err *err)
{
    static subject subjects[SUBJECTS];
    for (size_t s = 0; s < SUBJECTS; s++) {
        ZL_TRY(prepare(&subjects[s], models[s / FRAMEWORKS], &frameworks[s % FRAMEWORKS], err));
    }
    for (size_t i = 0; i < ROUNDS; i++) {
        for (size_t s = 0; s < SUBJECTS; s++) {
            ZL_TRY(time_walk(&subjects[s].run, &subjects[s].ms[i], err));
        }
    }
    for (size_t s = 0; s < SUBJECTS; s++) {
        zb_add(report, (zb_figure){subjects[s].name, "ms", ZB_AT_MOST, 5.0, 0, 0, 0},
               subjects[s].ms, ROUNDS);
    }
    return ZL_OK;
}

int main(int argc, char **argv)
{
    zb_report report;
    zl_err err = {0};
    bool json;
    if (!zb_options(argc, argv, &json)) {
        return ZL_E_USAGE;
    }
    zb_report_init(&report, "torch-bench");
    const zl_status status = time_walks(&report, &err);
    if (status != ZL_OK) {
        (void)fprintf(stderr, "torch-bench: %s\n", err.text);
        return (int)status;
    }
    return zb_report_show(&report, json) ? ZL_OK : ZL_E_RESOURCE;
}
