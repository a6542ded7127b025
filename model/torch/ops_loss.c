#include "torch/ops.h"
#include "zeroledger/bytes.h"

/* Both write a new tensor like their input; the loss is a scalar, so its input's size is kept. */
static void like_input_backward(zt_process *p, zt_node *node, zt_tensor *in, zt_result *out)
{
    (void)in;
    out[0].gradient = zt_tensor_new(p, node->size[0], (uint32_t)node->size[1]);
}

static zt_node *open(zt_process *p, zt_tensor x)
{
    zt_node *node = zt_node_open(p, like_input_backward, 1, &x, 1);
    if (node != NULL) {
        node->size[0] = x.elements;
        node->size[1] = x.element_bytes;
    }
    return node;
}

static zt_tensor log_softmax(zt_process *p, zt_tensor x)
{
    zt_node *node = open(p, x);
    zt_tensor y = zt_like(p, x);
    zt_save(p, node, y);
    zt_node_output(p, node, &y, 0);
    return y;
}

static zt_tensor nll_loss(zt_process *p, zt_tensor log_probabilities, zt_storage targets)
{
    zt_node *node = open(p, log_probabilities);
    zt_save(p, node, log_probabilities);
    zt_save_storage(p, node, targets);
    zt_tensor loss = zt_tensor_new(p, 1, log_probabilities.element_bytes);
    zt_tensor weight = zt_tensor_new(p, 1, log_probabilities.element_bytes);
    zt_save(p, node, weight);
    zt_node_output(p, node, &loss, 0);
    zt_release(p, &weight);
    return loss;
}

/* Under autocast log_softmax inside cross_entropy keeps the dtype of the logits and nll_loss works
 * on an fp32 copy of its result. */
zt_tensor zt_cross_entropy(zt_process *p, zt_tensor logits, zt_storage targets)
{
    const char *what = zt_set_name(p, zt_name_loss);
    zt_name(p, logits.storage, zt_name_loss);
    zt_tensor rows = zt_view(p, logits);
    zt_tensor lsm = log_softmax(p, rows);
    zt_tensor high = zt_cast_high(p, lsm);
    zt_tensor loss = nll_loss(p, high, targets);
    zt_release(p, &high);
    zt_release(p, &lsm);
    zt_release(p, &rows);
    zt_set_name(p, what);
    return loss;
}
