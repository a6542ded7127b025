/* The small files that zl-validate reads and that other programs of ours, or people, write. The
 * first byte chooses which. */
#include <stdlib.h>

#include "compare/nccl.h"
#include "compare/trace.h"
#include "compare/verdict.h"
#include "drive/mutants.h"
#include "drive/train_json.h"
#include "fuzz.h"
#include "peers/answers.h"
#include "records/causes.h"
#include "records/figures.h"
#include "speed/rows.h"

static void verdicts(const char *path, zl_err *err)
{
    zv_verdicts found = {0};
    if (zv_verdicts_load(path, &found, err) == ZL_OK) {
        zv_verdicts_release(&found);
    }
}

static void mutants(const char *path, zl_err *err)
{
    zv_mutants found = {0};
    if (zv_mutants_load(path, &found, err) == ZL_OK) {
        zv_mutants_release(&found);
    }
}

static void nccl(const char *path, zl_err *err)
{
    zv_nccl found;
    zl_nccl usual;
    if (zv_nccl_load(path, &found, err) == ZL_OK) {
        (void)!zv_nccl_usual(&found, &usual, err);
    }
}

static void nccl_traced(const char *path, zl_err *err)
{
    size_t devices = 0;
    uint64_t bytes = 0;
    (void)!zv_nccl_traced(path, "default", 1, &devices, &bytes, err);
}

static void trace(const char *path, zl_err *err)
{
    static zv_trace found;
    (void)!zv_trace_load(path, 0, &found, err);
}

static void causes(const char *path, zl_err *err)
{
    zv_causes *found = NULL;
    if (zv_causes_load(path, &found, err) == ZL_OK) {
        zv_causes_free(found);
    }
}

static void limits(const char *path, zl_err *err)
{
    const zv_figures none = {0};
    (void)!zv_limits_check(path, &none, err);
}

static void answers(const char *path, zl_err *err)
{
    const zv_judgement none = {0};
    zv_answer *found = NULL;
    size_t count = 0;
    if (zv_answers_load(path, &none, &found, &count, err) == ZL_OK) {
        free(found);
    }
}

static void speed(const char *path, zl_err *err)
{
    speed_file found;
    if (speed_load(path, &found, err) == ZL_OK) {
        speed_release(&found);
    }
}

static void train(const char *path, zl_err *err)
{
    zv_train found;
    (void)!zv_train_read(path, &found, err);
}

typedef void reader(const char *path, zl_err *err);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static reader *const readers[] = {verdicts, mutants, nccl,    nccl_traced, trace,
                                      causes,   limits,  answers, speed,       train};
    zl_err err = {0};
    if (size > 0) {
        readers[(data[0] - (unsigned)'0') % (sizeof readers / sizeof readers[0])](
            zl_fuzz_file(0, data + 1, size - 1), &err);
    }
    return 0;
}
