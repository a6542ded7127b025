#include "base_test.h"

#include "torch/ds_config.h"
#include "zeroledger/json.h"
#include "zeroledger/torch.h"

/* The lines, one behind the other. */
typedef struct heard {
    char text[1024];
} heard;

static void hear(void *context, const char *line)
{
    heard *h = context;
    const size_t used = strlen(h->text);
    snprintf(h->text + used, sizeof h->text - used, "%s\n", line);
}

static void assert_heard(const heard *h, const char *part)
{
    if (part == NULL ? h->text[0] != '\0' : strstr(h->text, part) == NULL) {
        fail_msg("expected \"%s\", heard \"%s\"", part != NULL ? part : "", h->text);
    }
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

/* What pydantic 1.10 and 2.14 answer for these values of an int with ge=0, and what is taken here.
 */
static void spellings_of_a_count_that_deepspeed_refuses_are_warned_about(void **state)
{
    (void)state;
    static const struct {
        const char *value, *release;
        uint64_t count;
        const char *warning;
    } cases[] = {
        {"500000000", "0.19.6", 500000000, NULL},
        {"5e8", "0.19.6", 500000000, NULL},
        {"0.94e6", "0.19.6", 940000, NULL},
        {"\"500000000\"", "0.19.6", 500000000, NULL},
        {"\"500000000.0\"", "0.19.6", 500000000, NULL},
        {"\"500000000.0\"", "0.14.5", 500000000, "which DeepSpeed refuses"},
        {"\"500000000\"", "0.5.9", 500000000, "which DeepSpeed refuses"},
        {"\"5e8\"", "0.19.6", 500000000, "is the string \"5e8\", which DeepSpeed refuses"},
        {"\"5e8\"", "0.14.5", 500000000, "write it without quotes"},
        {"\"0.94e6\"", "0.19.6", 940000, "is the string \"0.94e6\""},
        {"15099494.4", "0.14.5", 15099494, NULL},
        {"15099494.4", "0.15.0", 15099494,
         "zero_optimization.reduce_bucket_size is 15099494.4, a fraction, which DeepSpeed refuses "
         "since 0.15.0; write 15099494"},
        {"1e30", "0.19.6", INT64_MAX, NULL},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[128];
        heard h = {""};
        zl_ds_config ds;
        zl_err err = {.status = ZL_OK};
        snprintf(text, sizeof text, "{\"zero_optimization\": {\"reduce_bucket_size\": %s}}",
                 cases[i].value);
        assert_ok(try_read(text, cases[i].release, &ds, &h, &err), &err);
        assert_int_equal(ds.reduce_bucket_size, cases[i].count);
        assert_heard(&h, cases[i].warning);
    }
}

static void flags_may_be_what_pydantic_takes_for_one(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        bool flag, warned;
    } cases[] = {
        {"true", true, false},   {"false", false, false},  {"1", true, true},
        {"0", false, true},      {"\"True\"", true, true}, {"\"false\"", false, true},
        {"\"yes\"", true, true}, {"\"off\"", false, true}, {"1.0", true, true},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[128];
        heard h = {""};
        zl_ds_config ds;
        zl_err err = {.status = ZL_OK};
        snprintf(text, sizeof text, "{\"zero_optimization\": {\"overlap_comm\": %s}}",
                 cases[i].value);
        assert_ok(try_read(text, "0.19.6", &ds, &h, &err), &err);
        assert_int_equal(ds.overlap_comm, cases[i].flag);
        assert_heard(&h, cases[i].warned ? "overlap_comm is no JSON flag" : NULL);
    }
    assert_refused("{\"zero_optimization\": {\"overlap_comm\": 2}}", ZL_E_INPUT,
                   "zero_optimization.overlap_comm must be true or false, got 2");
    assert_refused("{\"zero_optimization\": {\"overlap_comm\": \"maybe\"}}", ZL_E_INPUT,
                   "must be true or false, got the string \"maybe\"");
}

static void offload_is_read(void **state)
{
    (void)state;
    const zl_ds_config ds = read_config(
        "{\"zero_optimization\": {\"stage\": 3, \"offload_param\": {\"device\": \"nvme\","
        " \"buffer_count\": 6}, \"offload_optimizer\": {\"device\": \"cpu\","
        " \"pin_memory\": true}}}",
        "0.14.5");
    assert_int_equal(ds.offload_param, ZL_OFFLOAD_NVME);
    assert_int_equal(ds.offload_buffer_count, 6);
    assert_int_equal(ds.offload_optimizer, ZL_OFFLOAD_CPU);
    assert_true(ds.pin_optimizer && !ds.pin_param);
}

