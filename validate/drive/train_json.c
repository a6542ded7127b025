#include "drive/train_json.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "drive/files.h"
#include "fit/stats.h"
#include "zeroledger/json.h"
#include "zeroledger/text.h"

enum { STEPS_MAX = 1024 };

static double number(zl_json value)
{
    double real = 0;
    return zl_json_is_number(value) && zl_json_real(value, &real, NULL) == ZL_OK ? real : 0;
}

/* "backend host, cores 2, memory 23.5 GiB": the members of an object that are one line. The date
 * differs in every case and says nothing about the machine; paths are not for a report. */
static void flatten(zl_json object, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < zl_json_size(object) && used < size; i++) {
        const char *const key = zl_json_key(object, i);
        const zl_json value = zl_json_get(object, key);
        const char *word;
        uint64_t bytes;
        char gib[32];
        const char *const comma = used == 0 ? "" : ", ";
        if (strcmp(key, "date") == 0) {
            continue;
        }
        if (zl_json_is_string(value) && zl_json_string(value, &word, NULL) == ZL_OK &&
            word[0] != '/') {
            used += (size_t)snprintf(text + used, size - used, "%s%s %s", comma, key, word);
        } else if (strcmp(key, "memory") == 0 && zl_json_u64(value, &bytes, NULL) == ZL_OK) {
            zl_format_bytes(bytes, ZL_BYTES_GIB, 1, gib, sizeof gib);
            used += (size_t)snprintf(text + used, size - used, "%smemory %s GiB", comma, gib);
        } else if (zl_json_is_number(value)) {
            used +=
                (size_t)snprintf(text + used, size - used, "%s%s %.15g", comma, key, number(value));
        }
    }
}

/* Losses of the first and the last step, and the median speed without the first, which warms up. */
static void read_steps(zl_json steps, zv_train *train)
{
    double speed[STEPS_MAX];
    size_t n = 0;
    const size_t count = zl_json_size(steps);
    for (size_t i = 1; i < count && n < STEPS_MAX; i++) {
        const double tokens = number(zl_json_get(zl_json_item(steps, i), "tokens_per_second"));
        if (tokens > 0) {
            speed[n++] = tokens;
        }
    }
    if (n > 0) {
        train->tokens_per_second = zv_spread_of(speed, n).median;
    }
    if (count > 0) {
        train->first_loss = number(zl_json_get(zl_json_item(steps, 0), "loss"));
        train->last_loss = number(zl_json_get(zl_json_item(steps, count - 1), "loss"));
    }
}

zl_status zv_train_read(const char *path, zv_train *out, zl_err *err)
{
    zl_json_doc *doc;
    zv_train train = {.machine = ""};
    ZL_TRY(zl_json_load(path, &doc, err));
    const zl_json root = zl_json_root(doc);
    const zl_status status = zl_json_schema(root, "zeroledger.train/1", err);
    flatten(zl_json_get(root, "provenance"), train.machine, sizeof train.machine);
    read_steps(zl_json_get(root, "steps"), &train);
    zl_json_free(doc);
    if (status != ZL_OK) {
        zl_fail_at(err, "train.json");
        return status;
    }
    *out = train;
    return ZL_OK;
}

zl_status zv_train_load(const char *folder, zv_train *out, zl_err *err)
{
    char path[ZV_PATH_SIZE];
    ZL_TRY(zv_path(path, folder, "train.json", err));
    if (access(path, F_OK) != 0) {
        *out = (zv_train){.machine = ""};
        return ZL_OK;
    }
    return zv_train_read(path, out, err);
}
