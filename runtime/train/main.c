/* zl-train: one rank of a training job, or the launcher of its ranks. */
#define _DEFAULT_SOURCE /* nanosleep, isatty */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "comm/comm.h"
#include "device/device.h"
#include "device/profile.h"
#include "device/tick.h"
#include "track/track.h"
#include "train/become.h"
#include "train/data.h"
#include "train/engine.h"
#include "train/job.h"
#include "train/launch.h"
#include "train/options.h"
#include "train/report.h"
#include "train/resume.h"
#include "train/save.h"
#include "zeroledger/bytes.h"
#include "zeroledger/ledger.h"

/* Adam's usual constants (Kingma and Ba, ICLR 2015, section 2). */
static const double beta1 = 0.9;
static const double beta2 = 0.999;
static const double adam_eps = 1e-8;

/* One rank and everything it holds. */
typedef struct trainer {
    const zr_options *options;
    zr_job job;
    zr_watch *watch;
    zr_activity activity;
    bool progress;
    zr_data data;
    zr_comm *comm;
    zr_track *track;
    zr_save *save; /* NULL: the run saves nothing */
    zr_profile *profile;
    char root[4096]; /* of the checkpoints */
    zr_engine *engine;
    uint64_t first;         /* steps that were done before: 0 unless resumed */
    zr_step_record *record; /* (steps) */
    zl_ledger *ledger;
} trainer;

/* One rank reports for all. */
static bool reports(const trainer *t)
{
    return t->job.rank == 0 || t->options->loopback;
}

static zr_data_options data_options(const zr_options *o, uint64_t rank)
{
    return (zr_data_options){.path = o->data,
                             .tokens = o->tokens,
                             .seed = o->seed,
                             .rank = rank,
                             .run = &o->run,
                             .varlen = o->varlen};
}

/* The folders that results go to. */
static zl_status make_folders(const zr_options *o, char *root, size_t size, zl_err *err)
{
    ZL_TRY(zr_out_folder(o, err));
    if (!o->run.save) {
        return ZL_OK;
    }
    ZL_TRY(zr_out_checkpoint(o, root, size, err));
    return zr_save_folder(root, err);
}

/* *out stays NULL where a training begins. */
static zl_status open_resume(const zr_options *o, zr_resume **out, zl_err *err)
{
    if (o->resume == NULL) {
        return ZL_OK;
    }
    const zr_resume_want want = {.run = &o->run, .seed = o->seed};
    zr_resume *resume;
    ZL_TRY(zr_resume_open(o->resume, &want, &resume, err));
    const uint64_t done = zr_resume_position(resume)->step;
    if (done > o->steps) {
        zr_resume_free(resume);
        return zl_fail(err, ZL_E_USAGE,
                       "--steps counts from the beginning: %" PRIu64
                       " are done in the checkpoint, got %" PRIu64,
                       done, o->steps);
    }
    *out = resume;
    return ZL_OK;
}

static zl_status make_engine(trainer *t, zr_resume *resume, zl_err *err)
{
    const zr_options *const o = t->options;
    const zr_engine_options engine = {.run = &o->run,
                                      .track = t->track,
                                      .comm = t->comm,
                                      .seed = o->seed,
                                      .learning_rate = o->learning_rate,
                                      .beta1 = beta1,
                                      .beta2 = beta2,
                                      .eps = adam_eps,
                                      .weight_decay = o->weight_decay,
                                      .warmup = o->warmup,
                                      .loss_scale = o->loss_scale,
                                      .save = t->save,
                                      .resume = resume,
                                      .profile = t->profile};
    return zr_engine_new(&engine, &t->engine, err);
}

static zl_status start_training(trainer *t, zl_err *err)
{
    zr_resume *resume = NULL;
    ZL_TRY(open_resume(t->options, &resume, err));
    if (resume != NULL) {
        const zr_position *const at = zr_resume_position(resume);
        t->first = at->step;
        zr_data_seek(&t->data, at->step, at->windows);
    }
    const zl_status status = make_engine(t, resume, err);
    zr_resume_free(resume);
    return status;
}

