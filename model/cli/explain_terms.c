/* Terms of a peak and the symbols in their formulas. */
#include <string.h>

#include "explain.h"
#include "zeroledger/bytes.h"

zl_status zl_terms_get(const zl_ledger *ledger, zl_visit visit, zl_phase phase, bool end,
                       zl_terms *out, zl_err *err)
{
    const zl_cell *cell = zl_ledger_at(ledger, visit, phase);
    *out = (zl_terms){.visit = visit, .phase = phase, .end = end};
    for (int r = 0; r < ZL_RUNG_COUNT; r++) {
        out->total[r] = end ? zl_cell_end(cell, (zl_rung)r) : cell->peak[r];
    }
    ZL_TRY((end ? zl_explain_end : zl_explain)(&ledger->run, visit, phase, out->term,
                                               ZL_EXPLAINED_MAX, &out->count, err));
    uint64_t sum = 0;
    for (size_t i = 0; i < out->count && i < ZL_EXPLAINED_MAX; i++) {
        sum = zl_add(sum, out->term[i].bytes);
    }
    if (out->count > ZL_EXPLAINED_MAX || sum != out->total[ZL_REQUESTED]) {
        return zl_fail(err, ZL_E_BUG,
                       "terms of %s add up to %s bytes, the ledger has %s: please report this",
                       zl_cell_label(visit, phase).text, zl_count(sum).text,
                       zl_count(out->total[ZL_REQUESTED]).text);
    }
    return ZL_OK;
}

size_t zl_terms_largest(const zl_terms *terms, bool also_sharded, zl_share *shares, size_t cap)
{
    uint64_t bytes[ZL_BUF_COUNT] = {0};
    for (size_t i = 0; i < terms->count; i++) {
        const zl_term *term = &terms->term[i];
        if (also_sharded || !term->shards) {
            bytes[term->buffer] = zl_add(bytes[term->buffer], term->bytes);
        }
    }
    size_t count = 0;
    for (; count < cap; count++) {
        int largest = 0;
        for (int b = 1; b < ZL_BUF_COUNT; b++) {
            largest = bytes[b] > bytes[largest] ? b : largest;
        }
        if (bytes[largest] == 0) {
            break;
        }
        shares[count] = (zl_share){(zl_buf)largest, bytes[largest]};
        bytes[largest] = 0;
    }
    return count;
}

void zl_shares_text(const zl_view *view, const zl_share *shares, size_t count, char *text,
                    size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < count && used < size; i++) {
        const int more =
            snprintf(text + used, size - used, "%s%s %s", i == 0 ? "" : ", ",
                     zl_buf_name(shares[i].buffer), zl_bytes_in(view, shares[i].bytes).text);
        used += more > 0 ? (size_t)more : 0;
    }
}

/* The whole word `name` in a formula: letters, digits and _ make a word. */
static bool mentions(const char *formula, const char *name)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
    while (*formula != '\0') {
        const size_t length = strspn(formula, letters);
        if (length == strlen(name) && strncmp(formula, name, length) == 0) {
            return true;
        }
        /* A count stands before its letter without a sign, as in 2G. */
        formula += length > 0 ? length : 1;
    }
    return false;
}

static uint64_t gradient_size(const zl_run *run, uint64_t compute)
{
    return run->grad_dtype == ZL_GRAD_FP32 ? zl_dtype_size(ZL_F32) : compute;
}

enum { SYMBOLS = 23 };

static void legend(const zl_run *run, zl_symbol all[static SYMBOLS])
{
    const zl_model *m = &run->model;
    const uint64_t e = zl_dtype_size(run->precision == ZL_PRECISION_FP32 ? ZL_F32 : ZL_BF16);
    const uint64_t s = zl_dtype_size(run->precision == ZL_PRECISION_BF16 ? ZL_BF16 : ZL_F32);
    const zl_symbol symbols[SYMBOLS] = {
        {"B", "sequences per rank and micro-step", run->micro_batch},
        {"T", "tokens per sequence", run->seq},
        {"M", "tokens per chunk of the head", run->head_chunk},
        {"L", "blocks", m->layers},
        {"C", "model width", m->width},
        {"H", "query heads", m->heads},
        {"G", "key/value heads", m->kv_heads},
        {"D", "head width", m->head_dim},
        {"F", "MLP width", m->ffn},
        {"V", "vocabulary", m->vocab},
        {"P", "positions", m->positions},
        {"Y", "token types", m->types},
        {"E_embed", "elements of the embedding unit, padded", zl_unit_elements(run, ZL_UNIT_EMBED)},
        {"E_block", "elements of one block, padded", zl_unit_elements(run, ZL_UNIT_BLOCK)},
        {"E_head", "elements of the head unit, padded", zl_unit_elements(run, ZL_UNIT_HEAD)},
        {"N", "data-parallel ranks", run->ranks},
        {"A", "micro-steps per optimizer step", run->accumulation},
        {"W", "units gathered ahead", run->window},
        {"K", "reduce slots of blocks", run->reduce_slots},
        {"e", "bytes of a compute element", e},
        {"g", "bytes of a gradient element", gradient_size(run, e)},
        {"s", "bytes of an optimizer state element", s},
        {"Q", "packed width of queries, keys and values",
         zl_mul(zl_add(m->heads, zl_mul(2, m->kv_heads)), m->head_dim)},
    };
    memcpy(all, symbols, sizeof symbols);
}

size_t zl_symbols_used(const zl_run *run, const zl_terms *terms, zl_symbol *out, size_t cap)
{
    zl_symbol all[SYMBOLS];
    size_t count = 0;
    legend(run, all);
    for (size_t i = 0; i < SYMBOLS && count < cap; i++) {
        bool used = false;
        for (size_t t = 0; t < terms->count; t++) {
            used |= mentions(terms->term[t].symbols, all[i].name);
        }
        if (used) {
            out[count++] = all[i];
        }
    }
    return count;
}
