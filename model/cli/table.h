/* A table of text and counts, printed aligned, as markdown, as csv, or as JSON objects.
 *
 *     zl_table *table = zl_table_new();
 *     zl_table_column(table, "name", ZL_LEFT);
 *     zl_table_column(table, "params", ZL_RIGHT);
 *     zl_table_text(table, "%s", "gpt2");           // cells follow one another, row by row
 *     zl_table_count(table, 124439808);
 *     status = zl_table_print(table, &(zl_look){.format = ZL_FORMAT_TABLE}, stdout, err);
 *     zl_table_free(table);
 *
 * Running out of memory is remembered and reported when the table is printed.
 */
#ifndef ZL_CLI_TABLE_H
#define ZL_CLI_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "zeroledger/error.h"
#include "zeroledger/json.h"

typedef enum zl_format {
    ZL_FORMAT_TABLE,
    ZL_FORMAT_JSON,
    ZL_FORMAT_CSV,
    ZL_FORMAT_MD,
    ZL_FORMAT_COUNT
} zl_format;

/* A bar is a count, drawn in proportion to the largest of its column; for people only: a table for
 * csv or JSON has no such column. */
typedef enum zl_align { ZL_LEFT, ZL_RIGHT, ZL_BAR } zl_align;

/* How a table looks. */
typedef struct zl_look {
    zl_format format;
    bool color; /* titles in bold */
    bool utf8;  /* bars of block characters, not of # */
    int width;  /* characters of a line; 0: as many as it takes */
} zl_look;

typedef struct zl_table zl_table;

/* The caller frees it; NULL only if memory is exhausted, and every function here takes NULL. */
zl_table *zl_table_new(void);
void zl_table_free(zl_table *table);

/* All columns come before the first cell. The title is copied; it is the key in JSON. */
void zl_table_column(zl_table *table, const char *title, zl_align align);
/* The next cell. */
void zl_table_text(zl_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The next cell, a number or the length of a bar: with separators for people, bare in csv and JSON.
 */
void zl_table_count(zl_table *table, uint64_t n);

/* Aligned, markdown or csv. An aligned table wider than its line is printed as blocks of columns
 * that repeat the first ones; long text is folded between words, a figure never. */
zl_status zl_table_print(const zl_table *table, const zl_look *look, FILE *out, zl_err *err);
/* Columns that a terminal needs for `length` bytes of UTF-8 text of narrow characters. */
int zl_text_width(const char *text, size_t length);
/* One object per row, as the array `key` of the object that is open. */
void zl_table_json(const zl_table *table, const char *key, zl_json_writer *w);

#endif
