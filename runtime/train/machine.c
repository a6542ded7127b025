#define _DEFAULT_SOURCE /* sysconf */
#include "train/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "zeroledger/bytes.h"

/* What follows "KEY   :" in the first line of the file that begins with the key; "" if none does.
 */
static void first_value(const char *path, const char *key, char *value, size_t size)
{
    char line[256];
    value[0] = '\0';
    FILE *const file = fopen(path, "re");
    if (file == NULL) {
        return;
    }
    while (value[0] == '\0' && fgets(line, sizeof(line), file) != NULL) {
        const char *const colon = strchr(line, ':');
        if (colon != NULL && strncmp(line, key, strlen(key)) == 0) {
            const char *const begin = colon + 1 + strspn(colon + 1, " \t");
            (void)snprintf(value, size, "%.*s", (int)strcspn(begin, "\n"), begin);
        }
    }
    (void)fclose(file);
}

void zr_machine_find(zr_machine *out)
{
    char kib[32]; /* the file says kB and means KiB */
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    *out = (zr_machine){.cores = cores > 0 ? (uint64_t)cores : 0, .compiler = ZR_COMPILER};
    first_value("/proc/cpuinfo", "model name", out->cpu, sizeof(out->cpu));
    if (out->cpu[0] == '\0') {
        (void)snprintf(out->cpu, sizeof(out->cpu), "unknown");
    }
    first_value("/proc/meminfo", "MemTotal", kib, sizeof(kib));
    out->memory = zl_mul(strtoull(kib, NULL, 10), 1024);
}
