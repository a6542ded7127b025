#include "table.h"

#include <inttypes.h>
#include <string.h>

/* Dense bf16 with fp32 sums, by NVIDIA's data sheet of the H200 (SXM). */
static const double PEAK_RATE = 989e12;

static bool same(const char *a, const char *b)
{
    return a != NULL && b != NULL && strcmp(a, b) == 0;
}

static bool same_group(const speed_row *a, const speed_row *b)
{
    return same(a->model, b->model) && a->ranks == b->ranks && a->micro_batch == b->micro_batch &&
           a->seq == b->seq;
}

static double tokens_per_second(const speed_row *row)
{
    return (double)(row->micro_batch * row->seq) / row->step_seconds;
}

/* How PyTorch does what a stage does; on one GPU there is nothing to shard. */
static const char *mode_of(const speed_row *row)
{
    if (row->mode != NULL) {
        return row->mode;
    }
    return row->ranks == 1 || row->stage < 2 ? "ddp" : row->stage == 2 ? "fsdp2-zero2" : "fsdp2";
}

/* Eager PyTorch with the same sharding; it recomputes whole blocks where the row does, else
 * nothing. NULL: not measured. */
static const speed_row *eager_for(const speed_file *file, const speed_row *row)
{
    const char *recompute = same(row->recompute, "full") ? "full" : "none";
    for (size_t i = 0; i < file->count; i++) {
        const speed_row *r = &file->row[i];
        if (same(r->program, "pytorch") && !r->compiled && r->error == NULL && same_group(r, row) &&
            same(r->recompute, recompute) && same(r->mode, mode_of(row))) {
            return r;
        }
    }
    return NULL;
}

static void print_program(const speed_row *row, FILE *to)
{
    if (same(row->program, "zeroledger")) {
        fprintf(to, "| zeroledger, stage %" PRIu64, row->stage);
        if (row->head_chunk > 0) {
            fprintf(to, ", head chunk %" PRIu64, row->head_chunk);
        }
    } else {
        fprintf(to, "| %s%s%s", same(row->program, "pytorch") ? "PyTorch" : "PyTorch, transformers",
                row->ranks == 1 ? "" : " ", row->ranks == 1 ? "" : row->mode);
        fputs(row->compiled ? ", compiled" : ", eager", to);
    }
    fprintf(to, " | %s | %s |", row->recompute,
            !same(row->program, "zeroledger") ? "fp32"
            : same(row->grad_dtype, "fp32")   ? "fp32"
                                              : "bf16");
}

static void print_gigabytes(uint64_t bytes, FILE *to)
{
    if (bytes == 0) {
        fputs(" |", to);
    } else {
        fprintf(to, " %.1f |", 1e-9 * (double)bytes);
    }
}

static void print_row(const speed_file *file, const speed_row *row, FILE *to)
{
    print_program(row, to);
    if (row->error != NULL) {
        fprintf(to, " failed: %s | | | | | |\n", row->error);
        return;
    }
    const double speed = tokens_per_second(row);
    const speed_row *eager = eager_for(file, row);
    fprintf(to, " %.1f | %.1f %% |", 1e-3 * speed,
            100.0 * speed * (double)row->operations / PEAK_RATE);
    print_gigabytes(row->peak_allocated, to);
    print_gigabytes(row->device_used, to);
    if (eager == NULL) {
        fputs(" | |\n", to);
        return;
    }
    fprintf(to, " %.2f | %.2f |\n", speed / tokens_per_second(eager),
            (double)row->peak_allocated / (double)eager->peak_allocated);
}

static void print_group(const speed_file *file, const speed_row *first, FILE *to)
{
    fprintf(to, "\n%s, B %" PRIu64 ", T %" PRIu64 ", %" PRIu64 " GPU%s:\n\n", first->model,
            first->micro_batch, first->seq, first->ranks, first->ranks == 1 ? "" : "s");
    fputs("| | recompute | gradients | 1,000 tokens/s a GPU | MFU | peak, GB | device, GB | speed, "
          "eager = 1 | "
          "peak, eager = 1 |\n|---|---|---|---|---|---|---|---|---|\n",
          to);
    for (size_t i = 0; i < file->count; i++) {
        if (same_group(&file->row[i], first)) {
            print_row(file, &file->row[i], to);
        }
    }
}

void speed_print(const speed_file *file, uint64_t ranks, FILE *to)
{
    fprintf(to, "Measured on %s, driver %s, PyTorch %s, at commit %.12s, %.10s.\n", file->gpu,
            file->driver, file->torch, file->commit, file->date);
    for (size_t i = 0; i < file->count; i++) {
        bool told = ranks != 0 && file->row[i].ranks != ranks;
        for (size_t k = 0; k < i; k++) {
            told = told || same_group(&file->row[k], &file->row[i]);
        }
        if (!told) {
            print_group(file, &file->row[i], to);
        }
    }
}
