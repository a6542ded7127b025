#define _GNU_SOURCE /* execvpe's environment is ours; readlink */
#include "trace/child.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NO_SUCH_PROGRAM = 127, BY_SIGNAL = 128 };

/* Parts of the driver's interface, so that this program needs neither it nor its headers. */
typedef int init_function(unsigned flags);
typedef int count_function(int *count);

static bool own_folder(char *folder, size_t size)
{
    const ssize_t length = readlink("/proc/self/exe", folder, size - 1);
    if (length <= 0 || (size_t)length >= size - 1) {
        return false;
    }
    folder[length] = '\0';
    char *const slash = strrchr(folder, '/');
    if (slash != NULL) {
        *slash = '\0';
    }
    return slash != NULL;
}

static bool find_library(char *path, size_t size)
{
    static const char *const places[] = {".", ZR_TRACE_LIBRARY_FOLDER, "../lib"};
    char folder[PATH_MAX];
    char real[PATH_MAX];
    char wanted[PATH_MAX + 64];
    if (!own_folder(folder, sizeof(folder))) {
        return false;
    }
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        (void)snprintf(wanted, sizeof(wanted), "%s/%s/libzltrace.so", folder, places[i]);
        if (realpath(wanted, real) != NULL) {
            return (size_t)snprintf(path, size, "%s", real) < size;
        }
    }
    return false;
}

static zl_status find_gpu(zl_err *err)
{
    int gpus = 0;
    init_function *init = NULL;
    count_function *number = NULL;
    void *const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *const found[] = {driver != NULL ? dlsym(driver, "cuInit") : NULL,
                           driver != NULL ? dlsym(driver, "cuDeviceGetCount") : NULL};
    if (found[0] == NULL || found[1] == NULL) {
        return zl_fail(err, ZL_E_RESOURCE,
                       "this machine has no NVIDIA driver (libcuda.so.1), and nothing to meter");
    }
    memcpy(&init, &found[0], sizeof(init));
    memcpy(&number, &found[1], sizeof(number));
    const int failure = init(0);
    if (failure != 0 || number(&gpus) != 0 || gpus == 0) {
        return zl_fail(err, ZL_E_RESOURCE,
                       "no GPU is visible (CUDA error %d); look at nvidia-smi and "
                       "CUDA_VISIBLE_DEVICES",
                       failure);
    }
    return ZL_OK;
}

zl_status zr_child_library(char *path, size_t size, zl_err *err)
{
    const char *const other = getenv("CUDA_INJECTION64_PATH");
    if (other != NULL && other[0] != '\0') {
        return zl_fail(err, ZL_E_USAGE,
                       "CUDA_INJECTION64_PATH is %s already: CUDA takes one such library; unset it",
                       other);
    }
    if (!find_library(path, size)) {
        return zl_fail(err, ZL_E_RESOURCE,
                       "libzltrace.so was not built: install a CUDA toolkit with CUPTI and build "
                       "again, or read recordings of another machine with --read");
    }
    ZL_TRY(find_gpu(err));
    if (dlopen(path, RTLD_NOW | RTLD_LOCAL) == NULL) {
        return zl_fail(err, ZL_E_RESOURCE,
                       "the meter cannot be loaded: %s; CUPTI comes with the CUDA toolkit",
                       dlerror());
    }
    return ZL_OK;
}

static void become(char *const *argv, const char *library, const char *folder, bool aside)
{
    if (setenv("CUDA_INJECTION64_PATH", library, 1) == 0 && setenv("ZLTRACE_DIR", folder, 1) == 0 &&
        (!aside || dup2(STDERR_FILENO, STDOUT_FILENO) >= 0)) {
        (void)signal(SIGINT, SIG_DFL);
        (void)signal(SIGQUIT, SIG_DFL);
        (void)execvp(argv[0], argv);
    }
    (void)fprintf(stderr, "zl-trace: %s: %s\n", argv[0], strerror(errno));
    _exit(NO_SUCH_PROGRAM);
}

zl_status zr_child_run(char *const *argv, const char *library, const char *folder, bool aside,
                       int *code, zl_err *err)
{
    int status = 0;
    (void)signal(SIGINT, SIG_IGN); /* an interrupt ends the command, and we tell what was seen */
    (void)signal(SIGQUIT, SIG_IGN);
    const pid_t child = fork();
    if (child == 0) {
        become(argv, library, folder, aside);
    }
    if (child < 0) {
        return zl_fail(err, ZL_E_RESOURCE, "no process can be started: %s", strerror(errno));
    }
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            return zl_fail(err, ZL_E_RESOURCE, "%s: %s", argv[0], strerror(errno));
        }
    }
    *code = WIFSIGNALED(status) ? BY_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
    return ZL_OK;
}
