#include "frameworks.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "zeroledger/bytes.h"

/* More ranks than this are not compared one by one. */
enum { RANKS_COMPARED = 16 };

static void warn(void *context, const char *line)
{
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

/* Elsewhere every rank holds as much as rank 0, or, at the end of what is split, less. */
static bool ranks_differ(const zl_torch_run *run)
{
    return run->framework == ZL_TORCH_ZERO1 ||
           (run->framework == ZL_TORCH_DEEPSPEED && run->stage < 3);
}

/* Streaming multiprocessors and compute capability of a chip: CUDA C++ Programming Guide, compute
 * capabilities, and the data sheets of gpus.c. They decide scratch of reductions, workspaces and
 * attention kernels. */
static const struct {
    const char *chip;
    uint32_t multiprocessors, capability;
} chips[] = {
    {"V100", 80, 70},  {"RTX 4090", 128, 89}, {"A100", 108, 80},  {"L40S", 142, 89},
    {"H100", 132, 90}, {"H200", 132, 90},     {"B200", 148, 100},
};

static zl_status take_gpu(const zl_args *args, zl_torch_run *run, zl_err *err)
{
    const char *name = zl_args_value(args, "gpu");
    const zl_gpu *gpu = NULL;
    if (name == NULL) {
        return ZL_OK;
    }
    ZL_TRY(zl_gpu_find(name, &gpu, err));
    for (size_t i = 0; i < sizeof chips / sizeof chips[0]; i++) {
        if (strcmp(chips[i].chip, gpu->chip) == 0) {
            run->multiprocessors = chips[i].multiprocessors;
            run->capability = chips[i].capability;
            return ZL_OK;
        }
    }
    return zl_fail(err, ZL_E_UNMODELLED, "gpu %s is not modelled for frameworks", name);
}

/* The rank with the largest peak, the first of equals: all of them, or the first ones and the last.
 */
static zl_status walk_heaviest(zl_walked *w, zl_err *err)
{
    const uint64_t ranks = w->run.ranks;
    const bool all = ranks <= RANKS_COMPARED;
    w->looked = ranks_differ(&w->torch) ? zl_min(ranks, RANKS_COMPARED) : 1;
    for (uint64_t i = 0; i < w->looked; i++) {
        const uint64_t rank = !all && i + 1 == w->looked ? ranks - 1 : i;
        zl_marks marks = {0};
        const zl_status status = zl_torch_predict(&w->torch, rank, &marks, err);
        if (status != ZL_OK) {
            zl_marks_clear(&w->marks);
            return status;
        }
        if (i == 0 || peak_of(&marks) > peak_of(&w->marks)) {
            zl_marks_clear(&w->marks);
            w->marks = marks;
            w->rank = rank;
        } else {
            zl_marks_clear(&marks);
        }
    }
    return ZL_OK;
}

zl_status zl_walked_new(const zl_args *args, const zl_run *run, zl_walked *out, zl_err *err)
{
    zl_walked w = {.run = *run};
    bool wished = false;
    char command[32];
    snprintf(command, sizeof command, "%s", args->command->name);
    ZL_TRY(zl_torch_run_from(&w.run, &w.torch, warn, command, err));
    ZL_TRY(take_gpu(args, &w.torch, err));
    ZL_TRY(zl_args_rank(args, &w.run, &wished, &w.rank, err));
    w.unmeasured = zl_torch_unmeasured(&w.torch, w.why, sizeof w.why);
    ZL_TRY(wished ? zl_torch_predict(&w.torch, w.rank, &w.marks, err) : walk_heaviest(&w, err));
    *out = w;
    return ZL_OK;
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

void zl_walked_head(zl_page *page, const zl_walked *w)
{
    char text[640];
    char id[ZL_RUN_ID_SIZE];
    zl_run_describe(&w->run, text, sizeof text);
    zl_run_id(&w->run, id);
    zl_page_say(page, "%s", text);
    zl_page_say(page, "%s parameters, %s train, run %s%s", zl_count(w->marks.parameters).text,
                zl_count(w->marks.trainable).text, id, rank_text(w).text);
    if (w->marks.optimizer_class[0] != '\0') {
        zl_page_say(page, "optimizer: %s", w->marks.optimizer_class);
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
    zl_json_put_u64(j, "parameters", w->marks.parameters);
    zl_json_put_u64(j, "trainable", w->marks.trainable);
    zl_json_put_string(j, "optimizer_class", w->marks.optimizer_class);
    zl_json_put_bool(j, "predicted_only", w->unmeasured);
}
