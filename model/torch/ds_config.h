/* What the files that read a ds_config.json share. Private to torch/.
 *
 * - ds_config.c: what each section means
 * - ds_config_keys.c: the keys of each section
 * - ds_config_values.c: one value, in the spellings that DeepSpeed accepts or only nearly does
 * - ds_config_auto.c: "auto", by the rules of those who replace it
 * - ds_config_legacy.c: older names, and keys beside their other name
 * - ds_config_batch.c: train_batch_size = micro-batch x accumulation x ranks
 */
#ifndef ZL_TORCH_DS_CONFIG_H
#define ZL_TORCH_DS_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "zeroledger/error.h"
#include "zeroledger/json.h"
#include "zeroledger/torch.h"

/* Releases in which the reading of the file changed: 1,000 minor + patch. */
enum {
    ZT_DS_CHECKED = 7000, /* zero_optimization is checked by pydantic: types, names; drops "auto" */
    ZT_DS_HJSON = 8001,   /* a path is read by hjson */
    ZT_DS_SWAP_OR_HOST = 10001, /* stages 1 and 2 take every offload device for the host */
    ZT_DS_STRICT = 15000,       /* pydantic 2: no fraction is cut off any more */
    ZT_DS_CHECKED_TYPES = 17001 /* fp16 and bf16 are checked by pydantic too */
};

typedef struct zt_ds_reader {
    zl_ds_config *ds;
    const zl_ds_program *program;
} zt_ds_reader;

/* A line to whoever listens to the warnings. */
void zt_ds_warn(const zt_ds_reader *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Keeps that `key` came to be `value`, and why; the longest list is cut. */
void zt_ds_note(zl_ds_config *ds, const char *key, const char *value, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- the keys of a section ---- */

typedef enum zt_ds_keys {
    ZT_DS_TOP,
    ZT_DS_ZERO,
    ZT_DS_OFFLOAD_OPTIMIZER,
    ZT_DS_OFFLOAD_PARAM,
    ZT_DS_FP16,
    ZT_DS_BF16,
    ZT_DS_DATA_TYPES,
    ZT_DS_KEYS_COUNT
} zt_ds_keys;

/* Takes what flags and counts say, warns about keys that are not known, and refuses
 * (ZL_E_UNMODELLED) what moves memory in a way outside the model. An object that is absent is none.
 */
zl_status zt_ds_read_keys(const zt_ds_reader *r, zl_json object, zt_ds_keys keys, zl_err *err);

/* ---- one value ---- */

bool zt_ds_is_auto(zl_json value);
/* Whether pydantic checks the section of a key in this release: it takes words for flags, digits in
 * quotes for numbers, and drops "auto". */
bool zt_ds_is_checked(const zl_ds_config *ds, const char *path);
/* ZL_E_INPUT for an "auto" that nobody replaces. */
zl_status zt_ds_refuse_auto(zl_json value, zl_err *err);
/* A finite number, or a string that holds one (which is warned about where DeepSpeed refuses it).
 */
zl_status zt_ds_real(const zt_ds_reader *r, zl_json value, double *out, zl_err *err);
/* A count of elements: 500000000, 5e8, "5e8"; a fraction is cut off. */
zl_status zt_ds_count(const zt_ds_reader *r, zl_json value, uint64_t *out, zl_err *err);
/* A count that has to be whole and at least 1. */
zl_status zt_ds_whole(zl_json value, uint64_t *out, zl_err *err);
/* true, false, or what pydantic takes for them (warned about). */
zl_status zt_ds_flag(const zt_ds_reader *r, zl_json value, bool *out, zl_err *err);
/* null, false, "none", a number that is not positive or the neutral one, an object that is empty or
 * whose "enabled" is false or left to the Trainer. */
bool zt_ds_is_off(zl_json value, uint64_t neutral);

/* ---- "auto" ---- */

/* A value that is "auto": *count, which holds the default, gets what replaces it. NULL: no count.
 */
zl_status zt_ds_auto(const zt_ds_reader *r, zl_json value, uint64_t *count, zl_err *err);
/* accelerate writes the section that its mixed_precision needs where a file that it completes lacks
 * it; fp16 and bf16 say which may be added. */
void zt_ds_add_precision(const zt_ds_reader *r, bool fp16, bool bf16);
/* fp16.enabled and bf16.enabled, of which at least one is "auto"; the other is in r->ds. */
zl_status zt_ds_auto_precision(const zt_ds_reader *r, bool fp16, bool bf16, zl_err *err);
/* train_batch_size: the product, once its factors are read. */
zl_status zt_ds_auto_total(const zt_ds_reader *r, zl_err *err);

/* ---- older names ---- */

/* zero_optimization as true or false, the form before stages: true is stage 1. */
zl_status zt_ds_read_boolean(const zt_ds_reader *r, zl_json file, zl_err *err);
/* Warns about older names in zero_optimization. ZL_E_INPUT: a key beside its other name. */
zl_status zt_ds_check_names(const zt_ds_reader *r, zl_json zero, zl_err *err);
/* cpu_offload and its like, as the offload_optimizer and offload_param that they mean. */
zl_status zt_ds_read_old_offload(const zt_ds_reader *r, zl_json zero, zl_err *err);

/* ---- the batch ---- */

/* Sequences per optimizer step, per micro-step and rank, micro-steps; 0: not said. */
typedef struct zt_ds_batch {
    uint64_t total, micro, steps, ranks;
} zt_ds_batch;

/* DeepSpeedConfig._set_batch_related_parameters and _batch_assertion: fills in what was not said.
 * ZL_E_USAGE with the arithmetic: they contradict each other, or neither total nor micro is said.
 */
zl_status zt_ds_batch_complete(zt_ds_batch *batch, zl_err *err);

#endif
