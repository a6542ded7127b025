/* Whatever zl advise says to write, written, gives the bytes that it printed.
 *
 * usage: advise_check ZL      in an empty folder
 *
 * Every change and every set of every case is predicted again by zl predict in three ways: from the
 * run.json in the answer, from the options in the answer behind those of the question, and with the
 * lines in the answer merged into the ds_config.json of the question. Of native sets that fit, none
 * may fit with a change less. */
#define _POSIX_C_SOURCE 200809L /* fork, waitpid */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zeroledger/bytes.h"
#include "zeroledger/json.h"
#include "zeroledger/text.h"

typedef struct question {
    const char *run;   /* options of zl predict */
    const char *limit; /* options of zl advise beside them */
    const char *file;  /* ds_config.json, or NULL */
    size_t least;      /* so many changes at least */
} question;

static const question questions[] = {
    {"--model gpt2 --stage 1 --ranks 4 --micro-batch 8", "", NULL, 5},
    {"--model gpt2-xl --stage 1 --ranks 4 --micro-batch 8", "--capacity 16GiB", NULL, 5},
    {"--model llama-3-8b --ranks 8 --seq 4096 --stage 2 --precision fp32 --grad-dtype fp32",
     "--gpu a100-40g --headroom 5%", NULL, 3},
    {"--model gpt2 --framework single --precision fp32 --micro-batch 6 --attention eager", "", NULL,
     6},
    {"--model gpt2 --framework ddp --ranks 4 --micro-batch 4", "--capacity 3GiB", NULL, 6},
    {"--model bert-base --framework zero1 --ranks 3 --micro-batch 4", "", NULL, 4},
    {"--model llama-3.2-1b --framework fsdp2 --stage 2 --ranks 4 --micro-batch 2",
     "--capacity 8GiB", NULL, 5},
    {"--model gpt2 --framework fsdp1 --ranks 2 --micro-batch 4", "", NULL, 4},
    {"--model gpt2 --framework deepspeed --stage 2 --ranks 4 --micro-batch 4", "", NULL, 6},
    {"--model gpt2 --framework deepspeed@0.14.5 --stage 3 --precision fp16-mixed --ranks 4 "
     "--micro-batch 4 --gpu a100-40g",
     "", NULL, 5},
    {"--model gpt2 --framework deepspeed --ranks 4 --micro-batch 2 --optimizer adamw-loop",
     "--capacity 3GiB", NULL, 4},
    {"--model bing-bert-large --framework deepspeed@0.5.9 --ranks 8 --seq 128 --activations "
     "1.42GiB "
     "--skipped-step",
     "",
     "{\"train_micro_batch_size_per_gpu\": 64, \"fp16\": {\"enabled\": true}, \"optimizer\": "
     "{\"type\": \"Adam\"}, \"zero_optimization\": {\"stage\": 3}}",
     4},
    {"--model gpt2 --ranks 4", "--capacity 4GiB",
     "{\"train_batch_size\": 32, \"gradient_accumulation_steps\": 2, \"bf16\": {\"enabled\": "
     "true}, "
     "\"data_types\": {\"grad_accum_dtype\": \"fp32\"}, \"zero_optimization\": {\"stage\": 1, "
     "\"overlap_comm\": true}}",
     5},
    {"--model gpt2 --ranks 4 --micro-batch 4", "",
     "{\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"torch_adam\": true}}, \"bf16\": "
     "{\"enabled\": true}, \"zero_optimization\": {\"stage\": 3, \"prefetch_bucket_size\": "
     "50000000}}",
     5},
};

typedef struct check {
    const char *zl;
    const question *q;
    unsigned predictions, bad;
} check;

/* The exit status of a command line, -1 if it has none. */
static int shell(const char *command)
{
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status)
               ? WEXITSTATUS(status)
               : -1;
}

static void complain(check *c, const char *how, const char *what, uint64_t said, uint64_t got)
{
    c->bad++;
    printf("%s %s\n  %s of %s: said %" PRIu64 ", predicted %" PRIu64 "\n", c->q->run, c->q->limit,
           how, what, said, got);
}

/* ---- what zl predict says ---- */

static uint64_t number(zl_json object, const char *key)
{
    uint64_t value = 0;
    return zl_json_u64(zl_json_get(object, key), &value, NULL) == ZL_OK ? value : 0;
}

static const char *string(zl_json object, const char *key)
{
    const char *text = "";
    return zl_json_string(zl_json_get(object, key), &text, NULL) == ZL_OK ? text : "";
}

