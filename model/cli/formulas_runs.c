/* The representative runs of docs/formulas.md. */
#include <string.h>

#include "formulas.h"

static const zl_axis axes[ZL_AXES] = {
    {"model", {"gpt2", "bert-large", "llama-3.2-1b"}, "", {"GPT-2", "BERT", "Llama"}},
    {"model", {"", "bert-large-pretraining"}, "", {"no pooler", "pooler"}},
    {"", {"", "untied"}, "", {"tied output", "untied output"}},
    {"backend", {"host", "cuda"}, "backend ", {"host", "cuda"}},
    {"stage", {"0", "1", "2", "3"}, "stage ", {"0", "1", "2", "3"}},
    {"ranks", {"8", "1"}, "", {"N > 1", "N = 1"}},
    {"accumulation", {"1", "4"}, "", {"A = 1", "A > 1"}},
    {"precision",
     {"bf16-mixed", "fp16-mixed", "bf16", "fp32"},
     "precision ",
     {"bf16-mixed", "fp16-mixed", "bf16", "fp32"}},
    {"grad-dtype", {"model", "fp32"}, "gradients ", {"model", "fp32"}},
    {"optimizer", {"adamw", "sgd"}, "optimizer ", {"adamw", "sgd"}},
    {"attention", {"flash", "eager"}, "attention ", {"flash", "eager"}},
    {"recompute", {"none", "selective", "full"}, "recompute ", {"none", "selective", "full"}},
    {"dropout", {"0", "0.1"}, "", {"no dropout", "dropout"}},
    {"clip", {"1", "0"}, "", {"clipping", "no clipping"}},
    {"head-chunk", {"0", "1024"}, "", {"no head chunk", "head chunk below B·T"}},
    {"no-shard-copy", {"", "yes"}, "", {"shard copy", "no shard copy"}},
    {"eval", {"", "yes"}, "", {"no eval", "eval"}},
    {"save", {"", "yes"}, "", {"no save", "save"}},
};

const zl_axis *zl_axis_at(size_t index)
{
    return &axes[index];
}

size_t zl_axis_count(const zl_axis *axis)
{
    size_t count = 0;
    while (count < ZL_AXIS_VALUES && axis->value[count] != NULL) {
        count++;
    }
    return count;
}

static zl_status apply(const zl_axis *axis, const char *value, zl_run *run, zl_err *err)
{
    const bool flag = strcmp(value, "yes") == 0;
    if (axis->option[0] == '\0') {
        run->model.tied = value[0] == '\0';
        return ZL_OK;
    }
    if (value[0] == '\0') {
        return ZL_OK;
    }
    if (axis == &axes[1] && run->model.family != ZL_FAMILY_BERT) {
        return ZL_E_USAGE; /* the pooler belongs to BERT */
    }
    return zl_run_set(run, axis->option, flag ? NULL : value, err);
}

/* Makes the run of a sample's values; a run that cannot be is ZL_E_USAGE. */
static zl_status make_run(zl_sample *sample, zl_err *err)
{
    zl_run *run = &sample->run;
    zl_run_init(run);
    ZL_TRY(zl_run_set(run, "micro-batch", "8", err));
    ZL_TRY(zl_run_set(run, "seq", "512", err));
    for (size_t a = 0; a < ZL_AXES; a++) {
        ZL_TRY(apply(&axes[a], axes[a].value[sample->value[a]], run, err));
    }
    return zl_run_check(run, err);
}

/* Adds every sample that makes `left` more changes at axes from `axis` on. */
static zl_status grow(zl_sample *now, size_t axis, unsigned left, zl_sample *samples, size_t *count,
                      zl_err *err)
{
    if (left == 0) {
        zl_err why = {0};
        if (*count == ZL_SAMPLES_MAX) {
            return zl_fail(err, ZL_E_BUG, "more than %d samples", ZL_SAMPLES_MAX);
        }
        const zl_status status = make_run(now, &why);
        if (status == ZL_OK) {
            samples[(*count)++] = *now;
        }
        return status == ZL_E_USAGE ? ZL_OK : status;
    }
    for (size_t a = axis; a < ZL_AXES; a++) {
        for (size_t v = 1; v < zl_axis_count(&axes[a]); v++) {
            now->value[a] = (uint8_t)v;
            ZL_TRY(grow(now, a + 1, left - 1, samples, count, err));
        }
        now->value[a] = 0;
    }
    return ZL_OK;
}

zl_status zl_samples(zl_sample *samples, size_t *count, zl_err *err)
{
    *count = 0;
    for (unsigned changes = 0; changes <= ZL_CHANGES_MAX; changes++) {
        zl_sample now = {.changes = changes};
        ZL_TRY(grow(&now, 0, changes, samples, count, err));
    }
    return ZL_OK;
}
