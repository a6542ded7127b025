/* Slips of the pen in a config.json. Its readers in Python pass over keys that they do not know,
 * and every model brings its own, so an unknown key is no fault; but where a key that decides
 * shapes is absent, and another looks like it, what was meant is not what is read. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "torch/hf_dialects.h"
#include "zeroledger/json.h"
#include "zeroledger/text.h"
#include "zeroledger/torch.h"

enum { KEYS_MAX = 2 * ZT_HF_COUNTS + ZT_HF_FLAGS + ZT_HF_DROPOUTS + 1 };

typedef struct key_list {
    const char *known[KEYS_MAX];
    size_t known_count;
    const char *absent[KEYS_MAX]; /* of them, what the file has under no name */
    size_t absent_count;
} key_list;

static void add(key_list *list, zl_json config, const char *key, const char *alias)
{
    list->known[list->known_count++] = key;
    bool there = zl_json_get(config, key).node != NULL;
    if (alias != NULL) {
        list->known[list->known_count++] = alias;
        there = there || zl_json_get(config, alias).node != NULL;
    }
    if (!there) {
        list->absent[list->absent_count++] = key;
    }
}

static void list_keys(zl_json config, const zt_dialect *d, key_list *list)
{
    for (size_t i = 0; i < ZT_HF_COUNTS && d->counts[i].key != NULL; i++) {
        add(list, config, d->counts[i].key, d->counts[i].alias);
    }
    for (size_t i = 0; i < ZT_HF_FLAGS && d->flags[i].key != NULL; i++) {
        add(list, config, d->flags[i].key, NULL);
    }
    for (size_t i = 0; i < ZT_HF_DROPOUTS && d->dropouts[i].key != NULL; i++) {
        list->known[list->known_count++] = d->dropouts[i].key;
    }
    list->known[list->known_count++] = d->activation_key != NULL ? d->activation_key : "hidden_act";
}

static bool is_known(const key_list *list, const char *key)
{
    for (size_t i = 0; i < list->known_count; i++) {
        if (strcmp(list->known[i], key) == 0) {
            return true;
        }
    }
    return false;
}

void zl_hf_config_slips(zl_json config, zl_warn *warn, void *context)
{
    const char *type = NULL;
    const char *key = NULL;
    zl_json value = config;
    key_list list = {.known_count = 0};
    const zt_dialect *d = zt_dialects;
    if (zl_json_string(zl_json_get(config, "model_type"), &type, NULL) != ZL_OK) {
        return;
    }
    while (d->type != NULL && strcmp(d->type, type) != 0) {
        d++;
    }
    if (d->type == NULL) {
        return;
    }
    list_keys(config, d, &list);
    for (size_t i = 0; zl_json_each_member(config, &i, &key, &value);) {
        const char *near =
            is_known(&list, key) ? NULL : zl_nearest(key, list.absent, list.absent_count);
        if (near != NULL) {
            char line[256];
            snprintf(line, sizeof line,
                     "config.json: %.60s is no key of %s, and %s is not given; did you mean that?",
                     key, type, near);
            warn(context, line);
        }
    }
}
