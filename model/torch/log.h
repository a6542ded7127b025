/* What a log of training says about memory, in the order of the log.
 *
 *     zt_log log;
 *     ZL_TRY(zt_log_read(text, size, &log, err));
 *     for (size_t i = 0; i < log.count; i++) { ... log.sighting[i] ... }
 *     zt_log_release(&log);
 *
 * Understood are: see_memory_usage of DeepSpeed in every release (with and without logger prefix,
 * wrapped, collapsed to one line, and the four lines of before 0.3.10), its ThroughputTimer, its
 * notice of an overflow, torch.cuda.memory_summary(), out-of-memory messages of PyTorch, nvidia-smi
 * --query-gpu in CSV, and torch.cuda.memory._snapshot() as JSON. Everything else is passed over;
 * the text may hold any bytes.
 */
#ifndef ZT_LOG_H
#define ZT_LOG_H

#include "torch/oom.h"
#include "torch/printed.h"
#include "zeroledger/error.h"

typedef enum zt_figure {
    ZT_REQUESTED,
    ZT_PEAK_REQUESTED,
    ZT_ALLOCATED,
    ZT_PEAK_ALLOCATED,
    ZT_RESERVED,
    ZT_PEAK_RESERVED,
    ZT_DEVICE_USED, /* whole GPU, all processes */
    ZT_HOST_USED,   /* whole machine */
    ZT_FIGURE_COUNT
} zt_figure;

const char *zt_figure_name(zt_figure figure); /* "peak_allocated" */

typedef enum zt_source {
    ZT_SEE_MEMORY_USAGE,
    ZT_GIGABYTES, /* see_memory_usage before 0.3.10, which leaves the peaks alone */
    ZT_THROUGHPUT_TIMER,
    ZT_OVERFLOW, /* no figures: this step was skipped */
    ZT_MEMORY_SUMMARY,
    ZT_OUT_OF_MEMORY,
    ZT_NVIDIA_SMI, /* the largest sample of one GPU */
    ZT_SNAPSHOT,
    ZT_SOURCE_COUNT
} zt_source;

const char *zt_source_name(zt_source source); /* "see_memory_usage" */

enum { ZT_MESSAGE = 96 };

typedef struct zt_sighting {
    zt_source source;
    uint64_t line;            /* of the log, from 1 */
    char message[ZT_MESSAGE]; /* what was printed above the figures; printable */
    zt_printed figure[ZT_FIGURE_COUNT];
    uint64_t number; /* global step of the timer, from 1, 0: not said; index of the GPU */
    zt_oom oom;
} zt_sighting;

typedef struct zt_log {
    zt_sighting *sighting;
    size_t count;
} zt_log;

/* The caller releases *out. ZL_E_INPUT: nothing is recognised, and what would be. */
ZL_NODISCARD zl_status zt_log_read(const char *text, size_t size, zt_log *out, zl_err *err);
void zt_log_release(zt_log *log);

#endif
