#include "compare/ladder.h"

#include <inttypes.h>
#include <string.h>

typedef struct named {
    const char *name;
    const zv_pair *pair;
} named;

enum { RUNGS = 5 };

static void list(const zv_device_verdict *v, named out[RUNGS])
{
    out[0] = (named){"L2 arena", &v->arena};
    out[1] = (named){"L2 trainer", &v->trainer};
    out[2] = (named){"L2 NCCL", &v->nccl};
    out[3] = (named){"L2 cuBLAS", &v->blas};
    out[4] = (named){"L3 device", &v->total};
}

static const char *word(const zv_pair *p)
{
    switch (p->rung) {
    case ZV_RUNG_DIFFERS:
        return p->tolerance == 0 ? "differs" : "outside the tolerance";
    case ZV_RUNG_AGREES:
        return p->predicted == p->measured ? "equal" : "within the tolerance";
    case ZV_RUNG_UNKNOWN:
    case ZV_RUNG_ABSENT:
        break;
    }
    return "not judged";
}

static void line(const named *n, char text[ZV_LADDER_TEXT_SIZE])
{
    char tolerance[48] = "";
    const zv_pair *const p = n->pair;
    if (p->rung == ZV_RUNG_UNKNOWN) {
        (void)snprintf(text, ZV_LADDER_TEXT_SIZE,
                       "%s: measured %" PRIu64 " bytes: not judged, no constants fit this machine",
                       n->name, p->measured);
        return;
    }
    if (p->tolerance > 0) {
        (void)snprintf(tolerance, sizeof tolerance, ", tolerance %" PRIu64, p->tolerance);
    }
    (void)snprintf(text, ZV_LADDER_TEXT_SIZE,
                   "%s: predicted %" PRIu64 ", measured %" PRIu64 " bytes%s: %s", n->name,
                   p->predicted, p->measured, tolerance, word(p));
}

void zv_ladder_print(const zv_device_verdict *v, FILE *out)
{
    named rung[RUNGS];
    char text[ZV_LADDER_TEXT_SIZE];
    list(v, rung);
    for (size_t i = 0; i < RUNGS; i++) {
        if (rung[i].pair->rung != ZV_RUNG_ABSENT) {
            line(&rung[i], text);
            (void)fprintf(out, "%s\n", text);
        }
    }
}

void zv_ladder_first(const zv_device_verdict *v, char text[ZV_LADDER_TEXT_SIZE])
{
    named rung[RUNGS];
    list(v, rung);
    text[0] = '\0';
    for (size_t i = 0; i < RUNGS && text[0] == '\0'; i++) {
        if (rung[i].pair->rung == ZV_RUNG_DIFFERS) {
            line(&rung[i], text);
        }
    }
}
