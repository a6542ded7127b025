/* FSDP2: fully_shard() on every transformer layer, then on the model.
 *
 * Sources: torch/distributed/fsdp/_fully_shard (_fully_shard.py, _fsdp_state.py,
 * _fsdp_param_group.py, _fsdp_param.py, _fsdp_collectives.py) and tensor/_random.py of 2.11, and
 * for the tables of its two copy kernels aten/src/ATen/native/cuda/TensorShape.cu.
 *
 * Each wrapped module has one parameter group: all its parameters that no inner one took. A rank
 * keeps a padded piece of dimension 0 of each. Before the module runs, the group is gathered into
 * one flat buffer on a stream of its own, and copied out into one tensor per parameter; these go
 * after forward (stage 3) and after backward, but autograd's references to them stay. After the
 * module's backward its gradients are copied into one flat buffer, reduced and scattered into
 * another, whose pieces are the gradients that the optimizer sees. */
#include "torch/eager.h"
#include "zeroledger/bytes.h"

enum { COPY_IN_STREAM = 1, REDUCE_STREAM = 2 };
enum { KERNEL_BLOCK = 2048 }; /* bytes that a block of 128 threads of the copy kernels moves */

/* A parameter of a group; param->user. */
typedef struct shard {
    zt_storage piece;       /* this rank's padded piece */
    zt_storage gradient;    /* shared with the group: the reduced gradient */
    uint64_t padded, local; /* elements of the piece, and without padding */
} shard;

typedef struct group {
    struct fsdp2 *fsdp;
    zt_param **param;
    uint32_t params;
    uint64_t padded;     /* elements of all pieces */
    zt_storage gathered; /* all-gather done, not copied out yet */
    bool unsharded;
    bool in_backward; /* from its pre-backward hook to the end of the whole backward */
    int32_t position; /* in the order of forward, -1 once it was used to prefetch */
} group;

typedef struct fsdp2 {
    group *groups; /* layers in order, the root last */
    uint32_t count;
    group **order; /* in which forward left them */
    uint32_t ordered;
    zt_storage gathered_before; /* forward keeps one buffer until the next was copied out */
    zt_storage reduce_input;    /* kept until the next reduction */
    bool callback_queued;
    bool started;
    uint32_t param_bytes, compute_bytes, reduce_bytes; /* of an element */
} fsdp2;

static shard *shard_of(const zt_param *param)
{
    return param->user;
}

static bool is_root(const group *g)
{
    return g == &g->fsdp->groups[g->fsdp->count - 1];
}

/* Stage 2 keeps parameters from forward to backward. */
static bool reshards_after_forward(const zt_process *p)
{
    return p->run->stage == 3;
}

/* ---- fully_shard ---- */

static group *group_of(const zt_process *p, const zt_module *m)
{
    while (m != p->root && !m->layer) {
        m = m->parent;
    }
    return m->user;
}

static void add_param(const zt_process *p, zt_param *param, shard *s)
{
    const uint64_t ranks = p->run->ranks;
    const uint64_t rows = zl_ceil_div(param->rows, ranks);
    const uint64_t before = zl_min(zl_mul(rows, p->rank), param->rows);
    group *g = group_of(p, param->module);
    s->padded = zl_mul(rows, param->columns);
    s->local = zl_mul(zl_min(rows, param->rows - before), param->columns);
    param->user = s;
    g->param[g->params++] = param;
    g->padded = zl_add(g->padded, s->padded);
}

