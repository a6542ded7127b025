/* zl advise: the changes that lower a run's peak, what each costs, and the fewest that make it fit.
 */
#include "advise.h"

#include <stdlib.h>

#include "zeroledger/bytes.h"

const zl_option zl_advise_options[] = {
    ZL_CAPACITY_OPTIONS,
    {"rank", NULL, "R", NULL, "which rank (default: the heaviest)"},
    {0},
};

static zl_status take_capacity(const zl_args *args, zl_asked *asked, zl_err *err)
{
    const bool some = zl_args_value(args, "capacity") != NULL || zl_args_value(args, "gpu") != NULL;
    if (!some && zl_args_value(args, "headroom") != NULL) {
        return zl_fail(err, ZL_E_USAGE,
                       "headroom is of a capacity; give --capacity BYTES or --gpu "
                       "NAME");
    }
    asked->limited = some;
    return some ? zl_capacity_read(args, &asked->c, err) : ZL_OK;
}

static zl_status read_question(const zl_args *args, zl_asked *asked, zl_err *err)
{
    bool given = false;
    ZL_TRY(take_capacity(args, asked, err));
    ZL_TRY(zl_args_run(args, &asked->run, err));
    asked->native = asked->run.framework == ZL_FRAMEWORK_NATIVE;
    ZL_TRY(zl_args_rank(args, &asked->run, &given, &asked->rank, err));
    asked->one_rank = given;
    if (!asked->native) {
        ZL_TRY(zl_walked_new(args, &asked->run, &asked->w, err));
        asked->run = asked->w.run;
        asked->torch = asked->w.torch;
        asked->rank = asked->w.rank;
    }
    return ZL_OK;
}

static zl_status refuse_unmodelled(const zl_asked *asked, zl_err *err)
{
    if (asked->native || !asked->torch.states_only) {
        return ZL_OK;
    }
    return zl_fail(
        err, ZL_E_UNMODELLED,
        "activations of this model are not modelled, so its peak is not known; give them "
        "with --activations BYTES");
}

/* A run that cannot be predicted at all says why. */
static zl_status predict_now(zl_asked *asked, zl_err *err)
{
    ZL_TRY(
        zl_outlook_get(asked, &asked->run, zl_asked_torch(asked), ZL_DEPTH_ALL, &asked->now, err));
    if (asked->now.predicted) {
        return ZL_OK;
    }
    zl_ledger *ledger = NULL;
    const zl_status status = zl_predicted(&asked->run, asked->rank, &ledger, err);
    zl_ledger_free(ledger);
    return status != ZL_OK ? status : zl_fail(err, ZL_E_BUG, "no outlook; please report this");
}

/* 1: a capacity was given, and neither the run nor any set of changes fits in it. */
static zl_status verdict(const zl_asked *asked, const zl_advice *advice)
{
    bool fits = asked->now.fits || advice->sets > 0;
    for (size_t i = 0; i < advice->ones; i++) {
        fits |= advice->one[i].outlook.fits;
    }
    return fits ? ZL_OK : ZL_NO;
}

static zl_status answer(const zl_args *args, zl_asked *asked, zl_err *err)
{
    zl_advice advice;
    ZL_TRY(refuse_unmodelled(asked, err));
    ZL_TRY(predict_now(asked, err));
    ZL_TRY(zl_advice_find(asked, &advice, err));
    zl_status status = args->view.format == ZL_FORMAT_JSON
                           ? zl_advice_json(args, asked, &advice, err)
                           : zl_advice_page(args, asked, &advice, err);
    status = status == ZL_OK ? verdict(asked, &advice) : status;
    zl_advice_clear(&advice);
    return status;
}

zl_status zl_cmd_advise(const zl_args *args, zl_err *err)
{
    zl_asked *asked = calloc(1, sizeof *asked);
    if (asked == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory");
    }
    zl_status status = read_question(args, asked, err);
    if (status == ZL_OK) {
        status = answer(args, asked, err);
    }
    zl_marks_clear(&asked->w.marks);
    free(asked);
    return status;
}
