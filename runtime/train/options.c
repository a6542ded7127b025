#define _GNU_SOURCE /* argp */
#include "train/options.h"

#include <argp.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "zeroledger/text.h"
#include "zeroledger/version.h"

/* Debian's base-files puts it there: a text that every machine of that family has. */
static const char default_text[] = "/usr/share/common-licenses/GPL-3";

/* Keys: the run's options count up from RUN_KEY in the order of their table. */
enum { RUN_KEY = 0x1000, RUN_OPTIONS = 64, RUN_ENTRIES = 128 };
enum {
    KEY_STEPS = 0x100,
    KEY_DATA,
    KEY_TOKENS,
    KEY_VARLEN,
    KEY_SEED,
    KEY_LR,
    KEY_WEIGHT_DECAY,
    KEY_WARMUP,
    KEY_LOSS_SCALE,
    KEY_CHECKPOINT,
    KEY_KEEP,
    KEY_RESUME,
    KEY_OUT,
    KEY_PROFILE,
    KEY_CAP,
    KEY_POISON,
    KEY_QUIET,
    KEY_LOOPBACK,
    KEY_FORMAT
};

static const struct argp_option own_options[] = {
    {NULL, 0, NULL, 0, "Training:", 2},
    {"steps", KEY_STEPS, "N", 0,
     "optimizer steps (10); a resumed training counts those done before too", 2},
    {"data", KEY_DATA, "FILE", 0, "text, or token ids (the GPL-3 of this machine)", 2},
    {"tokens", KEY_TOKENS, "u8|u16|u32", 0,
     "what FILE holds: bytes of text, or little-endian ids (u16 and u32 by the file's extension, "
     "else u8)",
     2},
    {"varlen", KEY_VARLEN, NULL, 0, "BERT: sequences of T/2 to T tokens", 2},
    {"seed", KEY_SEED, "N", 0, "of the weights and the batches (1)", 2},
    {"lr", KEY_LR, "RATE", 0, "learning rate (0.0003)", 2},
    {"weight-decay", KEY_WEIGHT_DECAY, "RATE", 0, "decoupled decay of the weights (0.01)", 2},
    {"warmup", KEY_WARMUP, "N", 0, "steps of linear warm-up (0)", 2},
    {"loss-scale", KEY_LOSS_SCALE, "SCALE", 0,
     "fp16-mixed: first loss scale (65536), halved by each step whose gradient overflows", 2},
    {NULL, 0, NULL, 0, "Checkpoints:", 3},
    {"checkpoint", KEY_CHECKPOINT, "DIR", 0,
     "where --save puts DIR/step-<N> and DIR/latest (the folder of --out, then checkpoint)", 3},
    {"keep", KEY_KEEP, "K", 0, "checkpoints that stay, the newest ones (2)", 3},
    {"resume", KEY_RESUME, "DIR", 0,
     "go on from DIR, a step's folder or one with latest in it; --stage, --ranks and most other "
     "options may change, model, precision, optimizer and seed may not; writes no ledger",
     3},
    {NULL, 0, NULL, 0, "Measuring and output:", 4},
    {"out", KEY_OUT, "DIR", 0, "write DIR/ledger.rank<R>.json of every rank and DIR/train.json", 4},
    {"profile", KEY_PROFILE, "FILE", 0,
     "write where the time of every step of rank 0 goes, for Perfetto, and a summary to standard "
     "error",
     4},
    {"cap", KEY_CAP, "BYTES", 0, "most bytes that buffers may take, e.g. 24GiB", 4},
    {"poison", KEY_POISON, NULL, 0, "fill buffers with NaN and refuse those freed untouched", 4},
    {"loopback", KEY_LOOPBACK, "R", 0,
     "run rank R of --ranks alone: every buffer as in the job, and losses that mean nothing", 4},
    {"format", KEY_FORMAT, "table|csv|json", 0, "of standard output (table)", 4},
    {"quiet", KEY_QUIET, NULL, 0, "nothing on standard output, no progress", 4},
    {NULL, 0, NULL, 0, "Help:", -1},
    {0},
};

typedef struct parsing {
    zr_options *options;
    zl_err *err;
    zl_status status;
} parsing;

static zl_status choose(const char *option, const char *text, const char *const *names,
                        size_t count, size_t *out, zl_err *err)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(text, names[i]) == 0) {
            *out = i;
            return ZL_OK;
        }
    }
    const char *const near = zl_nearest(text, names, count);
    return zl_fail(err, ZL_E_USAGE, "--%s is %s, got \"%s\"%s%s%s", option,
                   count == 3 && names[0][0] == 'u' ? "u8, u16 or u32" : "table, csv or json", text,
                   near != NULL ? "; did you mean " : "", near != NULL ? near : "",
                   near != NULL ? "?" : "");
}

