/* adapter_config.json of Hugging Face peft, which means LoRA. */
#ifndef ZL_CLI_PEFT_H
#define ZL_CLI_PEFT_H

#include <stdbool.h>
#include <stddef.h>

#include "zeroledger/error.h"
#include "zeroledger/run.h"
#include "zeroledger/torch.h"

typedef struct zl_peft {
    char lora[ZL_LORA_SIZE]; /* as --lora takes it: "16@0.05:q_proj,v_proj" */
    char base[128];          /* base_model_name_or_path; "": not said */
} zl_peft;

/* Whether the text is the path of such a file or of a folder with one; then *path, of size bytes,
 * is that of the file. A folder may also have none: false. */
bool zl_peft_find(const char *text, char *path, size_t size);

/* Reads it. What the file asks for beyond plain LoRA (another peft_type, biases that train, DoRA,
 * other ranks or layers for some modules, whole modules that train ...) is ZL_E_UNMODELLED by name.
 */
zl_status zl_peft_read(const char *path, zl_peft *out, zl_warn *warn, void *context, zl_err *err);

#endif
