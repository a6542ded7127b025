/*
 * The conformance test: every kernel of a module against its twin in another, on fresh random
 * inputs.
 *
 *     conform [options] REFERENCE.so TESTED.so
 *
 * Data on stdout: a table of operations, then `N checks, M failed`. Exit 0 if all agree, 1 if not,
 * 77 if there is nothing to test on.
 */
#define _POSIX_C_SOURCE 200809L /* gmtime_r */
#include "conform_run.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SKIPPED 77

typedef struct options {
    const char *reference;
    const char *tested;
    const char *only;
    const char *json;
    const char *commit;
    const char *driver;
    int dtype; /* -1: all */
    uint64_t largest;
    conform_fault fault;
    uint64_t seed;
} options;

static const char *const fault_names[CONFORM_FAULT_COUNT] = {
    [CONFORM_NO_FAULT] = "none",     [CONFORM_FAULT_VALUE] = "value",
    [CONFORM_FAULT_NAN] = "nan",     [CONFORM_FAULT_REPEAT] = "repeat",
    [CONFORM_FAULT_INPUT] = "input", [CONFORM_FAULT_GUARD] = "guard",
};

static const char *const kind_names[CONFORM_KIND_COUNT] = {
    [CONFORM_AGREES] = "agrees",
    [CONFORM_REPEATS] = "repeats",
    [CONFORM_INTACT] = "intact",
    [CONFORM_REFUSES] = "refuses",
};

static int usage(void)
{
    fputs("usage: conform [options] REFERENCE.so TESTED.so\n"
          "  --seed N       of the random inputs; the clock if not given\n"
          "  --dtype T      fp32, bf16 or fp16 only\n"
          "  --only OP      one operation, as in the table\n"
          "  --largest N    no case with more than N elements in all: for slow tools\n"
          "  --json FILE    also write the result there\n"
          "  --commit ID    recorded in the result\n"
          "  --driver V     likewise\n"
          "  --fault KIND   damage what TESTED returned: value, nan, repeat, input, guard;\n"
          "                 exit 0 if every check that can notice does\n",
          stderr);
    return ZL_E_USAGE;
}

/* The place of a name in a list, or -1. */
static int find(const char *const *names, int n, const char *name)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(names[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

static bool parse_number(const char *text, uint64_t *out)
{
    char *end = NULL;
    *out = strtoull(text, &end, 0);
    return end != text && *end == '\0';
}

static bool parse_option(options *o, const char *name, const char *value)
{
    static const char *const dtypes[] = {"fp32", "bf16", "fp16"};
    if (strcmp(name, "--seed") == 0) {
        return parse_number(value, &o->seed);
    }
    if (strcmp(name, "--largest") == 0) {
        return parse_number(value, &o->largest);
    }
    if (strcmp(name, "--dtype") == 0) {
        o->dtype = find(dtypes, 3, value);
        return o->dtype >= 0;
    }
    if (strcmp(name, "--fault") == 0) {
        const int fault = find(fault_names, CONFORM_FAULT_COUNT, value);
        o->fault = fault < 0 ? CONFORM_NO_FAULT : (conform_fault)fault;
        return fault >= 0;
    }
    const char **const texts[] = {&o->only, &o->json, &o->commit, &o->driver};
    static const char *const names[] = {"--only", "--json", "--commit", "--driver"};
    const int at = find(names, 4, name);
    if (at < 0) {
        return false;
    }
    *texts[at] = value;
    return true;
}

static bool parse(int argc, char **argv, options *o)
{
    int at = 1;
    for (; at + 1 < argc && strncmp(argv[at], "--", 2) == 0; at += 2) {
        if (!parse_option(o, argv[at], argv[at + 1])) {
            fprintf(stderr, "conform: %s %s is not understood\n", argv[at], argv[at + 1]);
            return false;
        }
    }
    if (argc - at != 2) {
        return false;
    }
    o->reference = argv[at];
    o->tested = argv[at + 1];
    return true;
}

static zl_status open_side(const char *path, conform_side *side, char *why, size_t size)
{
    const conform_module *(*get)(void) = NULL;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        snprintf(why, size, "%s", dlerror());
        return ZL_E_RESOURCE;
    }
    void *symbol = dlsym(handle, "conform_module_get");
    if (symbol == NULL) {
        snprintf(why, size, "%s is not a module of kernels", path);
        return ZL_E_INPUT;
    }
    memcpy(&get, &symbol, sizeof get); /* ISO C has no cast for this */
    side->module = get();
    ZL_TRY(side->module->open(&side->device, why, size));
    side->env.k = side->module->kernels;
    side->env.stream = side->module->stream(side->device);
    side->env.work = side->module->work(side->device, &side->env.work_bytes);
    return ZL_OK;
}

static void run_cases(conform_run *run, int dtype)
{
    for (zl_dtype d = ZL_F32; d < ZL_DTYPE_COUNT; d++) {
        if (dtype < 0 || dtype == (int)d) {
            conform_vector(run, d);
            conform_optimizers(run, d);
            conform_rows(run, d);
            conform_products(run, d);
            conform_attention(run, d);
        }
    }
    conform_refusals(run);
}

static uint32_t total(const uint32_t *counts)
{
    uint32_t sum = 0;
    for (int kind = 0; kind < CONFORM_KIND_COUNT; kind++) {
        sum += counts[kind];
    }
    return sum;
}

static void print_table(const conform_run *run)
{
    printf("%-20s %-20s %-6s %6s %12s %9s  %s\n", "operation", "output", "dtype", "cases", "error",
           "allowed", "verdict");
    for (size_t i = 0; i < run->rows; i++) {
        const conform_row *row = &run->row[i];
        printf("%-20s %-20s %-6s %6u %12.3g %9.3g  %s\n", row->op, row->part,
               conform_type_name(row->type), row->cases, row->worst, row->limit,
               row->failed == 0 ? "ok" : "FAILED");
    }
    for (int kind = 0; kind < CONFORM_KIND_COUNT; kind++) {
        printf("%-8s %6u checks, %u failed\n", kind_names[kind], run->checks[kind],
               run->failed[kind]);
    }
}

static void write_rows(const conform_run *run, FILE *to)
{
    for (size_t i = 0; i < run->rows; i++) {
        const conform_row *row = &run->row[i];
        fprintf(to, "%s\n    {\"operation\": \"%s\", \"output\": \"%s\", \"dtype\": \"%s\",",
                i > 0 ? "," : "", row->op, row->part, conform_type_name(row->type));
        fprintf(to, " \"cases\": %u, \"failed\": %u,", row->cases, row->failed);
        if (isfinite(row->worst)) {
            fprintf(to, " \"error\": %.6g,", row->worst);
        } else {
            fprintf(to, " \"error\": null,");
        }
        fprintf(to, " \"allowed\": %.6g}", row->limit);
    }
}

static bool write_json(const conform_run *run, const options *o)
{
    FILE *to = fopen(o->json, "w");
    if (to == NULL) {
        return false;
    }
    char date[32] = "";
    const time_t now = time(NULL);
    struct tm parts;
    if (gmtime_r(&now, &parts) != NULL) {
        (void)strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &parts);
    }
    fprintf(to, "{\n  \"schema\": \"zeroledger.conform/1\",\n  \"commit\": \"%s\",\n", o->commit);
    fprintf(to, "  \"driver\": \"%s\",\n", o->driver);
    fprintf(to, "  \"date\": \"%s\",\n  \"seed\": \"%#llx\",\n", date, (unsigned long long)o->seed);
    fprintf(to, "  \"tested\": {\n");
    run->tested.module->describe(run->tested.device, to);
    fprintf(to, "\n  },\n  \"reference\": {\n");
    run->reference.module->describe(run->reference.device, to);
    fprintf(to, "\n  },\n  \"complete\": %s,\n", run->broken ? "false" : "true");
    fprintf(to, "  \"checks\": %u,\n  \"failed\": %u,\n", total(run->checks), total(run->failed));
    fprintf(to, "  \"rows\": [");
    write_rows(run, to);
    fprintf(to, "\n  ]\n}\n");
    const bool good = ferror(to) == 0;
    return fclose(to) == 0 && good;
}

