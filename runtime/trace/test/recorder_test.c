/* What a process leaves behind, whatever becomes of it. */
#define _GNU_SOURCE /* mkdtemp */
#include "trace_test.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trace/recorder.h"
#include "trace/recording.h"

enum { THREADS = 4, LINES_EACH = 2000 };

static int make_folder(void **state)
{
    static char folder[64];
    (void)snprintf(folder, sizeof(folder), P_tmpdir "/zt-recorder-XXXXXX");
    *state = mkdtemp(folder);
    return *state == NULL;
}

static int remove_folder(void **state)
{
    char command[128];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", (char *)*state);
    return system(command); /* NOLINT(cert-env33-c): a folder of our own */
}

static zr_recordings load(const char *folder)
{
    zr_recordings all = {0};
    zl_err err = {0};
    assert_int_equal(zr_recordings_load(folder, &all, &err), ZL_OK);
    return all;
}

static void *write_lines(void *recorder)
{
    for (int i = 0; i < LINES_EACH; i++) {
        zr_recorder_line(recorder, "create %" PRIu64 " 0 0 cuMemCreate a1 2", zr_recorder_now());
    }
    return NULL;
}

static void threads_do_not_tear_lines(void **state)
{
    zr_recorder recorder;
    pthread_t thread[THREADS];
    assert_true(zr_recorder_open(&recorder, *state));
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&thread[i], NULL, write_lines, &recorder), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    }
    zr_recorder_end(&recorder);
    zr_recordings all = load(*state);
    assert_int_equal(all.count, 1);
    assert_true(all.process[0].complete);
    assert_int_equal(all.process[0].meter.allocations, THREADS * LINES_EACH);
    assert_true(all.process[0].pid == (uint64_t)getpid());
    zr_recordings_release(&all);
    (void)close(recorder.fd);
}

/* The child inherits the recorder and writes nothing; its own recording is another file. Killed, it
 * has lost nothing. */
static void a_child_has_a_recording_of_its_own(void **state)
{
    zr_recorder recorder;
    assert_true(zr_recorder_open(&recorder, *state));
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        zr_recorder own;
        zr_recorder_line(&recorder, "create 1 0 0 cuMemCreate a1 2");
        if (zr_recorder_open(&own, *state)) {
            zr_recorder_line(&own, "create 1 0 0 cuMemCreate a1 2");
        }
        (void)raise(SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    zr_recorder_end(&recorder);
    zr_recordings all = load(*state);
    assert_int_equal(all.count, 2);
    for (size_t i = 0; i < 2; i++) {
        const bool mine = all.process[i].pid == (uint64_t)getpid();
        assert_true(all.process[i].complete == mine);
        assert_int_equal(all.process[i].meter.allocations, mine ? 0 : 1);
    }
    zr_recordings_release(&all);
    (void)close(recorder.fd);
}

/* A program that closes every file and opens its own must not find our lines in it. */
static void another_file_in_its_place_is_left_alone(void **state)
{
    char path[128];
    char byte;
    zr_recorder recorder;
    assert_true(zr_recorder_open(&recorder, *state));
    (void)snprintf(path, sizeof(path), "%s/other", (char *)*state);
    const int other = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(other >= 0);
    assert_int_equal(dup2(other, recorder.fd), recorder.fd);
    zr_recorder_line(&recorder, "driver 1");
    assert_int_equal(lseek(other, 0, SEEK_END), 0);
    assert_int_equal(read(other, &byte, 1), 0);
    (void)close(other);
    (void)close(recorder.fd);
    zr_recorder_line(&recorder, "driver 1");
}

static void names_cannot_break_a_line(void **state)
{
    zr_recorder recorder;
    assert_true(zr_recorder_open(&recorder, *state));
    zr_recorder_line(&recorder, "mark %d 0 1 2 0 %s", 5, "two\nlines");
    zr_recordings all = load(*state);
    assert_string_equal(all.process[0].meter.mark[0].name, "two?lines");
    zr_recordings_release(&all);
    (void)close(recorder.fd);
}

static void no_folder_no_recording(void **state)
{
    (void)state;
    zr_recorder recorder;
    assert_false(zr_recorder_open(&recorder, "/nonexistent/folder"));
    zr_recorder_line(&recorder, "driver 1");
    zr_recorder_end(&recorder);
}

int main(void)
{
#define EACH(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        EACH(threads_do_not_tear_lines),
        EACH(a_child_has_a_recording_of_its_own),
        EACH(another_file_in_its_place_is_left_alone),
        EACH(names_cannot_break_a_line),
        EACH(no_folder_no_recording),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
