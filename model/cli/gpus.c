/* Memory of GPUs as their vendor's data sheets state it, in GB of 10^9 bytes. What a process can
 * use is less by the driver and the context and, where the vendor's GB are really GiB, more. */
#include <string.h>

#include "cmd.h"

#define GB(n) (UINT64_C(n) * UINT64_C(1000000000))

/* Streaming multiprocessors and compute capability: CUDA C++ Programming Guide, compute
 * capabilities, and the same data sheets. */
static const zl_gpu gpus[] = {
    {"v100-16g", "NVIDIA V100 data sheet: 16 GB HBM2", GB(16), "V100", 80, 70},
    {"v100-32g", "NVIDIA V100 data sheet: 32 GB HBM2", GB(32), "V100", 80, 70},
    {"rtx4090-24g", "NVIDIA GeForce RTX 4090 specifications: 24 GB GDDR6X", GB(24), "RTX 4090", 128,
     89},
    {"a100-40g", "NVIDIA A100 data sheet: 40 GB HBM2", GB(40), "A100", 108, 80},
    {"a100-80g", "NVIDIA A100 data sheet: 80 GB HBM2e", GB(80), "A100", 108, 80},
    {"l40s-48g", "NVIDIA L40S data sheet: 48 GB GDDR6", GB(48), "L40S", 142, 89},
    {"h100-80g", "NVIDIA H100 data sheet: 80 GB HBM3", GB(80), "H100", 132, 90},
    {"h200-141g", "NVIDIA H200 data sheet: 141 GB HBM3e", GB(141), "H200", 132, 90},
    {"b200-192g", "NVIDIA B200 announcement: 192 GB HBM3e", GB(192), "B200", 148, 100},
};

enum { GPUS = sizeof gpus / sizeof gpus[0] };

const zl_gpu *zl_gpu_at(size_t index)
{
    return index < GPUS ? &gpus[index] : NULL;
}

zl_status zl_gpu_find(const char *name, const zl_gpu **out, zl_err *err)
{
    char names[256];
    size_t used = 0;
    for (size_t i = 0; i < GPUS; i++) {
        if (strcmp(gpus[i].name, name) == 0) {
            *out = &gpus[i];
            return ZL_OK;
        }
        const size_t left = used < sizeof names ? sizeof names - used : 0;
        used += (size_t)snprintf(names + used, left, "%s%s", i == 0 ? "" : ",", gpus[i].name);
    }
    return zl_one_of("gpu", name, names, err);
}
