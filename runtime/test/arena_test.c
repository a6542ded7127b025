/* The arena keeps its promises under random use, and packs as its header says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "track/arena.h"

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static uint64_t seed_of_today(void)
{
    const char *const text = getenv("ZR_TEST_SEED");
    const uint64_t seed = text != NULL ? strtoull(text, NULL, 10) : 20240607u;
    print_message("seed %llu (ZR_TEST_SEED)\n", (unsigned long long)seed);
    return seed;
}

/* Blocks cover [0, accessible) without gaps, and no two free ones touch but at the wall. */
static void check_arena(const zr_arena *arena)
{
    uint64_t at = 0;
    for (size_t i = 0; i < arena->blocks; i++) {
        assert_int_equal(arena->block[i].offset, at);
        assert_true(arena->block[i].size > 0 && arena->block[i].size % 256 == 0);
        if (i > 0) {
            assert_true(arena->block[i - 1].live || arena->block[i].live || at == arena->wall);
        }
        at += arena->block[i].size;
    }
    assert_int_equal(at, arena->memory.accessible);
    assert_int_equal(arena->memory.accessible % ((uint64_t)2 << 20), 0);
}

enum { HELD = 200 };

/* Offsets of 4000 random operations, each live block filled with a byte of its own. */
static void play(zr_arena *arena, uint64_t seed, uint64_t *offset, size_t count)
{
    unsigned char *held[HELD] = {0};
    uint64_t size[HELD] = {0};
    for (size_t i = 0; i < count; i++) {
        const size_t slot = (size_t)(next_random(&seed) % HELD);
        if (held[slot] != NULL) {
            for (uint64_t k = 0; k < size[slot]; k += 97) {
                assert_int_equal(held[slot][k], slot);
            }
            assert_true(zr_arena_give(arena, held[slot]));
            assert_false(zr_arena_give(arena, held[slot]));
            held[slot] = NULL;
            offset[i] = UINT64_MAX;
        } else {
            void *p;
            size[slot] = 1 + next_random(&seed) % (next_random(&seed) % 8 == 0 ? 900000 : 5000);
            assert_true(zr_arena_take(arena, size[slot], &p));
            held[slot] = p;
            memset(p, (int)slot, (size_t)size[slot]);
            offset[i] = (uint64_t)(held[slot] - arena->memory.base);
            assert_int_equal(offset[i] % 256, 0);
        }
        check_arena(arena);
    }
    for (size_t slot = 0; slot < HELD; slot++) {
        if (held[slot] != NULL) {
            assert_true(zr_arena_give(arena, held[slot]));
        }
    }
    check_arena(arena);
    assert_int_equal(arena->blocks,
                     arena->wall != 0 && arena->wall != arena->memory.accessible ? 2 : 1);
}

static void arena_is_sound_and_deterministic(void **state)
{
    (void)state;
    enum { COUNT = 4000 };
    static uint64_t offset[3][COUNT];
    const uint64_t seed = seed_of_today();
    zl_err err = {0};
    zr_arena arena;
    assert_int_equal(zr_arena_init(&arena, 256, &err), ZL_OK);
    play(&arena, seed, offset[0], COUNT);
    play(&arena, seed + 1, offset[1], COUNT);
    zr_arena_wall(&arena);
    play(&arena, seed + 2, offset[1], COUNT); /* may go behind it */
    zr_arena_release(&arena);
    assert_int_equal(zr_arena_init(&arena, 256, &err), ZL_OK);
    play(&arena, seed, offset[2], COUNT);
    zr_arena_release(&arena);
    assert_memory_equal(offset[0], offset[2], sizeof(offset[0]));
}

static void arena_prefers_the_smallest_hole(void **state)
{
    (void)state;
    zl_err err = {0};
    zr_arena arena;
    assert_int_equal(zr_arena_init(&arena, 256, &err), ZL_OK);
    void *p[5];
    const uint64_t size[5] = {1024, 256, 512, 256, 256};
    for (int i = 0; i < 5; i++) {
        assert_true(zr_arena_take(&arena, size[i], &p[i]));
    }
    /* Holes of 1024 at 0 and of 512 at 1280; the tail is larger than both. */
    assert_true(zr_arena_give(&arena, p[0]));
    assert_true(zr_arena_give(&arena, p[2]));
    void *q;
    assert_true(zr_arena_take(&arena, 300, &q));
    assert_ptr_equal(q, arena.memory.base + 1280);
    assert_false(zr_arena_give(&arena, arena.memory.base + 256));
    assert_false(zr_arena_give(&arena, &err));
    zr_arena_release(&arena);
}

/* What is taken before the wall stands is taken at the same places ever after, whatever lies behind
 * it. */
static void what_repeats_finds_its_places_again(void **state)
{
    (void)state;
    enum { TAKEN = 40 };
    zl_err err = {0};
    zr_arena arena;
    void *p[TAKEN];
    void *kept = NULL;
    uint64_t place[TAKEN] = {0};
    uint64_t grown = 0;
    assert_int_equal(zr_arena_init(&arena, 256, &err), ZL_OK);
    for (int round = 0; round < 4; round++) {
        for (size_t i = 0; i < TAKEN; i++) {
            assert_true(zr_arena_take(&arena, 100000 * (1 + i * 7 % 11), &p[i]));
            const uint64_t at = (uint64_t)((unsigned char *)p[i] - arena.memory.base);
            assert_true(round == 0 || at == place[i]);
            place[i] = at;
            if (i % 3 == 2) {
                assert_true(zr_arena_give(&arena, p[i - 1]));
            }
        }
        zr_arena_wall(&arena);
        assert_true(zr_arena_take_behind(&arena, 3000000, &kept));
        assert_true((uint64_t)((unsigned char *)kept - arena.memory.base) >= arena.wall);
        for (size_t i = 0; i < TAKEN; i++) {
            assert_true(i % 3 == 1 && i + 1 < TAKEN ? true : zr_arena_give(&arena, p[i]));
        }
        check_arena(&arena);
        assert_true(round < 2 || arena.wall < grown);
        grown = arena.memory.accessible;
    }
    zr_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arena_is_sound_and_deterministic),
        cmocka_unit_test(arena_prefers_the_smallest_hole),
        cmocka_unit_test(what_repeats_finds_its_places_again),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
