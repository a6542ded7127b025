/* create_causal_mask (transformers, masking_utils.py), for batches without padding. */
#include "torch/modules.h"
#include "zeroledger/bytes.h"

enum { INT64_BYTES = 8 };

/* find_packed_sequence_indices: position differences of 1 everywhere mean one sequence per row. */
static void look_for_packed_sequences(zt_process *p)
{
    const uint64_t batch = p->run->micro_batch;
    const uint64_t tokens = zt_tokens(p);
    const uint64_t ids = zl_mul(tokens, INT64_BYTES);
    zt_storage before_first = zt_new(p, zl_mul(batch, INT64_BYTES));
    zt_storage joined = zt_new(p, zl_mul(zl_add(tokens, batch), INT64_BYTES));
    zt_storage difference = zt_new(p, ids);
    zt_drop(p, &joined);
    zt_storage breaks = zt_new(p, tokens);
    zt_storage sequence = zt_new(p, ids);
    zt_storage breaks_as_int64 = zt_new(p, ids);
    if (batch == 1) { /* a single row is scanned by CUB */
        zt_touch(p, zt_scan_scratch(tokens, INT64_BYTES));
    }
    zt_drop(p, &breaks_as_int64);
    zt_drop(p, &breaks);
    zt_storage packed = zt_new(p, batch);
    zt_storage any = zt_new(p, 1);
    zt_drop(p, &packed);
    zt_drop(p, &any);
    zt_drop(p, &before_first);
    zt_drop(p, &difference);
    zt_drop(p, &sequence);
}

static zt_storage arange_from(zt_process *p, uint64_t count)
{
    zt_storage range = zt_new(p, zl_mul(count, INT64_BYTES));
    zt_storage shifted = zt_new(p, zl_mul(count, INT64_BYTES));
    zt_drop(p, &range);
    return shifted;
}

/* eager_mask: the smallest number where the key lies after the query, (batch, 1, seq, seq). */
static zt_storage written_out(zt_process *p, uint32_t element_bytes)
{
    const uint64_t batch = p->run->micro_batch;
    const uint64_t square = zl_mul(p->run->seq, p->run->seq);
    zt_storage batches = zt_new(p, zl_mul(batch, INT64_BYTES));
    zt_storage heads = zt_new(p, INT64_BYTES);
    zt_storage queries = arange_from(p, p->run->seq);
    zt_storage keys = arange_from(p, p->run->seq);
    zt_storage allowed = zt_new(p, square);
    zt_drop(p, &batches);
    zt_drop(p, &heads);
    zt_drop(p, &queries);
    zt_drop(p, &keys);
    zt_storage zero = zt_new(p, element_bytes);
    zt_storage smallest = zt_new(p, element_bytes);
    zt_storage mask = zt_new(p, zl_prod(batch, square, element_bytes));
    zt_drop(p, &smallest);
    zt_drop(p, &zero);
    zt_drop(p, &allowed);
    return mask;
}

zt_tensor zt_causal_mask(zt_process *p, uint32_t element_bytes)
{
    look_for_packed_sequences(p);
    const uint64_t square = zl_mul(p->run->seq, p->run->seq);
    zt_tensor mask = {.elements = zl_mul(p->run->micro_batch, square),
                      .element_bytes = element_bytes};
    if (p->run->attention == ZL_TORCH_EAGER) {
        mask.storage = written_out(p, element_bytes);
    }
    return mask;
}

zt_storage zt_position_ids(zt_process *p)
{
    return arange_from(p, p->run->seq);
}

/* logits.float(), labels shifted by a pad at the end, cross entropy. With a batch of one the padded
 * labels are the targets, else a contiguous copy without the first column is. */
zt_tensor zt_causal_loss(zt_process *p, zt_tensor logits)
{
    enum { FLOAT_BYTES = 4 };
    const uint64_t batch = p->run->micro_batch;
    const uint64_t tokens = zt_tokens(p);
    const char *what = zt_set_name(p, zt_name_loss);
    zt_name(p, logits.storage, zt_name_loss);
    zt_tensor high = zt_to(p, logits, FLOAT_BYTES);
    zt_storage padded = zt_new(p, zl_mul(zl_add(tokens, batch), INT64_BYTES));
    zt_storage targets = batch == 1 ? zt_hold(p, padded) : zt_new(p, zl_mul(tokens, INT64_BYTES));
    zt_tensor loss = zt_cross_entropy(p, high, targets);
    zt_release(p, &high);
    zt_drop(p, &padded);
    zt_drop(p, &targets);
    zt_set_name(p, what);
    return loss;
}

/* logits = logits.float(); logits[..., :-1, :].contiguous() against labels[..., 1:].contiguous() in
 * the forward of LlamaForCausalLM itself. With a batch of one both slices are contiguous already.
 */
zt_tensor zt_shifted_causal_loss(zt_process *p, zt_tensor *logits)
{
    enum { FLOAT_BYTES = 4 };
    const uint64_t batch = p->run->micro_batch;
    const uint64_t rows = zl_sub(zt_tokens(p), batch);
    const char *what = zt_set_name(p, zt_name_loss);
    zt_assign(p, logits, zt_to(p, *logits, FLOAT_BYTES));
    zt_tensor shifted = zt_slice(p, *logits, zl_mul(rows, p->run->model.vocab));
    if (batch > 1) {
        zt_assign(p, &shifted, zt_contiguous(p, shifted));
    }
    zt_storage targets = zt_new(p, zl_mul(rows, INT64_BYTES));
    zt_tensor loss = zt_cross_entropy(p, shifted, targets);
    zt_release(p, &shifted);
    zt_drop(p, &targets);
    zt_set_name(p, what);
    return loss;
}
