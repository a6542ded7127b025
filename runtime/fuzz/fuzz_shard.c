/* One rank's file of a checkpoint of a tiny model. An input of even size is the head and rows of a
 * file whose elements are 0; the checksum at the end is made right, or nothing would get past it.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "net/net.h"
#include "train/shard_file.h"
#include "train/shard_layout.h"
#include "zeroledger/run.h"

static const zr_zero *tiny(void)
{
    static zl_run run;
    static zr_zero zero;
    zl_err err = {0};
    if (zero.run != NULL) {
        return &zero;
    }
    zl_run_init(&run);
    run.model = (zl_model){.family = ZL_FAMILY_GPT2,
                           .layers = 1,
                           .width = 2,
                           .heads = 1,
                           .kv_heads = 1,
                           .head_dim = 2,
                           .ffn = 2,
                           .vocab = 2,
                           .positions = 2,
                           .tied = true};
    zero = (zr_zero){.run = &run, .ranks = 1};
    zr_family_of(run.model.family)->units(&run.model, &zero.embed, &zero.block, &zero.head);
    if (zr_zero_init(&zero, &err) != ZL_OK) {
        abort();
    }
    return &zero;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static zr_piece piece;
    const zr_shard_args args = {.zero = tiny(), .ranks = 1, .step = 1};
    const size_t whole = (size_t)zr_shard_head_of(&args).bytes;
    const size_t length = size % 2 == 0 && size < whole ? whole : size;
    uint64_t sum = 0;
    zl_err err = {0};
    if (length < sizeof sum) {
        return 0;
    }
    uint8_t *const file = calloc(length, 1);
    if (file == NULL) {
        return 0;
    }
    memcpy(file, data, size);
    sum = zr_checksum(ZR_CHECKSUM_START, file, length - sizeof sum);
    memcpy(file + length - sizeof sum, &sum, sizeof sum);
    (void)!zr_shard_check(zl_fuzz_file(0, file, length), &args, &piece, sum, &err);
    free(file);
    return 0;
}
