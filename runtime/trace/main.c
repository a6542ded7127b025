/* zl-trace: runs a command and tells where its device memory went. */
#define _GNU_SOURCE /* argp, mkdtemp */
#include <argp.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace/child.h"
#include "trace/judge.h"
#include "trace/recorder.h"
#include "trace/recording.h"
#include "trace/show.h"
#include "zeroledger/error.h"
#include "zeroledger/text.h"
#include "zeroledger/version.h"

/* As much as the trainer allows outside its allocator: two granules of the driver. */
static const uint64_t usual_tolerance = (uint64_t)4 << 20;

typedef struct options {
    const char *output;
    const char *timeline;
    const char *read;
    const char *record;
    const char *warm;
    uint64_t tolerance;
    bool json;
    char **command;
} options;

enum {
    KEY_OUTPUT = 0x100,
    KEY_TIMELINE,
    KEY_FORMAT,
    KEY_WARM,
    KEY_TOLERANCE,
    KEY_RECORD,
    KEY_READ
};

static const struct argp_option rows[] = {
    {NULL, 0, NULL, 0, "Output:", 1},
    {"output", KEY_OUTPUT, "FILE", 0, "write everything there as JSON, zeroledger.trace/1", 1},
    {"timeline", KEY_TIMELINE, "FILE", 0, "write a timeline there, which Perfetto opens", 1},
    {"format", KEY_FORMAT, "table|json", 0,
     "of standard output (table); with json the command's own output goes to standard error", 1},
    {NULL, 0, NULL, 0, "Judging:", 2},
    {"warm", KEY_WARM, "NAME", 0, "mark from which on nothing may grow (warm)", 2},
    {"tolerance", KEY_TOLERANCE, "BYTES", 0, "by which untraced memory may grow (4MiB)", 2},
    {NULL, 0, NULL, 0, "Recordings:", 3},
    {"record", KEY_RECORD, "DIR", 0, "keep the recordings of the processes in that folder", 3},
    {"read", KEY_READ, "DIR", 0, "run nothing, and read the recordings in that folder", 3},
    {NULL, 0, NULL, 0, "Help:", -1},
    {0},
};

typedef struct parsing {
    options *options;
    zl_err *err;
    zl_status status;
} parsing;

static zl_status set_format(options *o, const char *text, zl_err *err)
{
    o->json = strcmp(text, "json") == 0;
    return o->json || strcmp(text, "table") == 0
               ? ZL_OK
               : zl_fail(err, ZL_E_USAGE, "--format is table or json, got \"%s\"", text);
}

static zl_status set(options *o, int key, const char *arg, zl_err *err)
{
    switch (key) {
    case KEY_OUTPUT:
        o->output = arg;
        return ZL_OK;
    case KEY_TIMELINE:
        o->timeline = arg;
        return ZL_OK;
    case KEY_FORMAT:
        return set_format(o, arg, err);
    case KEY_WARM:
        o->warm = arg;
        return ZL_OK;
    case KEY_TOLERANCE:
        return zl_parse_bytes("--tolerance", arg, &o->tolerance, err);
    case KEY_RECORD:
        o->record = arg;
        return ZL_OK;
    case KEY_READ:
        o->read = arg;
        return ZL_OK;
    default:
        return ZL_E_BUG;
    }
}

/* The first word that is no option is the command: what follows is its own. */
static error_t parse_one(int key, char *arg, struct argp_state *state)
{
    parsing *const p = state->input;
    if (p->status == ZL_OK && key >= KEY_OUTPUT && key <= KEY_READ) {
        p->status = set(p->options, key, arg, p->err);
        return 0;
    }
    if (key == ARGP_KEY_ARG) {
        p->options->command = &state->argv[state->next - 1];
        state->next = state->argc;
        return 0;
    }
    return key >= KEY_OUTPUT && key <= KEY_READ ? 0 : ARGP_ERR_UNKNOWN;
}

/* What argp would refuse without saying what is near. */
static zl_status check_words(char *const *argv, zl_err *err)
{
    const char *names[sizeof rows / sizeof rows[0] + 3] = {"help", "usage", "version"};
    size_t count = 3;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].name != NULL) {
            names[count++] = rows[i].name;
        }
    }
    return zl_options_known(argv, true, names, count, err);
}

static zl_status parse(int argc, char **argv, options *out, zl_err *err)
{
    static const struct argp argp = {
        .options = rows,
        .parser = parse_one,
        .args_doc = "COMMAND [ARGUMENT...]\n--read DIR",
        .doc = "Runs a command and tells which shared object of its processes took how much device "
               "memory, and what the device itself says.\v"
               "Examples:\n"
               "  zl trace -- zl-train --backend cuda --model gpt2 --steps 5\n"
               "  zl trace --output trace.json --timeline timeline.json -- python3 train.py\n"
               "\n"
               "Exit status: that of the command if it is not 0; else 0 fine, 1 memory grew after "
               "the program was warm, 2 usage, 3 a recording is damaged, 4 there is no driver, no "
               "GPU or no CUPTI, or nothing was recorded.",
    };
    argp_program_version = "zl-trace (zeroledger) " ZL_VERSION;
    argp_err_exit_status = ZL_E_USAGE;
    options o = {.warm = "warm", .tolerance = usual_tolerance};
    parsing p = {.options = &o, .err = err};
    ZL_TRY(check_words(argv, err));
    if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &p) != 0) {
        return zl_fail(err, ZL_E_USAGE, "wrong options; see zl-trace --help");
    }
    ZL_TRY(p.status);
    if ((o.command == NULL) == (o.read == NULL)) {
        return zl_fail(err, ZL_E_USAGE, "give a command, or recordings with --read; not both");
    }
    if (o.read != NULL && o.record != NULL) {
        return zl_fail(err, ZL_E_USAGE, "--record is for a command; with --read nothing is run");
    }
    *out = o;
    return ZL_OK;
}

