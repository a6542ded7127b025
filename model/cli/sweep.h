/* zl sweep: every point of a grid of runs, one row each.
 *
 * An option with several values is an axis; the product of all axes is the grid, its last axis the
 * fastest. Workers take pieces of it in order, answer each point, print its row into a text of
 * their own, and write their texts in order: memory is a few pieces, however many points there are.
 */
#ifndef ZL_CLI_SWEEP_H
#define ZL_CLI_SWEEP_H

#include "cmd.h"
#include "fit.h"

/* ---- the grid (sweep_axes.c) ---- */

enum { ZL_AXES_MAX = 16, ZL_AXIS_TEXT = 24 };

typedef struct zl_axis_value {
    char *text; /* owned; NULL: the number */
    uint64_t number;
} zl_axis_value;

typedef struct zl_axis {
    const zl_option *option;
    zl_value_type type;
    zl_axis_value *value; /* (count), owned */
    size_t count;
    size_t width; /* characters of the longest value */
    bool slow;    /* model, framework, files: with their own base */
} zl_axis;

typedef struct zl_grid {
    zl_axis axis[ZL_AXES_MAX];
    size_t axes;
    uint64_t points;
    zl_run
        *base; /* (bases), owned: a run for every combination of slow axes, the fast ones unset */
    zl_err *refusal; /* (bases), owned: status other than ZL_OK where there can be no such run */
    size_t bases;
} zl_grid;

/* Reads all options of the run. ZL_E_USAGE names the option, the value and the position. The caller
 * frees with zl_grid_clear, also after a failure. */
zl_status zl_grid_read(const zl_args *args, zl_grid *out, zl_err *err);
void zl_grid_clear(zl_grid *grid);
/* The value's text; a number is written into the scratch. */
const char *zl_axis_text(const zl_axis *axis, size_t index, char scratch[static ZL_AXIS_TEXT]);
/* Indices of a point's values, (axes). */
void zl_grid_digits(const zl_grid *grid, uint64_t point, uint32_t *digit);
/* Which base a point has. */
size_t zl_grid_base(const zl_grid *grid, const uint32_t *digit);
/* The options that have one value: "model gpt2-xl, stage 3". Cut to the size. */
void zl_grid_fixed(const zl_grid *grid, const zl_args *args, char *text, size_t size);
/* The index-th of them; NULL past the end. */
const zl_setting *zl_grid_setting(const zl_grid *grid, const zl_args *args, size_t index);
/* Sets one axis of a run. */
zl_status zl_axis_set(const zl_axis *axis, size_t index, zl_run *run, zl_err *err);

/* ---- answers (sweep_points.c) ---- */

typedef struct zl_swept {
    zl_err refusal;          /* status ZL_OK: there is an answer */
    bool framework;          /* not native */
    uint64_t peak, reserved; /* native: granted, 0; else peak_allocated and peak_reserved */
    zl_visit visit;          /* native: where the peak falls */
    zl_phase phase;
    char at[32]; /* else: the mark after it, "after_backward" */
    bool cold;   /* in the first step */
    bool fits;
    uint64_t kind[ZL_KIND_COUNT]; /* native, if asked for: granted bytes at the peak */
} zl_swept;

/* "ok", "impossible", "not_modelled" */
const char *zl_swept_status(const zl_swept *answer);
/* "backward", "forward (steady.later)", "after_backward (cold)" */
enum { ZL_PHASE_TEXT = 64 };
const char *zl_swept_phase(const zl_swept *answer, char scratch[static ZL_PHASE_TEXT]);

/* The columns of a table or of csv. */
enum { ZL_SWEEP_COLUMNS = ZL_AXES_MAX + ZL_KIND_COUNT + 6, ZL_SWEEP_TITLE = 40 };
typedef struct zl_layout {
    size_t columns;
    char title[ZL_SWEEP_COLUMNS][ZL_SWEEP_TITLE];
    size_t width[ZL_SWEEP_COLUMNS]; /* of an aligned table; 0: the last column, as it comes */
    bool left[ZL_SWEEP_COLUMNS];
} zl_layout;

/* What is asked of every point. */
typedef struct zl_sweep {
    const zl_args *args;
    zl_grid grid;
    bool capped;
    zl_capacity c;
    bool kinds;
    bool only_fits;         /* rows of the others are left out */
    uint32_t steps;         /* of a walk; 0: as many as usual */
    bool native, framework; /* some base is, some base is not native */
    zl_layout layout;       /* zl_sweep_head fills it in */
} zl_sweep;

/* One per thread; the caller frees it. NULL: out of memory. */
typedef struct zl_sweeper zl_sweeper;
zl_sweeper *zl_sweeper_new(const zl_sweep *sweep);
void zl_sweeper_free(zl_sweeper *sweeper);
/* ZL_E_RESOURCE or ZL_E_BUG; any other failure is the point's answer. */
zl_status zl_sweeper_ask(zl_sweeper *sweeper, uint64_t point, zl_swept *out, zl_err *err);

/* ---- rows (sweep_rows.c) ---- */

typedef struct zl_tally {
    uint64_t points, answered, fit, impossible, unmodelled;
} zl_tally;

/* A text that grows. */
typedef struct zl_ink {
    char *text; /* owned; free() */
    size_t size, room;
    bool failed; /* out of memory; what follows is lost */
} zl_ink;

void zl_ink_bytes(zl_ink *out, const char *text, size_t size);
void zl_ink_put(zl_ink *out, const char *text);
void zl_ink_count(zl_ink *out, uint64_t n);
void zl_ink_spaces(zl_ink *out, size_t count);

/* What is before the first row, a row, and what is after the last one, in the view's format.
 * A row of JSON begins with the comma behind the row before. `whole`: no point is missing. */
void zl_sweep_head(zl_sweep *s, zl_ink *out);
void zl_sweep_row(const zl_sweep *s, uint64_t point, const zl_swept *answer, zl_ink *out);
void zl_sweep_tail(const zl_sweep *s, const zl_tally *tally, bool whole, zl_ink *out);
/* The same in JSON (sweep_json.c). */
void zl_sweep_json_head(const zl_sweep *s, zl_ink *out);
void zl_sweep_json_row(const zl_sweep *s, uint64_t point, const zl_swept *answer, zl_ink *out);
void zl_sweep_json_tail(const zl_sweep *s, const zl_tally *tally, bool whole, zl_ink *out);
/* "12 points: 8 answered, 4 impossible" */
void zl_tally_text(const zl_sweep *s, const zl_tally *tally, char *text, size_t size);

/* ---- all points (sweep_stream.c) ---- */

enum { ZL_JOBS_MAX = 256 };

typedef struct zl_stream_end {
    zl_tally tally;
    zl_err first; /* of the first point without an answer */
    bool closed;  /* the reader went away before the end */
} zl_stream_end;

/* Answers all points with so many threads. keep NULL: prints them to the view's output as they
 * come; else stores them there, (points). Ctrl-C ends the process behind a whole row. */
zl_status zl_sweep_stream(zl_sweep *sweep, uint64_t jobs, zl_swept *keep, zl_stream_end *out,
                          zl_err *err);

/* ---- the picture (sweep_svg.c) ---- */

/* ZL_E_USAGE: the grid has not two or three axes, or is too fine. */
zl_status zl_sweep_drawable(const zl_sweep *s, zl_err *err);
/* answer: (points). path as in zl_file_write. */
zl_status zl_sweep_draw(const zl_sweep *s, const zl_swept *answer, const char *path, zl_err *err);

#endif
