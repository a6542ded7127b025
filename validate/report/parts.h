/* The parts of a report. Sections print markdown, figures write one file. */
#ifndef ZV_PARTS_H
#define ZV_PARTS_H

#include <stdio.h>

#include "report/data.h"

void zv_section_cases(FILE *out, const zv_data *data);
void zv_section_memory(FILE *out, const zv_data *data);
ZL_NODISCARD zl_status zv_section_reduction(FILE *out, const zv_data *data, zl_err *err);
ZL_NODISCARD zl_status zv_section_agreement(FILE *out, const zv_data *data, zl_err *err);
void zv_section_speed(FILE *out, const zv_data *data);

/* Stacked bars: what each kind had live at the peak, by phase and stage. */
ZL_NODISCARD zl_status zv_figure_peaks(const zv_data *data, const char *path, zl_err *err);
/* Predicted against measured peaks, and what is left between them. */
ZL_NODISCARD zl_status zv_figure_agreement(const zv_data *data, const char *path, zl_err *err);
/* By how much each phase's peak shrinks with the ranks. */
ZL_NODISCARD zl_status zv_figure_reduction(const zv_data *data, const char *path, zl_err *err);

#endif
