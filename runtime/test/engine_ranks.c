/* Several ranks under MPI: every stage gives the same bits, and all of them together do what one
 * rank does with the union of their batches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>
#include <mpi.h>

#include "engine_kit.h"

enum { STEPS = 4 };

static zr_comm *comm;

static zl_run ranks_run(zl_family family)
{
    zl_run run = kit_run(kit_model(family));
    run.ranks = zr_comm_ranks(comm);
    return run;
}

static void check_stages(zl_run run)
{
    const kit_result want = kit_train_on(comm, &run, STEPS);
    for (uint64_t stage = 1; stage < 4; stage++) {
        for (int copy = 0; copy < 2; copy++) {
            const bool keep = copy == 0;
            if (!keep && (stage < 3 || run.precision == ZL_PRECISION_FP32 ||
                          run.precision == ZL_PRECISION_BF16)) {
                continue;
            }
            run.stage = stage;
            run.shard_copy = keep;
            char what[256];
            zl_run_describe(&run, what, sizeof what);
            const kit_result have = kit_train_on(comm, &run, STEPS);
            kit_assert_same(&want, &have, what);
        }
    }
    assert_true(want.loss[STEPS - 1] < want.loss[0]);
}

static void stages_are_equal_bit_for_bit(void **state)
{
    (void)state;
    for (int family = 0; family < ZL_FAMILY_COUNT; family++) {
        for (int precision = 0; precision < ZL_PRECISION_NATIVE_COUNT; precision++) {
            zl_run run = ranks_run((zl_family)family);
            run.precision = (zl_precision)precision;
            check_stages(run);
            run.dropout = 0.1;
            run.recompute = ZL_RECOMPUTE_FULL;
            run.attention = ZL_ATTENTION_EAGER;
            run.grad_dtype = ZL_GRAD_FP32;
            run.optimizer = ZL_OPTIMIZER_SGD;
            run.model.tied = !run.model.tied;
            check_stages(run);
        }
    }
}

/* fp32, so that only the order of summation differs; masks go by position in the union. */
static void ranks_do_what_one_does_with_the_union(void **state)
{
    (void)state;
    for (int family = 0; family < ZL_FAMILY_COUNT; family++) {
        for (uint64_t stage = 0; stage < 4; stage++) {
            zl_run run = ranks_run((zl_family)family);
            run.stage = stage;
            run.dropout = stage % 2 == 0 ? 0.0 : 0.1;
            run.accumulation = 2;
            const kit_result have = kit_train_on(comm, &run, STEPS);
            zl_run one = run;
            one.ranks = 1;
            one.micro_batch = run.micro_batch * run.ranks;
            const kit_result want = kit_train(&one, STEPS);
            kit_assert_close(&want, &have, 1e-5);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_are_equal_bit_for_bit),
        cmocka_unit_test(ranks_do_what_one_does_with_the_union),
    };
    int rank = 0;
    int ranks = 0;
    zl_err err = {0};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (zr_comm_new((uint64_t)rank, (uint64_t)ranks, &comm, &err) != ZL_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (failed != 0) {
        MPI_Abort(MPI_COMM_WORLD, 1); /* the other ranks may wait for this one */
    }
    zr_comm_free(comm);
    return failed;
}
