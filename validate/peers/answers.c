#include "peers/answers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "zeroledger/bytes.h"

/* How peers.json writes what a calculator was asked: behind its name. */
static const struct {
    const char *suffix;
    const char *at;
    zv_quantity quantity;
} asked[ZV_ASKED_COUNT] = {
    [ZV_STEP_PEAK] = {"", NULL, ZV_PEAK_ALLOCATED},
    [ZV_STATES_AFTER_BACKWARD] = {" [model states vs allocated after_backward]", "after_backward",
                                  ZV_ALLOCATED},
    [ZV_STATES_BEFORE_FORWARD] = {" [model states vs allocated before_forward]", "before_forward",
                                  ZV_ALLOCATED},
};

int64_t zv_last_step(const zv_judged *record)
{
    int64_t last = -1;
    for (size_t i = 0; i < record->rows; i++) {
        const int64_t step = record->row[i].step;
        if (step > last && (step >= ZL_TORCH_STEPS_MAX || !record->run.skipped[step])) {
            last = step;
        }
    }
    return last;
}

bool zv_largest_of(const zv_judged *record, int64_t step, const char *at, zv_quantity quantity,
                   uint64_t *measured, uint64_t *predicted)
{
    bool found = false;
    *measured = 0;
    *predicted = 0;
    for (size_t i = 0; i < record->rows; i++) {
        const zv_row *const row = &record->row[i];
        if (row->rank == 0 && row->step == step && row->quantity == quantity &&
            (at == NULL || strcmp(row->at, at) == 0)) {
            *measured = zl_max(*measured, row->measured);
            *predicted = zl_max(*predicted, row->predicted);
            found = true;
        }
    }
    return found;
}

static const zv_judged *find_record(const zv_judgement *all, const char *id)
{
    for (size_t i = 0; i < all->records; i++) {
        if (strcmp(all->record[i].id, id) == 0) {
            return &all->record[i];
        }
    }
    return NULL;
}

/* "name [what]" into the two. */
static zl_status split_name(zl_json value, zv_answer *out, zl_err *err)
{
    const char *text = NULL;
    ZL_TRY(zl_json_string(value, &text, err));
    const size_t length = strcspn(text, "[");
    const size_t name = length > 0 && text[length] == '[' ? length - 1 : length;
    if (name >= sizeof out->peer) {
        return zl_fail(err, ZL_E_INPUT, "%s is longer than %d characters", value.path,
                       ZV_PEER_SIZE - 1);
    }
    memcpy(out->peer, text, name);
    for (int a = 0; a < ZV_ASKED_COUNT; a++) {
        if (strcmp(asked[a].suffix, text + name) == 0) {
            out->asked = (zv_asked)a;
            return ZL_OK;
        }
    }
    return zl_fail(err, ZL_E_INPUT, "%s: '%.60s' is no figure that is known", value.path,
                   text + name);
}

/* Our prediction of the figure; its measurement has to be the record's own. */
static zl_status look_up(const char *id, const zv_judgement *all, zv_answer *out, zl_err *err)
{
    uint64_t measured = 0;
    out->record = find_record(all, id);
    if (out->record == NULL || !out->record->modelled) {
        return zl_fail(err, ZL_E_INPUT, "%s is %s", id,
                       out->record == NULL ? "in none of the files" : "not modelled");
    }
    const bool found = zv_largest_of(out->record, zv_last_step(out->record), asked[out->asked].at,
                                     asked[out->asked].quantity, &measured, &out->ours);
    if (!found || measured != out->measured) {
        return zl_fail(err, ZL_E_INPUT,
                       "%s: measured_bytes is %" PRIu64 ", the record says %" PRIu64, id,
                       out->measured, measured);
    }
    return ZL_OK;
}

static zl_status read_answer(zl_json item, const zv_judgement *all, zv_answer *out, zl_err *err)
{
    static const char *const keys[] = {"config_id", "peer", "predicted_bytes", "measured_bytes",
                                       "rel_error"};
    const char *id = NULL;
    ZL_TRY(zl_json_only(item, keys, sizeof keys / sizeof keys[0], err));
    ZL_TRY(zl_json_string(zl_json_get(item, "config_id"), &id, err));
    ZL_TRY(split_name(zl_json_get(item, "peer"), out, err));
    ZL_TRY(zl_json_u64(zl_json_get(item, "measured_bytes"), &out->measured, err));
    const zl_json predicted = zl_json_get(item, "predicted_bytes");
    out->answered = zl_json_is_number(predicted);
    if (out->answered) {
        ZL_TRY(zl_json_u64(predicted, &out->theirs, err));
    }
    return look_up(id, all, out, err);
}

zl_status zv_answers_load(const char *path, const zv_judgement *all, zv_answer **out,
                          size_t *count_out, zl_err *err)
{
    zl_json_doc *doc = NULL;
    zl_json item;
    size_t next = 0;
    size_t count = 0;
    zl_status status = ZL_OK;
    ZL_TRY(zl_json_load(path, &doc, err));
    const zl_json list = zl_json_root(doc);
    zv_answer *const answer = calloc(zl_json_size(list) + 1, sizeof *answer);
    if (answer == NULL) {
        zl_json_free(doc);
        return zl_fail(err, ZL_E_RESOURCE, "no memory for %s", path);
    }
    if (!zl_json_is_array(list)) {
        status = zl_fail(err, ZL_E_INPUT, "answers must be a list");
    }
    while (status == ZL_OK && zl_json_each(list, &next, &item)) {
        status = read_answer(item, all, &answer[count++], err);
    }
    zl_json_free(doc);
    if (status == ZL_E_INPUT) {
        zl_fail_at(err, path);
    }
    if (status != ZL_OK) {
        free(answer);
        return status;
    }
    *out = answer;
    *count_out = count;
    return ZL_OK;
}