/* engine.py and stage_1_and_2.py of the releases: device != none since 0.10.1, == cpu from 0.7.1
 * on, anything before. */
static void offload_below_stage_3_is_host_memory(void **state)
{
    (void)state;
    static const char nvme[] = "{\"zero_optimization\": {\"stage\": 2, \"offload_optimizer\": "
                               "{\"device\": \"nvme\"}}}";
    static const char param[] = "{\"zero_optimization\": {\"stage\": 2, \"offload_param\": "
                                "{\"device\": \"cpu\"}}}";
    static const char off[] = "{\"zero_optimization\": {\"stage\": 0, \"offload_optimizer\": "
                              "{\"device\": \"nvme\"}}}";
    zl_err err = {.status = ZL_OK};
    zl_ds_config ds = read_config(nvme, "0.19.6");
    heard h = {""};
    assert_int_equal(ds.offload_optimizer, ZL_OFFLOAD_CPU);
    assert_int_equal(ds.resolved_count, 1);
    assert_string_equal(ds.resolved[0].key, "zero_optimization.offload_optimizer.device");
    assert_string_equal(ds.resolved[0].value, "cpu");
    assert_int_equal(read_config(nvme, "0.5.9").offload_optimizer, ZL_OFFLOAD_CPU);
    assert_error(try_read(nvme, "0.9.5", &ds, NULL, &err), &err, ZL_E_INPUT, "needs stage 3");
    err = (zl_err){.status = ZL_OK};
    assert_ok(try_read(param, "0.19.6", &ds, &h, &err), &err);
    assert_int_equal(ds.offload_param, ZL_OFFLOAD_NONE);
    assert_heard(&h, "offload_param needs stage 3; at stage 2 DeepSpeed ignores it");
    assert_int_equal(read_config(off, "0.19.6").offload_optimizer, ZL_OFFLOAD_NONE);
}

static void older_names_are_read_and_warned_about(void **state)
{
    (void)state;
    static const struct {
        const char *key, *release;
        zl_offload optimizer, param;
        const char *warning;
    } cases[] = {
        {"\"cpu_offload\": true", "0.5.9", ZL_OFFLOAD_CPU, ZL_OFFLOAD_NONE,
         "cpu_offload is deprecated; write \"offload_optimizer\": {\"device\": \"cpu\"}"},
        {"\"cpu_offload\": true", "0.19.6", ZL_OFFLOAD_CPU, ZL_OFFLOAD_NONE, "is deprecated"},
        {"\"cpu_offload\": false", "0.19.6", ZL_OFFLOAD_NONE, ZL_OFFLOAD_NONE, "is deprecated"},
        {"\"cpu_offload_param\": true", "0.19.6", ZL_OFFLOAD_NONE, ZL_OFFLOAD_CPU,
         "cpu_offload_param is deprecated"},
        {"\"cpu_offload_params\": true", "0.5.9", ZL_OFFLOAD_NONE, ZL_OFFLOAD_CPU,
         "cpu_offload_params is deprecated"},
        {"\"cpu_offload_params\": true", "0.19.6", ZL_OFFLOAD_NONE, ZL_OFFLOAD_CPU,
         "cpu_offload_params is a name that DeepSpeed refuses since 0.7.0; write "
         "\"offload_param\": {\"device\": \"cpu\"}"},
        {"\"cpu_offload_use_pin_memory\": true", "0.19.6", ZL_OFFLOAD_NONE, ZL_OFFLOAD_NONE,
         "DeepSpeed does nothing with it"},
        {"\"stage3_gather_fp16_weights_on_model_save\": true", "0.19.6", ZL_OFFLOAD_NONE,
         ZL_OFFLOAD_NONE, "write \"stage3_gather_16bit_weights_on_model_save\""},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[160];
        heard h = {""};
        zl_ds_config ds;
        zl_err err = {.status = ZL_OK};
        snprintf(text, sizeof text, "{\"zero_optimization\": {\"stage\": 3, %s}}", cases[i].key);
        assert_ok(try_read(text, cases[i].release, &ds, &h, &err), &err);
        assert_int_equal(ds.offload_optimizer, cases[i].optimizer);
        assert_int_equal(ds.offload_param, cases[i].param);
        assert_heard(&h, cases[i].warning);
    }
}

