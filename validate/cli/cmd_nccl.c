#include <inttypes.h>
#include <stdio.h>

#include "cli/cli.h"
#include "compare/nccl.h"

static const char *word(const zv_nccl_verdict *v)
{
    if (!v->judged) {
        return "not judged";
    }
    return zv_nccl_agrees(v) ? "equal" : v->channels ? "differs" : "other channels";
}

static void print_row(const zv_nccl_row *row, const zv_nccl_verdict *v)
{
    printf("%-24s rings %2" PRIu64 ", pairs %2" PRIu64 ": predicted %11" PRIu64
           ", measured %11" PRIu64 ", given back %11" PRIu64 ", %+" PRId64 ": %s\n",
           row->name, row->rings, row->pairs, v->predicted, v->measured, row->given_back[0],
           (int64_t)(v->measured - v->predicted), word(v));
}

/* The same by the meter, which saw who asked; it has to have seen it on every rank's device. */
static zl_status print_traced(const char *path, const zv_nccl_row *row, uint64_t ranks,
                              const zv_nccl_verdict *v, bool *differs, zl_err *err)
{
    size_t devices = 0;
    uint64_t bytes = 0;
    if (!v->judged) {
        return ZL_OK;
    }
    ZL_TRY(zv_nccl_traced(path, row->name, v->predicted, &devices, &bytes, err));
    *differs = *differs || devices != ranks || bytes != v->predicted;
    if (devices != ranks) {
        printf("%-24s traced on %zu devices of %" PRIu64 ": differs\n", row->name, devices, ranks);
        return ZL_OK;
    }
    printf("%-24s traced %11" PRIu64 ", %+" PRId64 ": %s\n", row->name, bytes,
           (int64_t)(bytes - v->predicted), bytes == v->predicted ? "equal" : "differs");
    return ZL_OK;
}

zl_status zv_cmd_nccl(const zv_settings *s, zl_err *err)
{
    static zv_nccl nccl;
    zl_nccl usual;
    size_t judged = 0;
    size_t differ = 0;
    ZL_TRY(zv_nccl_load(s->operand[0], &nccl, err));
    ZL_TRY(zv_nccl_usual(&nccl, &usual, err));
    printf("%s, NCCL %s, %" PRIu64 " ranks: %" PRIu64 " rings, %" PRIu64
           " bytes of a communicator's own\n",
           nccl.gpu, nccl.version, nccl.ranks, usual.rings, usual.own);
    for (size_t i = 0; i < nccl.rows; i++) {
        const zv_nccl_verdict v = zv_nccl_judge(&nccl.row[i], nccl.ranks, &usual);
        print_row(&nccl.row[i], &v);
        judged += v.judged ? 1 : 0;
        bool differs = !zv_nccl_agrees(&v);
        if (s->operands > 1) {
            ZL_TRY(print_traced(s->operand[1], &nccl.row[i], nccl.ranks, &v, &differs, err));
        }
        differ += differs ? 1 : 0;
    }
    printf("%zu communicators judged, %zu differ\n", judged, differ);
    return differ == 0 ? ZL_OK : ZL_NO;
}
