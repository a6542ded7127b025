#include "base_test.h"

#include "zeroledger/json.h"
#include "zeroledger/torch.h"

typedef struct heard {
    char text[256];
} heard;

static void hear(void *context, const char *line)
{
    heard *h = context;
    snprintf(h->text, sizeof h->text, "%s", line);
}

static zl_status try_read(const char *text, const char *release, zl_ds_config *out, heard *h,
                          zl_err *err)
{
    zl_json_doc *doc = NULL;
    uint32_t version = 0;
    assert_ok(zl_ds_version_parse(release, &version, err), err);
    assert_ok(zl_json_parse("ds_config.json", text, strlen(text), &doc, err), err);
    const zl_status status =
        zl_ds_config_read(zl_json_root(doc), version, out, h != NULL ? hear : NULL, h, err);
    zl_json_free(doc);
    return status;
}

static zl_ds_config read_config(const char *text, const char *release)
{
    zl_err err = {.status = ZL_OK};
    zl_ds_config ds;
    assert_ok(try_read(text, release, &ds, NULL, &err), &err);
    return ds;
}

static void assert_refused(const char *text, zl_status status, const char *part)
{
    zl_err err = {.status = ZL_OK};
    zl_ds_config ds;
    assert_error(try_read(text, "0.19.6", &ds, NULL, &err), &err, status, part);
}

static void versions_are_numbers(void **state)
{
    (void)state;
    zl_err err = {.status = ZL_OK};
    uint32_t version = 0;
    assert_ok(zl_ds_version_parse("0.19.6", &version, &err), &err);
    assert_int_equal(version, 19006);
    assert_ok(zl_ds_version_parse("0.5.9+abc", &version, &err), &err);
    assert_int_equal(version, 5009);
    assert_error(zl_ds_version_parse("0.4.1", &version, &err), &err, ZL_E_UNMODELLED, "0.4.1");
    err = (zl_err){.status = ZL_OK};
    assert_error(zl_ds_version_parse("newest", &version, &err), &err, ZL_E_INPUT, "newest");
}

/* Section zero_optimization of DeepSpeed's own documentation. */
static void absent_keys_take_the_defaults_of_the_release(void **state)
{
    (void)state;
    zl_ds_config ds = read_config("{\"zero_optimization\": {\"stage\": 3}}", "0.19.6");
    assert_int_equal(ds.reduce_bucket_size, 500000000);
    assert_int_equal(ds.sub_group_size, 1000000000);
    assert_int_equal(ds.prefetch_bucket_size, 50000000);
    assert_int_equal(ds.param_persistence_threshold, 100000);
    assert_true(ds.overlap_comm && ds.contiguous_gradients && ds.reduce_scatter);
    assert_true(ds.multi_rank_bucket_allreduce && ds.pin_optimizer && ds.memory_efficient_linear);
    assert_int_equal(ds.initial_scale_power, 16);
    assert_int_equal(ds.optimizer, ZL_DS_CLIENT);
    ds = read_config("{\"zero_optimization\": {\"stage\": 2}}", "0.5.9");
    assert_false(ds.overlap_comm);
    assert_false(ds.multi_rank_bucket_allreduce);
    assert_false(ds.pin_optimizer);
    assert_int_equal(ds.initial_scale_power, 32);
    assert_true(ds.check_grad_overflow);
}

static void counts_may_be_floats_and_strings(void **state)
{
    (void)state;
    const zl_ds_config ds =
        read_config("{\"zero_optimization\": {\"stage\": 3, \"reduce_bucket_size\": 5e7,"
                    " \"stage3_prefetch_bucket_size\": \"4e7\", \"sub_group_size\": 1e18,"
                    " \"stage3_max_live_parameters\": 15099494.4}}",
                    "0.19.6");
    assert_int_equal(ds.reduce_bucket_size, 50000000);
    assert_int_equal(ds.prefetch_bucket_size, 40000000);
    assert_int_equal(ds.sub_group_size, UINT64_C(1000000000000000000));
    assert_int_equal(ds.max_live_parameters, 15099494);
}

