#include "peers/page.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fit/stats.h"
#include "peers/estimator.h"
#include "zeroledger/bytes.h"
#include "zeroledger/text.h"

static const char page_head[] =
    "# Other calculators on the same runs\n"
    "\n"
    "Written by `zl-validate peers`; a test keeps it up to date. The runs are those of\n"
    "[validate/records](../validate/records/README.md). What the others answer is in `peers.json` "
    "there, as it\n"
    "was collected together with the measurements (it does not say their versions), except that "
    "DeepSpeed's\n"
    "estimators are asked about DeepSpeed's runs here, by their formula "
    "(`validate/peers/estimator.c`).\n"
    "\n"
    "An error is the distance from the measured bytes, in percent of them; *too low* counts the "
    "runs that\n"
    "need more than the answer. The last two columns are zeroledger's errors for the same figure "
    "of the\n"
    "same runs. Every figure is one of `torch.cuda.memory_stats()`: what tensors take after the\n"
    "allocator's rounding. Reserved memory, context and libraries come on top; see "
    "[accuracy.md](accuracy.md).\n"
    "\n"
    "## Who is asked what\n"
    "\n"
    "- *matched*: the calculator is set like the run as far as its options go; *defaults*: it "
    "keeps its own.\n"
    "  It answers only for setups that it knows.\n"
    "- `naive-16` and `naive-18` are the rules of thumb: 16 or 18 bytes a parameter, of which "
    "ZeRO's stage\n"
    "  divides its share, and s b h L (34 + 5 a s / h) bytes of activations, the second term only "
    "with eager\n"
    "  attention, 2 s b h L with recomputation, and all but dropout masks twice in fp32 (s tokens, "
    "b sequences,\n"
    "  h width, L layers, a heads). `naive-matched` has the bytes a parameter of the run's "
    "precision.\n"
    "- *states only*: it answers the same with and without activations, as it only claims the "
    "model states:\n"
    "  parameters, gradients and optimizer states. Its error in the first table is what it leaves "
    "out.\n"
    "- The last step of each run, rank 0.\n";

static const char *const titles[ZV_ASKED_COUNT] = {
    [ZV_STEP_PEAK] = "PyTorch: the largest allocated bytes of a step",
    [ZV_STATES_AFTER_BACKWARD] =
        "PyTorch: allocated bytes after backward, where all model states exist",
    [ZV_STATES_BEFORE_FORWARD] =
        "PyTorch: allocated bytes before forward, where no gradients exist",
};

/* Errors of two predictions of the same figures, percent. */
typedef struct errors {
    double *theirs, *ours; /* room for as many as there are answers or records */
    size_t count, too_low;
} errors;

static zl_status errors_init(errors *e, size_t room, zl_err *err)
{
    *e = (errors){.theirs = calloc(room + 1, sizeof *e->theirs),
                  .ours = calloc(room + 1, sizeof *e->ours)};
    return e->theirs == NULL || e->ours == NULL
               ? zl_fail(err, ZL_E_RESOURCE, "no memory for %zu errors", room)
               : ZL_OK;
}

static void errors_release(errors *e)
{
    free(e->theirs);
    free(e->ours);
}

/* Signed, of a measured figure that is not 0. */
static double percent_off(uint64_t predicted, uint64_t measured)
{
    return 100 * ((double)predicted - (double)measured) / (double)measured;
}

static double distance(uint64_t predicted, uint64_t measured)
{
    const double off = percent_off(predicted, measured);
    return off < 0 ? -off : off;
}

static void errors_add(errors *e, uint64_t theirs, uint64_t ours, uint64_t measured)
{
    if (measured > 0) {
        e->too_low += theirs < measured;
        e->theirs[e->count] = distance(theirs, measured);
        e->ours[e->count++] = distance(ours, measured);
    }
}

/* mean | median | largest | too low | ours: mean | largest; empties it. */
static void put_errors(FILE *out, errors *e)
{
    if (e->count == 0) {
        fputs(" | | | | | |\n", out);
        return;
    }
    const zv_spread theirs = zv_spread_of(e->theirs, e->count);
    const zv_spread ours = zv_spread_of(e->ours, e->count);
    fprintf(out, " %.1f %% | %.1f %% | %.1f %% | %zu | %.3f %% | %.3f %% |\n", theirs.mean,
            theirs.median, theirs.most, e->too_low, ours.mean, ours.most);
    e->count = 0;
    e->too_low = 0;
}

/* ---- answers of calculators ---- */

