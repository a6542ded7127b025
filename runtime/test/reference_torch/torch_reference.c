/* The trainer against PyTorch, in fp32: logits, every gradient, ten losses under AdamW.
 *
 *     torch_reference inputs FAMILY FOLDER    writes FAMILY.inputs.safetensors and FAMILY.run.json,
 * from which reference.py computes FAMILY.safetensors torch_reference compare FILE...         this
 * trainer, with each of its attentions torch_reference can_fail FILE...        deliberate
 * misreadings, each of which compare must see
 *
 * Linked once with each backend. Exit: 0 equal within the tolerances, 1 not, 2 usage, 3 bad file, 4
 * device or I/O failure.
 *
 * Tolerances, stated before anything was compared. fp32 rounds by 6e-8. A logit has some 14 sums of
 * 36 to 60 products behind it, one after another: their roundings, in another order here and there,
 * add up like a random walk to a few 1e-7 of the largest logit, and 1e-5 leaves a factor of 20 for
 * weights that amplify. A gradient goes the way twice and sums over 87 tokens: 3e-5 of its
 * tensor's largest element. A loss is a mean over tokens in which errors cancel; ten updates, each
 * normalized by Adam, carry what differs on: 1e-5 of the loss, what other trainers ask too.
 */
#define _DEFAULT_SOURCE /* gmtime_r */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/device.h"
#include "probe.h"
#include "subject.h"
#include "tensors.h"
#include "zeroledger/bytes.h"
#include "zeroledger/json.h"

static const double LOGITS = 1e-5;
static const double GRADIENTS = 3e-5;
static const double LOSSES = 1e-5;

enum { NAME_SIZE = 64 };

/* The largest difference of a kind, relative, and where. */
typedef struct worst {
    double off;
    char where[NAME_SIZE];
} worst;

typedef struct verdict {
    worst logits;
    worst gradients;
    worst losses;
} verdict;

static bool agrees(const verdict *v)
{
    return v->logits.off <= LOGITS && v->gradients.off <= GRADIENTS && v->losses.off <= LOSSES;
}

static void note(worst *w, double off, const char *where)
{
    if (!(off <= w->off)) { /* NaN is the worst */
        w->off = off;
        snprintf(w->where, sizeof w->where, "%s", where);
    }
}

/* Largest difference over largest value of `want`. */
static double distance(const float *have, const float *want, uint64_t n)
{
    double largest = 0.0;
    double off = 0.0;
    for (uint64_t i = 0; i < n; i++) {
        const double d = fabs((double)have[i] - (double)want[i]);
        if (!(d <= off)) {
            off = d;
        }
        if (!isfinite(d)) {
            return HUGE_VAL;
        }
        largest = fmax(largest, fabs((double)want[i]));
    }
    return off > 0.0 ? off / largest : 0.0;
}

static zl_status new_floats(uint64_t count, float **out, zl_err *err)
{
    *out = calloc(count, sizeof **out);
    return *out != NULL ? ZL_OK : zl_fail(err, ZL_E_RESOURCE, "out of memory");
}

/* ---- inputs */

static zl_status put_weights(tensors *file, const probe *p, const zl_run *run, zl_err *err)
{
    const zr_zero *zero = probe_zero(p);
    uint64_t number = 0;
    float *w;
    ZL_TRY(new_floats(probe_elements(p), &w, err));
    zl_status status = ZL_OK;
    for (uint64_t u = 0; u < zero->units; u++) {
        const zr_unit *unit = zero->store[u].unit;
        for (uint64_t t = 0; t < unit->count; t++) {
            char name[NAME_SIZE] = "weight.";
            const size_t prefix = strlen(name);
            const zr_tensor *tensor = &unit->tensor[t];
            ZL_TRY_GOTO(status, probe_read(p, u, tensor, w, err), out);
            for (uint64_t i = 0; i < tensor->elements; i++) {
                w[i] += subject_stir(number++);
            }
            subject_tensor_name(run, u, tensor->role, name + prefix, sizeof name - prefix);
            tensors_put_floats(file, name, w, tensor->elements);
        }
    }
out:
    free(w);
    return status;
}

