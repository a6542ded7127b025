/* zl_solve of frameworks against walking every value, and against what it promises. */
#include "base_test.h"

#include <inttypes.h>

#include "zeroledger/bytes.h"
#include "zeroledger/solve.h"
#include "zeroledger/torch.h"

typedef struct subject {
    const char *model, *framework, *stage, *ranks, *precision;
} subject;

static const subject subjects[] = {
    {"gpt2-tiny", "single", NULL, "1", "bf16-autocast"},
    {"bert-tiny", "ddp", NULL, "2", "fp32"},
    {"llama-tiny", "zero1", NULL, "4", "bf16-autocast"},
    {"gpt2-tiny", "fsdp1", NULL, "4", "bf16-mixed"},
    {"llama-tiny", "fsdp2", "3", "4", "bf16-mixed"},
    {"bert-tiny", "fsdp2", "2", "4", "bf16-mixed"},
    {"gpt2-tiny", "deepspeed", "1", "4", "fp16-mixed"},
    {"llama-tiny", "deepspeed", "2", "4", "bf16-mixed"},
    {"gpt2-tiny", "deepspeed", "3", "4", "bf16-mixed"},
};

enum { MIB = 1 << 20 };

static void prepare(const subject *s, zl_run *run, zl_torch_run *torch)
{
    zl_err err = {.status = ZL_OK};
    zl_run_init(run);
    assert_ok(zl_run_set(run, "framework", s->framework, &err), &err);
    assert_ok(zl_run_set(run, "model", s->model, &err), &err);
    assert_ok(zl_run_set(run, "ranks", s->ranks, &err), &err);
    assert_ok(zl_run_set(run, "seq", "64", &err), &err);
    assert_ok(zl_run_set(run, "precision", s->precision, &err), &err);
    if (s->stage != NULL) {
        assert_ok(zl_run_set(run, "stage", s->stage, &err), &err);
    }
    assert_ok(zl_run_check(run, &err), &err);
    assert_ok(zl_torch_run_from(run, torch, NULL, NULL, &err), &err);
}

/* A whole run of every rank that may be the heaviest, in a device of this capacity. */
static bool walks_through(zl_torch_run run, uint64_t capacity)
{
    uint64_t rank = 0;
    run.device_total = capacity;
    for (uint64_t i = 0; zl_torch_rank_at(&run, i, &rank); i++) {
        zl_marks marks = {0};
        zl_err err = {.status = ZL_OK};
        const zl_status status = zl_torch_predict(&run, rank, &marks, &err);
        zl_marks_clear(&marks);
        if (status == ZL_NO) {
            return false;
        }
        assert_ok(status, &err);
    }
    return true;
}

/* What a whole run would have allocated at most. */
static uint64_t allocated(const zl_torch_run *run)
{
    zl_marks marks = {0};
    uint64_t most = 0;
    zl_err err = {.status = ZL_OK};
    assert_ok(zl_torch_predict(run, 0, &marks, &err), &err);
    for (size_t i = 0; i < marks.count; i++) {
        most = zl_max(most, marks.mark[i].peak_allocated);
    }
    zl_marks_clear(&marks);
    return most;
}

/* Forty sequences would just fit if nothing were lost between buffers. The answer does, and of all
 * larger ones none, though between smaller ones there may be some that do not either. */
static void the_largest_micro_batch_is_certified(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(subjects); i++) {
        zl_run run;
        zl_torch_run torch;
        zl_fit fit;
        zl_err err = {.status = ZL_OK};
        prepare(&subjects[i], &run, &torch);
        torch.micro_batch = 40;
        const zl_question question = {.quantity = ZL_QUANTITY_MICRO_BATCH,
                                      .capacity = allocated(&torch)};
        assert_ok(zl_solve(&run, &question, &fit, &err), &err);
        assert_true(fit.found && fit.best.fits && fit.next.tried && !fit.next.fits);
        assert_true(fit.best.value <= 40 && fit.best.bytes <= question.capacity);
        assert_int_equal(fit.next.value, fit.best.value + 1);
        assert_int_equal(fit.end, ZL_FIT_CAPACITY);
        for (uint64_t n = fit.best.value; n <= 45; n++) {
            torch.micro_batch = n;
            if (walks_through(torch, question.capacity) != (n == fit.best.value)) {
                fail_msg("%s on %s: best %" PRIu64 ", but %" PRIu64 " is otherwise",
                         subjects[i].model, subjects[i].framework, fit.best.value, n);
            }
        }
        assert_true(fit.walks <= 40);
    }
}

static void layers_and_sequence_are_certified(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(subjects); i++) {
        zl_run run;
        zl_torch_run torch;
        zl_fit fit;
        zl_err err = {.status = ZL_OK};
        prepare(&subjects[i], &run, &torch);
        zl_torch_run deep = torch;
        deep.model.layers = 13;
        zl_question question = {.quantity = ZL_QUANTITY_LAYERS, .capacity = allocated(&deep)};
        assert_ok(zl_solve(&run, &question, &fit, &err), &err);
        assert_true(fit.found && fit.next.value == fit.best.value + 1);
        deep.model.layers = fit.best.value;
        assert_true(walks_through(deep, question.capacity));
        deep.model.layers++;
        assert_false(walks_through(deep, question.capacity));

        question.quantity = ZL_QUANTITY_SEQ;
        question.capacity = allocated(&torch) * 2;
        assert_ok(zl_solve(&run, &question, &fit, &err), &err);
        assert_true(fit.found);
        torch.seq = fit.best.value;
        assert_true(walks_through(torch, question.capacity));
        if (zl_hf_longest(&torch.model) == fit.best.value) {
            assert_int_equal(fit.end, ZL_FIT_POSITIONS);
            assert_false(fit.next.tried);
        } else {
            torch.seq++;
            assert_int_equal(fit.next.value, torch.seq);
            assert_false(walks_through(torch, question.capacity));
        }
    }
}