static void offload_and_its_older_names(void **state)
{
    (void)state;
    zl_ds_config ds = read_config(
        "{\"zero_optimization\": {\"stage\": 3, \"offload_param\": {\"device\": \"nvme\","
        " \"buffer_count\": 6}, \"offload_optimizer\": {\"device\": \"cpu\","
        " \"pin_memory\": true}}}",
        "0.14.5");
    assert_int_equal(ds.offload_param, ZL_OFFLOAD_NVME);
    assert_int_equal(ds.offload_buffer_count, 6);
    assert_int_equal(ds.offload_optimizer, ZL_OFFLOAD_CPU);
    assert_true(ds.pin_optimizer && !ds.pin_param);
    ds = read_config("{\"zero_optimization\": {\"stage\": 2, \"cpu_offload\": true}}", "0.5.9");
    assert_int_equal(ds.offload_optimizer, ZL_OFFLOAD_CPU);
    assert_refused("{\"zero_optimization\": {\"stage\": 2, \"offload_param\": {\"device\": "
                   "\"cpu\"}}}",
                   ZL_E_INPUT, "offload_param needs stage 3");
}

/* bf16 was checked for overflow before 0.11.2, may be from 0.17.1 on, is by default since 0.19.3.
 */
static void overflow_check_follows_precision_and_release(void **state)
{
    (void)state;
    static const char bf16[] = "{\"bf16\": {\"enabled\": true}}";
    static const char off[] = "{\"bf16\": {\"enabled\": true, \"check_grad_overflow\": false}}";
    static const char on[] = "{\"bf16\": {\"enabled\": true, \"check_grad_overflow\": true}}";
    assert_true(read_config(bf16, "0.10.3").check_grad_overflow);
    assert_false(read_config(bf16, "0.14.5").check_grad_overflow);
    assert_false(read_config(on, "0.14.5").check_grad_overflow);
    assert_false(read_config(bf16, "0.18.4").check_grad_overflow);
    assert_true(read_config(on, "0.18.4").check_grad_overflow);
    assert_true(read_config(bf16, "0.19.6").check_grad_overflow);
    assert_false(read_config(off, "0.19.6").check_grad_overflow);
    assert_true(read_config("{\"fp16\": {\"enabled\": true}}", "0.14.5").check_grad_overflow);
    assert_false(read_config("{}", "0.14.5").check_grad_overflow);
}

static void accumulation_dtype_defaults_to_the_model(void **state)
{
    (void)state;
    static const char bf16[] = "{\"bf16\": {\"enabled\": true}}";
    static const char wide[] =
        "{\"bf16\": {\"enabled\": true}, \"data_types\": {\"grad_accum_dtype\": \"fp32\"}}";
    assert_true(read_config(bf16, "0.14.5").grad_accum_fp32); /* without ZeRO */
    assert_false(read_config(bf16, "0.19.6").grad_accum_fp32);
    assert_true(read_config(wide, "0.19.6").grad_accum_fp32);
}

static void optimizers_are_named_without_case(void **state)
{
    (void)state;
    assert_int_equal(read_config("{\"optimizer\": {\"type\": \"adamw\"}}", "0.19.6").optimizer,
                     ZL_DS_ADAM);
    assert_int_equal(read_config("{\"optimizer\": {\"type\": \"AdamW\", \"params\": "
                                 "{\"torch_adam\": true, \"lr\": \"auto\"}}}",
                                 "0.19.6")
                         .optimizer,
                     ZL_DS_TORCH_ADAM);
    assert_true(read_config("{\"optimizer\": {\"type\": \"SGD\", \"params\": {\"momentum\": 0.9}}}",
                            "0.19.6")
                    .momentum);
    assert_refused("{\"optimizer\": {\"type\": \"OneBitAdam\"}}", ZL_E_UNMODELLED, "OneBitAdam");
}

