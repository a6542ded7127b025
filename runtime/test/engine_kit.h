/* Small models, runs and batches for the tests of the trainer.
 *
 *     zl_run run = kit_run(kit_model(ZL_FAMILY_GPT2));
 *     run.stage = 3;
 *     const kit_result r = kit_train(&run, 4);
 *     assert_true(r.hash == other.hash);
 */
#ifndef ZR_TEST_ENGINE_KIT_H
#define ZR_TEST_ENGINE_KIT_H

#include <stdint.h>

#include "train/engine.h"
#include "train/resume.h"
#include "train/save.h"

enum { KIT_STEPS_MAX = 256 };

/* Two blocks, no size a multiple of another where that is not required; BERT with pooler. */
zl_model kit_model(zl_family family);
/* fp32, stage 0, one rank, B 2, T 11. */
zl_run kit_run(zl_model model);

/* Random sequences numbered through all steps, micro-steps and ranks, so that the same sequences
 * come whether one rank takes them or several. Evaluation gets those of the next step's first
 * micro-step. */
typedef struct kit_data {
    const zl_run *run;
    uint64_t rank;
} kit_data;
zl_status kit_next(void *context, uint64_t step, uint64_t micro, zr_batch *batch, zl_err *err);

/* In [-1/2, 1/2), by counter. */
double kit_uniform(uint64_t i);

typedef struct kit_rig {
    zr_track *track;
    zr_comm *own; /* a communicator of one rank, if none was given */
    zr_save *save;
    zr_engine *engine;
    kit_data data;
} kit_rig;

/* Zeroed: a training that begins. */
typedef struct kit_start {
    const char *root;   /* of the checkpoints of a run that saves */
    uint64_t keep;      /* 0: 2 */
    const char *resume; /* a checkpoint to go on from */
    double loss_scale;
} kit_start;

/* An engine with poison on; comm NULL: one rank. Fails the test on any error. */
kit_rig kit_open_at(const zl_run *run, zr_comm *comm, const kit_start *start);
kit_rig kit_open(const zl_run *run, zr_comm *comm);
void kit_close(kit_rig *rig);

typedef struct kit_result {
    uint64_t steps;
    double loss[KIT_STEPS_MAX];
    double norm[KIT_STEPS_MAX];
    double eval[KIT_STEPS_MAX];
    uint64_t hash;
} kit_result;

/* `steps` more steps, and the hash. */
kit_result kit_steps(kit_rig *rig, uint64_t steps);
kit_result kit_train_on(zr_comm *comm, const zl_run *run, uint64_t steps);
kit_result kit_train(const zl_run *run, uint64_t steps); /* one rank */

/* Bit for bit. */
void kit_assert_same(const kit_result *a, const kit_result *b, const char *what);
/* Losses within tolerance, norms within a hundred times that, both relative. */
void kit_assert_close(const kit_result *a, const kit_result *b, double tolerance);

#endif
