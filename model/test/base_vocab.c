#include "base_test.h"
#include "zeroledger/vocab.h"

static void every_name_finds_itself(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ZL_BUF_COUNT; i++) {
        zl_buf buf = ZL_BUF_COUNT;
        assert_true(zl_buf_find(zl_buf_name((zl_buf)i), &buf));
        assert_int_equal(buf, i);
        assert_true(strlen(zl_buf_text((zl_buf)i)) >= 4);
        assert_true(zl_buf_kind((zl_buf)i) < ZL_KIND_COUNT);
    }
    for (unsigned i = 0; i < ZL_KIND_COUNT; i++) {
        zl_kind kind = ZL_KIND_COUNT;
        assert_true(zl_kind_find(zl_kind_name((zl_kind)i), &kind));
        assert_int_equal(kind, i);
        assert_true(strlen(zl_kind_text((zl_kind)i)) >= 4);
    }
    for (unsigned i = 0; i < ZL_PHASE_COUNT; i++) {
        zl_phase phase = ZL_PHASE_COUNT;
        assert_true(zl_phase_find(zl_phase_name((zl_phase)i), &phase));
        assert_int_equal(phase, i);
        assert_true(strlen(zl_phase_text((zl_phase)i)) >= 4);
    }
    for (unsigned i = 0; i < ZL_VISIT_COUNT; i++) {
        zl_visit visit = ZL_VISIT_COUNT;
        assert_true(zl_visit_find(zl_visit_name((zl_visit)i), &visit));
        assert_int_equal(visit, i);
        assert_true(strlen(zl_visit_text((zl_visit)i)) >= 4);
    }
}

static void unknown_names_write_nothing(void **state)
{
    (void)state;
    zl_buf buf = ZL_BUF_ACT_QKV;
    zl_kind kind = ZL_KIND_ACT;
    zl_phase phase = ZL_PHASE_STEP;
    zl_visit visit = ZL_VISIT_STEADY;
    assert_false(zl_buf_find("ACT.QKV", &buf));
    assert_false(zl_kind_find("", &kind));
    assert_false(zl_phase_find("forwards", &phase));
    assert_false(zl_visit_find("warm", &visit));
    assert_int_equal(buf, ZL_BUF_ACT_QKV);
    assert_int_equal(kind, ZL_KIND_ACT);
    assert_int_equal(phase, ZL_PHASE_STEP);
    assert_int_equal(visit, ZL_VISIT_STEADY);
}

static void names_and_kinds_are_the_published_ones(void **state)
{
    (void)state;
    assert_string_equal(zl_buf_name(ZL_BUF_ACT_QKV), "act.qkv");
    assert_int_equal(zl_buf_kind(ZL_BUF_ACT_QKV), ZL_KIND_ACT);
    assert_int_equal(zl_buf_kind(ZL_BUF_GATHER_BLOCK), ZL_KIND_PARAM_FULL);
    assert_int_equal(zl_buf_kind(ZL_BUF_WORK_CUDA_GEMM), ZL_KIND_WORK);
    assert_string_equal(zl_kind_name(ZL_KIND_ACT_CKPT), "act.ckpt");
    assert_string_equal(zl_visit_name(ZL_VISIT_STEADY_LATER), "steady.later");
    assert_string_equal(zl_rung_name(ZL_REQUESTED), "requested");
    assert_string_equal(zl_rung_name(ZL_GRANTED), "granted");
}

static void element_types_have_their_sizes(void **state)
{
    (void)state;
    assert_int_equal(zl_dtype_size(ZL_F32), 4);
    assert_int_equal(zl_dtype_size(ZL_BF16), 2);
    assert_int_equal(zl_dtype_size(ZL_F16), 2);
    assert_string_equal(zl_dtype_name(ZL_BF16), "bf16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_finds_itself),
        cmocka_unit_test(unknown_names_write_nothing),
        cmocka_unit_test(names_and_kinds_are_the_published_ones),
        cmocka_unit_test(element_types_have_their_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