typedef struct batches {
    int32_t *tokens; /* (steps, B, T), and so on */
    int32_t *targets;
    int32_t *types;
    int32_t *lengths; /* (steps, B) */
    int32_t *next;
} batches;

static zr_batch batch_at(const batches *b, const zl_run *run, uint64_t step)
{
    const uint64_t first = step * run->micro_batch;
    return (zr_batch){.tokens = b->tokens + first * run->seq,
                      .targets = b->targets + first * run->seq,
                      .types = b->types + first * run->seq,
                      .lengths = b->lengths + first,
                      .next = b->next + first};
}

static zl_status put_batches(tensors *file, const zl_run *run, zl_err *err)
{
    const uint64_t B = SUBJECT_STEPS * run->micro_batch;
    const uint64_t R = B * run->seq;
    int32_t *ids = calloc(3 * R + 2 * B, sizeof *ids);
    if (ids == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory");
    }
    const batches all = {ids, ids + R, ids + 2 * R, ids + 3 * R, ids + 3 * R + B};
    for (uint64_t step = 0; step < SUBJECT_STEPS; step++) {
        zr_batch batch = batch_at(&all, run, step);
        subject_batch(run, step, &batch);
    }
    tensors_put_ints(file, "batch.tokens", all.tokens, R);
    tensors_put_ints(file, "batch.targets", all.targets, R);
    tensors_put_ints(file, "batch.types", all.types, R);
    tensors_put_ints(file, "batch.lengths", all.lengths, B);
    tensors_put_ints(file, "batch.next", all.next, B);
    free(ids);
    return ZL_OK;
}

static void put_words(tensors *file, const zl_run *run)
{
    char text[NAME_SIZE];
    char id[ZL_RUN_ID_SIZE];
    subject_id(run, id);
    tensors_put_word(file, "run_id", id);
    tensors_put_word(file, "family", zl_family_name(run->model.family));
    snprintf(text, sizeof text, "%d", SUBJECT_STEPS);
    tensors_put_word(file, "steps", text);
    snprintf(text, sizeof text, "%" PRIu64, subject_options(run).seed);
    tensors_put_word(file, "seed", text);
    for (size_t i = 0; subject_number_at(i) != NULL; i++) {
        snprintf(text, sizeof text, "%.17g", subject_number_at(i)->value);
        tensors_put_word(file, subject_number_at(i)->name, text);
    }
}

static zl_status save_inputs(const char *folder, const zl_run *run, const tensors *file,
                             zl_err *err)
{
    char path[4096];
    const char *family = zl_family_name(run->model.family);
    snprintf(path, sizeof path, "%s/%s.run.json", folder, family);
    ZL_TRY(zl_run_save(run, path, err));
    snprintf(path, sizeof path, "%s/%s.inputs.safetensors", folder, family);
    return tensors_save(file, path, err);
}

static zl_status family_named(const char *name, zl_family *out, zl_err *err)
{
    for (int f = 0; f < ZL_FAMILY_COUNT; f++) {
        if (strcmp(zl_family_name((zl_family)f), name) == 0) {
            *out = (zl_family)f;
            return ZL_OK;
        }
    }
    return zl_fail(err, ZL_E_USAGE, "no family %s; bert, gpt2 or llama", name);
}

static zl_status inputs(const char *name, const char *folder, zl_err *err)
{
    zl_family family = ZL_FAMILY_BERT;
    zl_run run;
    ZL_TRY(family_named(name, &family, err));
    ZL_TRY(subject_run(family, &run, err));
    const zr_engine_options options = subject_options(&run);
    probe p;
    zl_status status;
    tensors *file = tensors_new();
    if (file == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory");
    }
    ZL_TRY_GOTO(status, probe_open(&p, &options, err), out);
    put_words(file, &run);
    ZL_TRY_GOTO(status, put_weights(file, &p, &run, err), out);
    ZL_TRY_GOTO(status, put_batches(file, &run, err), out);
    status = save_inputs(folder, &run, file, err);
out:
    probe_close(&p);
    tensors_free(file);
    return status;
}

