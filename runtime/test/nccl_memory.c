/* What device memory NCCL takes, stage by stage, to be compared with its closed form
 * (zeroledger/device.h).
 *
 *     nccl_memory RANKS LOG_FOLDER OUT.json
 *
 * One process a GPU, forked before CUDA is touched, as zl-train-cuda does it. In one job
 * communicators come and go: with NCCL's defaults, then with maxCTAs from 16 to 1; then one job for
 * each NCCL_MAX_NCHANNELS, which NCCL reads once a process. The first of a job is cold: NCCL's code
 * is loaded with it. The channels are those that NCCL itself names (NCCL_DEBUG=INFO). Under `zl
 * trace` every stage is a mark. Multicast stays off. Exit: 0 if all was measured, else 1.
 */
#define _DEFAULT_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "trace/zltrace.h"
#include "zeroledger/json.h"

enum { RANKS_MAX = 16, CONFIGURATIONS_MAX = 24, LINE = 512 };

typedef enum stage {
    COMMUNICATOR,
    ALL_GATHER,
    REDUCE_SCATTER,
    BROADCAST,
    ALL_REDUCE,
    DESTROYED,
    STAGES
} stage;

static const char *const stage_names[STAGES] = {
    [COMMUNICATOR] = "communicator",     [ALL_GATHER] = "all-gather",
    [REDUCE_SCATTER] = "reduce-scatter", [BROADCAST] = "broadcast",
    [ALL_REDUCE] = "all-reduce",         [DESTROYED] = "destroyed"};

/* One communicator. */
typedef struct configuration {
    const char *name;
    const char *how; /* "default", "maxCTAs", "NCCL_MAX_NCHANNELS" */
    int cap;         /* 0: none */
    bool cold;       /* the first of its job */
} configuration;

static const configuration configurations[] = {
    {"default-cold", "default", 0, true},
    {"default", "default", 0, false},
    {"max-ctas-16", "maxCTAs", 16, false},
    {"max-ctas-8", "maxCTAs", 8, false},
    {"max-ctas-4", "maxCTAs", 4, false},
    {"max-ctas-2", "maxCTAs", 2, false},
    {"max-ctas-1", "maxCTAs", 1, false},
    {"max-nchannels-16-cold", "NCCL_MAX_NCHANNELS", 16, true},
    {"max-nchannels-16", "NCCL_MAX_NCHANNELS", 16, false},
    {"max-nchannels-8-cold", "NCCL_MAX_NCHANNELS", 8, true},
    {"max-nchannels-8", "NCCL_MAX_NCHANNELS", 8, false},
    {"max-nchannels-4-cold", "NCCL_MAX_NCHANNELS", 4, true},
    {"max-nchannels-4", "NCCL_MAX_NCHANNELS", 4, false},
    {"max-nchannels-2-cold", "NCCL_MAX_NCHANNELS", 2, true},
    {"max-nchannels-2", "NCCL_MAX_NCHANNELS", 2, false},
    {"max-nchannels-1-cold", "NCCL_MAX_NCHANNELS", 1, true},
    {"max-nchannels-1", "NCCL_MAX_NCHANNELS", 1, false},
};
enum { CONFIGURATIONS = sizeof configurations / sizeof configurations[0] };

/* Memory that the processes share. */
typedef struct board {
    pthread_barrier_t barrier;
    ncclUniqueId id;
    char gpu[256];
    int cuda;
    int nccl;
    uint64_t context[RANKS_MAX]; /* in use when nothing but the context existed */
    struct {
        int rings;
        int pairs;
        bool done[RANKS_MAX];
        uint64_t used[STAGES + 1][RANKS_MAX]; /* [0]: before */
    } at[CONFIGURATIONS];
} board;

typedef struct process {
    board *shared;
    int rank;
    int ranks;
    const char *logs;
    cudaStream_t stream;
    void *from;
    void *to;
} process;

static const size_t buffer_bytes = (size_t)64 << 20;

static void stop(const char *what, const char *why)
{
    (void)fprintf(stderr, "nccl_memory: %s: %s\n", what, why);
    exit(1);
}

