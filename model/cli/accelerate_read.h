/* What the readers of accelerate's sections share. Private to accelerate*.c. */
#ifndef ZL_CLI_ACCELERATE_READ_H
#define ZL_CLI_ACCELERATE_READ_H

#include "accelerate.h"
#include "zeroledger/json.h"

/* What becomes of a key. */
typedef enum zl_acc_rule {
    ZL_ACC_NOTHING, /* moves no byte */
    ZL_ACC_READ,    /* its own function reads it */
    ZL_ACC_OFF,     /* moves memory in a way outside the model unless it is off */
} zl_acc_rule;

typedef struct zl_acc_key {
    const char *name;
    zl_acc_rule rule;
} zl_acc_key;

typedef struct zl_acc_reader {
    zl_accelerate *out;
    zl_json root;
    zl_warn *warn;
    void *context;
} zl_acc_reader;

enum { ZL_ACC_WORD = 160 };

void zl_acc_warn(const zl_acc_reader *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds an option with the key and the value that decided it. Both may be formatted before. */
zl_status zl_acc_decide(const zl_acc_reader *r, const char *option, const char *value,
                        const char *from, zl_err *err);

/* A scalar as Python prints it: True, 3, FULL_SHARD; "" of what is absent or null. ZL_E_INPUT: it
 * is an object or an array, or too long. */
zl_status zl_acc_word(zl_json value, char word[ZL_ACC_WORD], zl_err *err);
/* Upper case, and a boolean false, which no, NO and off are, as `no`, with a warning. */
zl_status zl_acc_name(const zl_acc_reader *r, zl_json value, const char *no, char word[ZL_ACC_WORD],
                      zl_err *err);
/* A boolean, or a text that accelerate's str_to_bool takes for one; *out stays where it is absent.
 */
zl_status zl_acc_flag(zl_json value, bool *out, zl_err *err);
/* A whole number, or a text of one; *out stays where it is absent. */
zl_status zl_acc_count(zl_json value, uint64_t *out, zl_err *err);

/* The members of a section: those of ZL_ACC_OFF have to be off, unknown ones are warned of, or, if
 * strict, refused. `prefix` is what accelerate puts in front of names that lack it, or NULL. */
zl_status zl_acc_members(const zl_acc_reader *r, zl_json section, const zl_acc_key *keys,
                         size_t count, const char *prefix, bool strict, zl_err *err);
/* A member by its name, with or without the prefix. */
zl_json zl_acc_member(zl_json section, const char *name, const char *prefix);

/* fsdp_config; mixed is mixed_precision in upper case. */
zl_status zl_acc_fsdp(const zl_acc_reader *r, const char *mixed, zl_err *err);
/* deepspeed_config. */
zl_status zl_acc_deepspeed(const zl_acc_reader *r, const char *path, const char *mixed,
                           zl_err *err);

#endif