/* Largest peaks of a ledger (granted) or of the marks (allocated, reserved). */
static bool peaks(const char *path, uint64_t *peak, uint64_t *reserved)
{
    zl_json_doc *doc = NULL;
    zl_json item;
    *peak = 0;
    *reserved = 0;
    if (zl_json_load(path, &doc, NULL) != ZL_OK) {
        return false;
    }
    const zl_json cells = zl_json_get(zl_json_root(doc), "cells");
    const zl_json marks = zl_json_get(zl_json_root(doc), "marks");
    for (size_t i = 0; zl_json_each(cells, &i, &item);) {
        *peak = zl_max(*peak, number(zl_json_get(item, "peak"), "granted"));
    }
    for (size_t i = 0; zl_json_each(marks, &i, &item);) {
        *peak = zl_max(*peak, number(item, "peak_allocated"));
        *reserved = zl_max(*reserved, number(item, "peak_reserved"));
    }
    zl_json_free(doc);
    return *peak > 0;
}

static bool predict(check *c, const char *options, uint64_t *peak, uint64_t *reserved)
{
    char command[2048];
    c->predictions++;
    snprintf(command, sizeof command, "%s predict %s --format json --out predicted.json 2>words",
             c->zl, options);
    if (shell(command) == 0 && peaks("predicted.json", peak, reserved)) {
        return true;
    }
    c->bad++;
    printf("failed: %s\n", command);
    return false;
}

static void compare(check *c, const char *how, const char *options, zl_json set)
{
    uint64_t peak = 0;
    uint64_t reserved = 0;
    if (!predict(c, options, &peak, &reserved)) {
        return;
    }
    if (peak != number(set, "peak")) {
        complain(c, how, "peak", number(set, "peak"), peak);
    }
    if (reserved != number(set, "reserved")) {
        complain(c, how, "reserved", number(set, "reserved"), reserved);
    }
}

/* ---- the three ways ---- */

static void from_run(check *c, zl_json set)
{
    zl_json_writer *w = zl_json_writer_new();
    zl_json_put(w, NULL, zl_json_get(set, "run"));
    const bool gpu = strstr(c->q->run, "--gpu a100-40g") != NULL;
    if (zl_json_writer_save(w, "run.json", NULL) == ZL_OK) {
        compare(c, "run.json", gpu ? "--run run.json --gpu a100-40g" : "--run run.json", set);
    }
    zl_json_writer_free(w);
}

/* Options of all changes but one, behind those of the question; false: one has none. */
static bool options_of(const check *c, zl_json changes, size_t without, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "%s", c->q->run);
    for (size_t i = 0; i < zl_json_size(changes); i++) {
        const char *options = string(zl_json_item(changes, i), "options");
        if (options[0] == '\0') {
            return false;
        }
        if (i != without) {
            used += (size_t)snprintf(text + used, size - used, " %s", options);
        }
    }
    return true;
}

static void from_options(check *c, zl_json set)
{
    char options[1024];
    if (c->q->file == NULL &&
        options_of(c, zl_json_get(set, "changes"), SIZE_MAX, options, sizeof options)) {
        compare(c, "options", options, set);
    }
}

/* Objects are merged, anything else is replaced. */
static void put_merged(zl_json_writer *w, const char *key, zl_json old, zl_json new)
{
    const char *name = NULL;
    if (!zl_json_is_object(old) || !zl_json_is_object(new)) {
        zl_json_put(w, key, new);
        return;
    }
    zl_json_begin_object(w, key);
    for (size_t i = 0; (name = zl_json_key(old, i)) != NULL; i++) {
        const zl_json replaced = zl_json_get(new, name);
        if (replaced.node != NULL) {
            put_merged(w, name, zl_json_get(old, name), replaced);
        } else {
            zl_json_put(w, name, zl_json_get(old, name));
        }
    }
    for (size_t i = 0; (name = zl_json_key(new, i)) != NULL; i++) {
        if (zl_json_get(old, name).node == NULL) {
            zl_json_put(w, name, zl_json_get(new, name));
        }
    }
    zl_json_end(w);
}

static bool merge_line(const char *path, const char *line)
{
    char text[512];
    zl_json_doc *old = NULL;
    zl_json_doc *new = NULL;
    snprintf(text, sizeof text, "{%s}", line);
    zl_json_writer *w = zl_json_writer_new();
    bool good = zl_json_load(path, &old, NULL) == ZL_OK &&
                zl_json_parse("line", text, strlen(text), &new, NULL) == ZL_OK;
    if (good) {
        put_merged(w, NULL, zl_json_root(old), zl_json_root(new));
        good = zl_json_writer_save(w, path, NULL) == ZL_OK;
    }
    zl_json_writer_free(w);
    zl_json_free(old);
    zl_json_free(new);
    return good;
}