static zl_status set_tokens(zr_options *o, const char *text, zl_err *err)
{
    static const char *const names[] = {"u8", "u16", "u32"};
    static const zr_tokens values[] = {ZR_TOKENS_U8, ZR_TOKENS_U16, ZR_TOKENS_U32};
    size_t i = 0;
    ZL_TRY(choose("tokens", text, names, 3, &i, err));
    o->tokens = values[i];
    return ZL_OK;
}

static zl_status set_format(zr_options *o, const char *text, zl_err *err)
{
    static const char *const names[] = {"table", "csv", "json"};
    static const zr_format values[] = {ZR_FORMAT_TABLE, ZR_FORMAT_CSV, ZR_FORMAT_JSON};
    size_t i = 0;
    ZL_TRY(choose("format", text, names, 3, &i, err));
    o->format = values[i];
    return ZL_OK;
}

static zl_status set_rate(const char *name, const char *text, double *out, zl_err *err)
{
    double value;
    ZL_TRY(zl_parse_real(name, text, &value, err));
    if (value < 0.0) {
        return zl_fail(err, ZL_E_USAGE, "%s must not be negative, got %s", name, text);
    }
    *out = value;
    return ZL_OK;
}

static zl_status set_positive(const char *name, const char *text, uint64_t *out, zl_err *err)
{
    uint64_t value;
    ZL_TRY(zl_parse_count(name, text, &value, err));
    if (value == 0) {
        return zl_fail(err, ZL_E_USAGE, "%s must be at least 1, got 0", name);
    }
    *out = value;
    return ZL_OK;
}

static zl_status set_own(zr_options *o, int key, const char *arg, zl_err *err)
{
    switch (key) {
    case KEY_STEPS:
        return set_positive("--steps", arg, &o->steps, err);
    case KEY_DATA:
        o->data = arg;
        return ZL_OK;
    case KEY_TOKENS:
        return set_tokens(o, arg, err);
    case KEY_VARLEN:
        o->varlen = true;
        return ZL_OK;
    case KEY_SEED:
        return zl_parse_count("--seed", arg, &o->seed, err);
    case KEY_LR:
        return set_rate("--lr", arg, &o->learning_rate, err);
    case KEY_WEIGHT_DECAY:
        return set_rate("--weight-decay", arg, &o->weight_decay, err);
    case KEY_WARMUP:
        return zl_parse_count("--warmup", arg, &o->warmup, err);
    case KEY_LOSS_SCALE:
        ZL_TRY(set_rate("--loss-scale", arg, &o->loss_scale, err));
        return o->loss_scale > 0.0 ? ZL_OK
                                   : zl_fail(err, ZL_E_USAGE, "--loss-scale must be positive");
    case KEY_CHECKPOINT:
        o->checkpoint = arg;
        return ZL_OK;
    case KEY_KEEP:
        return set_positive("--keep", arg, &o->keep, err);
    case KEY_RESUME:
        o->resume = arg;
        return ZL_OK;
    case KEY_OUT:
        o->out = arg;
        return ZL_OK;
    case KEY_PROFILE:
        o->profile = arg;
        return ZL_OK;
    case KEY_CAP:
        ZL_TRY(zl_parse_bytes("--cap", arg, &o->cap, err));
        return o->cap > 0 ? ZL_OK : zl_fail(err, ZL_E_USAGE, "--cap must be at least 1 byte");
    case KEY_POISON:
        o->poison = true;
        return ZL_OK;
    case KEY_QUIET:
        o->quiet = true;
        return ZL_OK;
    case KEY_LOOPBACK:
        o->loopback = true;
        return zl_parse_count("--loopback", arg, &o->loopback_rank, err);
    case KEY_FORMAT:
        return set_format(o, arg, err);
    default:
        return ZL_E_BUG;
    }
}

