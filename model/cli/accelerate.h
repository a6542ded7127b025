/* --accelerate-config: what a configuration of Hugging Face accelerate decides of a run.
 *
 * The file is read as accelerate reads it (commands/config/config_args.py, commands/launch.py and
 * utils/dataclasses.py at 1.15, with the defaults of its launcher), and each thing it decides
 * becomes an option of the run, or a ds_config.json for DeepSpeed.
 *
 *     zl_accelerate a;
 *     ZL_TRY(zl_accelerate_read(path, &a, warn, context, err));
 *     ZL_TRY(zl_accelerate_apply(&a, args, &run, err));     // what the command line does not say
 *     ... the options of the command line ...
 *     ZL_TRY(zl_accelerate_check(&a, args, &run, err));     // what it says otherwise
 */
#ifndef ZL_CLI_ACCELERATE_H
#define ZL_CLI_ACCELERATE_H

#include "cmd.h"
#include "zeroledger/torch.h"

enum { ZL_ACCELERATE_MAX = 12, ZL_ACCELERATE_TEXT = 192 };

/* One option that the file decides. */
typedef struct zl_accelerate_setting {
    const char *option;
    char value[ZL_ACCELERATE_TEXT]; /* "": a flag */
    char from[ZL_ACCELERATE_TEXT];  /* the keys of the file that say so, and their values */
    bool off;                       /* a flag that the file does not set */
    bool
        dtypes; /* precision: mixed_precision no leaves open whether the weights are fp32 or bf16 */
} zl_accelerate_setting;

typedef struct zl_accelerate {
    char file[64]; /* its name without folders */
    zl_accelerate_setting setting[ZL_ACCELERATE_MAX];
    size_t count;
    char classes[ZL_ACCELERATE_TEXT]; /* FSDP's units, "LlamaDecoderLayer"; "": the model's default
                                       */
    bool wraps;                       /* there are such units */
    char deepspeed[ZL_CONFIG_SIZE];   /* the ds_config.json that its keys mean; "": none */
    bool zero_init;                   /* zero3_init_flag, true where it is absent */
} zl_accelerate;

/* ZL_E_INPUT: accelerate would refuse the file; ZL_E_UNMODELLED names what is outside. Warnings are
 * of keys that nobody knows and of values that do not mean what they look like. */
zl_status zl_accelerate_read(const char *path, zl_accelerate *out, zl_warn *warn, void *context,
                             zl_err *err);

/* Sets what the command line leaves open, and says each setting on the standard error. */
zl_status zl_accelerate_apply(const zl_accelerate *a, const zl_args *args, zl_run *run,
                              zl_err *err);

/* ZL_E_USAGE: the command line contradicts the file. */
zl_status zl_accelerate_check(const zl_accelerate *a, const zl_args *args, const zl_run *run,
                              zl_err *err);

#endif
