#include "zeroledger/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* One line whatever came in: foreign text may hold newlines and escape sequences. */
static void make_line(char *text)
{
    for (char *c = text; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || (unsigned char)*c == 0x7f) {
            *c = '?';
        }
    }
}

zl_status zl_fail(zl_err *err, zl_status status, const char *format, ...)
{
    if (err == NULL || err->status != ZL_OK) {
        return status;
    }
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    make_line(err->text);
    err->status = status;
    return status;
}

zl_status zl_fail_at(zl_err *err, const char *where)
{
    if (err == NULL) {
        return ZL_E_BUG;
    }
    char text[sizeof err->text];
    memcpy(text, err->text, sizeof text);
    const int used = snprintf(err->text, sizeof err->text, "%.200s: ", where);
    const size_t at = used > 0 ? (size_t)used : 0;
    snprintf(err->text + at, sizeof err->text - at, "%.*s", (int)(sizeof err->text - at - 1), text);
    make_line(err->text);
    return err->status;
}