static void make_groups(zt_process *p)
{
    fsdp2 *f = zt_arena(p, 1, sizeof *f);
    p->user = f;
    f->count = p->layer_count + 1;
    f->groups = zt_arena(p, f->count, sizeof *f->groups);
    f->order = zt_arena(p, f->count, sizeof(group *));
    f->param_bytes = p->run->precision == ZL_TORCH_BF16 ? 2 : 4;
    f->compute_bytes = p->run->precision == ZL_TORCH_BF16_MIXED ? 2 : f->param_bytes;
    f->reduce_bytes = f->param_bytes;
    for (uint32_t i = 0; i < f->count; i++) {
        group *g = &f->groups[i];
        g->fsdp = f;
        g->position = -1;
        g->param = zt_arena(p, p->param_count, sizeof(zt_param *));
        (i < p->layer_count ? p->layers[i] : p->root)->user = g;
    }
    shard *shards = zt_arena(p, p->param_count, sizeof *shards);
    for (uint32_t i = 0; i < p->param_count; i++) {
        add_param(p, p->on_device[i], &shards[i]);
    }
}

static void buffers_on_device(zt_process *p, zt_module *m, const group *g)
{
    for (zt_module *child = m->child; child != NULL; child = child->next) {
        buffers_on_device(p, child, g);
    }
    if (group_of(p, m) == g) {
        zt_buffers_on_device(p, m);
    }
}

/* The module's tensors come to the device whole, then every parameter is replaced by its piece, and
 * the whole ones go, in the order of named_parameters(). */
static void shard_group(zt_process *p, group *g, zt_module *m)
{
    zt_storage *whole = zt_arena(p, p->param_count, sizeof *whole);
    for (uint32_t i = 0; i < g->params; i++) {
        whole[g->param[i]->index] =
            zt_new(p, zl_mul(zt_param_elements(g->param[i]), g->fsdp->param_bytes));
    }
    buffers_on_device(p, m, g);
    for (uint32_t i = 0; i < g->params; i++) {
        shard *s = shard_of(g->param[i]);
        s->piece = zt_new(p, zl_mul(s->padded, g->fsdp->param_bytes));
        zt_name(p, s->piece, "parameter shards");
    }
    for (uint32_t i = 0; i < p->param_count; i++) {
        zt_drop(p, &whole[i]);
    }
}

/* to_empty(device) of a model that was sharded on the meta device: only pieces, without padding. */
static void materialize(zt_process *p, zt_module *m)
{
    for (zt_module *child = m->child; child != NULL; child = child->next) {
        materialize(p, child);
    }
    for (uint32_t i = 0; i < m->params; i++) {
        shard *s = shard_of(m->param[i]);
        if (s->piece == ZT_NO_STORAGE) {
            s->piece = zt_new(p, zl_mul(s->local, p->run->precision == ZL_TORCH_BF16 ? 2 : 4));
            zt_name(p, s->piece, "parameter shards");
        }
    }
    zt_buffers_on_device(p, m);
}

/* The first random number for a sharded tensor makes the state of DTensor's generator: 16 bytes,
 * broadcast by rank 0, those of this rank, and whether they are equal. */
static void seed_generator(zt_process *p)
{
    enum { STATES = 3, STATE_BYTES = 16 };
    zt_storage state[STATES];
    for (int i = 0; i < STATES; i++) {
        state[i] = zt_new(p, STATE_BYTES);
    }
    for (int i = 0; i < STATES; i++) {
        zt_drop(p, &state[i]);
    }
}

/* The first forward pads pieces that were made without padding. */
static void pad_pieces(zt_process *p, const fsdp2 *f)
{
    for (uint32_t i = 0; i < f->count; i++) {
        const group *g = &f->groups[(i + f->count - 1) % f->count]; /* the root first */
        for (uint32_t k = 0; k < g->params; k++) {
            shard *s = shard_of(g->param[k]);
            const uint64_t bytes = zl_mul(s->padded, f->param_bytes);
            if (zt_storage_bytes(p, s->piece) != bytes) {
                zt_storage padded = zt_new(p, bytes);
                zt_name(p, padded, "parameter shards");
                zt_drop(p, &s->piece);
                s->piece = padded;
            }
        }
    }
}

