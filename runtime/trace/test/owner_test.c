/* Who asked: through real frames of real shared objects. */
#include "trace_test.h"

#include <execinfo.h>

#include "trace/owner.h"

/* owner_asks.c, owner_passes.c */
void zt_ask(void (*through)(void (*last)(void)), void (*last)(void));
void zt_pass(void (*last)(void));

enum { FRAMES = 32 };
static void *frame[FRAMES];
static int frames;

static int first; /* the frame that called look */

static void look(void)
{
    frames = backtrace(frame, FRAMES);
    first = 0;
    while (first < frames && frame[first] != __builtin_return_address(0)) {
        first++;
    }
}

static const char *owner_behind_us(bool *fresh)
{
    const char *name = NULL;
    assert_in_range(first, 1, frames - 1);
    (void)zr_owner_of(&frame[first], (size_t)(frames - first), &name, fresh);
    return name;
}

static void who_asked_is_behind_who_passed_on(void **state)
{
    (void)state;
    bool fresh = false;
    zt_ask(zt_pass, look);
    assert_string_equal(owner_behind_us(&fresh), "libzt-asks.so");
    assert_true(fresh);
    assert_string_equal(owner_behind_us(&fresh), "libzt-asks.so");
    assert_false(fresh); /* known by now */
}

static void a_program_may_ask_for_itself(void **state)
{
    (void)state;
    const char *name = NULL;
    bool fresh;
    const uint32_t id = zr_owner_of_caller(&name, &fresh);
    assert_string_equal(name, "test_unit_trace_owner");
    zt_pass(look);
    assert_string_equal(owner_behind_us(&fresh), "test_unit_trace_owner");
    assert_int_equal(zr_owner_of_caller(&name, &fresh), id);
}

static void without_frames_it_is_unknown(void **state)
{
    (void)state;
    const char *name = NULL;
    bool fresh;
    void *nowhere[] = {NULL, (void *)16};
    (void)zr_owner_of(nowhere, 0, &name, &fresh);
    assert_string_equal(name, "(unknown)");
    (void)zr_owner_of(nowhere, 2, &name, &fresh);
    assert_string_equal(name, "(unknown)");
}

static void libraries_that_pass_on_are_known_by_name(void **state)
{
    (void)state;
    static const char *const on[] = {"/usr/lib/x86_64-linux-gnu/libcuda.so.1",
                                     "libcuda.so.580.65.06",
                                     "/x/nvidia/cuda_runtime/lib/libcudart.so.13",
                                     "/x/torch/lib/libcudart-d0da41ae.so.11.0",
                                     "/x/libcupti.so.13",
                                     "/x/libzltrace.so"};
    static const char *const ask[] = {
        "/x/libnccl.so.2", "/x/libcublasLt.so.13",   "/x/libtorch_cuda.so", "/x/libc10_cuda.so",
        "zl-train-cuda",   "/x/libcudnn_graph.so.9", "/libcuda.so.1/x"};
    for (size_t i = 0; i < sizeof(on) / sizeof(on[0]); i++) {
        assert_true(zr_owner_passes_on(on[i]));
    }
    for (size_t i = 0; i < sizeof(ask) / sizeof(ask[0]); i++) {
        assert_false(zr_owner_passes_on(ask[i]));
    }
}

int main(void)
{
    zr_owner_prepare();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_asked_is_behind_who_passed_on),
        cmocka_unit_test(a_program_may_ask_for_itself),
        cmocka_unit_test(without_frames_it_is_unknown),
        cmocka_unit_test(libraries_that_pass_on_are_known_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
