#include <stdio.h>

#include "cli/cli.h"
#include "drive/child.h"
#include "drive/mutants.h"

/* Tries one mutant and prints a line about it. */
static zl_status try_mutant(const zv_settings *s, const zv_mutants *all, const zv_mutant *m,
                            const zv_trainer *trainer, size_t *escaped, zl_err *err)
{
    zv_verdict verdict;
    char why[256] = "";
    zl_err own = {0};
    const zl_status status = zv_mutant_run(m, &all->tolerance, trainer, s->out, &verdict, &own);
    if (status > ZL_NO) {
        return zl_fail(err, status, "%s", own.text);
    }
    if (zv_interrupted()) {
        return zl_fail(err, ZL_E_RESOURCE, "interrupted at mutant %s", m->name);
    }
    const bool caught =
        status == ZL_OK && zv_mutant_caught(m, &all->tolerance, &verdict, why, sizeof why);
    printf("%-8s %-24s %s\n", caught ? "caught" : "escaped", m->name,
           caught            ? verdict.message
           : status == ZL_NO ? own.text
                             : why);
    fflush(stdout);
    *escaped += !caught;
    return ZL_OK;
}

static zl_status try_all(const zv_settings *s, const zv_mutants *all, zl_err *err)
{
    zv_trainer trainer;
    size_t escaped = 0;
    ZL_TRY(zv_trainer_at(s->train, &trainer, err));
    ZL_TRY(zv_signals_block(err));
    trainer.limit = s->limit > UINT32_MAX ? 0 : (unsigned)s->limit;
    for (size_t i = 0; i < all->count; i++) {
        ZL_TRY(try_mutant(s, all, &all->item[i], &trainer, &escaped, err));
    }
    printf("%zu mutants, %zu escaped\n", all->count, escaped);
    return escaped == 0 ? ZL_OK : ZL_NO;
}

zl_status zv_cmd_mutants(const zv_settings *s, zl_err *err)
{
    char path[ZV_PATH_SIZE];
    zv_mutants all;
    if (s->train == NULL) {
        return zl_fail(err, ZL_E_USAGE,
                       "mutants need --train PROGRAM, a trainer that obeys ZR_FAULT");
    }
    ZL_TRY(zv_data_file("mutants.json", path, err));
    ZL_TRY(zv_mutants_load(s->mutants == NULL ? path : s->mutants, &all, err));
    const zl_status status = try_all(s, &all, err);
    zv_mutants_release(&all);
    return status;
}