/* The operations see the unsharded parameter: it has no memory before its first gathering. */
static void hide_params(zt_process *p, const fsdp2 *f)
{
    for (uint32_t i = 0; i < p->param_count; i++) {
        zt_tensor *value = &p->named[i]->value;
        value->storage = zt_new(p, 0);
        value->element_bytes = f->compute_bytes;
    }
}

static void init(zt_process *p)
{
    make_groups(p);
    fsdp2 *f = p->user;
    if (p->run->meta_init) {
        materialize(p, p->root);
        seed_generator(p);
    } else {
        for (uint32_t i = 0; i < f->count; i++) {
            shard_group(p, &f->groups[i], i < p->layer_count ? p->layers[i] : p->root);
        }
    }
    hide_params(p, f);
    p->optimizer = zt_optimizer_new(p, p->run->optimizer);
    for (uint32_t i = 0; i < p->param_count; i++) {
        if (p->named[i]->trains) {
            zt_optimizer_add(p, p->optimizer, shard_of(p->named[i])->local, f->param_bytes);
        }
    }
}

/* ---- gathering ---- */

static uint64_t unsharded_bytes(const zt_process *p, const fsdp2 *f, const zt_param *param)
{
    return zl_prod(shard_of(param)->padded, p->run->ranks, f->compute_bytes);
}

/* Blocks that copy a rank's pieces, each so many bytes of one piece. */
static uint64_t blocks_of(zt_param *const *param, uint32_t count, uint32_t element_bytes,
                          uint64_t block)
{
    uint64_t blocks = 0;
    for (uint32_t i = 0; i < count; i++) {
        blocks =
            zl_add(blocks, zl_ceil_div(zl_mul(shard_of(param[i])->padded, element_bytes), block));
    }
    return blocks;
}

/* split_with_sizes_copy: its kernel reads a table of 64-bit numbers on the device: two addresses, a
 * size and the first block of each tensor, the end of the blocks, and the tensor of every block. A
 * block copies 2 KiB of every rank's piece; more, and of several ranks in turn, if there would be
 * more than twice as many blocks as run at once. */
static uint64_t copy_out_table(const zt_process *p, const group *g)
{
    const uint64_t running = 16; /* of 128 threads, on a multiprocessor with 2,048 */
    const uint64_t ranks = p->run->ranks;
    const uint32_t bytes = g->fsdp->compute_bytes;
    const uint64_t blocks = blocks_of(g->param, g->params, bytes, KERNEL_BLOCK);
    const uint64_t work =
        zl_ceil_div(zl_mul(blocks, ranks), zl_prod(2, running, p->run->multiprocessors));
    uint64_t in_turn = 1; /* the root of the work per block, rounded up */
    while (zl_mul(in_turn, in_turn) < work) {
        in_turn++;
    }
    const uint64_t rounds = zl_ceil_div(work, zl_min(in_turn, ranks));
    const uint64_t numbers = zl_add(zl_mul(4, g->params), 1);
    return zl_mul(
        8, zl_add(numbers, blocks_of(g->param, g->params, bytes, zl_mul(KERNEL_BLOCK, rounds))));
}

/* unshard(): on the copy-in stream; the pieces are cast first where the policy asks for it. */
static void start_gathering(zt_process *p, group *g)
{
    const fsdp2 *f = g->fsdp;
    if (g->unsharded || g->gathered != ZT_NO_STORAGE) {
        return;
    }
    if (p->run->ranks == 1) {
        return; /* the pieces are the parameters: finish_gathering copies them */
    }
    const uint32_t before = zt_set_stream(p, COPY_IN_STREAM);
    zt_storage cast = f->compute_bytes == f->param_bytes
                          ? ZT_NO_STORAGE
                          : zt_new(p, zl_mul(g->padded, f->compute_bytes));
    g->gathered = zt_new(p, zl_prod(g->padded, p->run->ranks, f->compute_bytes));
    zt_name(p, g->gathered, "flat buffer of a gather");
    zt_drop(p, &cast);
    zt_set_stream(p, before);
}

