#define _XOPEN_SOURCE   700
#define _POSIX_C_SOURCE 200809L

#include "base_test.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* Entries of the current folder, "." and ".." aside. */
static int entries(void)
{
    DIR *folder = opendir(".");
    assert_non_null(folder);
    int count = -2;
    while (readdir(folder) != NULL) {
        count++;
    }
    closedir(folder);
    return count;
}

static void assert_text(const char *path, const char *expected)
{
    char *text = read_text(path);
    assert_string_equal(text, expected);
    free(text);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    const int before = entries();
    write_text("a.txt", "first\n");
    assert_text("a.txt", "first\n");
    write_text("a.txt", "");
    assert_text("a.txt", "");
    assert_int_equal(entries(), before + 1);
}

static void a_file_larger_than_a_block_is_whole(void **state)
{
    (void)state;
    const size_t size = 300000;
    char *text = malloc(size + 1);
    assert_non_null(text);
    memset(text, 'x', size);
    text[size] = '\0';
    write_text("big.txt", text);
    assert_text("big.txt", text);
    free(text);
}

static void unreadable_input_is_named(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0;
    zl_err err = {.status = ZL_OK};
    assert_error(zl_file_read("missing.json", &text, &size, &err), &err, ZL_E_INPUT,
                 "missing.json");
    err = (zl_err){.status = ZL_OK};
    assert_error(zl_file_read(".", &text, &size, &err), &err, ZL_E_INPUT, "is a directory");
    assert_null(text);
}

static void a_zero_byte_is_refused(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0;
    zl_err err = {.status = ZL_OK};
    assert_ok(zl_file_write("zero.txt", "ab\0cd", 5, &err), &err);
    assert_error(zl_file_read("zero.txt", &text, &size, &err), &err, ZL_E_INPUT,
                 "zero byte at offset 2");
}

static void a_file_above_64_mib_is_refused(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0;
    zl_err err = {.status = ZL_OK};
    write_text("huge.bin", "");
    assert_int_equal(truncate("huge.bin", (off_t)64 * 1024 * 1024 + 1), 0);
    assert_error(zl_file_read("huge.bin", &text, &size, &err), &err, ZL_E_INPUT,
                 "larger than 64 MiB");
}

static void an_unwritable_target_leaves_nothing(void **state)
{
    (void)state;
    const int before = entries();
    zl_err err = {.status = ZL_OK};
    assert_error(zl_file_write("no/such/folder.json", "x", 1, &err), &err, ZL_E_RESOURCE,
                 "no/such/folder");
    err = (zl_err){.status = ZL_OK};
    assert_error(zl_file_write(".", "x", 1, &err), &err, ZL_E_RESOURCE, "is a directory");
    assert_int_equal(entries(), before);
}

static void a_full_disk_keeps_the_old_file(void **state)
{
    (void)state;
    struct rlimit old;
    write_text("keep.txt", "old");
    const int before = entries();
    static char text[8192];
    memset(text, 'x', sizeof text);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    const struct rlimit small = {.rlim_cur = 4096, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    zl_err err = {.status = ZL_OK};
    const zl_status status = zl_file_write("keep.txt", text, sizeof text, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_error(status, &err, ZL_E_RESOURCE, "cannot write");
    assert_text("keep.txt", "old");
    assert_int_equal(entries(), before);
}

static void a_full_device_is_an_error(void **state)
{
    (void)state;
    if (access("/dev/full", W_OK) != 0) {
        skip();
    }
    zl_err err = {.status = ZL_OK};
    assert_error(zl_file_write("/dev/full", "x", 1, &err), &err, ZL_E_RESOURCE, "/dev/full");
    struct stat st;
    assert_int_equal(stat("/dev/full", &st), 0);
    assert_true(S_ISCHR(st.st_mode));
}

static void a_full_standard_output_is_an_error(void **state)
{
    (void)state;
    const int full = open("/dev/full", O_WRONLY);
    if (full < 0) {
        skip();
    }
    fflush(stdout);
    const int old = dup(STDOUT_FILENO);
    assert_true(old >= 0);
    assert_true(dup2(full, STDOUT_FILENO) >= 0);
    zl_err err = {.status = ZL_OK};
    const zl_status status = zl_file_write("-", "x", 1, &err);
    assert_true(dup2(old, STDOUT_FILENO) >= 0);
    clearerr(stdout);
    close(old);
    close(full);
    assert_error(status, &err, ZL_E_RESOURCE, "standard output");
}

static void a_link_keeps_pointing(void **state)
{
    (void)state;
    write_text("real.txt", "old");
    assert_int_equal(symlink("real.txt", "link.txt"), 0);
    write_text("link.txt", "new");
    assert_text("real.txt", "new");
    struct stat st;
    assert_int_equal(lstat("link.txt", &st), 0);
    assert_true(S_ISLNK(st.st_mode));
}

static void permissions_survive(void **state)
{
    (void)state;
    struct stat st;
    write_text("mode.txt", "old");
    assert_int_equal(chmod("mode.txt", 0640), 0);
    write_text("mode.txt", "new");
    assert_int_equal(stat("mode.txt", &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(a_file_larger_than_a_block_is_whole),
        cmocka_unit_test(unreadable_input_is_named),
        cmocka_unit_test(a_zero_byte_is_refused),
        cmocka_unit_test(a_file_above_64_mib_is_refused),
        cmocka_unit_test(an_unwritable_target_leaves_nothing),
        cmocka_unit_test(a_full_disk_keeps_the_old_file),
        cmocka_unit_test(a_full_device_is_an_error),
        cmocka_unit_test(a_full_standard_output_is_an_error),
        cmocka_unit_test(a_link_keeps_pointing),
        cmocka_unit_test(permissions_survive),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
