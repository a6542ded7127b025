/* A matrix of runs, read from a case file ("zeroledger.cases/1"):
 *
 *     {"schema": "zeroledger.cases/1", "name": "host",
 *      "tolerance": {"requested": 0, "granted": 0, "outside_steady": 1048576},
 *      "groups": [{"name": "core", "base": {"model": "gpt2-tiny", "seq": 32},
 *                  "axes": {"stage": [0, 1, 2, 3], "ranks": [1, 2]}}]}
 *
 * A group is the cartesian product of its axes on top of its base; both hold options by the long
 * names of the option table. A model that is a path is looked for beside the case file.
 *
 *     zv_cases cases;
 *     ZL_TRY(zv_cases_load("host.json", &cases, err));
 *     ... cases.item[0].id is "gpt2-tiny/z0-n1-bf16-mixed-none-a1-t32" ...
 *     zv_cases_release(&cases);
 */
#ifndef ZV_CASES_H
#define ZV_CASES_H

#include <stddef.h>

#include "compare/verdict.h"
#include "zeroledger/json.h"
#include "zeroledger/run.h"

typedef struct zv_case {
    char id[ZV_ID_SIZE]; /* unique in the file; a relative path */
    char group[ZV_NAME_SIZE];
    zl_run run; /* checked */
} zv_case;

typedef struct zv_cases {
    char name[ZV_NAME_SIZE];
    zv_tolerance tolerance;
    zv_case *item; /* in the order of groups, the last axis fastest */
    size_t count;
} zv_cases;

/* The caller releases *out. Any fault of the file, an option that the table does not have or a run
 * that cannot be is ZL_E_INPUT and names the place; so are two cases that are the same run. */
ZL_NODISCARD zl_status zv_cases_load(const char *path, zv_cases *out, zl_err *err);
void zv_cases_release(zv_cases *cases);

/* Sets the options of a JSON object on run. path is the file the object is from. */
ZL_NODISCARD zl_status zv_run_apply(zl_run *run, zl_json options, const char *path, zl_err *err);

/* Sets one option from a JSON value: text as it is, numbers in decimal, true sets a flag and false
 * leaves it. */
ZL_NODISCARD zl_status zv_run_apply_one(zl_run *run, const char *option, zl_json value,
                                        const char *path, zl_err *err);

/* The option's text as zv_run_apply_one sets it; "" for a flag. */
ZL_NODISCARD zl_status zv_option_text(zl_json value, char *text, size_t size, zl_err *err);

#endif
