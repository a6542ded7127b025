/* What PyTorch and the trainer both compute: for each family a model small enough for a committed
 * file, ten batches, and the numbers of the optimizer.
 *
 *     zl_run run;
 *     ZL_TRY(subject_run(ZL_FAMILY_LLAMA, &run, err));
 *     subject_batch(&run, 3, &batch);
 */
#ifndef ZR_TEST_SUBJECT_H
#define ZR_TEST_SUBJECT_H

#include <stddef.h>
#include <stdint.h>

#include "train/engine.h"
#include "zero/unit.h"
#include "zeroledger/run.h"

enum { SUBJECT_STEPS = 10 };

/* Two blocks and no size a multiple of another where that is not required. BERT with masked tokens,
 * padding and next sentences, exact GELU; Llama with grouped queries, untied; fp32, one rank. The
 * backend is the one that is linked. */
ZL_NODISCARD zl_status subject_run(zl_family family, zl_run *out, zl_err *err);

/* The id of the run on the host, whatever is linked: what a reference is made for. */
void subject_id(const zl_run *run, char id[ZL_RUN_ID_SIZE]);

/* A number of the optimizer, with the name it has in the file; index counts from 0, NULL past the
 * end. */
typedef struct subject_number {
    const char *name;
    double value;
} subject_number;
const subject_number *subject_number_at(size_t index);
/* Those numbers, the run and a seed; the rest is zeroed. */
zr_engine_options subject_options(const zl_run *run);

/* Step 0..9. Sequences in which a token mostly follows from the one before it. */
void subject_batch(const zl_run *run, uint64_t step, zr_batch *batch);

/* What is added to first weight number i of the model, within 0.3: trained weights are larger, no
 * gain is 1 and no bias 0. */
float subject_stir(uint64_t i);

/* "block.1.qkv_w": u as in zero.h. */
void subject_tensor_name(const zl_run *run, uint64_t u, zr_role role, char *name, size_t size);

#endif
