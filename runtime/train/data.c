#define _DEFAULT_SOURCE
#include "train/data.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zeroledger/bytes.h"

/* Independent sequences of random numbers, one per question asked about a window; evaluation asks
 * the same questions under numbers of its own. */
enum { ASK_WINDOW = 1, ASK_SECOND, ASK_CONTINUES, ASK_LENGTH, ASK_MASK, ASK_EVAL = 16 };

/* The finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014). */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* A number below `bound` that depends on nothing but the arguments. */
static uint64_t draw(uint64_t seed, uint64_t window, uint64_t ask, uint64_t i, uint64_t bound)
{
    static const uint64_t odd = 0x9e3779b97f4a7c15u;
    return mix(mix(mix(mix(seed + odd) + window * odd) + ask * odd) + i * odd) % bound;
}

static uint64_t token_at(const zr_data *data, uint64_t index)
{
    const unsigned char *const p = data->bytes + zl_mul(index, data->width);
    uint64_t id = 0;
    for (uint64_t k = data->width; k > 0; k--) {
        id = id << 8 | p[k - 1];
    }
    return id;
}

static uint64_t token_width(const zr_data_options *options)
{
    switch (options->tokens) {
    case ZR_TOKENS_U8:
        return 1;
    case ZR_TOKENS_U16:
        return 2;
    case ZR_TOKENS_U32:
        return 4;
    case ZR_TOKENS_AUTO:
    case ZR_TOKENS_COUNT:
        break;
    }
    const char *const dot = strrchr(options->path, '.');
    if (dot != NULL && strcmp(dot, ".u16") == 0) {
        return 2;
    }
    return dot != NULL && strcmp(dot, ".u32") == 0 ? 4 : 1;
}

static bool is_bert(const zr_data *data)
{
    return data->options.run->model.family == ZL_FAMILY_BERT;
}

/* Tokens that one window takes from the file in one piece. */
static uint64_t window_size(const zr_data *data)
{
    const uint64_t seq = data->options.run->seq;
    return is_bert(data) ? seq : zl_add(seq, 1);
}

static zl_status map_file(zr_data *data, zl_err *err)
{
    const char *const path = data->options.path;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0) {
        const int failure = errno;
        if (fd >= 0) {
            close(fd);
        }
        return zl_fail(err, ZL_E_INPUT, "%s: %s; name a text with --data", path, strerror(failure));
    }
    if (!S_ISREG(info.st_mode) || info.st_size == 0) {
        close(fd);
        return zl_fail(err, ZL_E_INPUT, "%s: %s", path,
                       S_ISREG(info.st_mode) ? "the file is empty" : "not a regular file");
    }
    void *const p = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    const int failure = errno;
    close(fd);
    if (p == MAP_FAILED) {
        return zl_fail(err, ZL_E_RESOURCE, "%s: %s", path, strerror(failure));
    }
    data->mapping = p;
    data->bytes = p;
    data->size = (uint64_t)info.st_size;
    return ZL_OK;
}

static zl_status check_content(const zr_data *data, zl_err *err)
{
    const char *const path = data->options.path;
    const uint64_t vocab = data->options.run->model.vocab;
    if (data->size % data->width != 0) {
        return zl_fail(err, ZL_E_INPUT,
                       "%s: %" PRIu64 " bytes are no whole number of %" PRIu64 "-byte ids", path,
                       data->size, data->width);
    }
    if (data->width == 1 && vocab < 256) {
        return zl_fail(err, ZL_E_USAGE,
                       "%s: the bytes of a text need a vocabulary of 256, the model has %" PRIu64
                       "; give --tokens u16 ids instead",
                       path, vocab);
    }
    const uint64_t least = window_size(data);
    if (data->count < least) {
        return zl_fail(err, ZL_E_INPUT,
                       "%s: %" PRIu64 " tokens, and sequences of %" PRIu64 " need %" PRIu64
                       "; give a longer file or a smaller --seq",
                       path, data->count, data->options.run->seq, least);
    }
    if (data->options.run->eval && data->held == 0) {
        return zl_fail(err, ZL_E_INPUT,
                       "%s: %" PRIu64 " tokens, and to hold some out for --eval takes %" PRIu64
                       "; give a longer file or a smaller --seq",
                       path, data->count, zl_mul(2, least));
    }
    for (uint64_t i = 0; data->width > 1 && i < data->count; i++) {
        const uint64_t id = token_at(data, i);
        if (id >= vocab) {
            return zl_fail(err, ZL_E_INPUT,
                           "%s: token %" PRIu64 " at byte %" PRIu64 " is %" PRIu64
                           ", the vocabulary has %" PRIu64,
                           path, i, zl_mul(i, data->width), id, vocab);
        }
    }
    return ZL_OK;
}

static uint64_t held_out(const zr_data *data)
{
    const uint64_t window = window_size(data);
    return data->count < zl_mul(2, window) ? 0 : zl_max(data->count / 10, window);
}

zl_status zr_data_init(zr_data *data, const zr_data_options *options, zl_err *err)
{
    zr_data made = {.options = *options, .width = token_width(options)};
    const uint64_t vocab = options->run->model.vocab;
    ZL_TRY(map_file(&made, err));
    made.count = made.size / made.width;
    made.held = held_out(&made);
    /* Behind the bytes there is room for a mask of its own; elsewhere the last id has to serve. */
    made.mask = made.width == 1 && vocab > 256 ? 256 : vocab - 1;
    const zl_status status = check_content(&made, err);
    if (status != ZL_OK) {
        zr_data_release(&made);
        return status;
    }
    *data = made;
    return ZL_OK;
}

