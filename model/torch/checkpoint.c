/* torch.utils.checkpoint without reentrant autograd: saved-tensor hooks keep nothing, and the first
 * one that is asked for runs the layer again. */
#include "torch/engine.h"

static void frame_free(zt_process *p, zt_frame *frame)
{
    for (uint32_t i = 0; i < frame->extras; i++) {
        zt_drop(p, &frame->extra[i]);
    }
    zt_release(p, &frame->x);
    for (uint32_t i = 0; frame->saved != NULL && i < frame->filled; i++) {
        zt_drop(p, &frame->saved[i]);
    }
}

void zt_frame_release(zt_process *p, zt_frame *frame)
{
    if (--frame->alive == 0) {
        frame_free(p, frame);
    }
}

static void run_again(zt_process *p, zt_frame *frame)
{
    struct zt_engine *e = p->engine;
    frame->recomputed = true;
    frame->saved = zt_bump_take(p, &e->tape, frame->saves, sizeof *frame->saved);
    zt_frame *outer = e->frame;
    e->frame = frame;
    e->recomputing = true;
    zt_autocast_begin(p);
    zt_tensor x = zt_detach(p, frame->x);
    x.node = zt_needs_gradient(frame->x) ? ZT_GHOST : 0;
    zt_tensor y = frame->layer(p, frame->context, x);
    zt_release(p, &y);
    zt_release(p, &x);
    zt_autocast_end(p);
    e->stopped = false;
    e->recomputing = false;
    e->frame = outer;
    if (frame->filled != frame->saves) {
        zt_fail(p, ZL_E_BUG, "a layer saved less when it was run again");
    }
}

void zt_unpack(zt_process *p, const zt_node *node)
{
    for (uint32_t i = 0; i < node->saves; i++) {
        zt_frame *frame = node->saved[i].frame;
        if (frame != NULL && !frame->recomputed) {
            run_again(p, frame);
        }
    }
}

void zt_drop_unpacked(zt_process *p, const zt_node *node)
{
    for (uint32_t i = node->saves; i-- > 0;) {
        const zt_saved *saved = &node->saved[i];
        if (saved->frame != NULL) {
            zt_drop(p, &saved->frame->saved[saved->index]);
        }
    }
}

zt_tensor zt_checkpoint(zt_process *p, zt_layer_function *layer, void *context, zt_tensor x,
                        const zt_storage *extra, uint32_t extras)
{
    struct zt_engine *e = p->engine;
    zt_frame *frame = zt_bump_take(p, &e->tape, 1, sizeof *frame);
    *frame = (zt_frame){.layer = layer, .context = context, .x = zt_share(p, x), .extras = extras};
    for (uint32_t i = 0; i < extras; i++) {
        frame->extra[i] = zt_hold(p, extra[i]);
    }
    e->frame = frame;
    zt_tensor y = layer(p, context, x);
    e->frame = NULL;
    if (frame->alive == 0) {
        frame_free(p, frame);
    }
    return y;
}
