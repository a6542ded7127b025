#define _GNU_SOURCE /* program_invocation_short_name, gethostname */
#include "trace/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 512, FILES_OF_A_PROCESS = 1000 };
/* Programs expect the low numbers for their own files. */
static const int first_fd = 100;

uint64_t zr_recorder_now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

static int create(const char *folder, const char *host)
{
    char path[PATH_MAX];
    for (int i = 0; i < FILES_OF_A_PROCESS; i++) {
        const int length = snprintf(path, sizeof(path), "%s/%s-%ld-%d" ZR_RECORDING_SUFFIX, folder,
                                    host, (long)getpid(), i);
        if (length < 0 || (size_t)length >= sizeof(path)) {
            return -1;
        }
        const int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST) {
            return fd;
        }
    }
    return -1;
}

bool zr_recorder_open(zr_recorder *recorder, const char *folder)
{
    char host[HOST_NAME_MAX + 1] = "";
    struct stat file;
    recorder->fd = -1;
    recorder->pid = getpid();
    recorder->lines = 0;
    if (gethostname(host, sizeof(host) - 1) != 0 || host[0] == '\0') {
        (void)snprintf(host, sizeof(host), "localhost");
    }
    const int low = create(folder, host);
    if (low < 0) {
        return false;
    }
    const int high = fcntl(low, F_DUPFD_CLOEXEC, first_fd);
    (void)close(low);
    if (high < 0 || fstat(high, &file) != 0) {
        return false;
    }
    recorder->device = file.st_dev;
    recorder->inode = file.st_ino;
    recorder->fd = high;
    zr_recorder_line(recorder, "zltrace 1 %ld %" PRIu64 " %lld %s %s", (long)getpid(),
                     zr_recorder_now(), (long long)time(NULL), host, program_invocation_short_name);
    return true;
}

bool zr_recorder_ours(const zr_recorder *recorder)
{
    return recorder->fd >= 0 && recorder->pid == getpid();
}

static bool writable(const zr_recorder *recorder)
{
    struct stat file;
    return zr_recorder_ours(recorder) && fstat(recorder->fd, &file) == 0 &&
           file.st_dev == recorder->device && file.st_ino == recorder->inode;
}

/* A line of text, and the newline that ends it. */
static void put_line(zr_recorder *recorder, char *line)
{
    for (char *c = line; (c = strpbrk(c, "\r\n")) != NULL;) {
        *c = '?';
    }
    const size_t length = strlen(line) + 1;
    line[length - 1] = '\n';
    ssize_t put;
    do {
        put = write(recorder->fd, line, length);
    } while (put < 0 && errno == EINTR);
    if (put == (ssize_t)length) {
        recorder->lines++;
    }
}

void zr_recorder_line(zr_recorder *recorder, const char *format, ...)
{
    const int kept = errno;
    char line[LINE];
    va_list words;
    va_start(words, format);
    (void)vsnprintf(line, sizeof line, format, words);
    va_end(words);
    if (writable(recorder)) {
        put_line(recorder, line);
    }
    errno = kept;
}

void zr_recorder_end(zr_recorder *recorder)
{
    const uint64_t lines = recorder->lines;
    zr_recorder_line(recorder, "end %" PRIu64 " %" PRIu64, zr_recorder_now(), lines);
}