/* A capacity between what 4 and 64 ranks need; and one that no number of ranks is enough for. */
static void the_fewest_ranks_are_certified(void **state)
{
    (void)state;
    const subject s = {"gpt2", "fsdp2", "3", "4", "bf16-mixed"};
    zl_run run;
    zl_torch_run torch;
    zl_fit fit;
    zl_err err = {.status = ZL_OK};
    prepare(&s, &run, &torch);
    zl_question question = {.quantity = ZL_QUANTITY_RANKS, .capacity = UINT64_C(700) * MIB};
    assert_ok(zl_solve(&run, &question, &fit, &err), &err);
    assert_true(fit.found && fit.best.value > 1 && fit.next.value == fit.best.value - 1);
    torch.ranks = fit.best.value;
    assert_true(walks_through(torch, question.capacity));
    torch.ranks--;
    assert_false(walks_through(torch, question.capacity));

    question.capacity = UINT64_C(100) * MIB;
    assert_ok(zl_solve(&run, &question, &fit, &err), &err);
    assert_false(fit.found);
    assert_true(fit.floor > question.capacity);
    torch.ranks = 4096;
    assert_false(walks_through(torch, question.capacity));
}

/* By hand: stage 3 of deepspeed needs the least, and its file follows the stage. */
static void the_lowest_stage_is_certified(void **state)
{
    (void)state;
    const subject s = {"gpt2", "deepspeed", "0", "8", "bf16-mixed"};
    zl_run run;
    zl_torch_run torch;
    zl_fit fit;
    zl_err err = {.status = ZL_OK};
    prepare(&s, &run, &torch);
    zl_question question = {.quantity = ZL_QUANTITY_STAGE, .capacity = UINT64_C(64) << 30};
    assert_ok(zl_solve(&run, &question, &fit, &err), &err);
    assert_true(fit.found && fit.best.value == 0 && !fit.next.tried);
    assert_true(fit.stage[1].fits && fit.stage[2].fits && fit.stage[3].fits);
    question.capacity = fit.stage[0].bytes - 1;
    assert_ok(zl_solve(&run, &question, &fit, &err), &err);
    assert_false(fit.stage[0].fits);
    assert_true(fit.best.value > 0 && fit.stage[fit.best.value].fits);
    assert_int_equal(fit.next.value, fit.best.value - 1);
    question.capacity = MIB;
    assert_ok(zl_solve(&run, &question, &fit, &err), &err);
    assert_false(fit.found);
}

static void a_file_follows_the_quantity(void **state)
{
    (void)state;
    const subject s = {"gpt2-tiny", "deepspeed", NULL, "4", "bf16-mixed"};
    zl_run run;
    zl_torch_run torch;
    zl_err err = {.status = ZL_OK};
    prepare(&s, &run, &torch);
    assert_ok(zl_run_set_config(&run, "",
                                "{\"train_batch_size\": 8, \"train_micro_batch_size_per_gpu\": 2, "
                                "\"bf16\": {\"enabled\": true}, "
                                "\"zero_optimization\": {\"stage\": 2, \"overlap_comm\": false}}",
                                &err),
              &err);
    assert_ok(zl_torch_run_from(&run, &torch, NULL, NULL, &err), &err);
    assert_int_equal(torch.stage, 2);
    assert_ok(zl_quantity_set(ZL_QUANTITY_STAGE, 3, &run, &err), &err);
    assert_ok(zl_quantity_set(ZL_QUANTITY_MICRO_BATCH, 5, &run, &err), &err);
    assert_ok(zl_quantity_set(ZL_QUANTITY_RANKS, 16, &run, &err), &err);
    assert_ok(zl_quantity_set(ZL_QUANTITY_LAYERS, 9, &run, &err), &err);
    assert_ok(zl_quantity_set(ZL_QUANTITY_SEQ, 33, &run, &err), &err);
    assert_ok(zl_torch_run_from(&run, &torch, NULL, NULL, &err), &err);
    assert_int_equal(torch.stage, 3);
    assert_false(torch.ds.overlap_comm);
    assert_int_equal(torch.micro_batch, 5);
    assert_int_equal(torch.ranks, 16);
    assert_int_equal(torch.model.layers, 9);
    assert_int_equal(torch.seq, 33);
}

static void questions_without_sense_are_refused(void **state)
{
    (void)state;
    zl_run run;
    zl_torch_run torch;
    zl_fit fit;
    zl_err err = {.status = ZL_OK};
    prepare(&subjects[0], &run, &torch);
    zl_question question = {.quantity = ZL_QUANTITY_SEQ, .capacity = MIB, .low = 4096};
    assert_error(zl_solve(&run, &question, &fit, &err), &err, ZL_E_USAGE, "no seq from 4096");
    err = (zl_err){.status = ZL_OK};
    question = (zl_question){.quantity = ZL_QUANTITY_RANKS, .capacity = 0};
    assert_error(zl_solve(&run, &question, &fit, &err), &err, ZL_E_USAGE,
                 "capacity must be positive");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_micro_batch_is_certified),
        cmocka_unit_test(layers_and_sequence_are_certified),
        cmocka_unit_test(the_fewest_ranks_are_certified),
        cmocka_unit_test(the_lowest_stage_is_certified),
        cmocka_unit_test(a_file_follows_the_quantity),
        cmocka_unit_test(questions_without_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