static void auto_is_asked_for_by_name(void **state)
{
    (void)state;
    assert_refused("{\"zero_optimization\": {\"stage\": 2, \"reduce_bucket_size\": \"auto\"}}",
                   ZL_E_INPUT, "zero_optimization.reduce_bucket_size");
    assert_refused("{\"fp16\": {\"enabled\": \"auto\"}}", ZL_E_INPUT, "fp16.enabled");
    assert_refused("{\"train_micro_batch_size_per_gpu\": \"auto\"}", ZL_E_INPUT,
                   "train_micro_batch_size_per_gpu");
    read_config("{\"train_batch_size\": \"auto\", \"gradient_clipping\": \"auto\"}", "0.19.6");
}

static void what_is_outside_is_refused_unless_it_is_off(void **state)
{
    (void)state;
    assert_refused("{\"zero_optimization\": {\"stage\": 3, \"mics_shard_size\": 4}}",
                   ZL_E_UNMODELLED, "mics_shard_size");
    assert_refused("{\"zero_optimization\": {\"stage\": 3, \"zero_quantized_weights\": true}}",
                   ZL_E_UNMODELLED, "zero_quantized_weights");
    assert_refused("{\"zero_optimization\": {\"stage\": 2, \"zenflow\": {\"topk_ratio\": 0.1}}}",
                   ZL_E_UNMODELLED, "zenflow");
    assert_refused("{\"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": "
                   "{\"device\": \"cpu\", \"super_offload\": true}}}",
                   ZL_E_UNMODELLED, "super_offload");
    assert_refused("{\"torch_autocast\": {\"enabled\": true}}", ZL_E_UNMODELLED, "torch_autocast");
    assert_refused("{\"bf16\": {\"enabled\": true}, \"communication_data_type\": \"fp32\"}",
                   ZL_E_UNMODELLED, "communication_data_type");
    read_config("{\"zero_optimization\": {\"stage\": 3, \"mics_shard_size\": -1,"
                " \"zero_hpz_partition_size\": 1, \"zero_quantized_weights\": false},"
                " \"amp\": {\"enabled\": false}, \"flops_profiler\": {\"enabled\": false}}",
                "0.19.6");
}

static void unknown_keys_are_warned_about(void **state)
{
    (void)state;
    zl_err err = {.status = ZL_OK};
    zl_ds_config ds;
    heard h = {""};
    assert_ok(try_read("{\"zero_optimization\": {\"stage\": 2, \"reduce_buckets_size\": 5}}",
                       "0.19.6", &ds, &h, &err),
              &err);
    assert_non_null(strstr(h.text, "zero_optimization.reduce_buckets_size"));
    assert_non_null(strstr(h.text, "did you mean reduce_bucket_size?"));
}

static void wrong_values_are_refused(void **state)
{
    (void)state;
    assert_refused("{\"zero_optimization\": {\"stage\": 4}}", ZL_E_INPUT, "stage must be 0..3");
    assert_refused("{\"zero_optimization\": {\"reduce_bucket_size\": -5}}", ZL_E_INPUT,
                   "reduce_bucket_size must not be negative");
    assert_refused("{\"fp16\": {\"enabled\": true}, \"bf16\": {\"enabled\": true}}", ZL_E_INPUT,
                   "fp16 and bf16");
    assert_refused("{\"zero_optimization\": []}", ZL_E_INPUT, "zero_optimization must be");
    assert_refused("{\"gradient_accumulation_steps\": 0}", ZL_E_INPUT,
                   "gradient_accumulation_steps");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_are_numbers),
        cmocka_unit_test(absent_keys_take_the_defaults_of_the_release),
        cmocka_unit_test(counts_may_be_floats_and_strings),
        cmocka_unit_test(offload_and_its_older_names),
        cmocka_unit_test(overflow_check_follows_precision_and_release),
        cmocka_unit_test(accumulation_dtype_defaults_to_the_model),
        cmocka_unit_test(optimizers_are_named_without_case),
        cmocka_unit_test(auto_is_asked_for_by_name),
        cmocka_unit_test(what_is_outside_is_refused_unless_it_is_off),
        cmocka_unit_test(unknown_keys_are_warned_about),
        cmocka_unit_test(wrong_values_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
