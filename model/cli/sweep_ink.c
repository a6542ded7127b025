/* A text that grows, without printf: rows of a sweep come by the million. */
#include <stdlib.h>
#include <string.h>

#include "sweep.h"

static char *room_for(zl_ink *out, size_t size)
{
    if (out->size + size > out->room) {
        const size_t room = 2 * (out->size + size) + 4096;
        char *more = out->failed ? NULL : realloc(out->text, room);
        if (more == NULL) {
            out->failed = true;
            return NULL;
        }
        out->text = more;
        out->room = room;
    }
    return out->text + out->size;
}

void zl_ink_bytes(zl_ink *out, const char *text, size_t size)
{
    char *to = room_for(out, size);
    if (to != NULL) {
        memcpy(to, text, size);
        out->size += size;
    }
}

void zl_ink_put(zl_ink *out, const char *text)
{
    zl_ink_bytes(out, text, strlen(text));
}

void zl_ink_count(zl_ink *out, uint64_t n)
{
    char digits[24];
    char *at = digits + sizeof digits;
    do {
        *--at = (char)('0' + n % 10);
        n /= 10;
    } while (n > 0);
    zl_ink_bytes(out, at, (size_t)(digits + sizeof digits - at));
}

void zl_ink_spaces(zl_ink *out, size_t count)
{
    char *to = room_for(out, count);
    if (to != NULL) {
        memset(to, ' ', count);
        out->size += count;
    }
}
