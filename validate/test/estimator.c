#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "peers/estimator.h"

/* GPT-2 124M: 124,439,808 parameters, the largest layer is the table, 50,257 x 768 = 38,597,376. */
static const zl_hf_config gpt2 = {.arch = ZL_HF_GPT2, .vocab = 50257, .hidden = 768, .ffn = 3072};
static const uint64_t gpt2_parameters = 124439808;

static zv_estimate ask(const zl_hf_config *model, uint64_t parameters, uint64_t stage,
                       uint64_t ranks, uint32_t version, zl_offload optimizer, zl_offload param)
{
    zl_torch_run run;
    zv_estimate estimate = {0};
    zl_torch_run_init(&run);
    run.framework = ZL_TORCH_DEEPSPEED;
    run.model = *model;
    run.stage = stage;
    run.ranks = ranks;
    run.ds.version = version;
    run.ds.offload_optimizer = optimizer;
    run.ds.offload_param = param;
    assert_true(zv_deepspeed_estimate(&run, parameters, &estimate));
    return estimate;
}

/* As deepspeed-estimate-zero in validate/records/peers.json, which for BERT leaves the bias out. */
static void equals_what_deepspeed_answers(void **state)
{
    (void)state;
    /* gpt2_fsdp2_w2: 4 * 38,597,376 + 18 * 124,439,808 / 2 */
    assert_int_equal(
        ask(&gpt2, gpt2_parameters, 3, 2, 19006, ZL_OFFLOAD_NONE, ZL_OFFLOAD_NONE).device,
        1274347776);
    /* gpt2_fsdp2-zero2_w4: 2 * 124,439,808 + 18 * 124,439,808 / 4 */
    assert_int_equal(
        ask(&gpt2, gpt2_parameters, 2, 4, 19006, ZL_OFFLOAD_NONE, ZL_OFFLOAD_NONE).device,
        808858752);
    /* mixtral-tiny_fsdp2_w2: the experts of a layer are the largest, 3 * 8 * 1,024 * 3,584 */
    const zl_hf_config mixtral = {
        .arch = ZL_HF_MIXTRAL, .vocab = 32000, .hidden = 1024, .ffn = 3584, .experts = 8};
    assert_int_equal(zv_largest_layer(&mixtral), 88080384);
    assert_int_equal(ask(&mixtral, 791233536, 3, 2, 19006, ZL_OFFLOAD_NONE, ZL_OFFLOAD_NONE).device,
                     7473423360);
}

static void older_releases_keep_gradients_whole(void **state)
{
    (void)state;
    /* 4 * 124,439,808 + 16 * 124,439,808 / 4; 3 ranks: 16 * 124,439,808 / 3 = 663,678,976 */
    assert_int_equal(
        ask(&gpt2, gpt2_parameters, 2, 4, 14002, ZL_OFFLOAD_NONE, ZL_OFFLOAD_NONE).device,
        995518464);
    assert_int_equal(
        ask(&gpt2, gpt2_parameters, 2, 4, 14003, ZL_OFFLOAD_NONE, ZL_OFFLOAD_NONE).device,
        808858752);
    assert_int_equal(
        ask(&gpt2, gpt2_parameters, 2, 3, 14002, ZL_OFFLOAD_NONE, ZL_OFFLOAD_NONE).device,
        1161438208);
}

static void offload_moves_states_to_the_host(void **state)
{
    (void)state;
    /* ZeRO-2: 2 P; 16 P on the host up to 4 ranks, 4 N P beyond; half as much more for buffers. */
    zv_estimate e = ask(&gpt2, gpt2_parameters, 2, 2, 19006, ZL_OFFLOAD_CPU, ZL_OFFLOAD_NONE);
    assert_int_equal(e.device, 248879616);
    assert_int_equal(e.host, 2986555392);
    e = ask(&gpt2, gpt2_parameters, 2, 8, 19006, ZL_OFFLOAD_CPU, ZL_OFFLOAD_NONE);
    assert_int_equal(e.host, 5973110784);
    /* ZeRO-3, optimizer: 4 * 38,597,376 + 2 * 124,439,808 / 2 */
    e = ask(&gpt2, gpt2_parameters, 3, 2, 19006, ZL_OFFLOAD_CPU, ZL_OFFLOAD_NONE);
    assert_int_equal(e.device, 278829312);
    assert_int_equal(e.host, 2986555392);
    /* ZeRO-3, both: 4 * 38,597,376; 18 P * 1.5 */
    e = ask(&gpt2, gpt2_parameters, 3, 2, 19006, ZL_OFFLOAD_CPU, ZL_OFFLOAD_CPU);
    assert_int_equal(e.device, 154389504);
    assert_int_equal(e.host, 3359874816);
}

static void a_tied_matrix_counts_in_its_module(void **state)
{
    (void)state;
    /* BERT's decoder: 30,522 x 1,024 and its bias. */
    const zl_hf_config bert = {.arch = ZL_HF_BERT_MLM, .vocab = 30522, .hidden = 1024, .ffn = 4096};
    assert_int_equal(zv_largest_layer(&bert), 31285050);
    /* Llama with a small vocabulary: one matrix of the MLP, 4,096 x 11,008. */
    const zl_hf_config llama = {.arch = ZL_HF_LLAMA, .vocab = 1000, .hidden = 4096, .ffn = 11008};
    assert_int_equal(zv_largest_layer(&llama), 45088768);
    assert_int_equal(zv_largest_layer(&gpt2), 38597376);
}

static void only_stages_2_and_3_have_one(void **state)
{
    (void)state;
    zl_torch_run run;
    zv_estimate estimate;
    zl_torch_run_init(&run);
    run.model = gpt2;
    run.framework = ZL_TORCH_DEEPSPEED;
    run.stage = 1;
    assert_false(zv_deepspeed_estimate(&run, gpt2_parameters, &estimate));
    run.stage = 3;
    run.framework = ZL_TORCH_FSDP2;
    assert_false(zv_deepspeed_estimate(&run, gpt2_parameters, &estimate));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_what_deepspeed_answers),
        cmocka_unit_test(older_releases_keep_gradients_whole),
        cmocka_unit_test(offload_moves_states_to_the_host),
        cmocka_unit_test(a_tied_matrix_counts_in_its_module),
        cmocka_unit_test(only_stages_2_and_3_have_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
