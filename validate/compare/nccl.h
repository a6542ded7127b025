/* What NCCL took on several GPUs (runtime/test/nccl_memory.c), beside its closed form.
 *
 * The usual channels of a machine and the bytes that belong to no channel are read from one
 * communicator, the one named default; every other one, which a cap made smaller, is judged with
 * them. A cold one has NCCL's code on top, and is not judged. */
#ifndef ZV_NCCL_H
#define ZV_NCCL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zeroledger/device.h"
#include "zeroledger/error.h"

enum { ZV_NCCL_ROWS_MAX = 32, ZV_NCCL_RANKS_MAX = 16, ZV_NCCL_NAME_SIZE = 48 };

/* One communicator; bytes of each rank. */
typedef struct zv_nccl_row {
    char name[ZV_NCCL_NAME_SIZE];
    uint64_t cap; /* 0: none */
    bool cold;
    uint64_t rings; /* as NCCL named them */
    uint64_t pairs;
    uint64_t communicator[ZV_NCCL_RANKS_MAX];
    uint64_t ring[ZV_NCCL_RANKS_MAX]; /* all-gather and reduce-scatter */
    uint64_t given_back[ZV_NCCL_RANKS_MAX];
} zv_nccl_row;

typedef struct zv_nccl {
    char gpu[64];
    char driver[32];
    char cuda[16];
    char version[16];
    char date[16];
    uint64_t ranks;
    size_t rows;
    zv_nccl_row row[ZV_NCCL_ROWS_MAX];
} zv_nccl;

/* Reads zeroledger.nccl/1. */
ZL_NODISCARD zl_status zv_nccl_load(const char *path, zv_nccl *out, zl_err *err);

/* Channels and own bytes of this machine's communicators, by the row named default. ZL_E_INPUT if
 * there is none, or it took less than its channels do. */
ZL_NODISCARD zl_status zv_nccl_usual(const zv_nccl *nccl, zl_nccl *out, zl_err *err);

typedef struct zv_nccl_verdict {
    bool judged;        /* neither cold nor the one that everything is read from */
    bool channels;      /* NCCL named the channels that the cap leaves */
    uint64_t predicted; /* communicator and ring */
    uint64_t measured;  /* of the rank that is furthest off */
} zv_nccl_verdict;

zv_nccl_verdict zv_nccl_judge(const zv_nccl_row *row, uint64_t ranks, const zl_nccl *usual);
/* True where it was not judged. */
bool zv_nccl_agrees(const zv_nccl_verdict *verdict);

/* By the meter, from the mark that the program set before a row (the communicator before it is
 * gone) to that of its rings: the growth of the device that is furthest from what is expected.
 * *devices: how many have these marks in zeroledger.trace/1 at path; a process's first row has none
 * before it. */
ZL_NODISCARD zl_status zv_nccl_traced(const char *path, const char *name, uint64_t expected,
                                      size_t *devices, uint64_t *bytes, zl_err *err);

#endif
