/* ZeroRedundancyOptimizer on top of DistributedDataParallel: each rank updates the parameters it
 * was given and broadcasts them.
 *
 * Source: torch/distributed/optim/zero_redundancy_optimizer.py, _partition_parameters(): the
 * largest parameter first, each to the rank with the fewest elements so far, the lowest rank of
 * several. Parameters are broadcast from where they are, so the step has no memory of its own. */
#include "torch/ddp.h"
#include "zeroledger/bytes.h"

static uint64_t least_loaded(const uint64_t *load, uint64_t ranks)
{
    uint64_t least = 0;
    for (uint64_t r = 1; r < ranks; r++) {
        if (load[r] < load[least]) {
            least = r;
        }
    }
    return least;
}

/* Stable: of equal sizes the first in named_parameters() first. */
static void sort_by_size(zt_param **param, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        zt_param *taken = param[i];
        uint32_t at = i;
        for (; at > 0 && zt_param_elements(param[at - 1]) < zt_param_elements(taken); at--) {
            param[at] = param[at - 1];
        }
        param[at] = taken;
    }
}

static void init(zt_process *p)
{
    uint64_t *load = zt_arena(p, p->run->ranks, sizeof *load);
    zt_param **param = zt_arena(p, p->param_count, sizeof(zt_param *));
    zt_ddp_init(p, (zt_ddp_options){.steps_communicate = true});
    p->optimizer = zt_optimizer_new(p, p->run->optimizer);
    for (uint32_t i = 0; i < p->param_count; i++) {
        param[i] = p->named[i];
    }
    sort_by_size(param, p->param_count);
    for (uint32_t i = 0; i < p->param_count; i++) {
        const uint64_t rank = least_loaded(load, p->run->ranks);
        const uint64_t elements = zt_param_elements(param[i]);
        load[rank] = zl_add(load[rank], elements);
        if (rank == p->rank && param[i]->trains) {
            zt_optimizer_add(p, p->optimizer, elements, param[i]->element_bytes);
        }
    }
}

const zt_framework zt_zero1 = {
    .init = init,
    .before_forward = zt_ddp_before_forward,
    .gradient = zt_ddp_gradient,
    .nccl = zt_ddp_nccl,
    .unsettled = 1, /* as DDP */
};
