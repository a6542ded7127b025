/* Markdown of a speed.json: for each model and number of GPUs a table, with every row of PyTorch
 * and every row of zeroledger, those that failed included.
 */
#ifndef ZV_SPEED_TABLE_H
#define ZV_SPEED_TABLE_H

#include <stdio.h>

#include "rows.h"

/* Rows on `ranks` GPUs; 0: all. */
void speed_print(const speed_file *file, uint64_t ranks, FILE *to);

#endif
