/* Batches depend on the seed and the number of the window alone; masks have an exact count; wrong
 * files are told by offset and value. */
#define _DEFAULT_SOURCE /* mkdtemp */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "train/data.h"

enum { SEQ = 20, MOST = 12 }; /* MOST sequences in a batch of these tests */

static char folder[] = "/tmp/zr_data_test.XXXXXX";
static char path[128];

static void write_file(const char *name, const void *bytes, size_t size)
{
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *const file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* 1000 bytes whose neighbours tell where they stand: byte i is i * 37 mod 251. */
static void write_text(void)
{
    unsigned char text[1000];
    for (size_t i = 0; i < sizeof(text); i++) {
        text[i] = (unsigned char)(i * 37 % 251);
    }
    write_file("text", text, sizeof(text));
}

static zl_run run_of(zl_family family, uint64_t ranks, uint64_t batch, uint64_t accumulation)
{
    zl_run run;
    zl_run_init(&run);
    run.model.family = family;
    run.model.vocab = 300;
    run.model.types = 2;
    run.seq = SEQ;
    run.ranks = ranks;
    run.micro_batch = batch;
    run.accumulation = accumulation;
    return run;
}

typedef struct arrays {
    int32_t tokens[MOST * SEQ];
    int32_t targets[MOST * SEQ];
    int32_t types[MOST * SEQ];
    int32_t lengths[MOST];
    int32_t next[MOST];
} arrays;

/* Micro-step `micro` of step `step` as rank `rank` sees it, from sequence `first` of the arrays. */
static void read_batch(const zl_run *run, zr_data_options options, uint64_t step, uint64_t micro,
                       arrays *out, size_t first)
{
    zl_err err = {0};
    zr_data data;
    options.path = path;
    options.run = run;
    assert_int_equal(zr_data_init(&data, &options, &err), ZL_OK);
    zr_batch batch = {out->tokens + first * SEQ, out->targets + first * SEQ,
                      out->types + first * SEQ, out->lengths + first, out->next + first};
    assert_int_equal(zr_data_next(&data, step, micro, &batch, &err), ZL_OK);
    zr_data_release(&data);
}

static void a_causal_target_is_the_next_token(void **state)
{
    (void)state;
    write_text();
    static arrays a;
    const zl_run run = run_of(ZL_FAMILY_GPT2, 1, MOST, 1);
    read_batch(&run, (zr_data_options){.seed = 5}, 0, 0, &a, 0);
    int different = 0;
    for (size_t i = 0; i < (size_t)MOST * SEQ; i++) {
        assert_int_equal(a.targets[i], (a.tokens[i] + 37) % 251);
        if (i % SEQ != SEQ - 1) {
            assert_int_equal(a.tokens[i + 1], a.targets[i]);
        } else if (i + 1 < (size_t)MOST * SEQ) {
            different += a.tokens[i + 1] != a.tokens[i + 1 - SEQ] ? 1 : 0;
        }
    }
    assert_true(different > MOST / 2); /* windows are spread over the file */
}

/* Step 3 with A = 2: two ranks of 3 sequences and one rank of 6 see the same 12 sequences, in the
 * order micro-step, rank, sequence. */
static void ranks_share_the_union_batch(void **state)
{
    (void)state;
    write_text();
    static arrays one;
    static arrays two;
    const zl_run alone = run_of(ZL_FAMILY_BERT, 1, 6, 2);
    const zl_run pair = run_of(ZL_FAMILY_BERT, 2, 3, 2);
    for (uint64_t micro = 0; micro < 2; micro++) {
        read_batch(&alone, (zr_data_options){.seed = 9}, 3, micro, &one, micro * 6);
        for (uint64_t rank = 0; rank < 2; rank++) {
            read_batch(&pair, (zr_data_options){.seed = 9, .rank = rank}, 3, micro, &two,
                       micro * 6 + rank * 3);
        }
    }
    assert_memory_equal(one.tokens, two.tokens, sizeof(one.tokens));
    assert_memory_equal(one.targets, two.targets, sizeof(one.targets));
    static arrays other;
    read_batch(&alone, (zr_data_options){.seed = 10}, 3, 0, &other, 0);
    assert_memory_not_equal(one.tokens, other.tokens, (size_t)6 * SEQ * sizeof(int32_t));
}

/* ceil(15 % of 20) = 3 masked tokens, each id 256, whose targets are the bytes that were there. */
static void masks_have_an_exact_count(void **state)
{
    (void)state;
    write_text();
    static arrays a;
    const zl_run run = run_of(ZL_FAMILY_BERT, 1, MOST, 1);
    read_batch(&run, (zr_data_options){.seed = 1}, 0, 0, &a, 0);
    for (size_t b = 0; b < MOST; b++) {
        int masked = 0;
        for (size_t t = 0; t < SEQ; t++) {
            const size_t i = b * SEQ + t;
            masked += a.tokens[i] == 256 ? 1 : 0;
            assert_int_equal(a.targets[i] >= 0, a.tokens[i] == 256);
            assert_int_equal(a.types[i], 0);
            const int32_t original = a.targets[i] >= 0 ? a.targets[i] : a.tokens[i];
            if (t > 0) {
                const size_t p = i - 1;
                const int32_t before = a.targets[p] >= 0 ? a.targets[p] : a.tokens[p];
                assert_int_equal(original, (before + 37) % 251);
            }
        }
        assert_int_equal(masked, 3);
        assert_int_equal(a.lengths[b], SEQ);
    }
}

static void a_next_sentence_continues_or_does_not(void **state)
{
    (void)state;
    write_text();
    static arrays a;
    zl_run run = run_of(ZL_FAMILY_BERT, 1, MOST, 1);
    run.model.pooler = true;
    int continued = 0;
    for (uint64_t step = 0; step < 20; step++) {
        read_batch(&run, (zr_data_options){.seed = 3}, step, 0, &a, 0);
        for (size_t b = 0; b < MOST; b++) {
            const size_t i = b * SEQ + SEQ / 2;
            const int32_t last = a.targets[i - 1] >= 0 ? a.targets[i - 1] : a.tokens[i - 1];
            const int32_t first = a.targets[i] >= 0 ? a.targets[i] : a.tokens[i];
            if (a.next[b] == 1) {
                assert_int_equal(first, (last + 37) % 251);
                continued++;
            } else { /* another place; 1 in 251 looks like a continuation, none does here */
                assert_int_equal(a.next[b], 0);
            }
            assert_int_equal(a.types[i - 1], 0);
            assert_int_equal(a.types[i], 1);
        }
    }
    /* 240 fair coins: 120 +- 5 standard deviations of 7.75. */
    assert_in_range(continued, 82, 158);
}

static void lengths_vary_between_half_and_whole(void **state)
{
    (void)state;
    write_text();
    static arrays a;
    const zl_run run = run_of(ZL_FAMILY_BERT, 1, MOST, 1);
    int32_t shortest = SEQ;
    int32_t longest = 0;
    for (uint64_t step = 0; step < 20; step++) {
        read_batch(&run, (zr_data_options){.seed = 3, .varlen = true}, step, 0, &a, 0);
        for (size_t b = 0; b < MOST; b++) {
            const int32_t length = a.lengths[b];
            shortest = length < shortest ? length : shortest;
            longest = length > longest ? length : longest;
            int32_t masked = 0;
            for (int32_t t = 0; t < SEQ; t++) {
                const size_t i = b * SEQ + (size_t)t;
                masked += a.targets[i] >= 0 ? 1 : 0;
                assert_true(t < length || (a.tokens[i] == 0 && a.targets[i] == -1));
            }
            assert_int_equal(masked, (length * 15 + 99) / 100);
        }
    }
    assert_int_equal(shortest, SEQ / 2);
    assert_int_equal(longest, SEQ);
}

static void expect_error(const zl_run *run, zr_tokens tokens, zl_status status, const char *text)
{
    zl_err err = {0};
    zr_data data;
    const zr_data_options options = {.path = path, .tokens = tokens, .seed = 1, .run = run};
    assert_int_equal(zr_data_init(&data, &options, &err), status);
    if (strstr(err.text, text) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", err.text, text);
    }
}

static void ids_are_little_endian_and_checked(void **state)
{
    (void)state;
    zl_err err = {0};
    /* 24 ids: 0x0102 = 258, ..., and number 23 is 0x012c = 300. */
    unsigned char ids[48];
    for (size_t i = 0; i < 24; i++) {
        ids[2 * i] = 2;
        ids[2 * i + 1] = 1;
    }
    write_file("good.u16", ids, 46);
    static arrays a;
    zl_run run = run_of(ZL_FAMILY_GPT2, 1, 1, 1);
    read_batch(&run, (zr_data_options){.seed = 1}, 0, 0, &a, 0);
    assert_int_equal(a.tokens[0], 258);
    assert_int_equal(a.targets[SEQ - 1], 258);
    ids[46] = 0x2c;
    write_file("bad.u16", ids, 48);
    expect_error(&run, ZR_TOKENS_AUTO, ZL_E_INPUT,
                 "token 23 at byte 46 is 300, the vocabulary has 300");
    write_file("odd", ids, 47);
    expect_error(&run, ZR_TOKENS_U16, ZL_E_INPUT, "47 bytes are no whole number of 2-byte ids");
    expect_error(&run, ZR_TOKENS_U32, ZL_E_INPUT, "47 bytes are no whole number of 4-byte ids");
    /* As u32 the ids are 0x01020102 = 16908546. */
    write_file("wide.u32", ids, 44);
    run.model.vocab = 16908547;
    run.seq = 10;
    zr_data data;
    const zr_data_options options = {.path = path, .seed = 1, .run = &run};
    assert_int_equal(zr_data_init(&data, &options, &err), ZL_OK);
    assert_int_equal(data.count, 11);
    zr_data_release(&data);
    run.model.vocab = 16908546;
    expect_error(&run, ZR_TOKENS_AUTO, ZL_E_INPUT, "token 0 at byte 0 is 16908546");
}

static void unfit_files_are_refused(void **state)
{
    (void)state;
    zl_run run = run_of(ZL_FAMILY_GPT2, 1, 1, 1);
    write_file("short", "12345678901234567890", 20);
    expect_error(&run, ZR_TOKENS_AUTO, ZL_E_INPUT, "20 tokens, and sequences of 20 need 21");
    write_file("empty", "", 0);
    expect_error(&run, ZR_TOKENS_AUTO, ZL_E_INPUT, "the file is empty");
    (void)snprintf(path, sizeof(path), "%s", folder);
    expect_error(&run, ZR_TOKENS_AUTO, ZL_E_INPUT, "not a regular file");
    (void)snprintf(path, sizeof(path), "%s/none", folder);
    expect_error(&run, ZR_TOKENS_AUTO, ZL_E_INPUT, "No such file");
    write_text();
    write_file("short", "12345678901234567890123456789012345678901", 41);
    run.eval = true;
    expect_error(&run, ZR_TOKENS_AUTO, ZL_E_INPUT,
                 "41 tokens, and to hold some out for --eval takes 42");
    write_text();
    run.model.vocab = 255;
    expect_error(&run, ZR_TOKENS_AUTO, ZL_E_USAGE, "need a vocabulary of 256, the model has 255");
}

/* 1000 tokens, sequences of 20: the last 100 are held out. Byte i of the text is i * 37 mod 251, so
 * a token tells its place, modulo 251; 900 to 999 are 147 to 246 there. */
static void evaluation_has_a_side_of_its_own(void **state)
{
    (void)state;
    write_text();
    static arrays a;
    bool crossed = false;
    for (int family = 0; family < ZL_FAMILY_COUNT; family++) {
        const zl_run run = run_of((zl_family)family, 1, MOST, 1);
        for (uint64_t step = 0; step < 20; step++) {
            read_batch(&run, (zr_data_options){.seed = 3}, step, ZR_EVAL_BATCH, &a, 0);
            for (size_t i = 0; i < (size_t)MOST * SEQ; i++) {
                const int32_t token = a.tokens[i] == 256 ? a.targets[i] : a.tokens[i];
                /* 37 x 95 = 14 x 251 + 1 */
                assert_in_range(token * 95 % 251, 147, 246);
            }
            read_batch(&run, (zr_data_options){.seed = 3}, step, 0, &a, 0);
            for (size_t i = 0; i < (size_t)MOST * SEQ; i++) {
                crossed = crossed || a.tokens[i] == 37 * 50 % 251;
            }
        }
    }
    assert_true(crossed); /* training is elsewhere: 50, 301, 552 or 803 */
}

/* The windows go on where they stopped, whoever takes them: 3 steps of 2 ranks of 2 sequences are
 * 12 windows; then one rank of 6 takes windows 12 to 17, as it would in its own step 2. */
static void training_goes_on_behind_the_windows_taken(void **state)
{
    (void)state;
    write_text();
    static arrays want;
    static arrays have;
    const zl_run run = run_of(ZL_FAMILY_GPT2, 1, 6, 1);
    read_batch(&run, (zr_data_options){.seed = 9}, 2, 0, &want, 0);
    zl_err err = {0};
    zr_data data;
    const zr_data_options options = {.path = path, .seed = 9, .run = &run};
    assert_int_equal(zr_data_init(&data, &options, &err), ZL_OK);
    zr_data_seek(&data, 3, 12);
    zr_batch batch = {have.tokens, have.targets, have.types, have.lengths, have.next};
    assert_int_equal(zr_data_next(&data, 3, 0, &batch, &err), ZL_OK);
    zr_data_release(&data);
    assert_memory_equal(want.tokens, have.tokens, (size_t)6 * SEQ * sizeof(int32_t));
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    static const char *const names[] = {"text",     "good.u16", "bad.u16", "odd",
                                        "wide.u32", "short",    "empty"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_causal_target_is_the_next_token),
        cmocka_unit_test(ranks_share_the_union_batch),
        cmocka_unit_test(masks_have_an_exact_count),
        cmocka_unit_test(a_next_sentence_continues_or_does_not),
        cmocka_unit_test(lengths_vary_between_half_and_whole),
        cmocka_unit_test(evaluation_has_a_side_of_its_own),
        cmocka_unit_test(training_goes_on_behind_the_windows_taken),
        cmocka_unit_test(ids_are_little_endian_and_checked),
        cmocka_unit_test(unfit_files_are_refused),
    };
    return cmocka_run_group_tests_name("data", tests, make_folder, remove_folder);
}