static error_t parse_one(int key, char *arg, struct argp_state *state)
{
    parsing *const p = state->input;
    if (p->status != ZL_OK) { /* the first error is the one to tell */
        return 0;
    }
    if (key >= RUN_KEY && key < RUN_KEY + RUN_OPTIONS) {
        const zl_option *const option = zl_run_option((size_t)(key - RUN_KEY));
        p->status = zl_run_set(&p->options->run, option->name, arg, p->err);
        return 0;
    }
    if (key >= KEY_STEPS && key <= KEY_FORMAT) {
        p->status = set_own(p->options, key, arg, p->err);
        return 0;
    }
    if (key == ARGP_KEY_ARG) {
        p->status =
            zl_fail(p->err, ZL_E_USAGE, "unexpected argument \"%s\"; options begin with --", arg);
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

/* The run's options with their aliases, then the trainer's own. Static: argp keeps no copy. */
static const struct argp_option *all_options(void)
{
    static struct argp_option all[RUN_ENTRIES + sizeof(own_options) / sizeof(own_options[0])];
    size_t count = 0;
    all[count++] = (struct argp_option){.doc = "The run:", .group = 1};
    const zl_option *option;
    for (size_t i = 0; i < RUN_OPTIONS && (option = zl_run_option(i)) != NULL; i++) {
        all[count++] = (struct argp_option){.name = option->name,
                                            .key = RUN_KEY + (int)i,
                                            .arg = option->arg,
                                            .doc = option->text,
                                            .group = 1};
        if (option->alias != NULL && count < RUN_ENTRIES) {
            all[count++] = (struct argp_option){.name = option->alias, .flags = OPTION_ALIAS};
        }
    }
    memcpy(&all[count], own_options, sizeof(own_options));
    return all;
}

/* What argp would refuse without saying what is near. */
static zl_status check_words(const struct argp_option *rows, char *const *argv, zl_err *err)
{
    const char *names[RUN_ENTRIES + sizeof(own_options) / sizeof(own_options[0]) + 3] = {
        "help", "usage", "version"};
    size_t count = 3;
    for (; rows->name != NULL || rows->doc != NULL; rows++) {
        if (rows->name != NULL) {
            names[count++] = rows->name;
        }
    }
    return zl_options_known(argv, false, names, count, err);
}

static zl_status check_loopback(const zr_options *o, zl_err *err)
{
    if (o->loopback && o->loopback_rank >= o->run.ranks) {
        return zl_fail(err, ZL_E_USAGE,
                       "--loopback is a rank of 0 to %" PRIu64 ", got %" PRIu64
                       "; say how many there are with --ranks",
                       o->run.ranks - 1, o->loopback_rank);
    }
    if (o->loopback && (o->run.save || o->resume != NULL)) {
        return zl_fail(err, ZL_E_USAGE,
                       "--loopback trains nothing that could be saved or resumed: leave --save and "
                       "--resume out");
    }
    return ZL_OK;
}

/* What no option can see by itself. */
static zl_status check_together(const zr_options *o, zl_err *err)
{
    const zl_precision precision = o->run.precision;
    ZL_TRY(check_loopback(o, err));
    if (o->run.save && o->checkpoint == NULL && o->out == NULL) {
        return zl_fail(err, ZL_E_USAGE,
                       "--save needs a place for the checkpoints: give --checkpoint DIR or --out");
    }
    if (o->checkpoint != NULL && !o->run.save) {
        return zl_fail(err, ZL_E_USAGE,
                       "--checkpoint %s, and this run saves none: add --save (to go on from one: "
                       "--resume)",
                       o->checkpoint);
    }
    if (o->loss_scale > 0.0 && precision != ZL_PRECISION_FP16_MIXED) {
        return zl_fail(err, ZL_E_USAGE, "--loss-scale is for fp16-mixed, the precision is %s",
                       zl_precision_name(precision));
    }
    if (o->loss_scale > 0.0 && o->resume != NULL) {
        return zl_fail(err, ZL_E_USAGE,
                       "--loss-scale is the first one, and --resume goes on with that of the "
                       "checkpoint: leave one of them out");
    }
    return ZL_OK;
}

zl_status zr_options_parse(int argc, char **argv, bool silent, zr_options *out, zl_err *err)
{
    argp_program_version = "zl-train (zeroledger) " ZL_VERSION;
    argp_err_exit_status = ZL_E_USAGE;
    const struct argp argp = {
        .options = all_options(),
        .parser = parse_one,
        .doc = "Trains a transformer, sharded over ranks, and measures every byte it needs.\v"
               "With more than one rank it starts them itself, on the host through mpirun, or is "
               "one of "
               "them if mpirun, srun or torchrun started it. Losses go to standard output, words "
               "to standard error."
               "\n\nExamples:\n"
               "  zl-train --model gpt2-tiny --seq 64 --stage 3 --ranks 2 --steps 5\n"
               "  zl-train --run run.json --data corpus.u16 --out results\n"
               "  zl-train --model gpt2-tiny --save --checkpoint ckpt --steps 5\n"
               "  zl-train --run ckpt/step-00000005/run.json --resume ckpt --steps 9 --out results"
               "\n\n"
               "Exit status: 0 fine, 2 usage, 3 bad input file, 4 memory or I/O failure or a rank "
               "that died, 5 bug, 6 not modelled.",
    };
    zr_options options = {
        .steps = 10,
        .data = default_text,
        .seed = 1,
        .learning_rate = 3e-4,
        .weight_decay = 0.01,
        .keep = 2,
    };
    zl_run_init(&options.run);
    options.run.backend = zr_device_backend();
    parsing p = {.options = &options, .err = err};
    ZL_TRY(check_words(argp.options, argv, err));
    const unsigned flags = silent ? ARGP_SILENT : 0;
    if (argp_parse(&argp, argc, argv, flags, NULL, &p) != 0) {
        return zl_fail(err, ZL_E_USAGE, "wrong options; see zl-train --help");
    }
    ZL_TRY(p.status);
    ZL_TRY(zl_run_check(&options.run, err));
    ZL_TRY(check_together(&options, err));
    *out = options;
    return ZL_OK;
}