static bool is_recording(const char *name)
{
    return strstr(name, ZR_RECORDING_SUFFIX) != NULL;
}

/* Only what is ours: whoever put something else there wants to find it. */
static void remove_folder(const char *folder)
{
    DIR *const dir = opendir(folder);
    for (const struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        char path[PATH_MAX];
        if (is_recording(entry->d_name) &&
            snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name) < (int)sizeof(path)) {
            (void)unlink(path);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    (void)rmdir(folder);
}

/* An old recording in it would be taken for one of this command. */
static zl_status check_empty(const char *folder, zl_err *err)
{
    DIR *const dir = opendir(folder);
    bool empty = true;
    if (dir == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "%s: %s", folder, strerror(errno));
    }
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        empty = empty && !is_recording(entry->d_name);
    }
    (void)closedir(dir);
    return empty ? ZL_OK
                 : zl_fail(err, ZL_E_USAGE,
                           "--record %s has recordings already; give another folder", folder);
}

/* Absolute: the command may go elsewhere. */
static zl_status make_folder(const options *o, char folder[PATH_MAX], zl_err *err)
{
    const char *const place = getenv("TMPDIR");
    if (o->record == NULL) {
        const int length =
            snprintf(folder, PATH_MAX, "%s/zltrace-XXXXXX", place != NULL ? place : P_tmpdir);
        return length < PATH_MAX && mkdtemp(folder) != NULL
                   ? ZL_OK
                   : zl_fail(err, ZL_E_RESOURCE, "%s: %s", folder, strerror(errno));
    }
    if ((mkdir(o->record, 0777) != 0 && errno != EEXIST) || realpath(o->record, folder) == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "%s: %s", o->record, strerror(errno));
    }
    return check_empty(folder, err);
}

static zl_status judge(zr_trace *t, zl_err *err)
{
    enum { FINDINGS = 64 };
    for (size_t i = 0; i < t->recordings.count; i++) {
        zr_finding found[FINDINGS];
        const size_t all =
            zr_judge(&t->recordings.process[i].meter, &t->judgement, found, FINDINGS);
        const size_t kept = all < FINDINGS ? all : FINDINGS;
        zr_found *const more = realloc(t->found, (t->count + kept + 1) * sizeof(*more));
        if (more == NULL) {
            return zl_fail(err, ZL_E_RESOURCE, "out of memory");
        }
        t->found = more;
        for (size_t k = 0; k < kept; k++) {
            t->found[t->count++] = (zr_found){.process = i, .finding = found[k]};
        }
    }
    return ZL_OK;
}

static zl_status check_recorded(const zr_trace *t, zl_err *err)
{
    if (t->recordings.count == 0) {
        return zl_fail(err, ZL_E_RESOURCE, "%s",
                       t->command != NULL ? "nothing was recorded: the command never started CUDA"
                                          : "there is no recording in that folder");
    }
    for (size_t i = 0; i < t->recordings.count; i++) {
        const zr_recording_read *const p = &t->recordings.process[i];
        if (p->broken[0] != '\0') {
            return zl_fail(err, ZL_E_RESOURCE, "%s: CUPTI records nothing: %s", p->program,
                           p->broken);
        }
    }
    return ZL_OK;
}

static zl_status show(const options *o, const zr_trace *t, zl_err *err)
{
    if (o->output != NULL) {
        ZL_TRY(zr_trace_json(t, o->output, err));
    }
    if (o->timeline != NULL) {
        ZL_TRY(zr_trace_timeline(t, o->timeline, err));
    }
    if (o->json) {
        return zr_trace_json(t, "-", err);
    }
    zr_trace_table(t, stdout);
    return fflush(stdout) == 0 && ferror(stdout) == 0
               ? ZL_OK
               : zl_fail(err, ZL_E_RESOURCE, "standard output: %s", strerror(errno));
}

/* *code: the command's, unless the trace has something to say. */
static zl_status tell(const options *o, const char *folder, zr_trace *t, zl_err *err)
{
    ZL_TRY(zr_recordings_load(folder, &t->recordings, err));
    ZL_TRY(judge(t, err));
    if (t->recordings.count > 0) {
        ZL_TRY(show(o, t, err));
    }
    ZL_TRY(check_recorded(t, err));
    return t->count > 0 ? ZL_NO : ZL_OK;
}

static zl_status run(const options *o, zr_trace *t, zl_err *err)
{
    char library[PATH_MAX];
    char folder[PATH_MAX];
    ZL_TRY(zr_child_library(library, sizeof(library), err));
    ZL_TRY(make_folder(o, folder, err));
    zl_status status = zr_child_run(o->command, library, folder, o->json, &t->exit, err);
    if (status == ZL_OK) {
        status = tell(o, folder, t, err);
    }
    if (o->record == NULL) {
        remove_folder(folder);
    }
    return status;
}

int main(int argc, char **argv)
{
    zl_err err = {0};
    options o = {0};
    zr_trace t = {0};
    zl_status status = parse(argc, argv, &o, &err);
    if (status == ZL_OK) {
        t.command = o.command;
        t.judgement = (zr_judgement){.warm = o.warm, .tolerance = o.tolerance};
        status = o.read != NULL ? tell(&o, o.read, &t, &err) : run(&o, &t, &err);
    }
    if (err.text[0] != '\0') {
        (void)fprintf(stderr, "zl-trace: %s\n", err.text);
    }
    zr_recordings_release(&t.recordings);
    free(t.found);
    return t.exit != 0 ? t.exit : (int)status;
}
