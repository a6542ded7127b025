/* Numbers by number: a hash table that grows. */
#ifndef ZR_MAP_H
#define ZR_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed: empty. The holder releases it. */
typedef struct zr_map {
    struct zr_pair *pair;
    size_t room; /* 0 or a power of two */
    size_t used;
} zr_map;

void zr_map_release(zr_map *map);
/* The value of a key, to read or to change, until the next call that adds or removes; NULL: none.
 */
uint64_t *zr_map_find(const zr_map *map, uint64_t key);
/* Sets a key's value. False, and nothing changed, if memory is exhausted. */
bool zr_map_set(zr_map *map, uint64_t key, uint64_t value);
/* Removes a key, if it is there. */
void zr_map_remove(zr_map *map, uint64_t key);

#endif