/* ---- compare */

/* A reference and what it is compared with: as the file was made for, unless a misreading changes
 * it. */
typedef struct subject {
    const tensors *file;
    zl_run run;
    zr_engine_options options;
    bool wrong_target; /* the first batch asks for another token */
} subject;

static zl_status next(void *context, uint64_t step, uint64_t micro, zr_batch *batch, zl_err *err)
{
    (void)micro;
    const subject *s = context;
    const zl_run *run = &s->run;
    const uint64_t B = run->micro_batch;
    const uint64_t R = B * run->seq;
    const struct {
        const char *name;
        int32_t *to;
        uint64_t count;
    } part[] = {
        {"batch.tokens", batch->tokens, R}, {"batch.targets", batch->targets, R},
        {"batch.types", batch->types, R},   {"batch.lengths", batch->lengths, B},
        {"batch.next", batch->next, B},
    };
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++) {
        const int32_t *all;
        ZL_TRY(tensors_ints(s->file, part[i].name, SUBJECT_STEPS * part[i].count, &all, err));
        memcpy(part[i].to, all + step * part[i].count, part[i].count * sizeof *all);
    }
    for (uint64_t t = 0; s->wrong_target && t < R; t++) {
        if (batch->targets[t] > 0) {
            batch->targets[t]--;
            break;
        }
    }
    return ZL_OK;
}

typedef zl_status (*tensor_visit)(const probe *p, const subject *s, uint64_t u,
                                  const zr_tensor *tensor, const char *name, verdict *v,
                                  zl_err *err);

static zl_status for_tensors(const probe *p, const subject *s, tensor_visit visit, verdict *v,
                             zl_err *err)
{
    const zr_zero *zero = probe_zero(p);
    for (uint64_t u = 0; u < zero->units; u++) {
        const zr_unit *unit = zero->store[u].unit;
        for (uint64_t t = 0; t < unit->count; t++) {
            char name[NAME_SIZE];
            subject_tensor_name(&s->run, u, unit->tensor[t].role, name, sizeof name);
            ZL_TRY(visit(p, s, u, &unit->tensor[t], name, v, err));
        }
    }
    return ZL_OK;
}

static zl_status load_weight(const probe *p, const subject *s, uint64_t u, const zr_tensor *tensor,
                             const char *name, verdict *v, zl_err *err)
{
    (void)v;
    char full[2 * NAME_SIZE];
    const float *w;
    snprintf(full, sizeof full, "weight.%s", name);
    ZL_TRY(tensors_floats(s->file, full, tensor->elements, &w, err));
    return probe_write(p, u, tensor, w, err);
}

static zl_status compare_gradient(const probe *p, const subject *s, uint64_t u,
                                  const zr_tensor *tensor, const char *name, verdict *v,
                                  zl_err *err)
{
    char full[2 * NAME_SIZE];
    const float *want;
    float *have;
    snprintf(full, sizeof full, "gradient.%s", name);
    ZL_TRY(tensors_floats(s->file, full, tensor->elements, &want, err));
    ZL_TRY(new_floats(tensor->elements, &have, err));
    const zl_status status = probe_gradient(p, u, tensor, have, err);
    if (status == ZL_OK) {
        note(&v->gradients, distance(have, want, tensor->elements), name);
    }
    free(have);
    return status;
}

