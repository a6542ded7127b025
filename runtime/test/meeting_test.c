/* Ranks that find each other over the network, as on several machines: all get rank 0's bytes, and
 * whoever dies, fails or cannot take part ends the others soon, with one line that says so. Every
 * rank is a process of its own. */
#define _DEFAULT_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "comm/meeting.h"
#include "track/track.h"
#include "train/job.h"

enum { RANKS = 4, LIMIT = 30, NO_ONE = 99, DECLINED = 4, FAILED = 6, WRONG = 77 };
static const char words[] = "the bytes of rank 0";

/* What one of the ranks does instead of finishing. */
typedef enum fate { FATE_NONE, FATE_KILLED, FATE_FAILS, FATE_DECLINES } fate;

static void pause_for(long milliseconds)
{
    const struct timespec t = {.tv_sec = milliseconds / 1000,
                               .tv_nsec = milliseconds % 1000 * 1000000};
    (void)nanosleep(&t, NULL);
}

static uint16_t free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    close(fd);
    return ntohs(at.sin_port);
}

/* A rank's life: meets, trains for a second, and leaves. */
static int live(uint64_t rank, uint64_t chosen, fate f)
{
    static const uint32_t step = 7;
    static const uint32_t beacon = ZR_BEACON(ZL_VISIT_STEADY, ZL_PHASE_BACKWARD);
    static const zr_activity activity = {.step = &step, .beacon = &beacon, .words = zr_watch_words};
    char bytes[sizeof words] = "";
    zr_meeting *meeting = NULL;
    zl_err err = {0};
    if (rank == chosen && f == FATE_DECLINES) {
        zr_meeting_decline(rank, RANKS, DECLINED);
        return DECLINED;
    }
    if (rank == 0) {
        memcpy(bytes, words, sizeof bytes);
    }
    const zl_status status = zr_meet(rank, RANKS, bytes, sizeof bytes, &meeting, &err);
    if (status != ZL_OK) {
        return (int)status;
    }
    if (strcmp(bytes, words) != 0 || meeting == NULL) {
        return WRONG;
    }
    zr_meeting_show(meeting, &activity);
    if (rank == chosen) {
        pause_for(2500); /* the others know by now what this rank is doing */
        if (f == FATE_KILLED) {
            raise(SIGKILL);
        }
        zr_meeting_fail(meeting, FAILED);
        return FAILED;
    }
    pause_for(f == FATE_NONE ? 100 : 1000L * LIMIT); /* as if in a kernel that does not end */
    zr_meeting_leave(meeting);
    return 0;
}

/* Runs a job; what its ranks said goes to text, their exit codes (128 and more: signals) to code.
 */
static void job(uint64_t chosen, fate f, char *text, size_t size, int code[RANKS])
{
    char port[16];
    int ends[2];
    pid_t pid[RANKS];
    snprintf(port, sizeof port, "%u", (unsigned)free_port());
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", port, 1);
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    for (uint64_t r = RANKS; r-- > 0;) { /* rank 0 comes last: the others look for it */
        pid[r] = fork();
        assert_true(pid[r] >= 0);
        if (pid[r] == 0) {
            alarm(2 * LIMIT);
            dup2(ends[1], STDERR_FILENO);
            close(ends[0]);
            _exit(live(r, chosen, f));
        }
    }
    close(ends[1]);
    const time_t begin = time(NULL);
    size_t used = 0;
    for (ssize_t got = 1; got > 0;) {
        got = read(ends[0], text + used, size - 1 - used);
        used += got > 0 ? (size_t)got : 0;
    }
    text[used] = '\0';
    close(ends[0]);
    for (int r = 0; r < RANKS; r++) {
        int status = 0;
        assert_int_equal(waitpid(pid[r], &status, 0), pid[r]);
        code[r] = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    assert_true(time(NULL) - begin < LIMIT);
}

static void all_get_the_bytes_and_leave_in_peace(void **state)
{
    (void)state;
    char text[4096];
    int code[RANKS];
    job(NO_ONE, FATE_NONE, text, sizeof text, code);
    assert_string_equal(text, "");
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(code[r], 0);
    }
}

static void a_killed_rank_ends_the_others(void **state)
{
    (void)state;
    for (uint64_t chosen = 0; chosen < RANKS; chosen += 2) {
        char text[4096];
        char want[128];
        int code[RANKS];
        job(chosen, FATE_KILLED, text, sizeof text, code);
        snprintf(want, sizeof want,
                 "zl-train: rank %d: ended without a word in step 7, backward (steady)\n",
                 (int)chosen);
        assert_string_equal(text, want);
        for (uint64_t r = 0; r < RANKS; r++) {
            assert_int_equal(code[r], r == chosen ? 128 + SIGKILL : (int)ZL_E_RESOURCE);
        }
    }
}

/* It has said why itself: nobody else speaks, and all end with its code. */
static void a_rank_that_fails_ends_the_others(void **state)
{
    (void)state;
    for (uint64_t chosen = 0; chosen < RANKS; chosen += 3) {
        char text[4096];
        int code[RANKS];
        job(chosen, FATE_FAILS, text, sizeof text, code);
        assert_string_equal(text, "");
        for (int r = 0; r < RANKS; r++) {
            assert_int_equal(code[r], FAILED);
        }
    }
}

static void nobody_waits_for_a_rank_that_declines(void **state)
{
    (void)state;
    for (uint64_t chosen = 0; chosen < RANKS; chosen += 3) {
        char text[4096];
        int code[RANKS];
        job(chosen, FATE_DECLINES, text, sizeof text, code);
        for (int r = 0; r < RANKS; r++) {
            assert_int_equal(code[r], DECLINED);
        }
    }
}

static void slurms_lists_begin_with_a_host(void **state)
{
    (void)state;
    static const struct {
        const char *list;
        const char *host;
    } lists[] = {
        {"node1", "node1"},  {"node1,node2", "node1"},       {"gpu[003-007,12],login", "gpu003"},
        {"a-[9,11]", "a-9"}, {"rack2-gpu[1]", "rack2-gpu1"},
    };
    char host[32];
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        assert_true(zr_meeting_first_host(lists[i].list, host, sizeof host));
        assert_string_equal(host, lists[i].host);
    }
    assert_false(zr_meeting_first_host("", host, sizeof host));
    assert_false(zr_meeting_first_host("gpu[003-007]", host, 6));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_get_the_bytes_and_leave_in_peace),
        cmocka_unit_test(a_killed_rank_ends_the_others),
        cmocka_unit_test(a_rank_that_fails_ends_the_others),
        cmocka_unit_test(nobody_waits_for_a_rank_that_declines),
        cmocka_unit_test(slurms_lists_begin_with_a_host),
    };
    unsetenv(ZR_BOARD_VARIABLE);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
