/* Field cases and their setups: two files, with a zero byte between them. */
#include <string.h>

#include "fuzz.h"
#include "records/field.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *const zero = size > 0 ? memchr(data, 0, size) : NULL;
    if (zero == NULL) {
        return 0;
    }
    const size_t first = (size_t)(zero - data);
    const char *const cases = zl_fuzz_file(0, data, first);
    const char *const setups = zl_fuzz_file(1, zero + 1, size - first - 1);
    zv_field *field = NULL;
    zl_err err = {0};
    if (zv_field_load(cases, setups, NULL, &field, &err) == ZL_OK) {
        zv_field_free(field);
    }
    return 0;
}
