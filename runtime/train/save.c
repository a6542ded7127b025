#include "train/save.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/agree.h"
#include "train/folder.h"
#include "train/shard_file.h"
#include "zeroledger/text.h"

struct zr_save {
    zr_save_options options;
    uint64_t rank;
    zr_manifest manifest; /* of the step being saved; file (N) */
    zr_word *table;       /* (N) */
    zr_piece piece;
    const zr_zero *zero; /* while a step is saved */
    char temporary[ZR_PATH];
};

zl_status zr_save_folder(const char *root, zl_err *err)
{
    return zr_folder_make(root, err);
}

zl_status zr_save_new(const zr_save_options *options, zr_save **out, zl_err *err)
{
    const uint64_t ranks = zr_comm_ranks(options->comm);
    zr_save *save = calloc(1, sizeof *save);
    zr_word *table = calloc((size_t)ranks, sizeof *table);
    zr_manifest_file *file = calloc((size_t)ranks, sizeof *file);
    if (save == NULL || table == NULL || file == NULL) {
        free(file);
        free(table);
        free(save);
        return zl_fail(err, ZL_E_RESOURCE, "out of memory for saving checkpoints");
    }
    save->options = *options;
    save->rank = zr_comm_rank(options->comm);
    save->table = table;
    save->manifest = (zr_manifest){.seed = options->seed, .ranks = ranks, .file = file};
    zl_run_id(options->run, save->manifest.run);
    *out = save;
    return ZL_OK;
}

void zr_save_free(zr_save *save)
{
    if (save != NULL) {
        zr_manifest_release(&save->manifest);
        free(save->table);
        free(save);
    }
}

/* Rank 0, before: the folder that all ranks will write into. */
static zl_status prepare(zr_save *save, zl_err *err)
{
    if (save->rank != 0) {
        return ZL_OK;
    }
    ZL_TRY(zr_folder_clean(save->options.root, err));
    return zr_folder_make(save->temporary, err);
}

static zl_status write_shard(zr_save *save, zl_err *err)
{
    char name[ZR_MANIFEST_NAME];
    char path[ZR_PATH];
    const uint64_t ranks = save->manifest.ranks;
    const zr_shard_args args = {.zero = save->zero,
                                .rank = save->rank,
                                .ranks = ranks,
                                .step = save->manifest.position.step};
    zr_word *const word = &save->table[save->rank];
    zr_manifest_name(save->rank, ranks, name);
    ZL_TRY(zr_folder_path(save->temporary, name, path, err));
    return zr_shard_write(path, &args, &save->piece, &word->bytes, &word->checksum, err);
}

/* The folder's own files, the manifest last. */
static zl_status write_manifest(zr_save *save, zl_err *err)
{
    char path[ZR_PATH];
    for (uint64_t r = 0; r < save->manifest.ranks; r++) {
        save->manifest.file[r] =
            (zr_manifest_file){.bytes = save->table[r].bytes, .checksum = save->table[r].checksum};
    }
    ZL_TRY(zr_folder_path(save->temporary, "run.json", path, err));
    ZL_TRY(zl_run_save(save->options.run, path, err));
    ZL_TRY(zr_folder_path(save->temporary, "manifest.json", path, err));
    return zr_manifest_save(&save->manifest, path, err);
}

static zl_status point_to(const char *root, uint64_t step, zl_err *err)
{
    char name[ZR_STEP_NAME];
    char path[ZR_PATH];
    char line[ZR_STEP_NAME + 1];
    zr_step_name(step, name);
    const int length = snprintf(line, sizeof line, "%s\n", name);
    ZL_TRY(zr_folder_path(root, "latest", path, err));
    return zl_file_write(path, line, length > 0 ? (size_t)length : 0, err);
}

/* Rank 0, behind: everybody's file is on the disk. */
static zl_status finish(zr_save *save, zl_err *err)
{
    const char *root = save->options.root;
    const uint64_t step = save->manifest.position.step;
    if (save->rank != 0) {
        return ZL_OK;
    }
    ZL_TRY(write_manifest(save, err));
    ZL_TRY(zr_folder_publish(root, step, err));
    ZL_TRY(point_to(root, step, err));
    return zr_folder_keep(root, step, save->options.keep, err);
}

typedef zl_status save_part(zr_save *save, zl_err *err);

/* All ranks do a part, and go on only if all of them could. */
static zl_status together(zr_save *save, save_part *part, zl_err *err)
{
    zr_word *const own = &save->table[save->rank];
    zl_err found = {.status = ZL_OK};
    (void)part(save, &found);
    own->err = found;
    return zr_agree(save->options.comm, save->table, err);
}

static zl_status save_all(zr_save *save, zl_err *err)
{
    ZL_TRY(together(save, prepare, err));
    ZL_TRY(together(save, write_shard, err));
    return together(save, finish, err);
}

/* Nobody goes away, and takes the job along, before it is done. Its own failures come second: err
 * tells the first. */
static zl_status discard(zr_save *save, zl_status status, zl_err *err)
{
    zl_status also = ZL_OK;
    if (save->rank == 0) {
        also = zr_folder_remove(save->temporary, err);
    }
    const zl_status met = zr_comm_barrier(save->options.comm, err);
    return status != ZL_OK ? status : also != ZL_OK ? also : met;
}

zl_status zr_save_step(zr_save *save, const zr_zero *zero, const zr_position *position, zl_err *err)
{
    char name[ZR_STEP_NAME];
    zr_step_temporary(position->step, name);
    ZL_TRY(zr_folder_path(save->options.root, name, save->temporary, err));
    save->manifest.position = *position;
    save->zero = zero;
    const zl_status status = save_all(save, err);
    save->zero = NULL;
    return status == ZL_OK ? ZL_OK : discard(save, status, err);
}
