/* Another depth than the one that a config.json names. */
#include <string.h>

#include "run_fields.h"
#include "zeroledger/json.h"

/* The names that models of Hugging Face have for their number of layers. */
static const char *const names[] = {"num_hidden_layers", "n_layer", "n_layers", "num_layers"};

static bool is_depth(const char *key)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(key, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Which of the names a config.json that has none would have. */
static const char *usual_name(zl_json config)
{
    static const struct {
        const char *type, *name;
    } others[] = {{"gpt2", "n_layer"}, {"gptj", "n_layer"}, {"distilbert", "n_layers"}};
    const char *type = "";
    if (zl_json_string(zl_json_get(config, "model_type"), &type, NULL) == ZL_OK) {
        for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
            if (strcmp(type, others[i].type) == 0) {
                return others[i].name;
            }
        }
    }
    return names[0];
}

static void put_config(zl_json_writer *w, zl_json config, uint64_t layers)
{
    size_t i = 0;
    const char *key = NULL;
    zl_json value;
    bool found = false;
    zl_json_begin_object(w, NULL);
    while (zl_json_each_member(config, &i, &key, &value)) {
        if (is_depth(key)) {
            zl_json_put_u64(w, key, layers);
            found = true;
        } else {
            zl_json_put(w, key, value);
        }
    }
    if (!found) {
        zl_json_put_u64(w, usual_name(config), layers);
    }
    zl_json_end(w);
}

zl_status zl_config_take_layers(zl_run *run, zl_err *err)
{
    zl_json_doc *old = NULL;
    zl_json_doc *doc = NULL;
    size_t size = 0;
    if (run->hf_config[0] == '\0') {
        return ZL_OK;
    }
    ZL_TRY(zl_json_parse(run->model.name, run->hf_config, strlen(run->hf_config), &old, err));
    zl_json_writer *w = zl_json_writer_new();
    put_config(w, zl_json_root(old), run->layers);
    const char *text = zl_json_writer_text(w, &size);
    zl_status status = text != NULL ? zl_json_parse(run->model.name, text, size, &doc, err)
                                    : zl_fail(err, ZL_E_RESOURCE, "out of memory");
    if (status == ZL_OK) {
        status = zl_config_compact(zl_json_root(doc), "what shapes the model", run->hf_config,
                                   sizeof run->hf_config, err);
    }
    zl_json_free(doc);
    zl_json_free(old);
    zl_json_writer_free(w);
    return status;
}
