/* Batches of tokens from a file, by position: window number i of the training is the same whoever
 * asks for it, so that one rank with the union batch sees what N ranks see.
 *
 * The last tenth of the file, but at least one window, is held out: training never takes a window
 * from it, whether there is an evaluation or not, and evaluation takes all of its windows there. A
 * file too short for two windows holds nothing out, and has no evaluation.
 *
 * A text is its bytes (a vocabulary of 256); a token file is little-endian 16- or 32-bit ids
 * without a header. Causal models get T + 1 consecutive tokens, shifted by one; BERT gets T tokens
 * of which 15 % are masked, and with the pooler a second half that continues the first one half of
 * the time.
 *
 *     zr_data data;
 *     ZL_TRY(zr_data_init(&data, &(zr_data_options){.path = "corpus.u16", .run = &run, ...}, err));
 *     ... zr_engine_step(engine, zr_data_next, &data, &result, err) ...
 *     zr_data_release(&data);
 */
#ifndef ZR_DATA_H
#define ZR_DATA_H

#include <stdbool.h>
#include <stdint.h>

#include "train/engine.h"
#include "zeroledger/error.h"
#include "zeroledger/run.h"

typedef enum zr_tokens {
    ZR_TOKENS_AUTO, /* .u16 and .u32 by the file's name, else bytes */
    ZR_TOKENS_U8,
    ZR_TOKENS_U16,
    ZR_TOKENS_U32,
    ZR_TOKENS_COUNT
} zr_tokens;

typedef struct zr_data_options {
    const char *path;
    zr_tokens tokens;
    uint64_t seed;
    uint64_t rank;
    const zl_run *run; /* borrowed for the life of the data */
    bool varlen;       /* BERT: lengths between T/2 and T */
} zr_data_options;

typedef struct zr_data {
    zr_data_options options;
    void *mapping;              /* of the file */
    const unsigned char *bytes; /* the same, to read */
    uint64_t size;
    uint64_t count; /* tokens */
    uint64_t held;  /* of them at the end for evaluation */
    uint64_t width; /* bytes of a token */
    uint64_t mask;  /* the id that stands for a masked token */
    uint64_t step;  /* training goes on with this step */
    uint64_t taken; /* windows that all ranks together have taken before it */
} zr_data;

/* Checks the whole file: every id is below the vocabulary, and there is at least one window. Wrong
 * content is ZL_E_INPUT with offset and value. The caller releases. */
ZL_NODISCARD zl_status zr_data_init(zr_data *data, const zr_data_options *options, zl_err *err);
void zr_data_release(zr_data *data);

/* Goes on with `step` behind the first `taken` windows, however many ranks took those. */
void zr_data_seek(zr_data *data, uint64_t step, uint64_t taken);

/* A zr_next_batch; context is a zr_data. step and micro count from 0. */
ZL_NODISCARD zl_status zr_data_next(void *context, uint64_t step, uint64_t micro, zr_batch *batch,
                                    zl_err *err);

#endif