/* DeepSpeedConfigModel: "Cannot provide deprecated parameter ... together", and pydantic's "Extra
 * inputs are not permitted" for a name beside its alias; equal values do not help. */
static void a_key_beside_its_other_name_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *keys, *part;
    } cases[] = {
        {"\"cpu_offload\": false, \"offload_optimizer\": {\"device\": \"cpu\"}",
         "zero_optimization.cpu_offload and zero_optimization.offload_optimizer are two names of "
         "one setting, and DeepSpeed refuses both together; keep offload_optimizer"},
        {"\"cpu_offload_params\": true, \"offload_param\": {}", "keep offload_param"},
        {"\"cpu_offload_params\": true, \"cpu_offload_param\": true", "keep cpu_offload_param"},
        {"\"stage3_gather_fp16_weights_on_model_save\": true,"
         " \"gather_16bit_weights_on_model_save\": true",
         "keep gather_16bit_weights_on_model_save"},
        {"\"stage3_max_live_parameters\": 5, \"max_live_parameters\": 5",
         "zero_optimization.max_live_parameters and zero_optimization.stage3_max_live_parameters"},
        {"\"prefetch_bucket_size\": 5, \"stage3_prefetch_bucket_size\": 6",
         "keep stage3_prefetch_bucket_size"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[160];
        snprintf(text, sizeof text, "{\"zero_optimization\": {%s}}", cases[i].keys);
        assert_refused(text, ZL_E_INPUT, cases[i].part);
    }
}

/* read_zero_config_deprecated of runtime/zero/config.py. */
static void the_form_before_stages_is_stage_1(void **state)
{
    (void)state;
    heard h = {""};
    zl_err err = {.status = ZL_OK};
    zl_ds_config ds;
    assert_ok(
        try_read("{\"zero_optimization\": true, \"allgather_size\": 2e8}", "0.19.6", &ds, &h, &err),
        &err);
    assert_int_equal(ds.stage, 1);
    assert_int_equal(ds.allgather_bucket_size, 200000000);
    assert_false(ds.overlap_comm);
    assert_heard(&h, "zero_optimization: true is deprecated; write {\"stage\": 1}");
    assert_int_equal(read_config("{\"zero_optimization\": false}", "0.19.6").stage, 0);
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
    assert_refused("{\"fp16\": {\"enabled\": \"auto\"}}", ZL_E_INPUT,
                   "fp16.enabled is \"auto\", which Hugging Face's Trainer and accelerate replace; "
                   "give --precision");
    assert_refused("{\"train_micro_batch_size_per_gpu\": \"auto\"}", ZL_E_INPUT,
                   "train_micro_batch_size_per_gpu is \"auto\", which Hugging Face's Trainer and "
                   "accelerate replace; give --micro-batch");
    assert_refused("{\"train_batch_size\": \"auto\"}", ZL_E_INPUT, "train_batch_size is \"auto\"");
    assert_refused("{\"zero_optimization\": {\"stage\": \"auto\"}}", ZL_E_INPUT,
                   "zero_optimization.stage is \"auto\", which Hugging Face's Trainer and "
                   "accelerate replace; give --stage");
    assert_refused("{\"communication_data_type\": \"auto\"}", ZL_E_INPUT,
                   "communication_data_type is \"auto\", which neither");
    assert_refused("{\"optimizer\": {\"type\": \"auto\"}}", ZL_E_INPUT, "optimizer.type");
    read_config("{\"gradient_clipping\": \"auto\", \"amp\": {\"enabled\": \"auto\"},"
                " \"scheduler\": {\"params\": {\"warmup_num_steps\": \"auto\"}}}",
                "0.19.6");
}

static zl_ds_config read_in(const char *text, zl_ds_program program)
{
    zl_json_doc *doc = NULL;
    zl_ds_config ds;
    zl_err err = {.status = ZL_OK};
    program.version = program.version != 0 ? program.version : 19006;
    assert_ok(zl_json_parse("ds_config.json", text, strlen(text), &doc, &err), &err);
    assert_ok(zl_ds_config_read_in(zl_json_root(doc), &program, &ds, &err), &err);
    zl_json_free(doc);
    return ds;
}

