#include "predict/account.h"

#include <string.h>

uint8_t zl_write(zl_book *book, zl_buf buffer, zl_dim count, zl_form form)
{
    const uint64_t pieces = book->dims->n[count];
    const uint64_t each = zl_form_value(form, book->dims);
    zl_entry *entry = &book->entry[book->count];
    *entry = (zl_entry){buffer, count, form, 0, {0}};
    entry->bytes[ZL_REQUESTED] = zl_mul(pieces, each);
    entry->bytes[ZL_GRANTED] = zl_mul(pieces, zl_align_up(each, book->granule));
    return (uint8_t)book->count++;
}

void zl_put(zl_book *book, zl_bag *bag, uint8_t entry)
{
    if (bag->count == 0) {
        book->bag[book->bags++] = bag;
    }
    for (int r = 0; r < ZL_RUNG_COUNT; r++) {
        bag->total[r] = zl_add(bag->total[r], book->entry[entry].bytes[r]);
    }
    bag->entry[bag->count++] = entry;
}

void zl_emit(zl_book *book, zl_bag *bag, zl_buf buffer, zl_dim count, zl_form form)
{
    zl_put(book, bag, zl_write(book, buffer, count, form));
}

static uint64_t letters_of(zl_dim count, zl_form form)
{
    uint64_t letters = UINT64_C(1) << count;
    for (int i = 0; i < ZL_FORM_MAX && form.letter[i] != dim_none; i++) {
        letters |= UINT64_C(1) << form.letter[i];
    }
    return letters;
}

void zl_book_index(zl_book *book)
{
    for (size_t i = 0; i < book->count; i++) {
        book->entry[i].letters = letters_of(book->entry[i].count, book->entry[i].form);
    }
    for (size_t b = 0; b < book->bags; b++) {
        zl_bag *bag = book->bag[b];
        for (int i = 0; i < bag->count; i++) {
            bag->letters |= book->entry[bag->entry[i]].letters;
        }
    }
}

void zl_book_update(zl_book *book, uint64_t letters)
{
    for (size_t i = 0; i < book->count; i++) {
        zl_entry *entry = &book->entry[i];
        if ((entry->letters & letters) != 0) {
            const uint64_t each = zl_form_value(entry->form, book->dims);
            entry->bytes[ZL_GRANTED] =
                zl_mul(book->dims->n[entry->count], zl_align_up(each, book->granule));
        }
    }
    for (size_t b = 0; b < book->bags; b++) {
        zl_bag *bag = book->bag[b];
        if ((bag->letters & letters) == 0) {
            continue;
        }
        uint64_t total = 0;
        for (int i = 0; i < bag->count; i++) {
            total = zl_add(total, book->entry[bag->entry[i]].bytes[ZL_GRANTED]);
        }
        bag->total[ZL_GRANTED] = total;
    }
}

void zl_account_open(zl_account *acc, const zl_book *book, zl_cell *cell)
{
    acc->book = book;
    acc->cell = cell;
    acc->most = NULL;
    acc->any = false;
    acc->peak[ZL_REQUESTED] = 0;
    acc->peak[ZL_GRANTED] = 0;
    zl_begin(acc);
    if (cell != NULL) {
        memset(cell, 0, sizeof *cell);
        cell->present = true;
    }
}

void zl_begin(zl_account *acc)
{
    acc->kept = 0;
    acc->now.count = 0;
    for (int r = 0; r < ZL_RUNG_COUNT; r++) {
        acc->kept_total[r] = 0;
        acc->total[r] = 0;
    }
}

void zl_keep(zl_account *acc)
{
    acc->kept = acc->now.count;
    for (int r = 0; r < ZL_RUNG_COUNT; r++) {
        acc->kept_total[r] = acc->total[r];
    }
}

void zl_take_part(zl_account *acc, const zl_bag *bag, uint64_t times)
{
    if (acc->now.count == ZL_PARTS_MAX) {
        acc->total[ZL_REQUESTED] = acc->total[ZL_GRANTED] = ZL_POISON;
        return;
    }
    acc->now.part[acc->now.count++] = (zl_part){bag, times};
}

/* Posts the moment to the cell: ends, own maxima of buffers and kinds, and where it is the peak,
 * the peak. */
static void post(zl_account *acc, zl_rung rung, bool is_peak)
{
    uint64_t live[ZL_BUF_COUNT] = {0};
    uint64_t kind_live[ZL_KIND_COUNT] = {0};
    for (size_t p = 0; p < acc->now.count; p++) {
        const zl_part *part = &acc->now.part[p];
        for (int i = 0; i < part->bag->count; i++) {
            const zl_entry *entry = &acc->book->entry[part->bag->entry[i]];
            const uint64_t bytes = zl_mul(part->times, entry->bytes[rung]);
            const zl_kind kind = zl_buf_kind(entry->buffer);
            live[entry->buffer] = zl_add(live[entry->buffer], bytes);
            kind_live[kind] = zl_add(kind_live[kind], bytes);
        }
    }
    for (int b = 0; b < ZL_BUF_COUNT; b++) {
        zl_amount *amount = &acc->cell->line[b].bytes[rung];
        amount->end = live[b];
        amount->max = zl_max(amount->max, live[b]);
        amount->at_peak = is_peak ? live[b] : amount->at_peak;
    }
    for (int k = 0; k < ZL_KIND_COUNT; k++) {
        uint64_t *max = &acc->cell->kind_max[k][rung];
        *max = zl_max(*max, kind_live[k]);
    }
    acc->cell->peak[rung] = acc->peak[rung];
}

/* A bag may be taken by several parts: an entry's pieces are those of all of them. */
static void note_most(const zl_account *acc)
{
    uint64_t times[ZL_BOOK_MAX] = {0};
    for (size_t p = 0; p < acc->now.count; p++) {
        const zl_part *part = &acc->now.part[p];
        for (int i = 0; i < part->bag->count; i++) {
            const uint8_t entry = part->bag->entry[i];
            times[entry] = zl_add(times[entry], part->times);
            acc->most[entry] = zl_max(acc->most[entry], times[entry]);
        }
    }
}

void zl_close_moment(zl_account *acc, const char *where, const char *what)
{
    if (zl_only_peaks(acc)) {
        acc->peak[ZL_GRANTED] = zl_max(acc->peak[ZL_GRANTED], acc->total[ZL_GRANTED]);
        acc->total[ZL_GRANTED] = acc->kept_total[ZL_GRANTED];
        acc->now.count = acc->kept;
        return;
    }
    if (acc->most != NULL) {
        note_most(acc);
    }
    if (acc->cell != NULL) {
        acc->end_moment = acc->now;
        acc->end_moment.where = where;
        acc->end_moment.what = what;
    }
    for (int r = 0; r < ZL_RUNG_COUNT; r++) {
        const bool is_peak = !acc->any || acc->total[r] > acc->peak[r];
        if (is_peak) {
            acc->peak[r] = acc->total[r];
        }
        if (acc->cell != NULL) {
            post(acc, (zl_rung)r, is_peak);
        }
        if (acc->cell != NULL && is_peak && r == ZL_REQUESTED) {
            acc->peak_moment = acc->end_moment;
        }
        acc->total[r] = acc->kept_total[r];
    }
    acc->any = true;
    acc->now.count = acc->kept;
}
