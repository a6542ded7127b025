/* What the readers of logs share: log.c reads what PyTorch and DeepSpeed print, log_smi.c what
 * nvidia-smi does. Private to them. */
#ifndef ZT_LOG_READ_H
#define ZT_LOG_READ_H

#include "torch/log.h"
#include "torch/printed.h"

typedef struct zt_log_reader {
    const char *text;
    size_t size;
    size_t counted; /* bytes whose lines are counted */
    uint64_t line;
    const char *last; /* end of the sighting before: messages begin behind it */
    zt_log log;
    bool failed;
} zt_log_reader;

/* A sighting at a place of the text; NULL: out of memory, which the reader remembers. */
zt_sighting *zt_log_add(zt_log_reader *r, zt_source source, const char *at);

/* nvidia-smi --query-gpu=... --format=csv: from its header, which c stands in. False: it is none.
 */
bool zt_log_read_smi(zt_log_reader *r, zt_cursor *c);
/* The same without a header (noheader): a text of nothing but rows with one size in MiB; a number
 * before it is the index. */
void zt_log_read_bare_smi(zt_log_reader *r);

#endif
