/* What grew in a process after it was warm.
 *
 * Warm is the first mark of a given name. From there on the program has promised that nothing
 * grows: neither memory that nobody was seen to take (a kernel with a large stack, a module that is
 * loaded late), nor anybody's. Without such a mark the second half of the marks is looked at, and
 * only for memory that nobody was seen to take, which no program means to grow. */
#ifndef ZR_JUDGE_H
#define ZR_JUDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/meter.h"

typedef struct zr_finding {
    int device;
    bool traced;    /* false: memory that nobody was seen to take */
    size_t row;     /* where traced: whose */
    uint64_t bytes; /* by which it grew */
    uint64_t live;  /* allocations, where traced; may be 0 */
    size_t from;    /* marks of the meter */
    size_t to;
} zr_finding;

typedef struct zr_judgement {
    const char *warm;   /* name of the mark */
    uint64_t tolerance; /* bytes that untraced memory may grow by */
} zr_judgement;

/* Writes up to `room` findings and returns how many there are in all. */
size_t zr_judge(const zr_meter *meter, const zr_judgement *judgement, zr_finding *out, size_t room);

/* Bytes that are in use at a mark and traced by nobody, and, where the two contradict each other,
 * bytes that are traced and not in use (another process gave them back). One of them is 0. */
uint64_t zr_untraced(const zr_mark_seen *mark);
uint64_t zr_overtraced(const zr_mark_seen *mark);

#endif
