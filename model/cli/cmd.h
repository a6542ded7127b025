/* The commands of the program zl, and what they share: options, settings, a page to print on.
 *
 * A command is one row of the table in main.c and one function. Every option is a zl_option row:
 * those of the run description come from zl_run_option, the rest from here. Parsing (argp), help
 * and completion walk the same rows, so none of them can drift.
 */
#ifndef ZL_CLI_CMD_H
#define ZL_CLI_CMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "table.h"
#include "zeroledger/error.h"
#include "zeroledger/ledger.h"
#include "zeroledger/predict.h"
#include "zeroledger/run.h"
#include "zeroledger/text.h"

typedef struct zl_command zl_command;

/* How and where to print. */
typedef struct zl_view {
    zl_format format;
    zl_byte_unit unit;
    int decimals;
    const char *out; /* path, "-" = stdout */
    bool color;
    bool bars; /* tables of bytes have a bar column */
    bool utf8;
    int width; /* of a terminal; 0: there is none */
} zl_view;
/* What of a view depends on where it is shown: color and bars are the options' values or NULL. */
void zl_view_show(zl_view *view, const char *color, const char *bars);
/* Has argp print no wider than a terminal that is narrower than its usual lines. */
void zl_help_width(void);

/* One option as given. A flag has the value "". */
typedef struct zl_setting {
    const zl_option *option;
    const char *value;
} zl_setting;

enum { ZL_ARGS_MAX = 96 };

/* A parsed command line. Borrows argv. */
typedef struct zl_args {
    const zl_command *command;
    zl_setting setting[ZL_ARGS_MAX]; /* in the order given */
    size_t settings;
    const char *operand; /* NULL: none given */
    bool help;
    zl_view view;
} zl_args;

/* Groups of `zl help`. */
typedef enum zl_topic { ZL_TOPIC_ASK, ZL_TOPIC_RUN, ZL_TOPIC_CHECK, ZL_TOPIC_COUNT } zl_topic;

struct zl_command {
    const char *name;
    const char *text;     /* one sentence for `zl help` */
    const char *more;     /* paragraphs below the options in --help, or NULL */
    const char *operand;  /* name of the one operand in help, or NULL */
    const char *operands; /* its comma-separated legal values, or NULL */
    const zl_option *own; /* options of this command alone, ended by a row without name; or NULL */
    zl_status (*main)(const zl_args *args, zl_err *err);
    const char *program; /* an external program instead of main, or NULL */
    zl_topic topic;
    bool takes_run;    /* the options of the run description */
    bool takes_output; /* --format, --units, --out, --color */
};

/* The table of main.c; NULL past the end. */
const zl_command *zl_command_at(size_t index);
const zl_command *zl_command_find(const char *name);
/* The same; an unknown name is ZL_E_USAGE with the nearest. */
zl_status zl_command_require(const char *name, const zl_command **out, zl_err *err);

/* Rows of a command: its own, then the run's, then the output's; NULL past the end. The group is
 * 0 for its own, 1 for the run's, 2 for the output's. */
const zl_option *zl_command_option(const zl_command *command, size_t index, int *group);

/* The row that --word means: its name, its alias, or an abbreviation. ZL_E_USAGE if there is none,
 * with the nearest, or if several are meant. */
zl_status zl_command_match(const zl_command *command, const char *word, size_t length,
                           const zl_option **out, zl_err *err);

/* Parses argv[1..]; argv[0] is the command's name. */
zl_status zl_args_parse(const zl_command *command, int argc, char **argv, zl_args *out,
                        zl_err *err);
/* The last value given for an option, "" for a flag, NULL if it was not given. */
const char *zl_args_value(const zl_args *args, const char *name);
/* Applies the run's options: "run" first, then what the model's reader depends on, then the others
 * as given. The run is not checked. */
zl_status zl_args_apply(const zl_args *args, zl_run *out, zl_err *err);
/* The same, and checks. */
zl_status zl_args_run(const zl_args *args, zl_run *out, zl_err *err);
/* --help of a command, printed on a stream. */
zl_status zl_args_help(const zl_command *command, FILE *out, zl_err *err);

/* ZL_E_USAGE unless value is one of the comma-separated values: names the nearest. */
zl_status zl_one_of(const char *what, const char *value, const char *values, zl_err *err);
/* The index-th name of a comma-separated list, copied; false past the end. */
bool zl_list_item(const char *list, size_t index, char *name, size_t size);
/* "a,b,c" as "a, b, c". */
void zl_list_spaced(const char *list, char *text, size_t size);
/* The nearest name of a comma-separated list, copied; false if none is near. */
bool zl_list_nearest(const char *word, const char *list, char *name, size_t size);

/* What a command prints, collected in memory and written at once when it is closed. */
typedef struct zl_page {
    FILE *file;
    char *text;
    size_t size;
    const zl_view *view;
} zl_page;

