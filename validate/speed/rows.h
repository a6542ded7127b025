/* The rows of a speed.json ("zeroledger.speed/1", docs/schema): what ran, how fast, in how much
 * memory.
 *
 *     speed_file file;
 *     ZL_TRY(speed_load("speed.json", &file, err));
 *     ... file.row[i].step_seconds ...
 *     speed_release(&file);
 */
#ifndef ZV_SPEED_ROWS_H
#define ZV_SPEED_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zeroledger/error.h"
#include "zeroledger/json.h"

/* Words are borrowed from the file; numbers that a row lacks are 0, words NULL. */
typedef struct speed_row {
    const char *name;
    const char *program; /* zeroledger, pytorch or transformers */
    const char *model;
    const char *mode; /* of PyTorch: ddp, fsdp2-zero2, fsdp2 */
    const char *recompute;
    const char *grad_dtype; /* of zeroledger */
    const char *error;      /* the row has no figures then */
    bool compiled;
    uint64_t ranks;
    uint64_t stage;
    uint64_t micro_batch;
    uint64_t seq;
    uint64_t head_chunk;
    uint64_t operations; /* of one token */
    uint64_t peak_allocated;
    uint64_t device_used;
    double step_seconds;
} speed_row;

typedef struct speed_file {
    zl_json_doc *doc;
    const char *commit;
    const char *date;
    const char *gpu;
    const char *driver;
    const char *torch;
    size_t count;
    speed_row *row;
} speed_file;

ZL_NODISCARD zl_status speed_load(const char *path, speed_file *out, zl_err *err);
void speed_release(speed_file *file);

#endif