/* Whether it says the same of the peak and of the states of every run. */
static bool states_only(const zv_answer *answer, size_t count, const char *peer)
{
    bool asked = false;
    for (size_t i = 0; i < count; i++) {
        const zv_answer *const peak = &answer[i];
        if (peak->asked != ZV_STEP_PEAK || !peak->answered || strcmp(peak->peer, peer) != 0) {
            continue;
        }
        for (size_t k = 0; k < count; k++) {
            const zv_answer *const states = &answer[k];
            if (states->asked == ZV_STATES_AFTER_BACKWARD && states->record == peak->record &&
                strcmp(states->peer, peer) == 0) {
                if (states->theirs != peak->theirs) {
                    return false;
                }
                asked = true;
            }
        }
    }
    return asked;
}

static bool is_first(const zv_answer *answer, size_t i)
{
    for (size_t k = 0; k < i; k++) {
        if (answer[k].asked == answer[i].asked && strcmp(answer[k].peer, answer[i].peer) == 0) {
            return false;
        }
    }
    return true;
}

static void put_peer(FILE *out, const zv_answer *answer, size_t count, const zv_answer *first,
                     errors *e)
{
    size_t runs = 0;
    for (size_t i = 0; i < count; i++) {
        const zv_answer *const a = &answer[i];
        if (a->asked == first->asked && strcmp(a->peer, first->peer) == 0) {
            runs++;
            if (a->answered) {
                errors_add(e, a->theirs, a->ours, a->measured);
            }
        }
    }
    fprintf(out, "| %s%s | %zu of %zu |", first->peer,
            states_only(answer, count, first->peer) ? " (states only)" : "", e->count, runs);
    put_errors(out, e);
}

static void put_answers(FILE *out, const zv_answer *answer, size_t count, zv_asked asked, errors *e)
{
    fprintf(
        out,
        "\n## %s\n\n| calculator | runs | mean error | median | largest | too low | zeroledger: "
        "mean | largest |\n|---|---|---|---|---|---|---|---|\n",
        titles[asked]);
    for (size_t i = 0; i < count; i++) {
        if (answer[i].asked == asked && is_first(answer, i)) {
            put_peer(out, answer, count, &answer[i], e);
        }
    }
}

/* ---- DeepSpeed's estimators ---- */

static const char estimators_head[] =
    "\n"
    "## DeepSpeed's own estimators on DeepSpeed's runs\n"
    "\n"
    "`estimate_zero2_model_states_mem_needs` and `estimate_zero3_model_states_mem_needs`, the "
    "formula of each\n"
    "run's release, all ranks on one node. They claim the model states and nothing else; their 18 "
    "bytes a\n"
    "parameter include gradients in fp32, which exist only while the optimizer steps. So the fair "
    "question\n"
    "is the largest allocated bytes between the end of backward and the end of the step, where "
    "hardly any\n"
    "activation is alive. People read the answer as the need of the run, so the largest of the "
    "whole step is\n"
    "asked too. The last step that was not skipped; rank 0. ZeRO-0 and ZeRO-1 have no estimator. "
    "They are\n"
    "written for 16 bits; a run in fp32 is marked.\n"
    "\n"
    "| estimator | asked | runs | mean error | median | largest | too low | zeroledger: mean | "
    "largest |\n"
    "|---|---|---|---|---|---|---|---|---|\n";

static const char runs_head[] =
    "\n"
    "GiB, and how far off in percent, negative if too low:\n"
    "\n"
    "| run | ranks | estimate | optimizer step | estimate | zeroledger | whole step | estimate | "
    "zeroledger |\n"
    "|---|---|---|---|---|---|---|---|---|\n";

static const char host_head[] =
    "\n"
    "### Host memory of offloaded runs\n"
    "\n"
    "The estimate is for the node, its factor 1.5 for buffers included. Measured is how much the "
    "resident bytes\n"
    "of all ranks grew from before DeepSpeed's initialization to the end of the last step. GiB.\n"
    "\n"
    "| run | ranks | estimate | measured | estimate off | zeroledger off |\n"
    "|---|---|---|---|---|---|\n";

/* What an estimator is asked about. */
typedef struct claim {
    const char *text;
    const char *at; /* NULL: all marks of the step */
} claim;

static const claim claims[] = {{"optimizer step", "after_step"}, {"whole step", NULL}};
enum { CLAIMS = sizeof claims / sizeof claims[0] };

static const struct {
    const char *text;
    uint64_t stage;
    bool offload;
} estimators[] = {{"ZeRO-2", 2, false},
                  {"ZeRO-2, offload", 2, true},
                  {"ZeRO-3", 3, false},
                  {"ZeRO-3, offload", 3, true}};

static bool offloads(const zl_torch_run *run)
{
    return run->ds.offload_optimizer != ZL_OFFLOAD_NONE;
}

/* False: not a run that an estimator speaks of. */
static bool estimate(const zv_judged *record, zv_estimate *out)
{
    return record->modelled && zv_last_step(record) >= 0 &&
           zv_deepspeed_estimate(&record->run, record->parameters, out);
}

