/* One line of a .jsonl file of measurements of PyTorch: what ran, and what it showed at each mark.
 *
 * Read as the setup of a prediction: `config`, `env`, `device_total`, `device_used_context` and
 * which steps fp16 overflow skipped. Everything else in a record is a measurement.
 */
#ifndef ZV_RECORD_H
#define ZV_RECORD_H

#include <stdint.h>

#include "compare/verdict.h"
#include "zeroledger/json.h"
#include "zeroledger/torch.h"

typedef struct zv_record {
    char id[ZV_ID_SIZE];
    char framework[16]; /* as the record calls it: "fsdp2-zero2" */
    char version[16];   /* of DeepSpeed, else of PyTorch */
    char stage[4];      /* of ZeRO, "" on a single GPU */
    zl_torch_run run;   /* the same for every rank but for device_total and device_context */
    zl_json ranks;      /* borrowed from the document */
} zv_record;

/* What the measuring scripts did and no key of `config` tells. */
typedef struct zv_setup zv_setup;

/* Reads validate/records/setup.json; the caller frees *out with zv_setup_free. */
ZL_NODISCARD zl_status zv_setup_load(const char *path, zv_setup **out, zl_err *err);
void zv_setup_free(zv_setup *setup);

/* Fills *out as far as it can. ZL_E_INPUT: not a record; ZL_E_UNMODELLED: a setup outside the
 * model, id, framework, version, stage and ranks are valid nevertheless. The document of `line` has
 * to live as long as the record. */
ZL_NODISCARD zl_status zv_record_read(zl_json line, const zv_setup *setup, zl_warn *warn,
                                      void *context, zv_record *out, zl_err *err);

/* The setup of one of its ranks and its number. */
ZL_NODISCARD zl_status zv_record_rank(const zv_record *record, zl_json rank, zl_torch_run *run,
                                      uint64_t *number, zl_err *err);

#endif