static zl_status set_up(trainer *t, zl_err *err)
{
    const zr_options *const o = t->options;
    const zr_data_options data = data_options(o, t->job.rank);
    ZL_TRY(zr_data_init(&t->data, &data, err));
    ZL_TRY(make_folders(o, t->root, sizeof(t->root), err));
    t->record = calloc((size_t)o->steps, sizeof(*t->record));
    t->ledger = zl_ledger_new();
    if (t->record == NULL || t->ledger == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory for the records of %" PRIu64 " steps",
                       o->steps);
    }
    const zr_track_options track = {
        .cap = o->cap, .poison = o->poison, .beacon = &t->watch->beacon};
    ZL_TRY(zr_track_new(&track, &t->track, err));
    if (o->run.save) {
        const zr_save_options save = {
            .root = t->root, .keep = o->keep, .run = &o->run, .seed = o->seed, .comm = t->comm};
        ZL_TRY(zr_save_new(&save, &t->save, err));
    }
    if (o->profile != NULL && reports(t)) {
        ZL_TRY(zr_profile_new(o->profile, t->job.rank, &t->profile, err));
    }
    return start_training(t, err);
}

static void show_progress(const trainer *t, uint64_t number)
{
    if (t->progress && number <= t->options->steps) {
        (void)fprintf(stderr, "\rstep %" PRIu64 " of %" PRIu64, number, t->options->steps);
    } else if (t->progress) {
        (void)fputs("\r\033[K", stderr);
    }
}

static zl_status train(trainer *t, zl_err *err)
{
    const zr_options *const o = t->options;
    const zl_run *const run = &o->run;
    const uint64_t tokens = zl_prod(run->ranks, run->accumulation, run->micro_batch, run->seq);
    if (reports(t)) {
        ZL_TRY(zr_report_begin(o, err));
    }
    for (uint64_t i = t->first; i < o->steps; i++) {
        zr_step_record *const record = &t->record[i];
        t->watch->step = (uint32_t)(i + 1);
        show_progress(t, i + 1);
        zr_track_peak_reset(t->track);
        const double begin = zr_tick_now();
        ZL_TRY(zr_engine_step(t->engine, zr_data_next, &t->data, &record->result, err));
        record->seconds = zr_tick_now() - begin;
        record->tokens_per_second = (double)tokens / record->seconds;
        record->live = zr_track_live(t->track);
        record->peak = zr_track_peak(t->track);
        if (reports(t)) {
            ZL_TRY(zr_report_step(o, i, record, err));
        }
    }
    show_progress(t, o->steps + 1);
    return zr_profile_finish(t->profile, err);
}

/* Memory that escaped the tracker makes a ledger worthless, so it is said aloud. */
static void warn(const trainer *t)
{
    const uint64_t outside = t->ledger->witness.outside_steady;
    const uint64_t grown = zr_track_late_growth(t->track);
    if (outside > zr_device_outside_limit()) {
        (void)fprintf(stderr,
                      "zl-train: warning: rank %" PRIu64 ": %" PRIu64
                      " bytes appeared outside the tracker within a steady step\n",
                      t->job.rank, outside);
    }
    if (grown > 0) {
        (void)fprintf(stderr,
                      "zl-train: warning: rank %" PRIu64 ": the arena asked for %" PRIu64
                      " bytes after the cold step\n",
                      t->job.rank, grown);
    }
}

/* A resumed run has its optimizer states from init on: its cold step is none of the schedule's. */
static zl_status leave_ledger(const trainer *t, zl_err *err)
{
    char name[48];
    char path[4096];
    if (t->first > 0 && t->job.rank == 0) {
        (void)fprintf(stderr, "zl-train: a resumed run has its optimizer states from init on: no "
                              "ledger is written\n");
    }
    if (t->first > 0 || t->options->out == NULL) {
        return ZL_OK;
    }
    (void)snprintf(name, sizeof(name), "ledger.rank%" PRIu64 ".json", t->job.rank);
    ZL_TRY(zr_out_path(t->options, name, path, sizeof(path), err));
    return zl_ledger_save(t->ledger, path, err);
}

static zl_status leave_results(trainer *t, zl_err *err)
{
    const zr_options *const o = t->options;
    uint64_t hash;
    ZL_TRY(zr_track_export(t->track, t->ledger, err));
    t->ledger->run = o->run;
    t->ledger->rank = t->job.rank;
    t->ledger->loopback = t->options->loopback;
    warn(t);
    ZL_TRY(zr_engine_hash(t->engine, &hash, err));
    ZL_TRY(leave_ledger(t, err));
    if (reports(t)) {
        const zr_report report = {.options = o,
                                  .step = t->record,
                                  .first = t->first,
                                  .hash = hash,
                                  .late_growth = zr_track_late_growth(t->track),
                                  .witness = &t->ledger->witness,
                                  .profile = t->profile};
        ZL_TRY(zr_report_save(&report, err));
        if (t->profile != NULL && !o->quiet) {
            ZL_TRY(zr_report_speed(&report, err));
        }
    }
    return zr_comm_barrier(t->comm, err); /* success is everybody's */
}

