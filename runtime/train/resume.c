#define _DEFAULT_SOURCE
#include "train/resume.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train/agree.h"
#include "train/folder.h"
#include "train/same_run.h"
#include "train/shard_file.h"
#include "zeroledger/text.h"

struct zr_resume {
    char folder[ZR_PATH]; /* of the step */
    zr_manifest manifest;
    zr_word *table; /* (N) while loading */
    zr_piece piece;
};

static bool holds(const char *folder, const char *name)
{
    char path[ZR_PATH];
    return zr_folder_path(folder, name, path, NULL) == ZL_OK && access(path, F_OK) == 0;
}

/* The step that ROOT/latest names. */
static zl_status follow(const char *root, char folder[ZR_PATH], zl_err *err)
{
    char path[ZR_PATH];
    char *text = NULL;
    size_t size;
    uint64_t step;
    ZL_TRY(zr_folder_path(root, "latest", path, err));
    ZL_TRY(zl_file_read(path, &text, &size, err));
    text[strcspn(text, "\n")] = '\0';
    const zl_status status =
        zr_step_parse(text, &step)
            ? zr_folder_path(root, text, folder, err)
            : zl_fail(err, ZL_E_INPUT, "%.200s: \"%.40s\" is not the name of a step", path, text);
    free(text);
    return status;
}

static zl_status find(const char *path, char folder[ZR_PATH], zl_err *err)
{
    const size_t length = strlen(path);
    if (holds(path, "latest")) {
        ZL_TRY(follow(path, folder, err));
        return holds(folder, "manifest.json")
                   ? ZL_OK
                   : zl_fail(err, ZL_E_INPUT, "%.200s/manifest.json: %s", folder, strerror(errno));
    }
    if (!holds(path, "manifest.json")) {
        return zl_fail(err, ZL_E_INPUT,
                       "%.200s: no checkpoint, it has neither manifest.json nor latest; name the "
                       "folder of one step or of all",
                       path);
    }
    if (length >= ZR_PATH) {
        return zl_fail(err, ZL_E_INPUT, "%.200s: the path is too long", path);
    }
    memcpy(folder, path, length + 1);
    return ZL_OK;
}

static zl_status file_path(const zr_resume *resume, uint64_t rank, char path[ZR_PATH], zl_err *err)
{
    char name[ZR_MANIFEST_NAME];
    zr_manifest_name(rank, resume->manifest.ranks, name);
    return zr_folder_path(resume->folder, name, path, err);
}

static zl_status check_sizes(const zr_resume *resume, zl_err *err)
{
    for (uint64_t r = 0; r < resume->manifest.ranks; r++) {
        char path[ZR_PATH];
        struct stat info;
        ZL_TRY(file_path(resume, r, path, err));
        if (stat(path, &info) != 0) {
            return zl_fail(err, ZL_E_INPUT, "%.200s: %s", path, strerror(errno));
        }
        const uint64_t bytes = resume->manifest.file[r].bytes;
        if (!S_ISREG(info.st_mode) || (uint64_t)info.st_size != bytes) {
            return zl_fail(err, ZL_E_INPUT,
                           "%.200s: %lld bytes long, and manifest.json says %" PRIu64, path,
                           (long long)info.st_size, bytes);
        }
    }
    return ZL_OK;
}

static zl_status check_run(const zr_resume *resume, const zr_resume_want *want, zl_err *err)
{
    char path[ZR_PATH];
    char id[ZL_RUN_ID_SIZE];
    zl_run run;
    ZL_TRY(zr_folder_path(resume->folder, "run.json", path, err));
    ZL_TRY(zl_run_load(path, &run, err));
    zl_run_id(&run, id);
    if (strcmp(id, resume->manifest.run) != 0) {
        return zl_fail(err, ZL_E_INPUT, "%.200s: its id is %s, and manifest.json says %.16s", path,
                       id, resume->manifest.run);
    }
    ZL_TRY(zr_same_run(&run, want->run, resume->folder, err));
    if (resume->manifest.seed != want->seed) {
        return zl_fail(err, ZL_E_INPUT,
                       "%.200s: seed is %" PRIu64 " there and %" PRIu64
                       " in this run; say --seed %" PRIu64,
                       resume->folder, resume->manifest.seed, want->seed, resume->manifest.seed);
    }
    return ZL_OK;
}

static zl_status open_all(zr_resume *resume, const char *path, const zr_resume_want *want,
                          zl_err *err)
{
    char manifest[ZR_PATH];
    ZL_TRY(find(path, resume->folder, err));
    ZL_TRY(zr_folder_path(resume->folder, "manifest.json", manifest, err));
    ZL_TRY(zr_manifest_load(manifest, &resume->manifest, err));
    ZL_TRY(check_run(resume, want, err));
    return check_sizes(resume, err);
}

zl_status zr_resume_open(const char *path, const zr_resume_want *want, zr_resume **out, zl_err *err)
{
    zr_resume *resume = calloc(1, sizeof *resume);
    if (resume == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory for reading a checkpoint");
    }
    const zl_status status = open_all(resume, path, want, err);
    if (status != ZL_OK) {
        zr_resume_free(resume);
        return status;
    }
    *out = resume;
    return ZL_OK;
}

void zr_resume_free(zr_resume *resume)
{
    if (resume != NULL) {
        zr_manifest_release(&resume->manifest);
        free(resume->table);
        free(resume);
    }
}

const zr_position *zr_resume_position(const zr_resume *resume)
{
    return &resume->manifest.position;
}

static zr_shard_args args_of(const zr_resume *resume, const zr_zero *zero, uint64_t rank)
{
    return (zr_shard_args){.zero = zero,
                           .rank = rank,
                           .ranks = resume->manifest.ranks,
                           .step = resume->manifest.position.step};
}

/* This rank's share of the files, to be read from end to end. */
static zl_status check_files(zr_resume *resume, const zr_zero *zero, zl_err *err)
{
    for (uint64_t r = zero->rank; r < resume->manifest.ranks; r += zero->ranks) {
        char path[ZR_PATH];
        const zr_shard_args args = args_of(resume, zero, r);
        ZL_TRY(file_path(resume, r, path, err));
        ZL_TRY(zr_shard_check(path, &args, &resume->piece, resume->manifest.file[r].checksum, err));
    }
    return ZL_OK;
}

static zl_status read_files(zr_resume *resume, const zr_zero *zero, zl_err *err)
{
    for (uint64_t r = 0; r < resume->manifest.ranks; r++) {
        char path[ZR_PATH];
        const zr_shard_args args = args_of(resume, zero, r);
        ZL_TRY(file_path(resume, r, path, err));
        ZL_TRY(zr_shard_read(path, &args, &resume->piece, err));
    }
    return ZL_OK;
}

typedef zl_status resume_part(zr_resume *resume, const zr_zero *zero, zl_err *err);

static zl_status together(zr_resume *resume, zr_zero *zero, resume_part *part, zl_err *err)
{
    zl_err found = {.status = ZL_OK};
    (void)part(resume, zero, &found);
    resume->table[zero->rank].err = found;
    return zr_agree(zero->comm, resume->table, err);
}

zl_status zr_resume_load(zr_resume *resume, zr_zero *zero, zl_err *err)
{
    resume->table = calloc((size_t)zero->ranks, sizeof *resume->table);
    if (resume->table == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory for reading a checkpoint");
    }
    ZL_TRY(together(resume, zero, check_files, err));
    ZL_TRY(together(resume, zero, read_files, err));
    return zr_part_settle(zero, err);
}
