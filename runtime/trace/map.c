#include "trace/map.h"

#include <stdlib.h>

typedef struct zr_pair {
    uint64_t key;
    uint64_t value;
    bool taken;
} zr_pair;

static const size_t first_room = 64;

void zr_map_release(zr_map *map)
{
    free(map->pair);
    *map = (zr_map){0};
}

/* Fibonacci hashing (Knuth, The Art of Computer Programming 3, section 6.4): addresses differ in
 * their middle bits, and the upper half of the product depends on them all. */
static size_t home(uint64_t key, size_t room)
{
    return (size_t)((key * 0x9e3779b97f4a7c15U) >> 32) & (room - 1);
}

/* Where a key is, or the free place where it would go. */
static size_t place_of(const zr_map *map, uint64_t key)
{
    size_t at = home(key, map->room);
    while (map->pair[at].taken && map->pair[at].key != key) {
        at = (at + 1) & (map->room - 1);
    }
    return at;
}

uint64_t *zr_map_find(const zr_map *map, uint64_t key)
{
    if (map->room == 0) {
        return NULL;
    }
    zr_pair *const pair = &map->pair[place_of(map, key)];
    return pair->taken ? &pair->value : NULL;
}

/* At most half full, so that a search soon meets a free place. */
static bool grow(zr_map *map)
{
    const size_t room = map->room == 0 ? first_room : map->room * 2;
    zr_map larger = {.pair = calloc(room, sizeof(zr_pair)), .room = room, .used = map->used};
    if (larger.pair == NULL) {
        return false;
    }
    for (size_t i = 0; i < map->room; i++) {
        if (map->pair[i].taken) {
            larger.pair[place_of(&larger, map->pair[i].key)] = map->pair[i];
        }
    }
    free(map->pair);
    *map = larger;
    return true;
}

bool zr_map_set(zr_map *map, uint64_t key, uint64_t value)
{
    uint64_t *const found = zr_map_find(map, key);
    if (found != NULL) {
        *found = value;
        return true;
    }
    if (2 * (map->used + 1) > map->room && !grow(map)) {
        return false;
    }
    map->pair[place_of(map, key)] = (zr_pair){.key = key, .value = value, .taken = true};
    map->used++;
    return true;
}

/* Pairs behind the gap move into it unless they would then stand before their home. */
void zr_map_remove(zr_map *map, uint64_t key)
{
    if (zr_map_find(map, key) == NULL) {
        return;
    }
    const size_t mask = map->room - 1;
    size_t gap = place_of(map, key);
    for (size_t at = (gap + 1) & mask; map->pair[at].taken; at = (at + 1) & mask) {
        const size_t from = home(map->pair[at].key, map->room);
        if (((at - from) & mask) >= ((at - gap) & mask)) {
            map->pair[gap] = map->pair[at];
            gap = at;
        }
    }
    map->pair[gap] = (zr_pair){0};
    map->used--;
}
