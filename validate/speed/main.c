/* speed-table SPEED.json [RANKS]: Markdown on standard output, of the rows on so many GPUs alone if
 * RANKS is given. Exit 0, 2 usage, 3 bad file, 4 I/O failure. */
#include <stdio.h>

#include "rows.h"
#include "table.h"
#include "zeroledger/text.h"

int main(int argc, char **argv)
{
    zl_err err = {.status = ZL_OK};
    speed_file file;
    uint64_t ranks = 0;
    if (argc < 2 || argc > 3 ||
        (argc == 3 && zl_parse_count("ranks", argv[2], &ranks, &err) != ZL_OK)) {
        fputs("usage: speed-table SPEED.json [RANKS]\n", stderr);
        return ZL_E_USAGE;
    }
    const zl_status status = speed_load(argv[1], &file, &err);
    if (status != ZL_OK) {
        fprintf(stderr, "speed-table: %s\n", err.text);
        return (int)status;
    }
    speed_print(&file, ranks, stdout);
    speed_release(&file);
    return fflush(stdout) == 0 ? ZL_OK : ZL_E_RESOURCE;
}