static void assert_resolved(const zl_ds_config *ds, const char *key, const char *value)
{
    for (size_t i = 0; i < ds->resolved_count; i++) {
        if (strcmp(ds->resolved[i].key, key) == 0) {
            assert_string_equal(ds->resolved[i].value, value);
            return;
        }
    }
    fail_msg("%s is not among the resolved", key);
}

/* transformers: integrations/deepspeed.py, with a hidden size of 1027: 1027 x 1027 = 1054729, of
 * which 0.9 is 949256.1; 10 x 1027. */
static void auto_takes_what_the_trainer_puts_there(void **state)
{
    (void)state;
    static const char text[] =
        "{\"train_batch_size\": \"auto\", \"train_micro_batch_size_per_gpu\": \"auto\","
        " \"gradient_accumulation_steps\": \"auto\", \"gradient_clipping\": \"auto\","
        " \"fp16\": {\"enabled\": \"auto\", \"loss_scale\": 0},"
        " \"bf16\": {\"enabled\": \"auto\"},"
        " \"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": \"auto\"}},"
        " \"zero_optimization\": {\"overlap_comm\": \"auto\","
        " \"stage3_param_persistence_threshold\": \"auto\", \"sub_group_size\": \"auto\","
        " \"stage3_prefetch_bucket_size\": \"auto\", \"reduce_bucket_size\": \"auto\","
        " \"zero_quantized_weights\": \"auto\", \"offload_param\": {\"device\": \"auto\"},"
        " \"stage\": 3}}";
    const zl_ds_program program = {.hidden = 1027,
                                   .ranks = 8,
                                   .micro_batch = 4,
                                   .accumulation = 2,
                                   .precision_given = true,
                                   .precision = ZL_PRECISION_BF16_MIXED,
                                   .clip_given = true,
                                   .clip = 0.0};
    const zl_ds_config ds = read_in(text, program);
    assert_int_equal(ds.micro_batch, 4);
    assert_int_equal(ds.accumulation, 2);
    assert_int_equal(ds.train_batch, 0);
    assert_true(ds.bf16 && !ds.fp16 && !ds.clips && ds.overlap_comm);
    assert_int_equal(ds.reduce_bucket_size, 1054729);
    assert_int_equal(ds.prefetch_bucket_size, 949256);
    assert_int_equal(ds.param_persistence_threshold, 10270);
    assert_int_equal(ds.sub_group_size, 1000000000);
    assert_int_equal(ds.offload_param, ZL_OFFLOAD_NONE);
    assert_resolved(&ds, "train_micro_batch_size_per_gpu", "4");
    assert_resolved(&ds, "gradient_accumulation_steps", "2");
    assert_resolved(&ds, "train_batch_size", "64");
    assert_resolved(&ds, "gradient_clipping", "0");
    assert_resolved(&ds, "fp16.enabled", "false");
    assert_resolved(&ds, "bf16.enabled", "true");
    assert_resolved(&ds, "zero_optimization.reduce_bucket_size", "1054729");
    assert_resolved(&ds, "zero_optimization.stage3_prefetch_bucket_size", "949256");
    assert_resolved(&ds, "zero_optimization.stage3_param_persistence_threshold", "10270");
    assert_resolved(&ds, "zero_optimization.overlap_comm", "default");
    assert_resolved(&ds, "zero_optimization.sub_group_size", "default");
    assert_resolved(&ds, "zero_optimization.offload_param.device", "none");
}

/* accelerate: DeepSpeedPlugin.__post_init__ fills the stage, set_mixed_precision adds a section. */
static void auto_takes_what_accelerate_puts_there(void **state)
{
    (void)state;
    const zl_ds_program program = {.stage_given = true,
                                   .stage = 3,
                                   .precision_given = true,
                                   .precision = ZL_PRECISION_BF16_MIXED};
    zl_ds_config ds =
        read_in("{\"fp16\": {\"enabled\": \"auto\"}, \"zero_optimization\": {\"stage\": "
                "\"auto\", \"stage3_max_live_parameters\": 5}}",
                program);
    assert_int_equal(ds.stage, 3);
    assert_resolved(&ds, "zero_optimization.stage", "3");
    assert_true(ds.bf16 && !ds.fp16);
    assert_resolved(&ds, "bf16.enabled", "true");
    ds = read_in("{\"bf16\": {\"enabled\": false}, \"gradient_clipping\": \"auto\"}", program);
    assert_false(ds.bf16);
    ds = read_in("{\"train_micro_batch_size_per_gpu\": 1}", program); /* nobody completes it */
    assert_false(ds.bf16);
}

