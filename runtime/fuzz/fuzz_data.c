/* Training data: the first byte chooses the width of a token and the model's kind; then batches are
 * taken from it. */
#include <stdlib.h>

#include "fuzz.h"
#include "train/data.h"

enum { SEQ = 6, SEQUENCES = 2 };

static zl_run run_of(zl_family family)
{
    zl_run run;
    zl_run_init(&run);
    run.model.family = family;
    run.model.vocab = 300;
    run.model.types = 2;
    run.model.pooler = family == ZL_FAMILY_BERT;
    run.seq = SEQ;
    run.micro_batch = SEQUENCES;
    return run;
}

static void take(zr_data *data)
{
    int32_t tokens[SEQUENCES * SEQ];
    int32_t targets[SEQUENCES * SEQ];
    int32_t types[SEQUENCES * SEQ];
    int32_t lengths[SEQUENCES];
    int32_t next[SEQUENCES];
    zr_batch batch = {
        .tokens = tokens, .targets = targets, .types = types, .lengths = lengths, .next = next};
    zl_err err = {0};
    for (uint64_t step = 0; step < 3; step++) {
        (void)!zr_data_next(data, step, 0, &batch, &err);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    const zl_run run = run_of((data[0] & 4) != 0 ? ZL_FAMILY_BERT : ZL_FAMILY_GPT2);
    const zr_data_options options = {.path = zl_fuzz_file(0, data + 1, size - 1),
                                     .tokens = (zr_tokens)(data[0] & 3),
                                     .seed = 1,
                                     .run = &run,
                                     .varlen = (data[0] & 8) != 0};
    zr_data found;
    zl_err err = {0};
    if (zr_data_init(&found, &options, &err) == ZL_OK) {
        take(&found);
        zr_data_release(&found);
    }
    return 0;
}
