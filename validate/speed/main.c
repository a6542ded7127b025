/* speed-table SPEED.json: Markdown on standard output. Exit 0, 2 usage, 3 bad file, 4 I/O failure.
 */
#include <stdio.h>

#include "rows.h"
#include "table.h"

int main(int argc, char **argv)
{
    zl_err err = {.status = ZL_OK};
    speed_file file;
    if (argc != 2) {
        fputs("usage: speed-table SPEED.json\n", stderr);
        return ZL_E_USAGE;
    }
    const zl_status status = speed_load(argv[1], &file, &err);
    if (status != ZL_OK) {
        fprintf(stderr, "speed-table: %s\n", err.text);
        return (int)status;
    }
    speed_print(&file, stdout);
    speed_release(&file);
    return fflush(stdout) == 0 ? ZL_OK : ZL_E_RESOURCE;
}