/* Lines for the file go there, and the others have options. */
static void from_lines(check *c, zl_json set)
{
    char options[1024];
    const zl_json changes = zl_json_get(set, "changes");
    size_t used =
        (size_t)snprintf(options, sizeof options, "%s --deepspeed-config changed.json", c->q->run);
    if (c->q->file == NULL ||
        zl_file_write("changed.json", c->q->file, strlen(c->q->file), NULL) != ZL_OK) {
        return;
    }
    for (size_t i = 0; i < zl_json_size(changes); i++) {
        const zl_json change = zl_json_item(changes, i);
        const char *also = string(change, "options");
        const bool in_file = strcmp(string(change, "where"), "ds_config.json") == 0;
        if (in_file && !merge_line("changed.json", string(change, "line"))) {
            c->bad++;
            printf("%s\n  no JSON: %s\n", c->q->run, string(change, "line"));
        }
        if (!in_file && also[0] == '\0') {
            return;
        }
        used += (size_t)snprintf(options + used, sizeof options - used, " %s", also);
    }
    compare(c, "lines", options, set);
}

/* ---- a set that fits needs all its changes ---- */

static void needs_all(check *c, zl_json root, zl_json set)
{
    char options[1024];
    const zl_json changes = zl_json_get(set, "changes");
    const uint64_t usable = number(zl_json_get(root, "capacity"), "usable");
    uint64_t peak = 0;
    uint64_t reserved = 0;
    for (size_t i = 0; i < zl_json_size(changes) && zl_json_size(changes) > 1; i++) {
        if (options_of(c, changes, i, options, sizeof options) &&
            predict(c, options, &peak, &reserved) && peak <= usable) {
            complain(c, "a set with one change less", "capacity", usable, peak);
        }
    }
}

static void check_set(check *c, zl_json root, zl_json set)
{
    const uint64_t now = number(zl_json_get(root, "now"), "peak");
    const uint64_t peak = number(set, "peak");
    if (number(set, "saved") != (now > peak ? now - peak : 0)) {
        complain(c, "saved", "peak", number(set, "saved"), now - peak);
    }
    from_run(c, set);
    from_options(c, set);
    from_lines(c, set);
}

static void check_answer(check *c, zl_json root)
{
    zl_json set;
    const bool native = zl_json_get(root, "framework").node == NULL;
    const zl_json changes = zl_json_get(root, "changes");
    for (size_t i = 0; zl_json_each(changes, &i, &set);) {
        check_set(c, root, set);
    }
    const zl_json sets = zl_json_get(root, "sets");
    for (size_t i = 0; zl_json_each(sets, &i, &set);) {
        check_set(c, root, set);
        if (native) {
            needs_all(c, root, set);
        }
    }
    if (zl_json_get(root, "everything").node != NULL) {
        check_set(c, root, zl_json_get(root, "everything"));
    }
    if (zl_json_size(changes) < c->q->least) {
        complain(c, "number", "changes", c->q->least, zl_json_size(changes));
    }
}

static void ask(check *c)
{
    char command[1024];
    zl_json_doc *doc = NULL;
    const bool file = c->q->file != NULL;
    if (file && zl_file_write("ds.json", c->q->file, strlen(c->q->file), NULL) != ZL_OK) {
        c->bad++;
        return;
    }
    snprintf(command, sizeof command, "%s advise %s %s %s --format json --out advice.json", c->zl,
             c->q->run, c->q->limit, file ? "--deepspeed-config ds.json" : "");
    const int status = shell(command);
    if ((status != 0 && status != 1) || zl_json_load("advice.json", &doc, NULL) != ZL_OK) {
        c->bad++;
        printf("failed with %d: %s\n", status, command);
        return;
    }
    check_answer(c, zl_json_root(doc));
    zl_json_free(doc);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: advise_check ZL\n");
        return 2;
    }
    check c = {.zl = argv[1]};
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++) {
        c.q = &questions[i];
        ask(&c);
    }
    printf("%zu questions, %u predictions, %u wrong\n", sizeof questions / sizeof questions[0],
           c.predictions, c.bad);
    return c.bad == 0 && c.predictions > 100 ? 0 : 1;
}
