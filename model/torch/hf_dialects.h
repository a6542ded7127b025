/* What a config.json means for each model_type: which key goes where, and what transformers takes
 * where one is absent. */
#ifndef ZT_HF_DIALECTS_H
#define ZT_HF_DIALECTS_H

#include "zeroledger/torch.h"

enum {
    ZT_HF_CLASSES = 4,
    ZT_HF_COUNTS = 16,
    ZT_HF_DROPOUTS = 4,
    ZT_HF_FLAGS = 7,
    ZT_HF_ACTIVATIONS = 4,
    ZT_HF_REFUSED = 5
};

/* Where a value goes in zl_hf_config. */
typedef struct zt_count_key {
    const char *key;   /* NULL ends a list */
    const char *alias; /* a second name that the library accepts, or NULL */
    size_t offset;
    uint64_t absent; /* 0: it follows from other keys, and 0 may be written */
} zt_count_key;

typedef struct zt_dropout_key {
    const char *key; /* NULL ends a list */
    size_t offset;
    double absent;
} zt_dropout_key;

typedef struct zt_flag_key {
    const char *key; /* NULL ends a list */
    size_t offset;
    bool absent;
} zt_flag_key;

typedef struct zt_class_name {
    const char *name; /* NULL ends a list */
    zl_hf_arch arch;
} zt_class_name;

/* zt_dialect.window: there is such a key, and no window where it is absent. */
#define ZT_HF_NO_WINDOW UINT64_MAX

typedef struct zt_dialect {
    const char *type;                     /* NULL: past the last */
    zt_class_name classes[ZT_HF_CLASSES]; /* the first where "architectures" is absent */
    zt_count_key counts[ZT_HF_COUNTS];
    zt_flag_key flags[ZT_HF_FLAGS];
    zt_dropout_key dropouts[ZT_HF_DROPOUTS];
    const char *activation_key; /* NULL: operations are not modelled */
    const char *activation;     /* where the key is absent */
    const char *activations[ZT_HF_ACTIVATIONS];
    bool tied;
    bool relative;          /* another class with Llama's operations */
    bool query_bias;        /* q, k and v have a bias, the output has none */
    bool query_norm;        /* q and k have a norm */
    bool fused_projections; /* q, k, v are one matrix, gate and up another */
    uint64_t window;        /* sliding_window where the key is absent; 0: there is no such key */
    const char *turning;    /* the share of a head that turns with the position: key; NULL: all */
    double turning_absent;
    const char *must_be_false[ZT_HF_REFUSED]; /* or 0, or absent: anything else is not modelled */
} zt_dialect;

extern const zt_dialect zt_dialects[];

#endif