/* Rows of padding ask for nothing and are passed over. */
static zl_status compare_logits(const subject *s, const float *logits, verdict *v, zl_err *err)
{
    const zl_run *run = &s->run;
    const uint64_t V = run->model.vocab;
    const uint64_t R = run->micro_batch * run->seq;
    const float *want;
    const int32_t *lengths;
    ZL_TRY(tensors_floats(s->file, "logits.tokens", R * V, &want, err));
    ZL_TRY(tensors_ints(s->file, "batch.lengths", SUBJECT_STEPS * run->micro_batch, &lengths, err));
    for (uint64_t b = 0; b < run->micro_batch; b++) {
        const bool bert = run->model.family == ZL_FAMILY_BERT;
        const uint64_t at = b * run->seq * V;
        const uint64_t rows = bert ? (uint64_t)lengths[b] : run->seq;
        note(&v->logits, distance(logits + at, want + at, rows * V), "logits.tokens");
    }
    if (run->model.pooler) {
        ZL_TRY(tensors_floats(s->file, "logits.next", 2 * run->micro_batch, &want, err));
        note(&v->logits, distance(logits + R * V, want, 2 * run->micro_batch), "logits.next");
    }
    return ZL_OK;
}

static zl_status compare_pass(probe *p, subject *s, verdict *v, zl_err *err)
{
    const zl_run *run = &s->run;
    const uint64_t B = run->micro_batch;
    float *logits;
    zl_status status;
    ZL_TRY(new_floats(B * run->seq * run->model.vocab + 2 * B, &logits, err));
    ZL_TRY_GOTO(status, probe_pass(p, next, s, logits, err), out);
    ZL_TRY_GOTO(status, compare_logits(s, logits, v, err), out);
    status = for_tensors(p, s, compare_gradient, v, err);
    probe_drop(p);
out:
    free(logits);
    return status;
}

static zl_status compare_losses(probe *p, subject *s, verdict *v, zl_err *err)
{
    const float *want;
    ZL_TRY(tensors_floats(s->file, "losses", SUBJECT_STEPS, &want, err));
    for (uint64_t i = 0; i < SUBJECT_STEPS; i++) {
        zr_step_result result;
        char where[NAME_SIZE];
        const double loss = (double)want[i];
        snprintf(where, sizeof where, "step %" PRIu64, i + 1);
        ZL_TRY(zr_engine_step(p->engine, next, s, &result, err));
        note(&v->losses, fabs(result.loss - loss) / loss, where);
    }
    return ZL_OK;
}

static zl_status compare_subject(subject *s, verdict *v, zl_err *err)
{
    probe p;
    zl_status status;
    *v = (verdict){.logits = {.where = "nowhere"}};
    s->options.run = &s->run;
    ZL_TRY_GOTO(status, probe_open(&p, &s->options, err), out);
    ZL_TRY_GOTO(status, for_tensors(&p, s, load_weight, v, err), out);
    ZL_TRY_GOTO(status, compare_pass(&p, s, v, err), out);
    status = compare_losses(&p, s, v, err);
out:
    probe_close(&p);
    return status;
}

static zl_status open_subject(const tensors *file, subject *out, zl_err *err)
{
    const char *word;
    char id[ZL_RUN_ID_SIZE];
    zl_family family = ZL_FAMILY_BERT;
    subject s = {.file = file};
    ZL_TRY(tensors_word(file, "family", &word, err));
    ZL_TRY(family_named(word, &family, err));
    ZL_TRY(subject_run(family, &s.run, err));
    ZL_TRY(tensors_word(file, "run_id", &word, err));
    subject_id(&s.run, id);
    if (strcmp(word, id) != 0) {
        return zl_fail(err, ZL_E_INPUT, "made for run %s, this program has %s; generate it again",
                       word, id);
    }
    for (size_t i = 0; subject_number_at(i) != NULL; i++) {
        const subject_number *n = subject_number_at(i);
        ZL_TRY(tensors_word(file, n->name, &word, err));
        if (strtod(word, NULL) < n->value || strtod(word, NULL) > n->value) {
            return zl_fail(err, ZL_E_INPUT, "made with %s %s; generate it again", n->name, word);
        }
    }
    s.options = subject_options(&s.run);
    *out = s;
    return ZL_OK;
}

