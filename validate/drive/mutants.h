/* Negative controls: the trainer with one deliberate fault must be caught, at the phase and kind
 * that the fault's author expected before anything ran ("zeroledger.mutants/1"):
 *
 *     {"schema": "zeroledger.mutants/1", "tolerance": {...}, "base": {"model": "gpt2-tiny"},
 *      "mutants": [{"name": "logits-kept", "text": "why it shows there", "run": {"stage": 0},
 *                   "expect": {"phase": "forward", "kind": "logits"}}]}
 *
 * "expect" is {"phase", "kind"} of the first difference, or {"witness": "outside_steady"}. "steps"
 * (default 2) is small, so that a leak cannot make the trainer itself complain about a cell that
 * changed between two steps. Each mutant's case also runs without the fault, and must then be
 * equal.
 */
#ifndef ZV_MUTANTS_H
#define ZV_MUTANTS_H

#include <stdbool.h>

#include "compare/verdict.h"
#include "drive/trainer.h"

typedef struct zv_mutant {
    char name[ZV_NAME_SIZE]; /* value of ZR_FAULT */
    char text[256];
    zl_run run;
    uint64_t steps;
    bool by_witness;
    zl_phase phase; /* unless by_witness */
    zl_kind kind;
} zv_mutant;

typedef struct zv_mutants {
    zv_tolerance tolerance;
    zv_mutant *item;
    size_t count;
} zv_mutants;

ZL_NODISCARD zl_status zv_mutants_load(const char *path, zv_mutants *out, zl_err *err);
void zv_mutants_release(zv_mutants *mutants);

/* Runs the mutant's case without and with its fault in folder/<name> and judges it. A case that is
 * not equal without the fault is ZL_NO. Stopped on request: the verdict is failed and
 * zv_interrupted. */
ZL_NODISCARD zl_status zv_mutant_run(const zv_mutant *mutant, const zv_tolerance *tolerance,
                                     const zv_trainer *trainer, const char *folder,
                                     zv_verdict *verdict, zl_err *err);

/* Whether the verdict is what the mutant's author expected; why not, in words, where it is not. */
bool zv_mutant_caught(const zv_mutant *mutant, const zv_tolerance *tolerance,
                      const zv_verdict *verdict, char *why, size_t size);

#endif