static void put_estimator(FILE *out, const zv_judgement *all, size_t which, const claim *c,
                          errors *e)
{
    for (size_t i = 0; i < all->records; i++) {
        const zv_judged *const record = &all->record[i];
        zv_estimate theirs;
        uint64_t measured = 0;
        uint64_t ours = 0;
        if (estimate(record, &theirs) && record->run.stage == estimators[which].stage &&
            offloads(&record->run) == estimators[which].offload &&
            zv_largest_of(record, zv_last_step(record), c->at, ZV_PEAK_ALLOCATED, &measured,
                          &ours)) {
            errors_add(e, theirs.device, ours, measured);
        }
    }
    if (e->count > 0) {
        fprintf(out, "| %s | %s | %zu |", estimators[which].text, c->text, e->count);
        put_errors(out, e);
    }
}

static void put_gib(FILE *out, uint64_t bytes)
{
    char text[32];
    zl_format_bytes(bytes, ZL_BYTES_GIB, 3, text, sizeof text);
    fprintf(out, " %s |", text);
}

static void put_run(FILE *out, const zv_judged *record, const zv_estimate *theirs)
{
    fprintf(out, "| `%s`%s | %" PRIu64 " |", record->id,
            record->run.precision == ZL_TORCH_FP32 ? " (fp32)" : "", record->run.ranks);
    put_gib(out, theirs->device);
    for (size_t c = 0; c < CLAIMS; c++) {
        uint64_t measured = 0;
        uint64_t ours = 0;
        if (zv_largest_of(record, zv_last_step(record), claims[c].at, ZV_PEAK_ALLOCATED, &measured,
                          &ours) &&
            measured > 0) {
            put_gib(out, measured);
            fprintf(out, " %+.1f | %+.3f |", percent_off(theirs->device, measured),
                    percent_off(ours, measured));
        } else {
            fputs(" | | |", out);
        }
    }
    fputc('\n', out);
}

/* Grown resident bytes of all ranks; a rank that shrank counts as 0. */
static void grown(const zv_judged *record, uint64_t *measured, uint64_t *predicted)
{
    uint64_t now[2] = {0};
    uint64_t before[2] = {0};
    const int64_t last = zv_last_step(record);
    for (size_t i = 0; i < record->rows; i++) {
        const zv_row *const row = &record->row[i];
        if (row->quantity == ZV_HOST_RSS && strcmp(row->at, "before_init") == 0) {
            before[0] = zl_add(before[0], row->measured);
            before[1] = zl_add(before[1], row->predicted);
        } else if (row->quantity == ZV_HOST_RSS && row->step == last &&
                   strcmp(row->at, "after_step") == 0) {
            now[0] = zl_add(now[0], row->measured);
            now[1] = zl_add(now[1], row->predicted);
        }
    }
    *measured = zl_sub(now[0], zl_min(now[0], before[0]));
    *predicted = zl_sub(now[1], zl_min(now[1], before[1]));
}

static void put_host(FILE *out, const zv_judgement *all)
{
    bool head = false;
    for (size_t i = 0; i < all->records; i++) {
        const zv_judged *const record = &all->record[i];
        zv_estimate theirs;
        uint64_t measured = 0;
        uint64_t ours = 0;
        if (!estimate(record, &theirs) || theirs.host == 0 || record->run.simulated) {
            continue;
        }
        grown(record, &measured, &ours);
        if (measured > 0) {
            fputs(head ? "" : host_head, out);
            head = true;
            fprintf(out, "| `%s` | %" PRIu64 " |", record->id, record->run.ranks);
            put_gib(out, theirs.host);
            put_gib(out, measured);
            fprintf(out, " %+.1f %% | %+.1f %% |\n", percent_off(theirs.host, measured),
                    percent_off(ours, measured));
        }
    }
}

static void put_estimators(FILE *out, const zv_judgement *all, errors *e)
{
    fputs(estimators_head, out);
    for (size_t which = 0; which < sizeof estimators / sizeof estimators[0]; which++) {
        for (size_t c = 0; c < CLAIMS; c++) {
            put_estimator(out, all, which, &claims[c], e);
        }
    }
    fputs(runs_head, out);
    for (size_t i = 0; i < all->records; i++) {
        zv_estimate theirs;
        if (estimate(&all->record[i], &theirs)) {
            put_run(out, &all->record[i], &theirs);
        }
    }
    put_host(out, all);
}

zl_status zv_peers_page(FILE *out, const zv_judgement *all, const zv_answer *answer, size_t count,
                        zl_err *err)
{
    errors e;
    zl_status status;
    ZL_TRY_GOTO(status, errors_init(&e, count > all->records ? count : all->records, err), out);
    fputs(page_head, out);
    for (int a = 0; a < ZV_ASKED_COUNT; a++) {
        put_answers(out, answer, count, (zv_asked)a, &e);
    }
    put_estimators(out, all, &e);
out:
    errors_release(&e);
    return status;
}
