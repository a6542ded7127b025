#define _POSIX_C_SOURCE 200809L /* open_memstream */

#include "report/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drive/files.h"
#include "report/parts.h"
#include "zeroledger/text.h"

/* The machines that trainers named, each once. */
static void machines(FILE *out, const zv_verdicts *v)
{
    bool any = false;
    for (size_t i = 0; i < v->count; i++) {
        bool known = v->item[i].train.machine[0] == '\0';
        for (size_t k = 0; k < i && !known; k++) {
            known = strcmp(v->item[i].train.machine, v->item[k].train.machine) == 0;
        }
        if (!known) {
            fprintf(out, "- Machine: %s\n", v->item[i].train.machine);
            any = true;
        }
    }
    if (!any) {
        fputs("- Machine: the trainer did not say\n", out);
    }
}

static void section_head(FILE *out, const zv_data *data)
{
    const zv_verdicts *const v = &data->verdicts;
    fprintf(
        out,
        "# Validation: %s\n\n"
        "**%zu cases, %zu differ.** Each case is a training run of %" PRIu64
        " optimizer steps by zl-train. Its allocator's ledger is compared with the ledger that "
        "the closed form predicts from the run description alone: every buffer, phase, visit and "
        "rank, in bytes.\n\n",
        v->name, v->count, zv_verdicts_differing(v), v->steps);
    if (v->count < v->planned) {
        fprintf(out, "This matrix was interrupted: %zu of %" PRIu64 " cases were run.\n\n",
                v->count, v->planned);
    }
    fputs("## What was run\n\n", out);
    fprintf(out, "- Case file: `%s`, zeroledger %s, %s%s\n", v->name, v->version,
            v->commit[0] == '\0' ? "commit not given" : "commit ", v->commit);
    machines(out, v);
    fprintf(out,
            "- Tolerance, fixed in the case file: requested bytes (L0) %" PRIu64
            ", granted bytes (L1) %" PRIu64
            ", growth outside the allocator within a steady step %s MiB\n",
            v->tolerance.requested, v->tolerance.granted, zv_mib(v->tolerance.outside_steady).text);
    fprintf(out, "- Poison: %s\n\n",
            v->poison
                ? "on; buffers are filled with a pattern when they are allocated, and freeing one "
                  "that nothing touched fails the run"
                : "off");
}

static void section_limits(FILE *out)
{
    fputs("## What this does not show\n\n"
          "- Other sizes, options and backends than those in the table of cases: for them the "
          "numbers "
          "are predicted only.\n"
          "- Memory outside the trainer's allocator. The witness bounds its growth within a step; "
          "what "
          "the libraries took before is not predicted.\n"
          "- Other frameworks. The trainer follows zeroledger's own schedule; this report says "
          "nothing "
          "about PyTorch or DeepSpeed.\n"
          "- That training is right. Gradients, losses and equality of the stages have tests of "
          "their "
          "own.\n"
          "- Speed on any other machine, or with larger models.\n",
          out);
}

static zl_status write_text(FILE *out, const zv_data *data, zl_err *err)
{
    section_head(out, data);
    zv_section_cases(out, data);
    if (data->family.stages > 0) {
        zv_section_memory(out, data);
        ZL_TRY(zv_section_reduction(out, data, err));
        ZL_TRY(zv_section_agreement(out, data, err));
        zv_section_speed(out, data);
    } else {
        fputs("No case was measured, so there is nothing more to show.\n\n", out);
    }
    section_limits(out);
    return ZL_OK;
}

static zl_status write_markdown(const zv_data *data, const char *path, zl_err *err)
{
    char *text = NULL;
    size_t size = 0;
    FILE *const out = open_memstream(&text, &size);
    if (out == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "no memory for the report");
    }
    zl_status status = write_text(out, data, err);
    if (fclose(out) != 0 && status == ZL_OK) {
        status = zl_fail(err, ZL_E_RESOURCE, "no memory for the report");
    }
    if (status == ZL_OK) {
        status = zl_file_write(path, text, size, err);
    }
    free(text);
    return status;
}

static zl_status write_all(const zv_data *data, zl_err *err)
{
    static const struct {
        const char *name;
        zl_status (*write)(const zv_data *data, const char *path, zl_err *err);
    } figures[] = {{"peaks.svg", zv_figure_peaks},
                   {"agreement.svg", zv_figure_agreement},
                   {"reduction.svg", zv_figure_reduction}};
    char path[ZV_PATH_SIZE];
    for (size_t i = 0; i < sizeof figures / sizeof figures[0] && data->family.stages > 0; i++) {
        ZL_TRY(zv_path(path, data->folder, figures[i].name, err));
        ZL_TRY(figures[i].write(data, path, err));
    }
    ZL_TRY(zv_path(path, data->folder, "report.md", err));
    return write_markdown(data, path, err);
}

zl_status zv_report_write(const char *folder, zl_err *err)
{
    zv_data data;
    ZL_TRY(zv_data_load(folder, &data, err));
    const zl_status status = write_all(&data, err);
    zv_data_release(&data);
    return status;
}
