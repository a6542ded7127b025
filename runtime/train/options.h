/* Everything that zl-train is told on its command line. */
#ifndef ZR_OPTIONS_H
#define ZR_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "train/data.h"
#include "zeroledger/error.h"
#include "zeroledger/run.h"

typedef enum zr_format {
    ZR_FORMAT_TABLE, /* a line a step, for people */
    ZR_FORMAT_CSV,   /* a row a step, bytes whole */
    ZR_FORMAT_JSON,  /* at the end, the text of train.json */
    ZR_FORMAT_COUNT
} zr_format;

typedef struct zr_options {
    zl_run run; /* checked */
    uint64_t steps;
    const char *data;
    zr_tokens tokens;
    bool varlen;
    uint64_t seed;
    double learning_rate;
    double weight_decay;
    uint64_t warmup;
    double loss_scale; /* first one of fp16-mixed; 0: the usual one */
    const char
        *checkpoint;     /* folder of the checkpoints of a run that saves; NULL: OUT/checkpoint */
    uint64_t keep;       /* how many stay */
    const char *resume;  /* folder to go on from; NULL: a training begins */
    const char *out;     /* folder for results; NULL: none are written */
    const char *profile; /* file for where the time goes; NULL: none is written */
    uint64_t cap;        /* 0: none */
    bool poison;
    bool quiet;
    bool loopback; /* only rank loopback_rank of the run's ranks, without the others */
    uint64_t loopback_rank;
    zr_format format;
} zr_options;

/* Texts are borrowed from argv. silent: help and usage errors are not printed (all ranks but one).
 * --help, --version and unknown options end the program as argp does, with 0 or 2. */
ZL_NODISCARD zl_status zr_options_parse(int argc, char **argv, bool silent, zr_options *out,
                                        zl_err *err);

#endif
