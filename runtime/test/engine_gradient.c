/* The gradient of whole models against central differences, fp32, tensor by tensor: the derivative
 * along the gradient itself and along a random direction. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "engine_kit.h"
#include "train/state.h"

/* Losses are sums in fp64 of fp32 rows near 4: their noise, about 1e-7, over a difference of
 * 2 STEP |g| leaves three digits where |g| > 0.01; the cubic term is of the same size. */
static const double STEP = 0.01;
static const double TOLERANCE = 5e-3;
static const double NOISE = 2e-5;

static void must(zl_status status, const zl_err *err)
{
    if (status != ZL_OK) {
        fail_msg("status %d: %s", (int)status, err->text);
    }
}

/* One forward and backward; gradients stay in grad.unit until drop_gradient. */
static double evaluate(kit_rig *rig)
{
    zr_engine *e = rig->engine;
    zl_err err = {0};
    e->micro = 0;
    must(kit_next(&rig->data, 0, 0, &e->batch, &err), &err);
    must(zr_batch_check(e, &err), &err);
    must(zr_pass_forward(e, &err), &err);
    must(zr_pass_backward(e, &err), &err);
    return e->news.loss[0] / zr_batch_targets(e) + e->news.loss[1] / zr_batch_pairs(e);
}

static double loss_at(kit_rig *rig, float *w, const float *start, const double *direction,
                      uint64_t n, double step)
{
    for (uint64_t i = 0; i < n; i++) {
        w[i] = (float)((double)start[i] + step * direction[i]);
    }
    const double loss = evaluate(rig);
    zr_grad_free_all(&rig->engine->zero);
    memcpy(w, start, n * sizeof *w);
    return loss;
}

static void check_direction(kit_rig *rig, float *w, const double *g, const double *direction,
                            uint64_t n, const char *what)
{
    float *start = malloc(n * sizeof *start);
    assert_non_null(start);
    memcpy(start, w, n * sizeof *start);
    double want = 0.0;
    for (uint64_t i = 0; i < n; i++) {
        want += g[i] * direction[i];
    }
    const double above = loss_at(rig, w, start, direction, n, STEP);
    const double below = loss_at(rig, w, start, direction, n, -STEP);
    const double have = (above - below) / (2.0 * STEP);
    if (!(fabs(have - want) <= TOLERANCE * fabs(want) + NOISE)) {
        fail_msg("%s: the gradient says %.8g, the loss %.8g", what, want, have);
    }
    free(start);
}

static void normalize(double *x, uint64_t n)
{
    double sum = 0.0;
    for (uint64_t i = 0; i < n; i++) {
        sum += x[i] * x[i];
    }
    for (uint64_t i = 0; i < n && sum > 0.0; i++) {
        x[i] /= sqrt(sum);
    }
}

static void check_tensor(kit_rig *rig, uint64_t u, const zr_tensor *tensor, const double *g)
{
    const uint64_t n = tensor->elements;
    const zr_store *store = &rig->engine->zero.store[u];
    float *w = (float *)store->param.ptr + tensor->offset;
    double *direction = malloc(n * sizeof *direction);
    assert_non_null(direction);
    char what[64];
    snprintf(what, sizeof what, "unit %d, tensor role %d", (int)u, (int)tensor->role);
    memcpy(direction, g, n * sizeof *direction);
    normalize(direction, n);
    check_direction(rig, w, g, direction, n, what);
    for (uint64_t i = 0; i < n; i++) {
        direction[i] = kit_uniform(i + 1000 * u);
    }
    normalize(direction, n);
    check_direction(rig, w, g, direction, n, what);
    free(direction);
}

/* Trained weights are larger than first ones, and no gain is 1 and no bias 0. */
static void stir(zr_zero *zero)
{
    uint64_t number = 0;
    for (uint64_t u = 0; u < zero->units; u++) {
        const zr_store *store = &zero->store[u];
        for (uint64_t t = 0; t < store->unit->count; t++) {
            const zr_tensor *tensor = &store->unit->tensor[t];
            float *w = (float *)store->param.ptr + tensor->offset;
            for (uint64_t i = 0; i < tensor->elements; i++) {
                w[i] += (float)kit_uniform(number++) * 0.6F;
            }
        }
    }
}

static void check_model(zl_run *run)
{
    run->clip = 0.0;
    kit_rig rig = kit_open(run, NULL);
    zr_zero *zero = &rig.engine->zero;
    stir(zero);
    (void)evaluate(&rig);
    double **g = calloc(zero->units, sizeof *g);
    assert_non_null(g);
    for (uint64_t u = 0; u < zero->units; u++) {
        const uint64_t n = zero->store[u].unit->elements;
        g[u] = malloc(n * sizeof **g);
        assert_non_null(g[u]);
        for (uint64_t i = 0; i < n; i++) {
            g[u][i] = (double)((const float *)zero->store[u].grad.ptr)[i];
        }
    }
    zr_grad_free_all(zero);
    for (uint64_t u = 0; u < zero->units; u++) {
        for (uint64_t t = 0; t < zero->store[u].unit->count; t++) {
            const zr_tensor *tensor = &zero->store[u].unit->tensor[t];
            check_tensor(&rig, u, tensor, g[u] + tensor->offset);
        }
        free(g[u]);
    }
    free(g);
    kit_close(&rig);
}

static void gpt2_gradient_is_the_derivative(void **state)
{
    (void)state;
    zl_run run = kit_run(kit_model(ZL_FAMILY_GPT2));
    check_model(&run);
    run.attention = ZL_ATTENTION_EAGER;
    run.head_chunk = 5;
    run.model.tied = false;
    check_model(&run);
}

static void llama_gradient_is_the_derivative(void **state)
{
    (void)state;
    zl_run run = kit_run(kit_model(ZL_FAMILY_LLAMA));
    check_model(&run);
    run.attention = ZL_ATTENTION_EAGER;
    run.model.tied = run.model.qkv_bias = run.model.out_bias = run.model.mlp_bias = true;
    check_model(&run);
}

static void bert_gradient_is_the_derivative(void **state)
{
    (void)state;
    zl_run run = kit_run(kit_model(ZL_FAMILY_BERT));
    check_model(&run);
    run.attention = ZL_ATTENTION_EAGER;
    run.head_chunk = 7;
    run.model.tied = run.model.pooler = false;
    check_model(&run);
}

/* The masks depend on the counter alone, so the loss with dropout is a function like any other. */
static void gradient_sees_the_forward_s_masks(void **state)
{
    (void)state;
    for (int family = 0; family < ZL_FAMILY_COUNT; family++) {
        zl_run run = kit_run(kit_model((zl_family)family));
        run.dropout = 0.2;
        check_model(&run);
        run.attention = ZL_ATTENTION_EAGER;
        check_model(&run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2_gradient_is_the_derivative),
        cmocka_unit_test(llama_gradient_is_the_derivative),
        cmocka_unit_test(bert_gradient_is_the_derivative),
        cmocka_unit_test(gradient_sees_the_forward_s_masks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