/* One line of a verdict, to read and to keep. */
static void tell(zl_json_writer *w, const char *what, const worst *found, double allowed)
{
    printf("  %-10s %9.2e of %.0e, %s\n", what, found->off, allowed, found->where);
    zl_json_begin_object(w, what);
    if (isfinite(found->off)) {
        zl_json_put_real(w, "off", found->off);
    } else {
        zl_json_put_null(w, "off");
    }
    zl_json_put_real(w, "allowed", allowed);
    zl_json_put_string(w, "where", found->where);
    zl_json_end(w);
}

static zl_status tell_all(zl_json_writer *w, const char *path, const subject *s, const verdict *v,
                          zl_err *err)
{
    static const char *const words[] = {"family", "torch", "device", "date"};
    const char *text[4];
    for (size_t i = 0; i < 4; i++) {
        ZL_TRY(tensors_word(s->file, words[i], &text[i], err));
    }
    printf("%s, %s, %s attention, PyTorch %s on %s: %s\n", path,
           zl_backend_name(zr_device_backend()), zl_attention_name(s->run.attention), text[1],
           text[2], agrees(v) ? "agrees" : "DIFFERS");
    zl_json_begin_object(w, NULL);
    zl_json_put_string(w, "family", text[0]);
    zl_json_put_string(w, "attention", zl_attention_name(s->run.attention));
    zl_json_put_string(w, "torch", text[1]);
    zl_json_put_string(w, "torch_device", text[2]);
    zl_json_put_string(w, "torch_date", text[3]);
    zl_json_put_bool(w, "agrees", agrees(v));
    tell(w, "logits", &v->logits, LOGITS);
    tell(w, "gradients", &v->gradients, GRADIENTS);
    tell(w, "losses", &v->losses, LOSSES);
    zl_json_end(w);
    return ZL_OK;
}

static zl_status compare(const char *path, const tensors *file, zl_json_writer *w, zl_err *err)
{
    bool good = true;
    for (int a = 0; a < ZL_ATTENTION_NATIVE_COUNT; a++) {
        subject s;
        verdict v;
        ZL_TRY(open_subject(file, &s, err));
        s.run.attention = (zl_attention)a;
        ZL_TRY(compare_subject(&s, &v, err));
        ZL_TRY(tell_all(w, path, &s, &v, err));
        good = good && agrees(&v);
    }
    return good ? ZL_OK : zl_fail(err, ZL_NO, "%s: the trainer and PyTorch differ", path);
}

/* ---- can_fail */

/* Misreading number n of a model; its name, "" if this family cannot have it, NULL past the end. */
static const char *misread(subject *s, unsigned n)
{
    zl_model *m = &s->run.model;
    switch (n) {
    case 0:
        m->activation = m->activation == ZL_ACT_GELU ? ZL_ACT_GELU_TANH : ZL_ACT_GELU;
        return m->family == ZL_FAMILY_LLAMA ? "" : "the other GELU";
    case 1:
        m->norm_eps += 1e-5; /* what BERT would have with the epsilon of the others */
        return "another epsilon of the norms";
    case 2:
        m->rope_theta *= 1.01;
        return m->family == ZL_FAMILY_LLAMA ? "another base of the rotation" : "";
    case 3:
        s->options.beta2 = 0.999;
        return "another beta2";
    case 4:
        s->options.weight_decay *= 1.1;
        return "more weight decay";
    case 5:
        s->options.warmup = 0;
        return "no warm-up";
    case 6:
        s->run.clip = 0.0;
        return "no clipping";
    case 7:
        s->wrong_target = true;
        return "one wrong target";
    default:
        return NULL;
    }
}

