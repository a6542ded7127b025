/* One GPU: model.to(device), an optimizer over all trainable parameters, no hooks. */
#include "torch/eager.h"

static void init(zt_process *p)
{
    zt_init_on_device(p);
    p->optimizer = zt_optimizer_new(p, p->run->optimizer);
    for (uint32_t i = 0; i < p->param_count; i++) {
        const zt_param *param = p->named[i];
        if (param->trains) {
            zt_optimizer_add(p, p->optimizer, zt_param_elements(param), param->element_bytes);
        }
    }
}

const zt_framework zt_single = {.init = init};
