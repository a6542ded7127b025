/* docs/peers.md: other calculators on the measured runs. */
#ifndef ZV_PEERS_PAGE_H
#define ZV_PEERS_PAGE_H

#include <stdio.h>

#include "peers/answers.h"

/* The same judgement and answers give the same bytes. DeepSpeed's own estimators are asked about
 * its runs in the judgement. */
ZL_NODISCARD zl_status zv_peers_page(FILE *out, const zv_judgement *all, const zv_answer *answer,
                                     size_t count, zl_err *err);

#endif
