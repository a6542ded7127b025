/* Marks of a program that runs under `zl trace`: moments at which the meter asks the device what is
 * in use. Without the meter they do nothing and cost a getenv.
 *
 *     #include <zltrace.h>
 *     train_step();
 *     zltrace_mark("warm");    // from here on nothing grows: `zl trace` ends with 1 if it does
 *     for (...) train_step();
 *     zltrace_mark("done");
 *
 * From Python:
 *
 *     meter = ctypes.CDLL(os.environ["CUDA_INJECTION64_PATH"])
 *     meter.zltrace_mark(b"warm")
 *
 * A mark waits for the device. It must not stand where a stream is being captured into a graph.
 * The driver opens the library of the meter for itself, so a program cannot link it; it is found by
 * the variable with which the driver was told. Programs link with -ldl where the C library asks for
 * it.
 */
#ifndef ZLTRACE_H
#define ZLTRACE_H

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static inline void zltrace_mark(const char *name)
{
    const char *const path = getenv("CUDA_INJECTION64_PATH");
    void *const library = path != NULL ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    if (library != NULL) {
        void (*mark)(const char *name);
        void *const found = dlsym(library, "zltrace_mark");
        memcpy(&mark, &found, sizeof(mark)); /* as POSIX asks, and C and C++ both allow */
        if (found != NULL) {
            mark(name);
        }
        dlclose(library);
    }
}

#endif
