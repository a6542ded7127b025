/* One row per field of zl_run: its option, its key in run.json, where it lives. Options, run.json
 * and their order all come from these rows. Private to base/. */
#ifndef ZL_BASE_RUN_FIELDS_H
#define ZL_BASE_RUN_FIELDS_H

#include <stddef.h>
#include <stdint.h>

#include "zeroledger/json.h"
#include "zeroledger/run.h"

typedef enum zl_field_type {
    ZL_FIELD_MODEL,
    ZL_FIELD_COUNT,     /* uint64_t */
    ZL_FIELD_REAL,      /* double */
    ZL_FIELD_NAME,      /* an enum with names */
    ZL_FIELD_CLEAR,     /* bool; the option sets it to false */
    ZL_FIELD_SET,       /* bool; the option sets it to true */
    ZL_FIELD_FRAMEWORK, /* a name with, for some, a version behind an @ */
    ZL_FIELD_BYTES,     /* uint64_t, written with a unit */
    ZL_FIELD_TEXT,      /* char array of `size` */
    ZL_FIELD_CONFIG,    /* a JSON file, kept in a char array of `size` */
    ZL_FIELD_FILE       /* a whole run.json; no field of its own */
} zl_field_type;

/* Whose option it is. In run.json are those of all and those of the run's side. */
typedef enum zl_scope { ZL_SCOPE_ALL, ZL_SCOPE_NATIVE, ZL_SCOPE_FRAMEWORK } zl_scope;

typedef struct zl_field {
    zl_option option;
    const char *key; /* in run.json; NULL: not there */
    zl_field_type type;
    size_t offset;            /* in zl_run */
    const char *const *names; /* ZL_FIELD_NAME: by enum value */
    size_t name_count;
    size_t native_count; /* of the names, the first ones are native */
    size_t size;         /* ZL_FIELD_TEXT, ZL_FIELD_CONFIG */
    zl_scope scope;
    bool optional; /* a flag that run.json has only where it is set */
} zl_field;

/* Whether run.json of this run has the field. */
bool zl_field_belongs(const zl_field *field, const zl_run *run);
bool zl_field_given(const zl_field *field, const zl_run *run);
void zl_field_give(const zl_field *field, zl_run *run);

/* Rows in order; NULL past the end. */
const zl_field *zl_field_at(size_t index);

/* The field's storage in a run; the type decides what may be read or written there. */
uint64_t zl_field_count(const zl_field *field, const zl_run *run);
double zl_field_real(const zl_field *field, const zl_run *run);
unsigned zl_field_value(const zl_field *field, const zl_run *run);
bool zl_field_flag(const zl_field *field, const zl_run *run);
const char *zl_field_text(const zl_field *field, const zl_run *run);
void zl_field_put(const zl_field *field, zl_run *run, const void *value);

/* Copies a text that fits. `what` names it in the error, which has status bad. */
ZL_NODISCARD zl_status zl_field_copy(const zl_field *field, const char *what, const char *text,
                                     zl_status bad, zl_run *run, zl_err *err);
/* "deepspeed@0.19.6", as zl_field_name. */
ZL_NODISCARD zl_status zl_field_framework(const zl_field *field, const char *what, const char *text,
                                          zl_status bad, zl_run *run, zl_err *err);

/* A JSON value without white space between its parts, in a fixed size. ZL_E_INPUT: too long. */
ZL_NODISCARD zl_status zl_config_compact(zl_json value, const char *what, char *text, size_t size,
                                         zl_err *err);

/* Gives the run's compact config.json, if it has one, run->layers layers. ZL_E_INPUT: then it is
 * too long. */
ZL_NODISCARD zl_status zl_config_take_layers(zl_run *run, zl_err *err);

/* Sets a ZL_FIELD_NAME from its text. `what` names it in the error, which has status bad. */
ZL_NODISCARD zl_status zl_field_name(const zl_field *field, const char *what, const char *text,
                                     zl_status bad, zl_run *run, zl_err *err);

#endif