static void copy_one_rank(zt_process *p, const group *g)
{
    const fsdp2 *f = g->fsdp;
    zt_storage cast = ZT_NO_STORAGE;
    for (uint32_t i = 0; i < g->params; i++) {
        const uint64_t bytes = unsharded_bytes(p, f, g->param[i]);
        if (f->compute_bytes != f->param_bytes) {
            zt_storage next = zt_new(p, bytes);
            zt_drop(p, &cast);
            cast = next;
        }
        zt_resize(p, g->param[i]->value.storage, bytes);
        zt_name(p, g->param[i]->value.storage, "gathered parameters");
    }
    zt_drop(p, &cast);
}

/* wait_for_unshard(). In forward the flat buffer is kept until the next group has been copied out,
 * so that its gathering may overlap this copy. */
static void finish_gathering(zt_process *p, group *g, bool forward)
{
    fsdp2 *f = g->fsdp;
    if (g->unsharded) {
        return;
    }
    g->unsharded = true;
    if (p->run->ranks == 1) {
        copy_one_rank(p, g);
        return;
    }
    for (uint32_t i = 0; i < g->params; i++) {
        zt_resize(p, g->param[i]->value.storage, unsharded_bytes(p, f, g->param[i]));
        zt_name(p, g->param[i]->value.storage, "gathered parameters");
    }
    zt_touch(p, copy_out_table(p, g));
    if (forward) {
        zt_drop(p, &f->gathered_before);
        f->gathered_before = g->gathered;
        g->gathered = ZT_NO_STORAGE;
    } else {
        zt_drop(p, &g->gathered);
    }
}

static void reshard(zt_process *p, group *g)
{
    for (uint32_t i = 0; i < g->params && g->unsharded; i++) {
        zt_resize(p, g->param[i]->value.storage, 0);
    }
    g->unsharded = false;
}

/* ---- reduction ---- */

/* chunk_cat: six numbers of each tensor, two ends, and the tensor of every block; a block writes
 * 2 KiB of one rank's piece. */
static uint64_t copy_in_table(const fsdp2 *f, zt_param *const *param, uint32_t count)
{
    const uint64_t blocks = blocks_of(param, count, f->reduce_bytes, KERNEL_BLOCK);
    return zl_mul(8, zl_add(zl_add(zl_mul(6, count), 2), blocks));
}

/* foreach_reduce(): the list of gradients is cleared from its end, its last element lives on in a
 * loop variable until the function returns. */
static void reduce(zt_process *p, group *g, zt_param *const *param, zt_tensor *gradient,
                   uint32_t count)
{
    fsdp2 *f = g->fsdp;
    uint64_t padded = 0;
    for (uint32_t i = 0; i < count; i++) {
        padded = zl_add(padded, shard_of(param[i])->padded);
    }
    zt_drop(p, &f->reduce_input);
    f->reduce_input = zt_new(p, zl_prod(padded, p->run->ranks, f->reduce_bytes));
    zt_name(p, f->reduce_input, "flat copy of gradients to reduce");
    zt_touch(p, copy_in_table(f, param, count));
    for (uint32_t i = count - 1; i-- > 0;) {
        zt_release(p, &gradient[i]);
    }
    zt_storage output = zt_new_on(p, zl_mul(padded, f->reduce_bytes), REDUCE_STREAM);
    zt_name(p, output, "gradient shards");
    zt_release(p, &gradient[count - 1]);
    for (uint32_t i = 0; i < count; i++) { /* a gradient that is there gets it added in place */
        shard *s = shard_of(param[i]);
        s->gradient = s->gradient == ZT_NO_STORAGE ? zt_hold(p, output) : s->gradient;
    }
    zt_drop(p, &output);
}

