/* What zl predict and zl explain say about the whole GPU, below what they say about the ledger. */
#ifndef ZL_CLI_DEVICE_H
#define ZL_CLI_DEVICE_H

#include "cmd.h"
#include "zeroledger/device.h"
#include "zeroledger/json.h"

typedef struct zl_device_answer {
    bool asked;      /* false: this run has no device, and nothing is printed */
    bool calibrated; /* constants are of a measured GPU */
    zl_constants constants;
    zl_device device;
} zl_device_answer;

/* Of the GPU that --gpu names; without it of the newest that was calibrated. ZL_E_USAGE for --gpu
 * where there is no device. */
zl_status zl_device_ask(const zl_args *args, const zl_run *run, zl_device_answer *out, zl_err *err);
/* A table with a row for each part, and why there is no total where there is none. */
zl_status zl_device_print(zl_page *page, const zl_device_answer *answer, zl_err *err);
/* The member "device" of an object. */
void zl_device_json(const zl_device_answer *answer, zl_json_writer *w);

#endif
