/* Readable names of cases: the model, then what was chosen, in a fixed order. */
#ifndef ZV_CASE_ID_H
#define ZV_CASE_ID_H

#include <stddef.h>

#include "zeroledger/run.h"

/* Text of an option where the case chooses it, else NULL. */
typedef const char *(*zv_chosen)(void *context, const zl_option *option);

/* "gpt2-tiny/z3-n4-bf16-mixed-full-a2", then every other chosen option in the order of the option
 * table: "-b2-t32-eager". Letters, digits, '.', '-' and '_' only, and one '/'. */
void zv_case_id(const zl_run *run, zv_chosen chosen, void *context, char *id, size_t size);

#endif
