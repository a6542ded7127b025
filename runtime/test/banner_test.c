/* What people see of mpirun's words, and what the launcher learns from them. The texts are what
 * Open MPI 4.1 and MPICH 4 print. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "train/banner.h"

#define RULE "--------------------------------------------------------------------------"

/* Feeds lines; returns how many of them are shown. */
static int feed(zr_banner *banner, const char *const *lines)
{
    int shown = 0;
    for (; *lines != NULL; lines++) {
        shown += zr_banner_line(banner, *lines) ? 1 : 0;
    }
    return shown;
}

static void a_killed_rank_is_found_in_open_mpis_banner(void **state)
{
    (void)state;
    zr_banner banner = {0};
    const char *const lines[] = {
        RULE,
        "Primary job  terminated normally, but 1 process returned",
        "a non-zero exit code. Per user-direction, the job has been aborted.",
        RULE,
        RULE,
        "mpirun noticed that process rank 2 with PID 4711 on node box exited on signal 9 (Killed).",
        RULE,
        NULL,
    };
    assert_int_equal(feed(&banner, lines), 0);
    assert_true(banner.dead);
    assert_int_equal(banner.rank, 2);
    assert_int_equal(banner.signal, 9);
    assert_false(banner.told);
}

static void an_exit_code_is_found_in_open_mpis_banner(void **state)
{
    (void)state;
    zr_banner banner = {0};
    const char *const lines[] = {
        RULE,
        "mpirun detected that one or more processes exited with non-zero status, thus causing",
        "the job to be terminated. The first process to do so was:",
        "",
        "  Process name: [[14398,1],12]",
        "  Exit code:    3",
        RULE,
        NULL,
    };
    assert_int_equal(feed(&banner, lines), 0);
    assert_true(banner.dead);
    assert_int_equal(banner.rank, 12);
    assert_int_equal(banner.signal, 0);
    assert_int_equal(banner.code, 3);
}

static void a_killed_rank_is_found_in_mpichs_box(void **state)
{
    (void)state;
    zr_banner banner = {0};
    const char *const lines[] = {
        "===================================================================================",
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
        "=   RANK 1 PID 4711 RUNNING AT box",
        "=   KILLED BY SIGNAL: 9 (Killed)",
        "===================================================================================",
        NULL,
    };
    assert_int_equal(feed(&banner, lines), 0);
    assert_true(banner.dead);
    assert_int_equal(banner.rank, 1);
    assert_int_equal(banner.signal, 9);
}

static void the_first_rank_that_fails_speaks_for_all(void **state)
{
    (void)state;
    zr_banner banner = {0};
    const char *const lines[] = {
        "zl-train: rank 2: out of memory: ...",
        "zl-train: rank 0: out of memory: ...",
        RULE,
        "MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD",
        "with errorcode 4.",
        "zl-train: rank 1: out of memory: ...",
        RULE,
        "[box:04711] 2 more processes have sent help message help-mpi-api.txt / mpi-abort",
        NULL,
    };
    assert_int_equal(feed(&banner, lines), 1);
    assert_true(banner.told);
}

static void other_words_of_ranks_are_shown(void **state)
{
    (void)state;
    zr_banner banner = {0};
    const char *const lines[] = {
        "zl-train: warning: rank 1: 2000000 bytes appeared outside the tracker",
        "==4711==ERROR: AddressSanitizer: heap-use-after-free",
        "[2024] not an address",
        NULL,
    };
    assert_int_equal(feed(&banner, lines), 3);
    assert_false(banner.told || banner.dead);
}

static void words_that_are_kept_back_can_be_quoted(void **state)
{
    (void)state;
    zr_banner banner = {0};
    const char *const lines[] = {RULE, "There are not enough slots available", "in the system.",
                                 RULE, NULL};
    assert_int_equal(feed(&banner, lines), 0);
    assert_string_equal(banner.swallowed, "There are not enough slots available in the system.");
    char word[500];
    memset(word, 'x', sizeof(word) - 1);
    word[sizeof(word) - 1] = '\0';
    (void)zr_banner_line(&banner, RULE);
    (void)zr_banner_line(&banner, word); /* does not fit, and does no harm */
    assert_string_equal(banner.swallowed, "There are not enough slots available in the system.");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_rank_is_found_in_open_mpis_banner),
        cmocka_unit_test(an_exit_code_is_found_in_open_mpis_banner),
        cmocka_unit_test(a_killed_rank_is_found_in_mpichs_box),
        cmocka_unit_test(the_first_rank_that_fails_speaks_for_all),
        cmocka_unit_test(other_words_of_ranks_are_shown),
        cmocka_unit_test(words_that_are_kept_back_can_be_quoted),
    };
    return cmocka_run_group_tests_name("banner", tests, NULL, NULL);
}
