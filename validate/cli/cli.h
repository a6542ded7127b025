/* The commands of zl-validate: one row of the table in main.c and one function each. Options are
 * rows of the table in args.c; parsing and help follow it. */
#ifndef ZV_CLI_H
#define ZV_CLI_H

#include <stdbool.h>
#include <stdint.h>

#include "drive/files.h"
#include "records/judgement.h"
#include "zeroledger/error.h"

typedef struct zv_settings {
    const char *cases;   /* NULL: host.json */
    const char *mutants; /* NULL: mutants.json */
    const char *out;
    const char *commit; /* or NULL */
    const char *train;  /* or NULL */
    bool fresh;
    bool no_poison;
    bool skip_work;
    bool misses;
    bool summary;
    const char *format;   /* "table", "json", "md" */
    const char *limits;   /* or NULL */
    const char *peers;    /* NULL: records/peers.json */
    uint64_t limit;       /* seconds */
    char *const *operand; /* borrowed from argv */
    unsigned operands;
} zv_settings;

typedef struct zv_command {
    const char *name;
    const char *text;    /* one sentence for the overview */
    const char *more;    /* what --help says below the options */
    const char *operand; /* names of the operands, or NULL */
    unsigned operands;   /* how many there must be */
    bool more_operands;  /* or more */
    const char *out;     /* what --out is by default; NULL: zl-validate-out */
    zl_status (*main)(const zv_settings *settings, zl_err *err);
} zv_command;

/* Parses argv[1..] of the command; argv[0] is its full name. Wrong options end the program with 2.
 */
void zv_args_parse(const zv_command *command, int argc, char **argv, zv_settings *out);

/* Absolute path of the folder this program is in. */
zl_status zv_program_folder(char folder[ZV_PATH_SIZE], zl_err *err);
/* Path of a file that comes with the program ("cases/host.json"): installed, else in the sources.
 */
zl_status zv_data_file(const char *name, char path[ZV_PATH_SIZE], zl_err *err);

/* Judges the records in all files that are operands; the caller releases *all in any case. */
zl_status zv_judge_operands(const zv_settings *settings, zv_judgement *all, zl_err *err);

zl_status zv_cmd_run(const zv_settings *settings, zl_err *err);
zl_status zv_cmd_report(const zv_settings *settings, zl_err *err);
zl_status zv_cmd_compare(const zv_settings *settings, zl_err *err);
zl_status zv_cmd_recheck(const zv_settings *settings, zl_err *err);
zl_status zv_cmd_field(const zv_settings *settings, zl_err *err);
zl_status zv_cmd_peers(const zv_settings *settings, zl_err *err);
zl_status zv_cmd_records(const zv_settings *settings, zl_err *err);
zl_status zv_cmd_mutants(const zv_settings *settings, zl_err *err);
zl_status zv_cmd_calibrate(const zv_settings *settings, zl_err *err);
zl_status zv_cmd_nccl(const zv_settings *settings, zl_err *err);
zl_status zv_cmd_trace(const zv_settings *settings, zl_err *err);

#endif