static zl_status can_fail(const char *path, const tensors *file, zl_json_writer *w, zl_err *err)
{
    (void)w;
    for (unsigned n = 0;; n++) {
        subject s = {.file = NULL};
        verdict v;
        ZL_TRY(open_subject(file, &s, err));
        const char *name = misread(&s, n);
        if (name == NULL) {
            return ZL_OK;
        }
        if (name[0] == '\0') {
            continue;
        }
        ZL_TRY(compare_subject(&s, &v, err));
        printf("%s, %s: logits %.1e, gradients %.1e, losses %.1e\n", path, name, v.logits.off,
               v.gradients.off, v.losses.off);
        if (agrees(&v)) {
            return zl_fail(err, ZL_NO, "%s: %s is not seen", path, name);
        }
    }
}

/* ---- */

typedef zl_status (*file_work)(const char *path, const tensors *file, zl_json_writer *w,
                               zl_err *err);

/* Goes on after a file that differs. */
static zl_status each(int count, char **paths, file_work work, zl_json_writer *w, zl_err *err)
{
    zl_status result = ZL_OK;
    for (int i = 0; i < count; i++) {
        tensors *file;
        ZL_TRY(tensors_load(paths[i], &file, err));
        const zl_status status = work(paths[i], file, w, err);
        tensors_free(file);
        if (status != ZL_OK && status != ZL_NO) {
            return status;
        }
        result = status == ZL_NO ? ZL_NO : result;
    }
    return result;
}

static void put_machine(zl_json_writer *w)
{
    char text[256];
    const char *name;
    const time_t clock = time(NULL);
    struct tm utc;
    if (gmtime_r(&clock, &utc) == NULL || strftime(text, sizeof text, "%Y-%m-%d", &utc) == 0) {
        text[0] = '\0';
    }
    zl_json_put_string(w, "date", text);
    zl_json_put_string(w, "backend", zl_backend_name(zr_device_backend()));
    zl_json_begin_object(w, "machine");
    for (size_t i = 0; zr_device_fact(i, &name, text, sizeof text); i++) {
        zl_json_put_string(w, name, text);
    }
    zl_json_end(w);
}

static zl_status compare_all(const char *json, int count, char **paths, zl_err *err)
{
    zl_json_writer *w = zl_json_writer_new();
    if (w == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory");
    }
    zl_json_begin_object(w, NULL);
    zl_json_put_string(w, "schema", "zeroledger.reference/1");
    put_machine(w);
    zl_json_begin_array(w, "rows");
    zl_status status = each(count, paths, compare, w, err);
    zl_json_end(w);
    zl_json_end(w);
    if (json != NULL && (status == ZL_OK || status == ZL_NO)) {
        zl_err other = {.status = ZL_OK};
        const zl_status saved = zl_json_writer_save(w, json, &other);
        status = saved == ZL_OK ? status : saved;
        *err = saved == ZL_OK ? *err : other;
    }
    zl_json_writer_free(w);
    return status;
}

static zl_status run_command(int argc, char **argv, zl_err *err)
{
    if (argc == 4 && strcmp(argv[1], "inputs") == 0) {
        return inputs(argv[2], argv[3], err);
    }
    if (argc > 4 && strcmp(argv[1], "compare") == 0 && strcmp(argv[2], "--json") == 0) {
        return compare_all(argv[3], argc - 4, argv + 4, err);
    }
    if (argc > 2 && strcmp(argv[1], "compare") == 0) {
        return compare_all(NULL, argc - 2, argv + 2, err);
    }
    if (argc > 2 && strcmp(argv[1], "can_fail") == 0) {
        return each(argc - 2, argv + 2, can_fail, NULL, err);
    }
    return zl_fail(err, ZL_E_USAGE,
                   "inputs FAMILY FOLDER, compare [--json OUT] FILE... or can_fail FILE...");
}

int main(int argc, char **argv)
{
    zl_err err = {.status = ZL_OK};
    const zl_status status = run_command(argc, argv, &err);
    if (status != ZL_OK) {
        fprintf(stderr, "torch_reference: %s\n", err.text);
    }
    return (int)status;
}