static void cuda(cudaError_t result, const char *what)
{
    if (result != cudaSuccess) {
        stop(what, cudaGetErrorString(result));
    }
}

static void nccl(ncclResult_t result, const char *what)
{
    (void)cudaGetLastError(); /* NCCL asks questions whose answer may be no */
    if (result != ncclSuccess) {
        stop(what, ncclGetErrorString(result));
    }
}

static void meet(const process *p)
{
    (void)pthread_barrier_wait(&p->shared->barrier);
}

static uint64_t in_use(void)
{
    size_t available = 0;
    size_t total = 0;
    cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    cuda(cudaMemGetInfo(&available, &total), "cudaMemGetInfo");
    return (uint64_t)(total - available);
}

/* The last "24 coll channels, 0 collnet channels, 0 nvls channels, 32 p2p channels, ..." that NCCL
 * wrote for this process. */
static void read_channels(const process *p, int *rings, int *pairs)
{
    char path[LINE];
    char line[LINE];
    (void)snprintf(path, sizeof path, "%s/nccl.%d", p->logs, (int)getpid());
    FILE *const file = fopen(path, "r");
    if (file == NULL) {
        stop(path, strerror(errno));
    }
    while (fgets(line, sizeof line, file) != NULL) {
        const char *at = strstr(line, " coll channels");
        const char *const comma = at != NULL ? strstr(at, " p2p channels,") : NULL;
        if (comma == NULL) {
            continue;
        }
        while (at > line && at[-1] >= '0' && at[-1] <= '9') {
            at--;
        }
        const char *pair = comma;
        while (pair > line && pair[-1] >= '0' && pair[-1] <= '9') {
            pair--;
        }
        *rings = (int)strtol(at, NULL, 10);
        *pairs = (int)strtol(pair, NULL, 10);
    }
    (void)fclose(file);
}

static void collective(const process *p, ncclComm_t comm, stage which, size_t bytes)
{
    const size_t part = bytes / (size_t)p->ranks;
    switch (which) {
    case ALL_GATHER:
        nccl(ncclAllGather(p->from, p->to, part, ncclUint8, comm, p->stream), "ncclAllGather");
        break;
    case REDUCE_SCATTER:
        nccl(ncclReduceScatter(p->from, p->to, part / sizeof(float), ncclFloat, ncclSum, comm,
                               p->stream),
             "ncclReduceScatter");
        break;
    case BROADCAST:
        nccl(ncclBroadcast(p->from, p->to, bytes, ncclUint8, 0, comm, p->stream), "ncclBroadcast");
        break;
    case ALL_REDUCE:
        nccl(ncclAllReduce(p->from, p->to, bytes / sizeof(float), ncclFloat, ncclSum, comm,
                           p->stream),
             "ncclAllReduce");
        break;
    case COMMUNICATOR:
    case DESTROYED:
    case STAGES:
        break;
    }
    cuda(cudaStreamSynchronize(p->stream), "a collective");
}

/* What is in use after a stage, once every rank is through with it. */
static void note(const process *p, int index, stage which)
{
    char mark[96];
    meet(p);
    p->shared->at[index].used[which + 1][p->rank] = in_use();
    (void)snprintf(mark, sizeof mark, "%s %s", configurations[index].name, stage_names[which]);
    zltrace_mark(mark);
    meet(p);
}

static void measure(const process *p, int index)
{
    const configuration *const c = &configurations[index];
    ncclConfig_t wish = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm = NULL;
    if (strcmp(c->how, "maxCTAs") == 0) {
        wish.maxCTAs = c->cap;
    }
    if (p->rank == 0) {
        nccl(ncclGetUniqueId(&p->shared->id), "ncclGetUniqueId");
    }
    meet(p);
    p->shared->at[index].used[0][p->rank] = in_use();
    meet(p);
    nccl(ncclCommInitRankConfig(&comm, p->ranks, p->shared->id, p->rank, &wish),
         "ncclCommInitRankConfig");
    note(p, index, COMMUNICATOR);
    for (int s = ALL_GATHER; s < DESTROYED; s++) {
        collective(p, comm, (stage)s, (size_t)p->ranks * 1024); /* the protocol of short messages */
        collective(p, comm, (stage)s, buffer_bytes);
        note(p, index, (stage)s);
    }
    if (p->rank == 0) {
        read_channels(p, &p->shared->at[index].rings, &p->shared->at[index].pairs);
    }
    nccl(ncclCommDestroy(comm), "ncclCommDestroy");
    note(p, index, DESTROYED);
    p->shared->at[index].done[p->rank] = true;
}

