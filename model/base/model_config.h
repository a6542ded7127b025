/* Reader of Hugging Face config.json files. Private to base/. */
#ifndef ZL_BASE_MODEL_CONFIG_H
#define ZL_BASE_MODEL_CONFIG_H

#include "zeroledger/json.h"
#include "zeroledger/model.h"

/* Maps a config to a model named `name`. Absent keys take the defaults of the transformers library.
 * What changes shapes or arithmetic beyond the families is ZL_E_UNMODELLED and named. */
ZL_NODISCARD zl_status zl_model_from_config(zl_json config, const char *name, zl_model *out,
                                            zl_err *err);

/* A config.json that has been read: of a preset (path ""), of a file. */
typedef struct zl_model_source {
    char name[64]; /* label of the model */
    char path[4096];
    zl_json_doc *doc;
} zl_model_source;

/* As zl_model_load, without looking into it. The caller frees out->doc with zl_json_free. */
ZL_NODISCARD zl_status zl_model_open(const char *name_or_path, zl_model_source *out, zl_err *err);

/* A built-in preset: name and config text; generated from data/models at build time. */
typedef struct zl_preset {
    const char *name;
    const char *config;
} zl_preset;

extern const zl_preset zl_presets[];
extern const size_t zl_preset_count;

#endif
