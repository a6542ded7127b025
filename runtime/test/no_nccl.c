/* NCCL that is missing where the program runs, or too old for it. The linker puts __wrap_dlopen in
 * the place of the loader's. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "comm/cuda/library.h"

void *__wrap_dlopen(const char *path, int flags);
void *__real_dlopen(const char *path, int flags);

static const char *instead; /* of NCCL; NULL: nothing is found */

void *__wrap_dlopen(const char *path, int flags)
{
    assert_string_equal(path, "libnccl.so.2");
    return instead != NULL ? __real_dlopen(instead, flags) : NULL;
}

static void find(const char *stand_in, const char *sentence)
{
    const zr_nccl *nccl = NULL;
    zl_err err = {.status = ZL_OK};
    char version[16];
    instead = stand_in;
    assert_int_equal(zr_nccl_find(&nccl, &err), ZL_E_RESOURCE);
    assert_string_equal(err.text, sentence);
    zr_nccl_version(version, sizeof version);
    assert_string_equal(version, "not loaded");
}

static void a_missing_library_is_named_with_the_remedy(void **state)
{
    (void)state;
    find(NULL, "more than one rank needs NCCL, and libnccl.so.2 is not found; install it or put "
               "its folder into LD_LIBRARY_PATH");
}

static void an_old_library_is_told_by_a_function_that_it_lacks(void **state)
{
    (void)state;
    find("libm.so.6", "libnccl.so.2 has no ncclGetVersion; NCCL 2.18 or newer is needed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_library_is_named_with_the_remedy),
        cmocka_unit_test(an_old_library_is_told_by_a_function_that_it_lacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
