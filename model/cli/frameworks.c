#include "frameworks.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "zeroledger/bytes.h"

/* Every line once: a command may read the run several times. */
static void warn(void *context, const char *line)
{
    static char said[32][256];
    static size_t count;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(said[i], line) == 0) {
            return;
        }
    }
    if (count < sizeof said / sizeof said[0]) {
        snprintf(said[count++], sizeof said[0], "%s", line);
    }
    fprintf(stderr, "zl %s: warning: %s\n", (const char *)context, line);
}

static uint64_t peak_of(const zl_marks *marks)
{
    uint64_t most = 0;
    for (size_t i = 0; i < marks->count; i++) {
        most = zl_max(most, marks->mark[i].peak_requested);
    }
    return most;
}

uint64_t zl_walked_reserved(const zl_walked *w)
{
    uint64_t most = 0;
    for (size_t i = 0; i < w->marks.count; i++) {
        most = zl_max(most, w->marks.mark[i].peak_reserved);
    }
    return most;
}

/* Multiprocessors and capability decide scratch of reductions, workspaces and attention kernels. */
zl_status zl_walked_gpu(const zl_args *args, zl_torch_run *run, zl_err *err)
{
    const char *name = zl_args_value(args, "gpu");
    const zl_gpu *gpu = NULL;
    if (name == NULL) {
        return ZL_OK;
    }
    ZL_TRY(zl_gpu_find(name, &gpu, err));
    run->multiprocessors = gpu->multiprocessors;
    run->capability = gpu->capability;
    return ZL_OK;
}

zl_status zl_walk_heaviest(const zl_torch_run *run, uint64_t *rank, uint64_t *looked, zl_marks *out,
                           zl_err *err)
{
    zl_marks most = {0};
    uint64_t other = 0;
    for (uint64_t i = 0; zl_torch_rank_at(run, i, &other); i++) {
        *looked = i + 1;
        zl_marks marks = {0};
        const zl_status status = zl_torch_predict(run, other, &marks, err);
        if (status != ZL_OK) {
            zl_marks_clear(&most);
            return status;
        }
        if (i == 0 || peak_of(&marks) > peak_of(&most)) {
            zl_marks_clear(&most);
            most = marks;
            *rank = other;
        } else {
            zl_marks_clear(&marks);
        }
    }
    *out = most;
    return ZL_OK;
}

zl_status zl_walked_open(const zl_args *args, const zl_run *run, bool *wished, zl_walked *out,
                         zl_err *err)
{
    zl_walked w = {.run = *run};
    char command[32];
    snprintf(command, sizeof command, "%s", args->command->name);
    ZL_TRY(zl_torch_run_from(&w.run, &w.torch, warn, command, err));
    ZL_TRY(zl_walked_gpu(args, &w.torch, err));
    ZL_TRY(zl_args_rank(args, &w.run, wished, &w.rank, err));
    w.unmeasured = zl_torch_unmeasured(&w.torch, w.why, sizeof w.why);
    *out = w;
    return ZL_OK;
}

static zl_status walk(zl_walked *w, bool wished, zl_err *err)
{
    return wished ? zl_torch_predict(&w->torch, w->rank, &w->marks, err)
                  : zl_walk_heaviest(&w->torch, &w->rank, &w->looked, &w->marks, err);
}

zl_status zl_walked_new(const zl_args *args, const zl_run *run, zl_walked *out, zl_err *err)
{
    zl_walked w;
    bool wished = false;
    ZL_TRY(zl_walked_open(args, run, &wished, &w, err));
    ZL_TRY(walk(&w, wished, err));
    *out = w;
    return ZL_OK;
}

static bool is_quantised(const zl_walked *w)
{
    return w->torch.model.quantization.kind != ZL_HF_UNQUANTISED;
}

zl_status zl_walked_states(const zl_args *args, const zl_run *run, zl_walked *out, zl_err *err)
{
    zl_walked w;
    bool wished = false;
    ZL_TRY(zl_walked_open(args, run, &wished, &w, err));
    w.torch.states_only = !zl_hf_operations_modelled(&w.torch.model) && w.torch.activations == 0;
    ZL_TRY(is_quantised(&w) ? zl_hf_weights_of(&w.torch.model, &w.weights, err)
                            : walk(&w, wished, err));
    *out = w;
    return ZL_OK;
}

