/* A small GPT-2 learns English: its loss on bytes of a text falls below 60 % of where it began. The
 * build says where a text is; without one the test is skipped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine_kit.h"

#ifndef ZR_SAMPLE_TEXT
#define ZR_SAMPLE_TEXT ""
#endif

enum { STEPS = 60, TEXT_MAX = 1 << 20, SKIPPED = 77 };

typedef struct text {
    const zl_run *run;
    unsigned char *bytes;
    uint64_t size;
} text;

static text book;

/* Stretches of the text that begin at places spread over it by a multiplicative generator. */
static zl_status next(void *context, uint64_t step, uint64_t micro, zr_batch *batch, zl_err *err)
{
    const text *t = context;
    const uint64_t T = t->run->seq;
    (void)micro;
    (void)err;
    for (uint64_t b = 0; b < t->run->micro_batch; b++) {
        const uint64_t g = step * t->run->micro_batch + b;
        const uint64_t begin = g * 2654435761U % (t->size - T - 1);
        for (uint64_t i = 0; i < T; i++) {
            batch->tokens[b * T + i] = t->bytes[begin + i];
            batch->targets[b * T + i] = t->bytes[begin + i + 1];
        }
    }
    return ZL_OK;
}

static zl_run tiny_run(zl_precision precision)
{
    zl_run run;
    zl_run_init(&run);
    run.model = (zl_model){
        .name = "gpt2-tiny",
        .family = ZL_FAMILY_GPT2,
        .activation = ZL_ACT_GELU_TANH,
        .layers = 4,
        .width = 128,
        .heads = 4,
        .kv_heads = 4,
        .head_dim = 32,
        .ffn = 512,
        .vocab = 256,
        .positions = 256,
        .tied = true,
        .qkv_bias = true,
        .out_bias = true,
        .mlp_bias = true,
        .norm_eps = 1e-5,
    };
    run.precision = precision;
    run.micro_batch = 8;
    run.seq = 64;
    return run;
}

static void learn(zl_precision precision)
{
    const zl_run run = tiny_run(precision);
    zl_err err = {0};
    zr_track *track = NULL;
    zr_comm *comm = NULL;
    zr_engine *engine = NULL;
    double first = 0.0;
    double last = 0.0;
    book.run = &run;
    assert_int_equal(zr_track_new(&(zr_track_options){.poison = false}, &track, &err), ZL_OK);
    assert_int_equal(zr_comm_new(0, 1, &comm, &err), ZL_OK);
    const zr_engine_options options = {
        .run = &run,
        .track = track,
        .comm = comm,
        .seed = 1,
        .learning_rate = 1e-3,
        .beta1 = 0.9,
        .beta2 = 0.95,
        .eps = 1e-8,
        .weight_decay = 0.1,
        .warmup = 10,
    };
    assert_int_equal(zr_engine_new(&options, &engine, &err), ZL_OK);
    for (uint64_t i = 0; i < STEPS; i++) {
        zr_step_result r;
        assert_int_equal(zr_engine_step(engine, next, &book, &r, &err), ZL_OK);
        first = i == 0 ? r.loss : first;
        last = r.loss;
        if (i % 10 == 0 || i + 1 == STEPS) {
            print_message("%s step %d: loss %.4f, norm %.3f\n", zl_precision_name(precision),
                          (int)i + 1, r.loss, r.grad_norm);
        }
    }
    zr_engine_free(engine);
    zr_comm_free(comm);
    zr_track_free(track);
    assert_true(last < 0.6 * first);
}

static void loss_falls_in_fp32(void **state)
{
    (void)state;
    learn(ZL_PRECISION_FP32);
}

static void loss_falls_in_bf16_mixed(void **state)
{
    (void)state;
    learn(ZL_PRECISION_BF16_MIXED);
}

int main(void)
{
    FILE *file = fopen(ZR_SAMPLE_TEXT, "rb");
    if (file == NULL) {
        puts("skipped: no text to learn from");
        return SKIPPED;
    }
    book.bytes = malloc(TEXT_MAX);
    if (book.bytes == NULL) {
        return 1;
    }
    book.size = fread(book.bytes, 1, TEXT_MAX, file);
    fclose(file);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_falls_in_fp32),
        cmocka_unit_test(loss_falls_in_bf16_mixed),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(book.bytes);
    return failed;
}
