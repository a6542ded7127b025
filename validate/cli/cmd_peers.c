#include <stdlib.h>

#include "cli/cli.h"
#include "peers/page.h"

static zl_status write_page(const char *peers, const zv_judgement *all, zl_err *err)
{
    zv_answer *answer = NULL;
    size_t count = 0;
    ZL_TRY(zv_answers_load(peers, all, &answer, &count, err));
    const zl_status status = zv_peers_page(stdout, all, answer, count, err);
    free(answer);
    return status;
}

zl_status zv_cmd_peers(const zv_settings *s, zl_err *err)
{
    char path[ZV_PATH_SIZE];
    zv_judgement all = {0};
    zl_status status;
    ZL_TRY(zv_data_file("records/peers.json", path, err));
    ZL_TRY_GOTO(status, zv_judge_operands(s, &all, err), out);
    status = write_page(s->peers == NULL ? path : s->peers, &all, err);
out:
    zv_judgement_release(&all);
    return status;
}
