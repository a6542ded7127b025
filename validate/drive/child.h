/* One child process at a time, with a time limit, that ends when we are told to end.
 *
 *     sigset_t before;
 *     ZL_TRY(zv_signals_block(&before, err));
 *     zv_child_result result;
 *     ZL_TRY(zv_child_run(&(zv_child){.argv = argv, .folder = "out/x", .log = "train.log"},
 * &result, err));
 *
 * Interruptions are blocked and asked for, never handled: no handler, no global, no race.
 */
#ifndef ZV_CHILD_H
#define ZV_CHILD_H

#include <stdbool.h>

#include "zeroledger/error.h"

typedef struct zv_child {
    char *const *argv;  /* argv[0] is the path of the program; ends with NULL */
    const char *folder; /* its working directory */
    const char *log;    /* file in folder that gets stdout and stderr; replaced */
    const char *fault;  /* value of ZR_FAULT, or NULL: unset */
    unsigned limit;     /* seconds; 0: none */
} zv_child;

typedef enum zv_child_end {
    ZV_CHILD_EXITED,
    ZV_CHILD_SIGNALLED,
    ZV_CHILD_TIMED_OUT,   /* killed */
    ZV_CHILD_INTERRUPTED, /* killed, because this process got SIGINT, SIGTERM or SIGHUP */
    ZV_CHILD_END_COUNT
} zv_child_end;

typedef struct zv_child_result {
    zv_child_end end;
    int code; /* exit code or signal */
    double seconds;
} zv_child_result;

/* Blocks the signals that interrupt and SIGCHLD, from here on. */
ZL_NODISCARD zl_status zv_signals_block(zl_err *err);

/* Whether an interruption has arrived; it stays so. */
bool zv_interrupted(void);

/* Runs the child to its end; what it leaves running in its process group is killed. Signals must be
 * blocked. Errors are those of starting it. */
ZL_NODISCARD zl_status zv_child_run(const zv_child *child, zv_child_result *out, zl_err *err);

#endif