void zr_data_release(zr_data *data)
{
    if (data->mapping != NULL) {
        munmap(data->mapping, (size_t)data->size);
    }
    *data = (zr_data){0};
}

void zr_data_seek(zr_data *data, uint64_t step, uint64_t taken)
{
    data->step = step;
    data->taken = taken;
}

/* One sequence of a batch: the window's number, the side of the file it is from, and its rows of
 * the batch. */
typedef struct sequence {
    uint64_t window;
    bool eval;
    uint64_t first;   /* token of the side */
    uint64_t places;  /* windows that fit into it */
    int32_t *tokens;  /* (T) */
    int32_t *targets; /* (T) */
} sequence;

static uint64_t ask(const zr_data *data, const sequence *s, uint64_t question, uint64_t i,
                    uint64_t bound)
{
    return draw(data->options.seed, s->window, question + (s->eval ? ASK_EVAL : 0), i, bound);
}

static void fill_causal(const zr_data *data, const sequence *s)
{
    const uint64_t seq = data->options.run->seq;
    const uint64_t start = s->first + ask(data, s, ASK_WINDOW, 0, s->places);
    for (uint64_t t = 0; t < seq; t++) {
        s->tokens[t] = (int32_t)token_at(data, start + t);
        s->targets[t] = (int32_t)token_at(data, start + t + 1);
    }
}

/* Masks ceil(15 %) of the first `length` positions: each is taken with the probability that keeps
 * the count exact (Knuth, TAOCP 2, 3.4.2, algorithm S). */
static void mask_some(const zr_data *data, const sequence *s, uint64_t length)
{
    uint64_t wanted = zl_ceil_div(zl_mul(length, 15), 100);
    for (uint64_t t = 0; t < length; t++) {
        if (ask(data, s, ASK_MASK, t, length - t) < wanted) {
            s->targets[t] = s->tokens[t];
            s->tokens[t] = (int32_t)data->mask;
            wanted--;
        }
    }
}

/* Returns the number of real tokens; *continues tells whether the second half follows the first. */
static uint64_t fill_masked(const zr_data *data, const sequence *s, bool *continues)
{
    const zl_run *const run = data->options.run;
    const uint64_t seq = run->seq;
    const uint64_t shortest = zl_max(seq / 2, 1);
    const uint64_t length =
        data->options.varlen ? shortest + ask(data, s, ASK_LENGTH, 0, seq - shortest + 1) : seq;
    const uint64_t start = ask(data, s, ASK_WINDOW, 0, s->places);
    const uint64_t half = length / 2;
    *continues = !run->model.pooler || ask(data, s, ASK_CONTINUES, 0, 2) == 0;
    uint64_t second = start;
    if (!*continues && s->places > 1) { /* anywhere else */
        second = (start + 1 + ask(data, s, ASK_SECOND, 0, s->places - 1)) % s->places;
    }
    for (uint64_t t = 0; t < seq; t++) {
        const uint64_t from = s->first + (t < half ? start : second) + t;
        s->tokens[t] = t < length ? (int32_t)token_at(data, from) : 0;
        s->targets[t] = -1;
    }
    mask_some(data, s, length);
    return length;
}

static void fill_bert(const zr_data *data, const sequence *s, uint64_t b, zr_batch *batch)
{
    const uint64_t seq = data->options.run->seq;
    bool continues;
    const uint64_t length = fill_masked(data, s, &continues);
    const bool two = data->options.run->model.pooler && data->options.run->model.types > 1;
    for (uint64_t t = 0; t < seq; t++) {
        const bool second = two && t >= length / 2 && t < length;
        batch->types[b * seq + t] = second ? 1 : 0;
    }
    batch->lengths[b] = (int32_t)length;
    if (batch->next != NULL) {
        batch->next[b] = continues ? 1 : 0;
    }
}

/* Number of this rank's first window in a batch. The windows of training and those of evaluation
 * are counted apart; the latter by the step alone, so that it is the same whatever came before. */
static uint64_t first_window(const zr_data *data, uint64_t step, uint64_t micro)
{
    const zl_run *const run = data->options.run;
    const bool eval = micro == ZR_EVAL_BATCH;
    const uint64_t before = eval ? step : zl_mul(step - data->step, run->accumulation) + micro;
    const uint64_t batch = zl_add(zl_mul(before, run->ranks), data->options.rank);
    return zl_add(eval ? 0 : data->taken, zl_mul(batch, run->micro_batch));
}

zl_status zr_data_next(void *context, uint64_t step, uint64_t micro, zr_batch *batch, zl_err *err)
{
    const zr_data *const data = context;
    const zl_run *const run = data->options.run;
    (void)err;
    const bool eval = micro == ZR_EVAL_BATCH;
    const uint64_t side = eval ? data->held : data->count - data->held;
    const uint64_t first = first_window(data, step, micro);
    for (uint64_t b = 0; b < run->micro_batch; b++) {
        const sequence s = {
            .window = zl_add(first, b),
            .eval = eval,
            .first = eval ? data->count - data->held : 0,
            .places = side - window_size(data) + 1,
            .tokens = batch->tokens + b * run->seq,
            .targets = batch->targets + b * run->seq,
        };
        if (is_bert(data)) {
            fill_bert(data, &s, b, batch);
        } else {
            fill_causal(data, &s);
        }
    }
    return ZL_OK;
}