static void post_backward(zt_process *p, group *g)
{
    zt_param **param = zt_arena(p, g->params, sizeof(zt_param *));
    zt_tensor *gradient = zt_arena(p, g->params, sizeof *gradient);
    uint32_t count = 0;
    for (uint32_t i = 0; i < g->params; i++) {
        if (g->param[i]->grad.storage != ZT_NO_STORAGE) {
            param[count] = g->param[i];
            gradient[count++] = g->param[i]->grad;
            g->param[i]->grad = (zt_tensor){0};
        }
    }
    reshard(p, g);
    if (count > 0) {
        reduce(p, g, param, gradient, count);
    }
}

/* ---- hooks ---- */

/* Groups whose inputs needed no gradient reduce here: the root, whose input are token ids. */
static void end_of_backward(zt_process *p, void *context)
{
    fsdp2 *f = context;
    for (uint32_t i = 0; i < f->count; i++) {
        group *g = &f->groups[(i + f->count - 1) % f->count]; /* the root first */
        if (g->unsharded) {
            post_backward(p, g);
        }
        g->in_backward = false;
        g->position = -1;
        zt_drop(p, &g->gathered);
    }
    f->ordered = 0;
    zt_drop(p, &f->reduce_input);
    f->callback_queued = false;
}

static void on_post_backward(zt_process *p, void *context, zt_tensor *gradient)
{
    (void)gradient;
    post_backward(p, context);
}

/* Before backward enters a module: its group is gathered, and the one that forward ran before it is
 * started. */
static void on_pre_backward(zt_process *p, void *context, zt_tensor *gradient)
{
    group *g = context;
    fsdp2 *f = g->fsdp;
    (void)gradient;
    if (!f->callback_queued) {
        f->callback_queued = true;
        zt_queue_callback(p, end_of_backward, f);
    }
    if (g->in_backward) {
        return;
    }
    g->in_backward = true;
    start_gathering(p, g);
    finish_gathering(p, g, false);
    const int32_t position = g->position;
    g->position = -1;
    if (position > 0) {
        start_gathering(p, f->order[position - 1]);
    }
}

/* While a layer is recomputed, the backward hooks around it do the work. */
static void enter(zt_process *p, zt_module *m, zt_tensor *input, size_t count)
{
    group *g = m->user;
    if (g == NULL || g->in_backward) {
        return;
    }
    if (!g->fsdp->started) {
        g->fsdp->started = true;
        pad_pieces(p, g->fsdp);
    }
    start_gathering(p, g);
    finish_gathering(p, g, true);
    zt_identity(p, input, count, false, on_post_backward, g);
}

static void leave(zt_process *p, zt_module *m, zt_tensor *output, size_t count)
{
    group *g = m->user;
    if (g == NULL || g->in_backward) {
        return;
    }
    fsdp2 *f = g->fsdp;
    if (reshards_after_forward(p)) {
        reshard(p, g);
    }
    g->position = (int32_t)f->ordered;
    f->order[f->ordered++] = g;
    for (size_t i = 0; i < count; i++) {
        zt_hook_gradient(p, output[i], on_pre_backward, g);
    }
    if (is_root(g)) {
        zt_drop(p, &f->gathered_before);
    }
}

static void zero_grad(zt_process *p)
{
    for (uint32_t i = 0; i < p->param_count; i++) {
        zt_drop(p, &shard_of(p->named[i])->gradient);
    }
}

/* DTensor's generator broadcasts at initialization. */
static zt_nccl nccl(const zt_process *p)
{
    const fsdp2 *f = p->user;
    const bool meta = p->run->meta_init;
    return p->run->simulated
               ? (zt_nccl){0}
               : (zt_nccl){.communicators = 1, .used = f->started || meta, .broadcast = meta};
}

const zt_framework zt_fsdp2 = {
    .init = init,
    .enter = enter,
    .leave = leave,
    .zero_grad = zero_grad,
    .nccl = nccl,
};