/* Every check that the fault is meant for has failed. */
static bool fault_noticed(const conform_run *run)
{
    static const conform_kind blamed[CONFORM_FAULT_COUNT] = {
        [CONFORM_FAULT_VALUE] = CONFORM_AGREES,   [CONFORM_FAULT_NAN] = CONFORM_AGREES,
        [CONFORM_FAULT_REPEAT] = CONFORM_REPEATS, [CONFORM_FAULT_INPUT] = CONFORM_INTACT,
        [CONFORM_FAULT_GUARD] = CONFORM_INTACT,
    };
    const conform_kind kind = blamed[run->fault];
    return run->checks[kind] > 0 && run->failed[kind] == run->checks[kind];
}

static int verdict(const conform_run *run, const options *o)
{
    if (run->broken) {
        fputs("conform: stopped at the failure above\n", stderr);
        return ZL_NO;
    }
    if (o->fault != CONFORM_NO_FAULT) {
        return fault_noticed(run) ? ZL_OK : ZL_NO;
    }
    return total(run->failed) > 0 || total(run->checks) == 0 ? ZL_NO : ZL_OK;
}

int main(int argc, char **argv)
{
    options o = {.commit = "unknown",
                 .driver = "unknown",
                 .dtype = -1,
                 .largest = UINT64_MAX,
                 .seed = (uint64_t)time(NULL)};
    if (!parse(argc, argv, &o)) {
        return usage();
    }
    static conform_run run;
    char why[512] = "";
    run.fault = o.fault;
    run.only = o.only;
    run.largest = o.largest;
    run.seed = o.seed;
    run.random = o.seed;
    zl_status status = open_side(o.reference, &run.reference, why, sizeof why);
    status = status != ZL_OK ? status : open_side(o.tested, &run.tested, why, sizeof why);
    if (status != ZL_OK) {
        fprintf(stderr, "conform: %s%s\n", status == ZL_NO ? "skipped, " : "", why);
        return status == ZL_NO ? SKIPPED : (int)status;
    }
    printf("seed %#llx\n\"tested\": {\n", (unsigned long long)o.seed);
    run.tested.module->describe(run.tested.device, stdout);
    printf("\n}\n");
    run_cases(&run, o.dtype);
    print_table(&run);
    if (o.json != NULL && !write_json(&run, &o)) {
        fprintf(stderr, "conform: cannot write %s\n", o.json);
        return ZL_E_RESOURCE;
    }
    const int result = verdict(&run, &o);
    run.tested.module->close(run.tested.device);
    run.reference.module->close(run.reference.device);
    printf("%u checks, %u failed\n", total(run.checks), total(run.failed));
    return result;
}