/* The device and the others: what can fail on one rank alone, before they know of each other. */
static zl_status join(trainer *t, zl_err *err)
{
    const zr_job *const job = &t->job;
    ZL_TRY(zr_device_open(job->local, err));
    ZL_TRY(t->options->loopback ? zr_comm_new_loopback(job->rank, job->ranks, &t->comm, err)
                                : zr_comm_new(job->rank, job->ranks, &t->comm, err));
    t->activity = (zr_activity){
        .step = &t->watch->step, .beacon = &t->watch->beacon, .words = zr_watch_words};
    zr_comm_show(t->comm, &t->activity);
    return ZL_OK;
}

static zl_status run_rank(const zr_options *options, zr_job job, zl_err *err)
{
    trainer t = {.options = options, .job = job};
    if (job.started) {
        zr_job_follow_parent();
    }
    t.watch = zr_job_watch(&job);
    t.progress = !job.started && !options->quiet && isatty(STDERR_FILENO) && !isatty(STDOUT_FILENO);
    zl_status status = join(&t, err);
    if (status != ZL_OK) {
        return job.started ? zr_comm_give_up(job.rank, job.ranks, err) : status;
    }
    status = set_up(&t, err);
    if (status == ZL_OK) {
        status = train(&t, err);
    }
    if (status == ZL_OK) {
        status = leave_results(&t, err);
    }
    if (status != ZL_OK) {
        show_progress(&t, options->steps + 1);
        (void)zl_fail(err, status, "a failure without words"); /* unless it has some */
        zr_comm_abort(t.comm, err);
    }
    zr_engine_free(t.engine);
    zr_save_free(t.save);
    zr_track_free(t.track);
    zl_ledger_free(t.ledger);
    free(t.record);
    zr_data_release(&t.data);
    zr_comm_free(t.comm);
    zr_profile_free(t.profile);
    return ZL_OK;
}

/* What can be found wrong without a job is found before there is one, and told once. */
static zl_status launch(const zr_options *options, char **argv, zl_err *err)
{
    ZL_TRY(zr_comm_can_join(err));
    zr_data data;
    const zr_data_options wanted = data_options(options, 0);
    ZL_TRY(zr_data_init(&data, &wanted, err));
    zr_data_release(&data);
    char root[4096];
    zr_resume *resume = NULL;
    ZL_TRY(make_folders(options, root, sizeof(root), err));
    ZL_TRY(open_resume(options, &resume, err));
    zr_resume_free(resume);
    const zr_launch_options job = {
        .ranks = options->run.ranks,
        .steps = options->steps,
        .progress = !options->quiet && isatty(STDERR_FILENO) && !isatty(STDOUT_FILENO),
        .argv = argv,
    };
    return zr_launch(&job, err);
}

static zl_status start(int argc, char **argv, zr_job job, zl_err *err)
{
    static zr_options options;
    ZL_TRY(zr_options_parse(argc, argv, job.rank != 0, &options, err));
    const uint64_t ranks = options.run.ranks;
    if (options.run.backend != zr_device_backend()) {
        return zr_become(options.run.backend, argv, err);
    }
    if (options.loopback) {
        job = (zr_job){.rank = options.loopback_rank, .ranks = ranks};
        return run_rank(&options, job, err);
    }
    if (job.started && job.ranks != ranks) {
        return zl_fail(err, ZL_E_USAGE,
                       "%" PRIu64 " ranks were started, and the run has %" PRIu64
                       "; say --ranks %" PRIu64,
                       job.ranks, ranks, job.ranks);
    }
    if (ranks > 1 && !job.started) {
        return launch(&options, argv, err);
    }
    return run_rank(&options, job, err);
}

int main(int argc, char **argv)
{
    zl_err err = {0};
    zr_job job;
    zr_job_find(&job);
    signal(SIGPIPE, SIG_IGN); /* a closed standard output is an error like others */
    signal(SIGXFSZ, SIG_IGN); /* and so is a file that may not grow */
    const zl_status status = start(argc, argv, job, &err);
    if (status != ZL_OK && job.rank != 0) {
        const struct timespec pause = {.tv_nsec =
                                           300000000}; /* rank 0 tells, before mpirun kills it */
        (void)nanosleep(&pause, NULL);
    } else if (status != ZL_OK && err.text[0] != '\0') {
        (void)fprintf(stderr, "zl-train: %s\n", err.text);
    }
    return (int)status;
}
