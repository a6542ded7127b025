/* The files of model/data/hardware, built in. Private to device/. */
#ifndef ZL_HARDWARE_H
#define ZL_HARDWARE_H

#include <stddef.h>

typedef struct zl_hardware_file {
    const char *name; /* NULL: the end */
    const unsigned char *text;
    size_t size;
} zl_hardware_file;

extern const zl_hardware_file zl_hardware_files[];

#endif
