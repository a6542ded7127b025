/* Activations that the user gives instead of having them modelled. The operations of the model are
 * still walked, for the framework's events at modules and gradients; what they make has no memory.
 *
 * The last part goes with the last layer's: when head and loss let go of what they saved, the
 * gradients of logits and hidden states take its place. */
#include "torch/autograd.h"
#include "zeroledger/bytes.h"

bool zt_activations_given(const zt_process *p)
{
    return p->run->activations > 0 || p->run->states_only;
}

/* Since 2.0 PyTorch allocates them itself; what somebody gives of a release of DeepSpeed from
 * before its time is from a log without them. */
bool zt_given_workspaces(const zt_process *p)
{
    const uint32_t first_beside_2_0 = 8000;
    return zt_activations_given(p) && p->run->framework == ZL_TORCH_DEEPSPEED &&
           p->run->ds.version < first_beside_2_0;
}

static uint32_t layer_index(const zt_process *p, const zt_module *m)
{
    uint32_t i = 0;
    while (i < p->layer_count && p->layers[i] != m) {
        i++;
    }
    return i;
}

/* All but the last layer's have an index below. */
static void drop_part(zt_process *p, void *context, zt_tensor *gradient)
{
    zt_storage *const part = context;
    (void)gradient;
    zt_drop(p, part);
    if (part + 1 == &p->given[p->layer_count]) {
        zt_drop(p, &p->given[p->layer_count]);
    }
}

static void hold_part(zt_process *p, uint32_t i)
{
    const uint64_t parts = zl_add(p->layer_count, 1);
    const uint64_t rest = i == 0 ? p->run->activations % parts : 0;
    zt_drop(p, &p->given[i]);
    p->given[i] = zt_new(p, zl_add(p->run->activations / parts, rest));
    zt_name(p, p->given[i], "activations");
}

void zt_given_enter(zt_process *p, zt_module *m, const zt_tensor *input, size_t count)
{
    if (zt_activations_given(p) && m->layer && count > 0) {
        zt_hook_gradient(p, input[0], drop_part, &p->given[layer_index(p, m)]);
    }
}

void zt_given_leave(zt_process *p, const zt_module *m)
{
    if (zt_activations_given(p) && !zt_recomputing(p) && (m->layer || m == p->root)) {
        hold_part(p, m == p->root ? p->layer_count : layer_index(p, m));
    }
}

void zt_given_end(zt_process *p)
{
    for (uint32_t i = 0; zt_activations_given(p) && i <= p->layer_count; i++) {
        zt_drop(p, &p->given[i]);
    }
}
