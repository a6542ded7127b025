#define _DEFAULT_SOURCE /* realpath */

#include "drive/trainer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "drive/child.h"
#include "drive/train_json.h"
#include "zeroledger/text.h"

static const char log_name[] = "zl-train.log";

zl_status zv_trainer_at(const char *path, zv_trainer *out, zl_err *err)
{
    zv_trainer trainer = {.steps = 3, .poison = true, .limit = 600};
    char *const full = realpath(path, NULL);
    if (full == NULL || strlen(full) >= sizeof trainer.path || access(full, X_OK) != 0) {
        free(full);
        return zl_fail(err, ZL_E_RESOURCE,
                       "%s: no trainer to run; build zl-train, or say where it is with ZL_TRAIN",
                       path);
    }
    snprintf(trainer.path, sizeof trainer.path, "%s", full);
    free(full);
    ZL_TRY(zv_file_hash(trainer.path, trainer.hash, err));
    *out = trainer;
    return ZL_OK;
}

zl_status zv_trainer_find(const char *folder, zv_trainer *out, zl_err *err)
{
    char path[ZV_PATH_SIZE];
    const char *const given = getenv("ZL_TRAIN");
    if (given != NULL && given[0] != '\0') {
        return zv_trainer_at(given, out, err);
    }
    ZL_TRY(zv_path(path, folder, "zl-train", err));
    return zv_trainer_at(path, out, err);
}

/* The line that says why: the first one the trainer signed, else the last one. */
static void reason(const char *folder, char *text, size_t size)
{
    char path[ZV_PATH_SIZE], *log = NULL, *state = NULL;
    size_t length;
    snprintf(text, size, "it said nothing");
    if (zv_path(path, folder, log_name, NULL) != ZL_OK ||
        zl_file_read(path, &log, &length, NULL) != ZL_OK) {
        return;
    }
    for (char *line = strtok_r(log, "\n", &state); line != NULL;
         line = strtok_r(NULL, "\n", &state)) {
        snprintf(text, size, "%.400s", line);
        if (strncmp(line, "zl-train", 8) == 0) {
            break;
        }
    }
    free(log);
}

static void tell(const zv_trainer *trainer, const zv_child_result *result, const char *folder,
                 zv_verdict *verdict)
{
    char why[432];
    reason(folder, why, sizeof why);
    verdict->outcome = ZV_FAILED;
    switch (result->end) {
    case ZV_CHILD_EXITED:
        snprintf(verdict->message, sizeof verdict->message, "exit %d: %s", result->code, why);
        break;
    case ZV_CHILD_SIGNALLED:
        snprintf(verdict->message, sizeof verdict->message, "ended by signal %d: %s", result->code,
                 why);
        break;
    case ZV_CHILD_TIMED_OUT:
        snprintf(verdict->message, sizeof verdict->message, "not finished after %u s: %s",
                 trainer->limit, why);
        break;
    case ZV_CHILD_INTERRUPTED:
    case ZV_CHILD_END_COUNT:
        verdict->message[0] = '\0';
        break;
    }
}

zl_status zv_trainer_run(const zv_trainer *trainer, const zv_job *job, zv_verdict *verdict,
                         zl_err *err)
{
    char path[ZV_PATH_SIZE], steps[24], program[ZV_PATH_SIZE];
    char arg[][8] = {"--run", "--steps", "--out", "--quiet"}, file[] = "run.json", here[] = ".";
    char poison[] = "--poison";
    zl_err why = {0};
    zv_child_result result;
    ZL_TRY(zv_clear_case(job->folder, err));
    ZL_TRY(zv_path(path, job->folder, file, err));
    ZL_TRY(zl_run_save(job->run, path, err));
    snprintf(program, sizeof program, "%s", trainer->path);
    snprintf(steps, sizeof steps, "%" PRIu64, trainer->steps);
    char *const argv[] = {
        program, arg[0], file, arg[1], steps, arg[2], here, arg[3], trainer->poison ? poison : NULL,
        NULL};
    const zv_child child = {.argv = argv,
                            .folder = job->folder,
                            .log = log_name,
                            .fault = job->fault,
                            .limit = trainer->limit};
    ZL_TRY(zv_child_run(&child, &result, err));
    verdict->ranks = job->run->ranks;
    verdict->seconds = result.seconds;
    zl_run_id(job->run, verdict->run_id);
    snprintf(verdict->trainer, sizeof verdict->trainer, "%s", trainer->hash);
    if (result.end != ZV_CHILD_EXITED || result.code != 0) {
        tell(trainer, &result, job->folder, verdict);
    } else if (zv_train_load(job->folder, &verdict->train, &why) != ZL_OK) {
        verdict->outcome = ZV_FAILED;
        snprintf(verdict->message, sizeof verdict->message, "%s", why.text);
    } else {
        verdict->outcome = ZV_EQUAL;
    }
    return ZL_OK;
}