/* Below stage 3 the Trainer leaves these two, and DeepSpeed, from 0.7.0 on, leaves them out. */
static void auto_that_nobody_replaces_is_the_default(void **state)
{
    (void)state;
    static const char text[] = "{\"zero_optimization\": {\"stage\": 2,"
                               " \"stage3_prefetch_bucket_size\": \"auto\"}}";
    zl_err err = {.status = ZL_OK};
    zl_ds_config ds = read_in(text, (zl_ds_program){.hidden = 768});
    assert_int_equal(ds.prefetch_bucket_size, 50000000);
    assert_resolved(&ds, "zero_optimization.stage3_prefetch_bucket_size", "default");
    assert_error(try_read(text, "0.6.0", &ds, NULL, &err), &err, ZL_E_INPUT, "which neither");
}

static void auto_precision_follows_the_other_or_the_option(void **state)
{
    (void)state;
    static const struct {
        const char *fp16, *bf16;
        bool given;
        zl_precision precision;
        bool fp16_on, bf16_on;
    } cases[] = {
        {"\"auto\"", "true", false, 0, false, true},
        {"true", "\"auto\"", false, 0, true, false},
        {"\"auto\"", "\"auto\"", true, ZL_PRECISION_FP16_MIXED, true, false},
        {"\"auto\"", "\"auto\"", true, ZL_PRECISION_FP32, false, false},
        {"\"auto\"", "false", true, ZL_PRECISION_FP16_MIXED, true, false},
        {"false", "\"auto\"", true, ZL_PRECISION_BF16_MIXED, false, true},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[128];
        snprintf(text, sizeof text, "{\"fp16\": {\"enabled\": %s}, \"bf16\": {\"enabled\": %s}}",
                 cases[i].fp16, cases[i].bf16);
        const zl_ds_config ds = read_in(text, (zl_ds_program){.precision_given = cases[i].given,
                                                              .precision = cases[i].precision});
        assert_int_equal(ds.fp16, cases[i].fp16_on);
        assert_int_equal(ds.bf16, cases[i].bf16_on);
    }
    assert_refused("{\"fp16\": {\"enabled\": false}, \"bf16\": {\"enabled\": \"auto\"}}",
                   ZL_E_INPUT, "bf16.enabled is \"auto\"");
}

/* DeepSpeedConfig._set_batch_related_parameters and _batch_assertion of runtime/config.py; 0: not
 * said, or refused. */
static void two_of_the_batch_sizes_are_enough(void **state)
{
    (void)state;
    static const struct {
        zt_ds_batch said, made;
    } cases[] = {
        {{64, 4, 2, 8}, {64, 4, 2, 8}}, {{64, 4, 0, 8}, {64, 4, 2, 8}},
        {{64, 0, 2, 8}, {64, 4, 2, 8}}, {{0, 4, 2, 8}, {64, 4, 2, 8}},
        {{64, 0, 0, 8}, {64, 8, 1, 8}}, {{0, 4, 0, 8}, {32, 4, 1, 8}},
        {{63, 4, 2, 8}, {0, 0, 0, 0}},  {{60, 4, 0, 8}, {0, 0, 0, 0}}, /* 60 / 32 = 1 */
        {{60, 0, 2, 8}, {0, 0, 0, 0}},  {{30, 0, 0, 8}, {0, 0, 0, 0}},
        {{4, 0, 0, 8}, {0, 0, 0, 0}},   {{0, 0, 2, 8}, {0, 0, 0, 0}},
        {{0, 0, 0, 8}, {0, 0, 0, 0}},   {{16, 32, 0, 1}, {0, 0, 0, 0}},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        zt_ds_batch batch = cases[i].said;
        zl_err err = {.status = ZL_OK};
        const zl_status status = zt_ds_batch_complete(&batch, &err);
        assert_int_equal(status, cases[i].made.ranks > 0 ? ZL_OK : ZL_E_USAGE);
        const zt_ds_batch *want = status == ZL_OK ? &cases[i].made : &cases[i].said;
        assert_memory_equal(&batch, want, sizeof batch);
    }
    zt_ds_batch fits = {64, 4, 2, 1};
    zl_err err = {.status = ZL_OK};
    assert_error(zt_ds_batch_complete(&fits, &err), &err, ZL_E_USAGE,
                 "train_batch_size 64 of the ds_config.json, but micro-batch 4 x accumulation 2 x "
                 "ranks 1 = 8, which DeepSpeed refuses; --ranks 8 would agree");
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
    h = (heard){""};
    assert_ok(try_read("{\"overlap_comm\": true}", "0.19.6", &ds, &h, &err), &err);
    assert_non_null(strstr(h.text, "overlap_comm is read in zero_optimization only"));
    h = (heard){""};
    assert_ok(try_read("{\"zero_optimization\": {\"aio\": {}}}", "0.19.6", &ds, &h, &err), &err);
    assert_non_null(strstr(h.text, "zero_optimization.aio is read at the top level only"));
}

