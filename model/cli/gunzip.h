/* Text files that may be compressed by gzip. The one place that uses zlib. */
#ifndef ZL_CLI_GUNZIP_H
#define ZL_CLI_GUNZIP_H

#include <stddef.h>

#include "zeroledger/error.h"

/* Whole file, unpacked if it is a gzip file, into a heap buffer the caller frees. "-" = stdin.
 * ZL_E_INPUT: not there, damaged, cut off, or larger than 512 MiB. */
ZL_NODISCARD zl_status zl_gunzip(const char *path, char **text, size_t *size, zl_err *err);

#endif