zl_status zl_walked_verdict(const zl_walked *w, zl_err *err)
{
    if (is_quantised(w)) {
        return zl_fail(err, ZL_E_UNMODELLED,
                       "training with the quantised weights of quantization_config is not "
                       "modelled; their count and bytes are");
    }
    return w->torch.states_only
               ? zl_fail(err, ZL_E_UNMODELLED,
                         "the activations of %s are not modelled; give what forward leaves for "
                         "backward, as in --activations 1.42GiB, for all of it",
                         zl_hf_arch_name(w->torch.model.arch))
               : ZL_OK;
}

static zl_figure rank_text(const zl_walked *w)
{
    zl_figure figure;
    if (w->looked > 1) {
        snprintf(figure.text, sizeof figure.text,
                 ", rank %" PRIu64 ", the heaviest of %" PRIu64 "%s", w->rank, w->looked,
                 w->looked < w->run.ranks ? " compared" : "");
    } else {
        snprintf(figure.text, sizeof figure.text, ", rank %" PRIu64 " of %" PRIu64, w->rank,
                 w->run.ranks);
    }
    return figure;
}

/* As config.json spells them. */
static const char *trained_dtype(const zl_torch_run *run)
{
    const bool mixed = run->framework == ZL_TORCH_DEEPSPEED;
    switch (run->precision) {
    case ZL_TORCH_BF16:
        return "bfloat16";
    case ZL_TORCH_BF16_MIXED: /* FSDP keeps fp32 pieces and casts them */
        return mixed ? "bfloat16" : "float32";
    case ZL_TORCH_FP16_MIXED:
        return mixed ? "float16" : "float32";
    case ZL_TORCH_FP32:
    case ZL_TORCH_BF16_AUTOCAST:
    case ZL_TORCH_PRECISION_COUNT:
        break;
    }
    return "float32";
}

void zl_walked_head(zl_page *page, const zl_walked *w)
{
    char text[640];
    char id[ZL_RUN_ID_SIZE];
    zl_run_describe(&w->run, text, sizeof text);
    zl_run_id(&w->run, id);
    zl_page_say(page, "%s", text);
    if (is_quantised(w)) {
        zl_page_say(page, "%s parameters, %s of them quantised, run %s",
                    zl_count(w->weights.parameters).text, zl_count(w->weights.quantised).text, id);
        return;
    }
    zl_page_say(page, "%s parameters, %s train, run %s%s", zl_count(w->marks.parameters).text,
                zl_count(w->marks.trainable).text, id, rank_text(w).text);
    if (w->marks.optimizer_class[0] != '\0') {
        zl_page_say(page, "optimizer: %s", w->marks.optimizer_class);
    }
    const char *stored = w->torch.model.stored;
    if (stored[0] != '\0' && strcmp(stored, trained_dtype(&w->torch)) != 0) {
        zl_page_say(page, "the checkpoint is stored in %s, this run holds parameters in %s", stored,
                    trained_dtype(&w->torch));
    }
    if (w->unmeasured) {
        zl_page_say(page, "predicted only: %s", w->why);
    }
}

void zl_walked_json(const zl_walked *w, zl_json_writer *j)
{
    char id[ZL_RUN_ID_SIZE];
    char text[640];
    char framework[48];
    zl_run_id(&w->run, id);
    zl_run_describe(&w->run, text, sizeof text);
    zl_run_framework(&w->run, framework, sizeof framework);
    zl_json_put_string(j, "run_id", id);
    zl_json_put_string(j, "run", text);
    zl_json_put_string(j, "framework", framework);
    zl_json_put_u64(j, "rank", w->rank);
    zl_json_put_u64(j, "ranks", w->run.ranks);
    const bool quantised = is_quantised(w);
    zl_json_put_u64(j, "parameters", quantised ? w->weights.parameters : w->marks.parameters);
    zl_json_put_u64(j, "trainable", w->marks.trainable);
    zl_json_put_string(j, "optimizer_class", w->marks.optimizer_class);
    zl_json_put_bool(j, "predicted_only", w->unmeasured);
    if (quantised) {
        zl_json_put_string(j, "not_modelled", "quantization_config");
        zl_json_put_u64(j, "quantised", w->weights.quantised);
        zl_json_put_u64(j, "weight_bytes", w->weights.bytes);
    } else if (w->torch.states_only) {
        zl_json_put_string(j, "not_modelled", "activations");
    }
}