static void wrong_values_are_refused(void **state)
{
    (void)state;
    assert_refused("{\"zero_optimization\": {\"stage\": 4}}", ZL_E_INPUT, "stage must be 0..3");
    assert_refused("{\"zero_optimization\": {\"reduce_bucket_size\": -5}}", ZL_E_INPUT,
                   "reduce_bucket_size must not be negative, got -5");
    assert_refused("{\"fp16\": {\"enabled\": true}, \"bf16\": {\"enabled\": true}}", ZL_E_INPUT,
                   "fp16 and bf16");
    assert_refused("{\"zero_optimization\": {\"stage\": 2.5}}", ZL_E_INPUT,
                   "zero_optimization.stage must be 0..3, got 2.5");
    assert_refused("{\"zero_optimization\": {\"reduce_bucket_size\": \"big\"}}", ZL_E_INPUT,
                   "reduce_bucket_size must be a number, got the string \"big\"");
    assert_refused("{\"zero_optimization\": []}", ZL_E_INPUT,
                   "zero_optimization must be an object, got an array");
    assert_refused("{\"fp16\": true}", ZL_E_INPUT, "fp16 must be an object, got true");
    assert_refused("{\"gradient_accumulation_steps\": 0}", ZL_E_INPUT,
                   "gradient_accumulation_steps must be at least 1, got 0");
    assert_refused("{\"train_batch_size\": \"16\"}", ZL_E_INPUT,
                   "train_batch_size must be a whole number, got the string \"16\"");
    assert_refused("{\"train_micro_batch_size_per_gpu\": 2.5}", ZL_E_INPUT,
                   "train_micro_batch_size_per_gpu must be a whole number, got 2.5");
    assert_refused("{\"memory_breakdown\": \"false\"}", ZL_E_INPUT,
                   "memory_breakdown must be true");
    assert_refused("{\"elasticity\": {\"enabled\": true}}", ZL_E_UNMODELLED, "elasticity");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_are_numbers),
        cmocka_unit_test(absent_keys_take_the_defaults_of_the_release),
        cmocka_unit_test(counts_may_be_floats_and_strings),
        cmocka_unit_test(spellings_of_a_count_that_deepspeed_refuses_are_warned_about),
        cmocka_unit_test(flags_may_be_what_pydantic_takes_for_one),
        cmocka_unit_test(offload_is_read),
        cmocka_unit_test(offload_below_stage_3_is_host_memory),
        cmocka_unit_test(older_names_are_read_and_warned_about),
        cmocka_unit_test(a_key_beside_its_other_name_is_refused),
        cmocka_unit_test(the_form_before_stages_is_stage_1),
        cmocka_unit_test(overflow_check_follows_precision_and_release),
        cmocka_unit_test(accumulation_dtype_defaults_to_the_model),
        cmocka_unit_test(optimizers_are_named_without_case),
        cmocka_unit_test(auto_is_asked_for_by_name),
        cmocka_unit_test(auto_takes_what_the_trainer_puts_there),
        cmocka_unit_test(auto_takes_what_accelerate_puts_there),
        cmocka_unit_test(auto_that_nobody_replaces_is_the_default),
        cmocka_unit_test(auto_precision_follows_the_other_or_the_option),
        cmocka_unit_test(two_of_the_batch_sizes_are_enough),
        cmocka_unit_test(what_is_outside_is_refused_unless_it_is_off),
        cmocka_unit_test(unknown_keys_are_warned_about),
        cmocka_unit_test(wrong_values_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
