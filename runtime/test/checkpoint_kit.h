/* A folder of checkpoints for the tests of one rank. */
#ifndef ZR_TEST_CHECKPOINT_KIT_H
#define ZR_TEST_CHECKPOINT_KIT_H

#include <stdbool.h>
#include <stdint.h>

#include "engine_kit.h"

/* The one file of a step. */
#define KIT_SHARD "rank-0000-of-0001.zlckpt"

extern char kit_root[];
/* Set-up and tear-down of a group of tests. */
int kit_make_root(void **state);
int kit_remove_root(void **state);

/* "ROOT/NAME", in storage that the fourth call after this one takes again. */
const char *kit_path(const char *name);
bool kit_there(const char *name);

/* Trains `steps` steps that save into the root, whatever `start` says about that. */
void kit_save(zl_run run, uint64_t steps, const kit_start *start);
/* Leaves the root empty for the next test. */
void kit_clean(void);

#endif
