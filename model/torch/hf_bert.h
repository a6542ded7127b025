/* Attention without a causal mask, which BERT's relatives share. */
#ifndef ZT_HF_BERT_H
#define ZT_HF_BERT_H

#include "torch/modules.h"

/* What attention returns: the output, and the weights if they were written out. */
typedef struct zt_attended {
    zt_tensor out, weights;
} zt_attended;

/* Heads of q, k and v of x, and attention over them, (batch, seq, hidden); the output's matrix is
 * another module's where it is NULL: q, k and v are gone then. */
zt_attended zt_bert_attend(zt_process *p, const zt_dense *query, const zt_dense *key,
                           const zt_dense *value, const zt_dense *output, zt_tensor x);

#endif