zl_status zl_page_open(zl_page *page, const zl_view *view, zl_err *err);
/* Words for people: a line of a paragraph; nothing under csv and json. */
void zl_page_say(zl_page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* An empty line between paragraphs; nothing under csv and json. */
void zl_page_break(zl_page *page);
zl_status zl_page_table(zl_page *page, const zl_table *table, zl_err *err);
/* Writes to view.out if all went well so far. Frees the text whatever happens; returns so_far, or
 * how the writing went. */
zl_status zl_page_end(zl_page *page, zl_status so_far, zl_err *err);

/* Bytes in the view's unit; without or with the unit's name behind. */
enum { ZL_FIGURE_SIZE = 64 };
typedef struct zl_figure {
    char text[ZL_FIGURE_SIZE];
} zl_figure;
zl_figure zl_bytes_in(const zl_view *view, uint64_t bytes);
zl_figure zl_bytes_named(const zl_view *view, uint64_t bytes);
/* "1.500 GiB (1,610,612,736 B)" */
zl_figure zl_bytes_exact(const zl_view *view, uint64_t bytes);
zl_figure zl_count(uint64_t n);
/* a / b as "12.5x", and as "34.1 %"; "-" where b is 0. */
zl_figure zl_ratio(uint64_t a, uint64_t b);
zl_figure zl_percent(uint64_t a, uint64_t b);
/* part of whole in parts per million, rounded half up. */
uint64_t zl_ppm(uint64_t part, uint64_t whole);
/* "forward", or with its visit where that is not steady: "forward (cold)". */
zl_figure zl_cell_label(zl_visit visit, zl_phase phase);

/* A prediction on the heap; the caller frees it. */
zl_status zl_predicted(const zl_run *run, uint64_t rank, zl_ledger **out, zl_err *err);
/* The visit of a phase with the largest granted peak; of equals the first of steady, steady.later,
 * cold, cold.later. False: the phase does not occur. */
bool zl_largest_visit(const zl_ledger *ledger, zl_phase phase, zl_visit *out);
/* The cell with the largest granted peak; of equals a steady one, then the first phase. */
void zl_largest_cell(const zl_ledger *ledger, zl_visit *visit, zl_phase *phase);
/* The visits in the order in which people want them: steady ones first. */
extern const zl_visit zl_visit_order[ZL_VISIT_COUNT];
/* Description, parameters, id: the first lines of every page about a run. */
void zl_page_run(zl_page *page, const zl_run *run, const char *tail);
/* The number that --rank names, checked against the run; false in *given: it was not. */
zl_status zl_args_rank(const zl_args *args, const zl_run *run, bool *given, uint64_t *out,
                       zl_err *err);

/* `zl predict` and `zl explain` of a framework other than native; the run has been checked. */
zl_status zl_predict_framework(const zl_args *args, zl_run *run, zl_err *err);
zl_status zl_explain_framework(const zl_args *args, zl_run *run, zl_err *err);

/* A GPU's memory as its vendor states it. */
typedef struct zl_gpu {
    const char *name;
    const char *text;
    uint64_t bytes;
    const char *chip;                     /* a part of the name that CUDA has for it */
    uint32_t multiprocessors, capability; /* 90 is compute capability 9.0 */
} zl_gpu;
/* NULL past the end. */
const zl_gpu *zl_gpu_at(size_t index);
zl_status zl_gpu_find(const char *name, const zl_gpu **out, zl_err *err);

/* Path of an external program: beside zl, in libexec, on PATH; false if it is nowhere. */
bool zl_program_find(const char *name, char *path, size_t size);
/* Replaces this process; returns only on failure. */
zl_status zl_program_exec(const char *name, char **argv, zl_err *err);
/* An executable on PATH. */
bool zl_path_find(const char *name, char *path, size_t size);

/* A table as zl list prints it; JSON is zeroledger.list/1. */
zl_status zl_print_list(const zl_view *view, const char *what, const zl_table *table, zl_err *err);

zl_status zl_cmd_predict(const zl_args *args, zl_err *err);
zl_status zl_cmd_explain(const zl_args *args, zl_err *err);
zl_status zl_cmd_fit(const zl_args *args, zl_err *err);
zl_status zl_cmd_sweep(const zl_args *args, zl_err *err);
zl_status zl_cmd_advise(const zl_args *args, zl_err *err);
zl_status zl_cmd_list(const zl_args *args, zl_err *err);
zl_status zl_cmd_decode(const zl_args *args, zl_err *err);
zl_status zl_cmd_compare(const zl_args *args, zl_err *err);
zl_status zl_cmd_replay(const zl_args *args, zl_err *err);
zl_status zl_cmd_doctor(const zl_args *args, zl_err *err);
zl_status zl_cmd_help(const zl_args *args, zl_err *err);
/* `zl __complete CWORD WORD...`: candidates for a shell, one a line. */
zl_status zl_cmd_complete(int argc, char **argv, zl_err *err);
/* docs/formulas.md, docs/vocabulary.md, docs/schema/names.schema.json, and `zl __man COMMAND`, the
 * options of a manual page. */
zl_status zl_cmd_formulas(int argc, char **argv, zl_err *err);
zl_status zl_cmd_vocabulary(int argc, char **argv, zl_err *err);
zl_status zl_cmd_names(int argc, char **argv, zl_err *err);
zl_status zl_cmd_man(int argc, char **argv, zl_err *err);

extern const zl_option zl_predict_options[];
extern const zl_option zl_explain_options[];
extern const zl_option zl_fit_options[];
extern const zl_option zl_sweep_options[];
extern const zl_option zl_advise_options[];
extern const zl_option zl_replay_options[];
extern const zl_option zl_compare_options[];
extern const zl_option zl_decode_options[];

#endif
