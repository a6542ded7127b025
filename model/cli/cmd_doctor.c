/* zl doctor: what is built in, found and missing, and the command that would install it. Looks for
 * files only, starts nothing, so that a broken installation cannot break it. */
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <zlib.h>

#include "cmd.h"
#include "yaml_file.h"
#include "zeroledger/version.h"

typedef struct finding {
    const char *name;
    const char *use;    /* what it is for */
    const char *remedy; /* how to get it */
    bool found;
    char where[512];
} finding;

static void look_program(finding *f)
{
    f->found = zl_path_find(f->name, f->where, sizeof f->where);
}

static void look_sibling(finding *f)
{
    f->found = zl_program_find(f->name, f->where, sizeof f->where);
}

/* The first path that one of the patterns matches. */
static void look_file(finding *f, const char *const *patterns)
{
    for (size_t i = 0; patterns[i] != NULL && !f->found; i++) {
        glob_t matches = {0};
        if (glob(patterns[i], 0, NULL, &matches) == 0 && matches.gl_pathc > 0) {
            snprintf(f->where, sizeof f->where, "%s", matches.gl_pathv[0]);
            f->found = true;
        }
        globfree(&matches);
    }
}

static void look_nvcc(finding *f)
{
    static const char *const places[] = {"/usr/local/cuda/bin/nvcc", "/usr/local/cuda-*/bin/nvcc",
                                         NULL};
    look_program(f);
    look_file(f, places);
}

/* Without these there would be no zl. */
static void built_in(finding *f, const char *version)
{
    f->found = true;
    snprintf(f->where, sizeof f->where, "built in, %s", version);
}

static void look_cjson(finding *f)
{
    built_in(f, cJSON_Version());
}

static void look_zlib(finding *f)
{
    built_in(f, zlibVersion());
}

static void look_yaml(finding *f)
{
    built_in(f, zl_yaml_version());
}

static void look_driver(finding *f)
{
    static const char *const places[] = {"/proc/driver/nvidia/version", "/usr/lib/*/libcuda.so.1",
                                         "/usr/lib64/libcuda.so.1", NULL};
    look_file(f, places);
}

static void look_nccl(finding *f)
{
    static const char *const places[] = {
        "/usr/lib/*/libnccl.so.2",
        "/usr/lib64/libnccl.so.2",
        "/usr/local/lib/libnccl.so.2",
        "/usr/local/cuda/lib64/libnccl.so.2",
        "/usr/local/cuda/targets/*/lib/libnccl.so.2",
        "/usr/local/lib/python3*/*-packages/nvidia/nccl/lib/libnccl.so.2",
        NULL};
    const char *root = getenv("NCCL_ROOT");
    if (root != NULL && *root != '\0') {
        char pattern[512];
        const char *const one[] = {pattern, NULL};
        snprintf(pattern, sizeof pattern, "%.450s/lib*/libnccl.so.2", root);
        look_file(f, one);
    }
    look_file(f, places);
}

/* The first path that one of the patterns matches from the folder of a program. */
static void look_near(finding *f, const char *name, const char *const *places)
{
    finding program = {.name = name};
    look_sibling(&program);
    for (size_t i = 0; places[i] != NULL && program.found; i++) {
        char pattern[600];
        const char *const one[] = {pattern, NULL};
        const char *slash = strrchr(program.where, '/');
        const int length = slash != NULL ? (int)(slash - program.where) : 0;
        snprintf(pattern, sizeof pattern, "%.*s/%s", length, program.where, places[i]);
        look_file(f, one);
    }
}

/* Where zl-trace looks for it: beside itself, and where libraries are. */
static void look_meter(finding *f)
{
    static const char *const places[] = {"libzltrace.so", "../lib/libzltrace.so",
                                         "../lib64/libzltrace.so", "../lib/*/libzltrace.so", NULL};
    look_near(f, "zl-trace", places);
}

static void look_manual(finding *f)
{
    static const char *const places[] = {"../share/man/man1/zl.1*", "../man/man1/zl.1", NULL};
    look_near(f, "zl", places);
}

static void look_completion(finding *f)
{
    static const char *const places[] = {"../share/bash-completion/completions/zl", NULL};
    look_near(f, "zl", places);
}

static void report(zl_table *table, const finding *f)
{
    zl_table_text(table, "%s", f->name);
    zl_table_text(table, "%s", f->found ? "found" : "missing");
    zl_table_text(table, "%s", f->use);
    zl_table_text(table, "%s", f->found ? f->where : f->remedy);
}

static void fill(zl_table *table)
{
    static const struct {
        finding what;
        void (*look)(finding *f);
    } parts[] = {
        {{.name = "cJSON", .use = "reads JSON"}, look_cjson},
        {{.name = "zlib", .use = "reads recordings packed by gzip"}, look_zlib},
        {{.name = "libyaml", .use = "reads accelerate's configurations"}, look_yaml},
        {{.name = "zl-train",
          .use = "trains and measures",
          .remedy = "build it: cmake --workflow --preset host"},
         look_sibling},
        {{.name = "zl-validate",
          .use = "compares and reports",
          .remedy = "build it: cmake --workflow --preset host"},
         look_sibling},
        {{.name = "zl-trace",
          .use = "meters device memory of any program",
          .remedy = "build it: cmake --workflow --preset host"},
         look_sibling},
        {{.name = "libzltrace.so",
          .use = "is loaded into metered programs",
          .remedy = "install a CUDA toolkit with CUPTI and build again"},
         look_meter},
        {{.name = "mpirun",
          .use = "starts ranks on the host",
          .remedy = "apt-get install openmpi-bin"},
         look_program},
        {{.name = "nvcc",
          .use = "builds the CUDA backend",
          .remedy = "install a CUDA toolkit and put nvcc on PATH"},
         look_nvcc},
        {{.name = "NVIDIA driver",
          .use = "runs the CUDA backend",
          .remedy = "apt-get install nvidia-driver, on a machine with a GPU"},
         look_driver},
        {{.name = "libnccl.so.2",
          .use = "several ranks on GPUs",
          .remedy = "apt-get install libnccl2 from NVIDIA's repository, or set NCCL_ROOT"},
         look_nccl},
        {{.name = "manual",
          .use = "man zl",
          .remedy = "apt-get install scdoc, build again, then cmake --install"},
         look_manual},
        {{.name = "completion",
          .use = "words for the tab key in bash, zsh and fish",
          .remedy = "cmake --install, to where the shell looks: docs/install.md"},
         look_completion},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        finding f = parts[i].what;
        parts[i].look(&f);
        report(table, &f);
    }
}

zl_status zl_cmd_doctor(const zl_args *args, zl_err *err)
{
    finding self = {.name = "zl " ZL_VERSION, .use = "predicts: frameworks", .found = true};
    size_t used = 0;
    for (int i = 0; i < ZL_FRAMEWORK_COUNT && used < sizeof self.where; i++) {
        const int more = snprintf(self.where + used, sizeof self.where - used, "%s%s",
                                  i == 0 ? "" : ", ", zl_framework_name((zl_framework)i));
        used += more > 0 ? (size_t)more : 0;
    }
    zl_table *table = zl_table_new();
    zl_table_column(table, "part", ZL_LEFT);
    zl_table_column(table, "state", ZL_LEFT);
    zl_table_column(table, "use", ZL_LEFT);
    zl_table_column(table, "note", ZL_LEFT);
    report(table, &self);
    fill(table);
    const zl_status status = zl_print_list(&args->view, "parts", table, err);
    zl_table_free(table);
    return status;
}
