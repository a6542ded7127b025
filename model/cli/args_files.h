/* Options whose files only the program reads: accelerate's configuration, peft's adapter. */
#ifndef ZL_CLI_ARGS_FILES_H
#define ZL_CLI_ARGS_FILES_H

#include "accelerate.h"
#include "cmd.h"

/* --accelerate-config, on which the framework and so the model's reader depend; empty without it.
 */
zl_status zl_args_accelerate(const zl_args *args, zl_accelerate *out, zl_run *run, zl_err *err);

/* An option of the run; --lora may name an adapter_config.json or its folder. */
zl_status zl_args_set(const zl_args *args, const zl_setting *set, zl_run *run, zl_err *err);

/* A folder given as --model may hold an adapter: with a config.json beside it, it is the run's LoRA
 * unless --lora says otherwise; without one, the error names the model that it was made for. */
zl_status zl_args_check_adapter(const zl_args *args, zl_err *err);
zl_status zl_args_adapter(const zl_args *args, zl_run *run, zl_err *err);

/* Warns where weights beside a config.json, or the index of weights that are the model, say
 * something else.
 */
zl_status zl_args_weights(const zl_args *args, const zl_run *run, zl_err *err);

/* ZL_E_USAGE: there is no model; names that of an adapter where there is one. */
zl_status zl_args_no_model(const zl_args *args, zl_err *err);

#endif
