/* Which modules peft gives an adapter, by the rules of its check_target_module_exists. */
#include "base_test.h"

#include "torch/lora.h"

/* root . model . layers . 3 . self_attn */
static zt_module root, model, layers, layer, attention;

static int make_tree(void **state)
{
    (void)state;
    zt_module *const path[] = {&root, &model, &layers, &layer, &attention};
    static const char *const names[] = {"", "model", "layers", "3", "self_attn"};
    for (size_t i = 0; i < COUNT_OF(path); i++) {
        *path[i] = (zt_module){.parent = i > 0 ? path[i - 1] : NULL};
        snprintf(path[i]->name, sizeof path[i]->name, "%s", names[i]);
    }
    return 0;
}

static bool targets(const char *lora, const zt_module *parent, const char *name)
{
    zl_torch_run run;
    zl_err err = {.status = ZL_OK};
    zl_torch_run_init(&run);
    assert_ok(zt_lora_read(lora, &run, &err), &err);
    return zt_lora_targets(&run, parent, name);
}

static void names_end_in_a_target_at_a_dot(void **state)
{
    (void)state;
    static const struct {
        const char *lora;
        bool has; /* model.layers.3.self_attn.q_proj has an adapter */
    } cases[] = {
        {"8:q_proj", true},
        {"8:v_proj,q_proj", true},
        {"8:self_attn.q_proj", true},
        {"8:3.self_attn.q_proj", true},
        {"8:layers.3.self_attn.q_proj", true},
        {"8:model.layers.3.self_attn.q_proj", true},
        {"8:attn.q_proj", false},
        {"8:proj", false},
        {"8:mlp.q_proj", false},
        {"8:.q_proj", false},
        {"8:x.model.layers.3.self_attn.q", false},
        {"", false},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        if (targets(cases[i].lora, &attention, "q_proj") != cases[i].has) {
            fail_msg("%s", cases[i].lora);
        }
    }
    assert_true(targets("8:lm_head", &root, "lm_head"));
    assert_false(targets("8:x.lm_head", &root, "lm_head"));
}

static void all_linear_leaves_the_output_out(void **state)
{
    (void)state;
    assert_true(targets("8:all-linear", &attention, "q_proj"));
    assert_false(targets("8:all-linear", &root, "lm_head"));
}

static void patterns_match_whole_names(void **state)
{
    (void)state;
    static const struct {
        const char *lora;
        bool has;
    } cases[] = {
        {"8:/.*q_proj/", true},
        {"8:/q_proj/", false},
        {"8:/.*\\.(?:q|v)_proj/", true},
        {"8:/.*\\.(q|v)_proj$/", true},
        {"8:/model\\.layers\\.\\d+\\.self_attn\\..*?/", true},
        {"8:/model\\.layers\\.[0-2]\\..*/", false},
        {"8:/.*self\\_attn.\\w+/", true},
        {"8:/.*mlp.*/", false},
        {"8:/.*layers.{1,3}self_attn.q_proj/", true},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        if (targets(cases[i].lora, &attention, "q_proj") != cases[i].has) {
            fail_msg("%s", cases[i].lora);
        }
    }
}

static void rank_and_dropout_are_read(void **state)
{
    (void)state;
    zl_torch_run run;
    zl_err err = {.status = ZL_OK};
    zl_torch_run_init(&run);
    assert_ok(zt_lora_read("16@0.05:q_proj", &run, &err), &err);
    assert_int_equal(run.lora_rank, 16);
    assert_int_equal((int)(run.lora_dropout * 100 + 0.5), 5);
    assert_int_equal(run.lora_targets, 1);
}

static void what_cannot_be_read_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *lora;
        zl_status status;
        const char *part;
    } cases[] = {
        {"q_proj", ZL_E_USAGE, "a rank and names of modules"},
        {"8:", ZL_E_USAGE, "a rank and names of modules"},
        {"0:q_proj", ZL_E_USAGE, "at least 1"},
        {"x:q_proj", ZL_E_USAGE, "lora"},
        {"8@1:q_proj", ZL_E_USAGE, "from 0 to below 1"},
        {"8@x:q_proj", ZL_E_USAGE, "the dropout of lora"},
        {"8:q_proj,,v_proj", ZL_E_USAGE, "targets of lora"},
        {"8:q_proj,16:v_proj", ZL_E_USAGE, "'16:v_proj' is no name of a module"},
        {"8:/(?=a)b/", ZL_E_UNMODELLED, "'(?=a)b' on"},
        {"8:/a\\Sb/", ZL_E_UNMODELLED, "'\\Sb' on"},
        {"8:/a(/", ZL_E_USAGE, "the pattern /a(/ of lora"},
        /* Compiled, these would take time without end. */
        {"8:/a++++++++++++++++++++++++++++++++++++++++/", ZL_E_UNMODELLED, "from '+++"},
        {"8:/(((((a+)+)+)+)+)+/", ZL_E_UNMODELLED, "from '+'"},
        {"8:/(((a{9}){99}){99})/", ZL_E_UNMODELLED, "from '{99}"},
        {"8:/a{999}/", ZL_E_UNMODELLED, "from '{999}'"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        zl_torch_run run;
        zl_err err = {.status = ZL_OK};
        zl_torch_run_init(&run);
        assert_error(zt_lora_read(cases[i].lora, &run, &err), &err, cases[i].status, cases[i].part);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_end_in_a_target_at_a_dot),
        cmocka_unit_test(all_linear_leaves_the_output_out),
        cmocka_unit_test(patterns_match_whole_names),
        cmocka_unit_test(rank_and_dropout_are_read),
        cmocka_unit_test(what_cannot_be_read_is_named),
    };
    return cmocka_run_group_tests(tests, make_tree, NULL);
}