/* Configurations first .. last - 1, in one process. */
static void work(process *p, int first, int last)
{
    struct cudaDeviceProp properties;
    char text[LINE];
    (void)setenv("NCCL_NVLS_ENABLE", "0", 1);
    (void)setenv("NCCL_DEBUG", "INFO", 1);
    (void)setenv("NCCL_DEBUG_SUBSYS", "INIT", 1);
    (void)snprintf(text, sizeof text, "%s/nccl.%%p", p->logs);
    (void)setenv("NCCL_DEBUG_FILE", text, 1);
    if (strcmp(configurations[first].how, "NCCL_MAX_NCHANNELS") == 0) {
        (void)snprintf(text, sizeof text, "%d", configurations[first].cap);
        (void)setenv("NCCL_MAX_NCHANNELS", text, 1);
    }
    cuda(cudaSetDevice(p->rank), "cudaSetDevice");
    cuda(cudaStreamCreateWithFlags(&p->stream, cudaStreamNonBlocking), "cudaStreamCreate");
    p->shared->context[p->rank] = in_use();
    cuda(cudaMalloc(&p->from, buffer_bytes), "cudaMalloc");
    cuda(cudaMalloc(&p->to, buffer_bytes), "cudaMalloc");
    cuda(cudaMemset(p->from, 0, buffer_bytes), "cudaMemset");
    if (p->rank == 0) {
        cuda(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
        (void)snprintf(p->shared->gpu, sizeof p->shared->gpu, "%s", properties.name);
        cuda(cudaRuntimeGetVersion(&p->shared->cuda), "cudaRuntimeGetVersion");
        nccl(ncclGetVersion(&p->shared->nccl), "ncclGetVersion");
    }
    for (int i = first; i < last; i++) {
        measure(p, i);
    }
    (void)cudaDeviceReset();
    exit(0);
}

/* Ends what is left of a job if one of it failed: the others would wait for ever. */
static bool job(board *shared, int ranks, const char *logs, int first, int last)
{
    pid_t child[RANKS_MAX];
    bool good = true;
    for (int r = 0; r < ranks; r++) {
        child[r] = fork();
        if (child[r] == 0) {
            process p = {.shared = shared, .rank = r, .ranks = ranks, .logs = logs};
            work(&p, first, last);
        }
        if (child[r] < 0) {
            stop("fork", strerror(errno));
        }
    }
    for (int left = ranks; left > 0; left--) {
        int status = 0;
        const pid_t ended = wait(&status);
        const bool failed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
        for (int r = 0; r < ranks; r++) {
            child[r] = child[r] == ended ? 0 : child[r];
            if (failed && good && child[r] > 0) {
                (void)kill(child[r], SIGKILL);
            }
        }
        good = good && !failed;
    }
    return good;
}

static uint64_t growth(uint64_t before, uint64_t now)
{
    return now > before ? now - before : 0;
}

static void put_configuration(zl_json_writer *w, const board *shared, int ranks, int index)
{
    const configuration *const c = &configurations[index];
    zl_json_begin_object(w, NULL);
    zl_json_put_string(w, "name", c->name);
    zl_json_put_string(w, "how", c->how);
    zl_json_put_u64(w, "cap", (uint64_t)c->cap);
    zl_json_put_bool(w, "cold", c->cold);
    zl_json_put_u64(w, "rings", (uint64_t)shared->at[index].rings);
    zl_json_put_u64(w, "pairs", (uint64_t)shared->at[index].pairs);
    zl_json_begin_array(w, "ranks");
    for (int r = 0; r < ranks; r++) {
        zl_json_begin_object(w, NULL);
        for (int s = 0; s < STAGES; s++) {
            const uint64_t before = shared->at[index].used[s][r];
            const uint64_t now = shared->at[index].used[s + 1][r];
            zl_json_put_u64(w, s == DESTROYED ? "given_back" : stage_names[s],
                            s == DESTROYED ? growth(now, before) : growth(before, now));
        }
        zl_json_end(w);
    }
    zl_json_end(w);
    zl_json_end(w);
}

static void put_driver(zl_json_writer *w)
{
    char text[64] = "unknown";
    FILE *const file = fopen("/sys/module/nvidia/version", "r");
    if (file != NULL) {
        if (fgets(text, sizeof text, file) != NULL) {
            text[strcspn(text, "\n")] = '\0';
        }
        (void)fclose(file);
    }
    zl_json_put_string(w, "driver", text);
}

static void put_version(zl_json_writer *w, const board *shared)
{
    char text[64];
    (void)snprintf(text, sizeof text, "%d.%d", shared->cuda / 1000, shared->cuda % 1000 / 10);
    zl_json_put_string(w, "cuda", text);
    (void)snprintf(text, sizeof text, "%d.%d.%d", shared->nccl / 10000, shared->nccl % 10000 / 100,
                   shared->nccl % 100);
    zl_json_put_string(w, "nccl", text);
}

static void save(const board *shared, int ranks, const char *path)
{
    zl_err err = {.status = ZL_OK};
    char date[32] = "";
    const time_t clock = time(NULL);
    struct tm utc;
    if (gmtime_r(&clock, &utc) != NULL) {
        (void)strftime(date, sizeof date, "%Y-%m-%d", &utc);
    }
    zl_json_writer *const w = zl_json_writer_new();
    if (w == NULL) {
        stop(path, "out of memory");
    }
    zl_json_begin_object(w, NULL);
    zl_json_put_string(w, "schema", "zeroledger.nccl/1");
    zl_json_put_string(w, "date", date);
    zl_json_put_string(w, "gpu", shared->gpu);
    put_driver(w);
    put_version(w, shared);
    zl_json_put_u64(w, "ranks", (uint64_t)ranks);
    zl_json_begin_array(w, "context");
    for (int r = 0; r < ranks; r++) {
        zl_json_put_u64(w, NULL, shared->context[r]);
    }
    zl_json_end(w);
    zl_json_begin_array(w, "configurations");
    for (int i = 0; i < CONFIGURATIONS; i++) {
        bool done = true;
        for (int r = 0; r < ranks; r++) {
            done = done && shared->at[i].done[r];
        }
        if (done) {
            put_configuration(w, shared, ranks, i);
        }
    }
    zl_json_end(w);
    zl_json_end(w);
    if (zl_json_writer_save(w, path, &err) != ZL_OK) {
        stop(path, err.text);
    }
    zl_json_writer_free(w);
}

static board *share(int ranks)
{
    pthread_barrierattr_t kind;
    board *const shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || pthread_barrierattr_init(&kind) != 0 ||
        pthread_barrierattr_setpshared(&kind, PTHREAD_PROCESS_SHARED) != 0 ||
        pthread_barrier_init(&shared->barrier, &kind, (unsigned)ranks) != 0) {
        stop("shared memory", strerror(errno));
    }
    return shared;
}

int main(int argc, char **argv)
{
    const long ranks = argc == 4 ? strtol(argv[1], NULL, 10) : 0;
    bool good = true;
    if (ranks < 2 || ranks > RANKS_MAX) {
        (void)fputs("usage: nccl_memory RANKS LOG_FOLDER OUT.json, with 2 to 16 ranks\n", stderr);
        return 2;
    }
    board *const shared = share((int)ranks);
    for (int first = 0; first < CONFIGURATIONS && good;) {
        int last = first + 1;
        while (last < CONFIGURATIONS && !configurations[last].cold) {
            last++;
        }
        good = job(shared, (int)ranks, argv[2], first, last);
        first = last;
    }
    save(shared, (int)ranks, argv[3]);
    return good ? 0 : 1;
}
