/* The walk against numbers worked out by hand, and the comparison against mutants of the walk. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "walk/walk.h"
#include "walk_random.h"
#include "zeroledger/ledger.h"

typedef struct expected {
    zl_visit visit;
    zl_phase phase;
    uint64_t peak[ZL_RUNG_COUNT];
    uint64_t end;
} expected;

static zl_ledger *walk(zl_run *run)
{
    zl_err err = {0};
    zl_ledger *ledger = zl_ledger_new();
    assert_non_null(ledger);
    if (zl_model_check(&run->model, &err) != ZL_OK || zl_run_check(run, &err) != ZL_OK ||
        zl_walk(run, run->ranks - 1, ledger, &err) != ZL_OK) {
        fail_msg("%s", err.text);
    }
    return ledger;
}

static void expect(const zl_ledger *ledger, const expected *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const zl_cell *cell = zl_ledger_at(ledger, rows[i].visit, rows[i].phase);
        assert_true(cell->present);
        assert_int_equal(cell->peak[ZL_REQUESTED], rows[i].peak[ZL_REQUESTED]);
        assert_int_equal(cell->peak[ZL_GRANTED], rows[i].peak[ZL_GRANTED]);
        assert_int_equal(zl_cell_end(cell, ZL_REQUESTED), rows[i].end);
    }
}

static const zl_amount *amount(const zl_ledger *ledger, zl_visit visit, zl_phase phase, zl_buf buf)
{
    return &zl_ledger_at(ledger, visit, phase)->line[buf].bytes[ZL_REQUESTED];
}

static const zl_model hand_gpt2 = {.name = "hand",
                                   .family = ZL_FAMILY_GPT2,
                                   .activation = ZL_ACT_GELU_TANH,
                                   .layers = 1,
                                   .width = 64,
                                   .heads = 2,
                                   .kv_heads = 2,
                                   .head_dim = 32,
                                   .ffn = 256,
                                   .vocab = 100,
                                   .positions = 16,
                                   .tied = true,
                                   .qkv_bias = true,
                                   .out_bias = true,
                                   .mlp_bias = true,
                                   .norm_eps = 1e-5};

/* GPT-2: L 1, C 64, H 2, D 32, F 256, V 100, P 16, tied. B 1, T 5, so R 5 and Q (2 + 2 x 2) 32 =
 * 192. fp32, stage 0, one rank, AdamW, clip 1, eval, save. Requested bytes, then granted in [ ]
 * where they differ.
 *
 * embedding  100x64x4 25,600 + 16x64x4 4,096                                       =  29,696
 * block      ln1 256+256, qkv 64x192x4 49,152 + 768, out 64x64x4 16,384 + 256, ln2 256+256,
 *            fc 64x256x4 65,536 + 1,024, proj 65,536 + 256                         = 199,936
 * head       256 + 256                                                             =     512
 * all units                                                                        = 230,144
 *
 * init      scalars 64x8 = 512; 512 + 230,144                                      = 230,656
 * forward   tokens, targets 20 [256] each -> 230,696 [231,168]; residual 5x64x4 = 1,280 -> 231,976
 *           [232,448]. Block: ln1.stats 5x2x4 = 40 [256], ln1 1,280, qkv 5x192x4 = 3,840, attn
 * 1,280, lse 2x5x4 = 40 [256], mid 1,280, ln2.stats 40 [256], ln2 1,280, pre 5x256x4 = 5,120, post
 * 5,120, residual 1,280: 20,600 [21,248] -> 252,576 [253,696]. Head: grad.unit 512 and 29,696 ->
 * 282,784 [283,904]; lnf.stats 40 [256], lnf 1,280, dhead 1,280 -> 285,384 [286,720]; losses 20
 * [256], logits 5x100x4 = 2,000 [2,048]  peak       = 287,404 [289,024] both freed end        =
 * 285,384 backward  dresidual 1,280; free dhead, lnf, lnf.stats, residual 3,880 [4,096] -> 282,784
 * [283,904]; grad.unit 199,936 -> 482,720 [483,840]; dffn 5,120, dln 1,280 peak     = 489,120
 * [490,240] (later: dattn 1,280 + dqkv 3,840 + delta 40 [256] -> 487,880 [489,216]) all of it
 * freed: 230,656 + 230,144                          end        = 460,800 reduce    nothing =
 * 460,800 step      norm 1x3x8 = 24 [256] -> 460,824, freed; moments 2 x 230,144 = 460,288 =
 * 921,088 gradients freed: 230,656 + 460,288                          end        = 690,944 steady
 * forward and backward lie 460,288 higher; step: 690,944 + 230,144 = 921,088, + 24 [256]
 *
 * eval, cold and steady alike, from 690,944:
 *   tokens, targets                                      40    [512] -> 690,984 [691,456]
 *   residual                                          1,280          -> 692,264 [692,736]
 *   block: ln1.stats .. post as in forward           19,320 [19,968]
 *          and the residual entering the head         1,280          -> 712,864 [713,984]  peak
 *   block and its residual freed                                     -> 692,264 [692,736]
 *   lnf.stats 40 [256], lnf 1,280, losses 20 [256],
 *   logits 2,000 [2,048]                              3,340  [3,840] -> 695,604 [696,576]
 *   all of it freed                                                  -> 690,944            end
 * save   nothing                                                        690,944       peak = end
 */
static void gpt2_fp32_stage0_by_hand(void **unused)
{
    (void)unused;
    zl_run run;
    zl_run_init(&run);
    run.model = hand_gpt2;
    run.seq = 5;
    run.precision = ZL_PRECISION_FP32;
    run.eval = true;
    run.save = true;
    zl_ledger *ledger = walk(&run);
    static const expected rows[] = {
        {ZL_VISIT_COLD, ZL_PHASE_INIT, {230656, 230656}, 230656},
        {ZL_VISIT_COLD, ZL_PHASE_FORWARD, {287404, 289024}, 285384},
        {ZL_VISIT_COLD, ZL_PHASE_BACKWARD, {489120, 490240}, 460800},
        {ZL_VISIT_COLD, ZL_PHASE_REDUCE, {460800, 460800}, 460800},
        {ZL_VISIT_COLD, ZL_PHASE_STEP, {921088, 921088}, 690944},
        {ZL_VISIT_COLD, ZL_PHASE_EVAL, {712864, 713984}, 690944},
        {ZL_VISIT_COLD, ZL_PHASE_SAVE, {690944, 690944}, 690944},
        {ZL_VISIT_STEADY, ZL_PHASE_FORWARD, {747692, 749312}, 745672},
        {ZL_VISIT_STEADY, ZL_PHASE_BACKWARD, {949408, 950528}, 921088},
        {ZL_VISIT_STEADY, ZL_PHASE_STEP, {921112, 921344}, 690944},
        {ZL_VISIT_STEADY, ZL_PHASE_EVAL, {712864, 713984}, 690944},
        {ZL_VISIT_STEADY, ZL_PHASE_SAVE, {690944, 690944}, 690944},
    };
    expect(ledger, rows, sizeof(rows) / sizeof(rows[0]));
    assert_false(zl_ledger_at(ledger, ZL_VISIT_COLD_LATER, ZL_PHASE_FORWARD)->present);
    assert_false(zl_ledger_at(ledger, ZL_VISIT_COLD, ZL_PHASE_PUBLISH)->present);
    const zl_amount *dffn = amount(ledger, ZL_VISIT_COLD, ZL_PHASE_BACKWARD, ZL_BUF_TEMP_DFFN);
    assert_int_equal(dffn->at_peak, 5120);
    assert_int_equal(dffn->end, 0);
    assert_int_equal(amount(ledger, ZL_VISIT_COLD, ZL_PHASE_BACKWARD, ZL_BUF_TEMP_DQKV)->at_peak,
                     0);
    assert_int_equal(amount(ledger, ZL_VISIT_COLD, ZL_PHASE_BACKWARD, ZL_BUF_TEMP_DQKV)->max, 3840);
    assert_int_equal(amount(ledger, ZL_VISIT_COLD, ZL_PHASE_STEP, ZL_BUF_TEMP_NORM)->at_peak, 0);
    assert_int_equal(amount(ledger, ZL_VISIT_STEADY, ZL_PHASE_STEP, ZL_BUF_TEMP_NORM)->at_peak, 24);
    const zl_amount *losses = amount(ledger, ZL_VISIT_STEADY, ZL_PHASE_EVAL, ZL_BUF_TEMP_LOSSES);
    assert_int_equal(losses->at_peak, 0);
    assert_int_equal(losses->max, 20);
    assert_int_equal(amount(ledger, ZL_VISIT_STEADY, ZL_PHASE_EVAL, ZL_BUF_ACT_RESIDUAL)->at_peak,
                     2560); /* the one that entered the block and the one that enters the head */
    zl_ledger_free(ledger);
}

/* The same model with V 2,000, so that logits are larger than the block.
 *
 * embedding  2,000x64x4 512,000 + 4,096 = 516,096; all units 516,096 + 199,936 + 512 = 716,544
 * at rest    scalars 512 + parameters 716,544 + moments 2 x 716,544                 = 2,150,144
 * eval       tokens, targets 40 [512], residual 1,280   -> 2,151,464 [2,151,936]
 *            block 20,600 [21,248]                      -> 2,172,064 [2,173,184], freed
 *            lnf.stats 40 [256], lnf 1,280              -> 2,152,784 [2,153,472]
 *            losses 20 [256], logits 5x2,000x4 = 40,000 [40,192]
 *                                                       -> 2,192,804 [2,193,920]  peak
 */
static void eval_can_peak_in_the_head_by_hand(void **unused)
{
    (void)unused;
    zl_run run;
    zl_run_init(&run);
    run.model = hand_gpt2;
    run.model.vocab = 2000;
    run.seq = 5;
    run.precision = ZL_PRECISION_FP32;
    run.eval = true;
    zl_ledger *ledger = walk(&run);
    static const expected rows[] = {
        {ZL_VISIT_COLD, ZL_PHASE_EVAL, {2192804, 2193920}, 2150144},
        {ZL_VISIT_STEADY, ZL_PHASE_EVAL, {2192804, 2193920}, 2150144},
    };
    expect(ledger, rows, sizeof(rows) / sizeof(rows[0]));
    assert_int_equal(amount(ledger, ZL_VISIT_COLD, ZL_PHASE_EVAL, ZL_BUF_ACT_RESIDUAL)->at_peak,
                     1280);
    assert_int_equal(amount(ledger, ZL_VISIT_COLD, ZL_PHASE_EVAL, ZL_BUF_TEMP_DHEAD)->max, 0);
    assert_false(zl_ledger_at(ledger, ZL_VISIT_COLD, ZL_PHASE_SAVE)->present);
    zl_ledger_free(ledger);
}

/* Llama: L 2, C 64, H 2, G 1, D 32, F 96, V 50, untied, no biases. B 2, T 4, so R 8, Q (2 + 2) 32 =
 * 128. bf16-mixed, stage 3, 2 ranks, A 2, full recompute, SGD, no clip, head chunk 3, K 1, no shard
 * copy, CUDA, eval.
 *
 * Units in bf16, tensors to 256, the sum to 512:
 * embedding  50x64x2 6,400                                                         ->   6,656
 * block      256, 64x128x2 16,384, 64x64x2 8,192, 256, 64x192x2 24,576, 96x64x2 12,288 -> 61,952
 * head       256 + 6,400                                                           ->   6,656
 * all units  137,216; a shard in fp32 is as large as the unit in bf16
 *
 * init      scalars 512, rope 4x32x4 512, cuBLASLt 33,554,432, sums 8,192, master shards 137,216,
 * gather slots 6,656 + 6,656 + 2 x 61,952 = 137,216, gather inputs 68,608, reduce slots 6,656 +
 * 6,656
 *           + 61,952 = 75,264                                            all     I = 33,981,952
 * forward   inputs 2 x 32 [256], residual 8x64x2 = 1,024 -> 1,088 [1,536]. Block: ln1.stats 8x4 =
 * 32 [256], ln1 1,024, qkv 2,048, attn 1,024, lse 2x2x4x4 = 64 [256], mid 1,024, ln2.stats 32
 * [256], ln2 1,024, pre 8x192x2 3,072, post 1,536 = 10,880 [11,520], and the next residual 1,024:
 * after block 0 2,112 [2,560], in block 1    peak    I + 14,016 [15,104] after it 3,136 [3,584];
 * lnf.stats 32 [256], lnf 1,024, dhead 1,024    end I + 5,216 (with losses 32 and logits 3x50x2 =
 * 300 only 5,548) backward  first micro-step: dresidual 1,024; free dhead, lnf, lnf.stats, residual
 * -> 3,136; head shard 3,328 -> 6,464. Block 1: recompute 10,880 -> 17,344, dffn 1,536 + dgateup
 * 3,072 -> 21,952, freed with the residual -> 5,440, shard 30,976 -> 36,416. Block 0: 47,296,
 * 51,904, 35,392, shard -> 66,368. dresidual 1,024 and inputs 64 freed -> 65,280, embedding shard
 * 3,328                                       peak = end I + 68,608 granted: 66,816 before, then
 * the same 68,608 reduce    nothing is freed                                             I + 68,608
 * later     forward from I + 68,608: peak 82,624 [83,712], end 73,824. backward, above I + 68,608:
 *           head landing -> 6,464, block 1 21,952, landing -> 36,416 [36,864]; block 0 needs the
 * slot: block 1 lands -> 5,440, block 0 20,928, landing -> 35,392 [35,840]; inputs and dresidual
 *           freed -> 34,304, embedding landing -> 37,632      peak = end I + 106,240
 *           reduce: entry 106,240, all land                   end I + 68,608
 * step      momentum 137,216                                  peak I + 205,824, end I + 137,216
 * eval      from I + 137,216: inputs 64 [512], residual 1,024 -> 1,088 [1,536]; block 10,880
 *           [11,520] and the next residual 1,024              peak I + 137,216 + 12,992 [14,080]
 *           which is                                               I + 150,208 [151,296]
 *           block and its residual freed -> 1,088; block 1 the same; lnf.stats 32 [256], lnf
 *           1,024, losses 32 [256], logits 300 [512] -> 2,476 [3,584]
 *           all of it freed                                   end  I + 137,216
 */
static void llama_stage3_full_recompute_by_hand(void **unused)
{
    (void)unused;
    enum { I = 33981952 };
    zl_run run;
    zl_run_init(&run);
    run.model = (zl_model){.name = "hand",
                           .family = ZL_FAMILY_LLAMA,
                           .activation = ZL_ACT_SWIGLU,
                           .layers = 2,
                           .width = 64,
                           .heads = 2,
                           .kv_heads = 1,
                           .head_dim = 32,
                           .ffn = 96,
                           .vocab = 50,
                           .positions = 16,
                           .norm_eps = 1e-5,
                           .rope_theta = 10000.0};
    run.backend = ZL_BACKEND_CUDA;
    run.stage = 3;
    run.ranks = 2;
    run.micro_batch = 2;
    run.seq = 4;
    run.accumulation = 2;
    run.optimizer = ZL_OPTIMIZER_SGD;
    run.recompute = ZL_RECOMPUTE_FULL;
    run.clip = 0.0;
    run.head_chunk = 3;
    run.reduce_slots = 1;
    run.shard_copy = false;
    run.eval = true;
    zl_ledger *ledger = walk(&run);
    static const expected rows[] = {
        {ZL_VISIT_COLD, ZL_PHASE_INIT, {I, I}, I},
        {ZL_VISIT_COLD, ZL_PHASE_FORWARD, {I + 14016, I + 15104}, I + 5216},
        {ZL_VISIT_COLD, ZL_PHASE_BACKWARD, {I + 68608, I + 68608}, I + 68608},
        {ZL_VISIT_COLD, ZL_PHASE_REDUCE, {I + 68608, I + 68608}, I + 68608},
        {ZL_VISIT_COLD_LATER, ZL_PHASE_FORWARD, {I + 82624, I + 83712}, I + 73824},
        {ZL_VISIT_COLD_LATER, ZL_PHASE_BACKWARD, {I + 106240, I + 106240}, I + 106240},
        {ZL_VISIT_COLD_LATER, ZL_PHASE_REDUCE, {I + 106240, I + 106240}, I + 68608},
        {ZL_VISIT_COLD, ZL_PHASE_STEP, {I + 205824, I + 205824}, I + 137216},
        {ZL_VISIT_COLD, ZL_PHASE_EVAL, {I + 150208, I + 151296}, I + 137216},
        {ZL_VISIT_STEADY, ZL_PHASE_FORWARD, {I + 151232, I + 152320}, I + 142432},
        {ZL_VISIT_STEADY, ZL_PHASE_STEP, {I + 205824, I + 205824}, I + 137216},
        {ZL_VISIT_STEADY, ZL_PHASE_EVAL, {I + 150208, I + 151296}, I + 137216},
    };
    expect(ledger, rows, sizeof(rows) / sizeof(rows[0]));
    assert_false(zl_ledger_at(ledger, ZL_VISIT_COLD_LATER, ZL_PHASE_STEP)->present);
    const zl_amount *landing =
        amount(ledger, ZL_VISIT_COLD_LATER, ZL_PHASE_REDUCE, ZL_BUF_REDUCE_LANDING);
    assert_int_equal(landing->at_peak, 37632);
    assert_int_equal(landing->end, 0);
    assert_int_equal(amount(ledger, ZL_VISIT_COLD, ZL_PHASE_FORWARD, ZL_BUF_CKPT_RESIDUAL)->at_peak,
                     3072);
    assert_int_equal(amount(ledger, ZL_VISIT_COLD, ZL_PHASE_EVAL, ZL_BUF_CKPT_RESIDUAL)->max, 0);
    assert_int_equal(amount(ledger, ZL_VISIT_COLD, ZL_PHASE_EVAL, ZL_BUF_ACT_RESIDUAL)->max, 2048);
    assert_false(zl_ledger_at(ledger, ZL_VISIT_COLD_LATER, ZL_PHASE_EVAL)->present);
    assert_false(zl_ledger_at(ledger, ZL_VISIT_COLD, ZL_PHASE_SAVE)->present);
    zl_ledger_free(ledger);
}

/* BERT: L 1, C 32, H 2, D 16, F 64, V 40, P 8, Y 2, tied, pooler. B 2, T 4, so R 8, Q (2 + 4) 16
 * = 96. Pure bf16 with fp32 gradients, stage 1, 2 ranks, A 1, selective, eager, dropout, AdamW,
 * clip 1, host, eval, save.
 *
 * Units in bf16, tensors to 256, the sum to 512:
 * embedding  2,560 + 512 + 256 (128) + 256 + 256 = 3,840                           ->  4,096
 * block      6,144 + 256, 2,048 + 256, 256 + 256, 4,096 + 256, 4,096 + 256, 256 + 256 -> 18,432
 * head       2,048 + 256, 256 + 256, 256, pooler 2,048 + 256, next 256 + 256 = 5,888 ->  6,144
 * all units  28,672; gradients in fp32 57,344; a moment's shard in bf16 14,336
 *
 * init      scalars 512, gemm tiles 786,432, reduce 1,048,576, units 28,672      I = 1,864,192
 * forward   inputs 32 + 32 + 32 + 8 + 8 = 112 [5 x 256], embed 512, embed.stats 64 [256], residual
 * 512
 *           -> 1,200 [2,560]. Block: qkv 1,536, probs 2x2x4x4x2 = 128 [256], attn 512 (temp.probs
 *           comes and goes) -> 3,376 [4,864]; mid 512, ln1.stats 64 [256], ln1 512, pre 1,024,
 *           post 1,024 -> 6,512 [8,192]; sum 512, post and ln1 freed -> 5,488 [7,168]; ln2.stats
 *           64 [256], residual 512 -> 6,064 [7,936]. Head: gradients 12,288 + 8,192 -> 26,544
 *           [28,416]; pooled 2x32x2 = 128 [256], pre 512, post 512, lnf.stats 64 [256], lnf 512,
 *           dhead 512 -> 28,784 [30,976]; losses (8 + 2) 4 = 40 [256], logits 8x40x2 = 640 [768],
 *           next 8 [256], dpooled 128 [256]                   peak    I + 29,600 [32,512]
 *           losses, logits, next freed                        end     I + 28,912
 * backward  dresidual 512; dhead, dpooled, pooled, lnf, lnf.stats, post, pre, residual freed ->
 * 26,544 [28,416]; gradient 36,864 -> 63,408 [65,280]. 2: post 1,024, dbranch 512, post freed, dffn
 *           1,024 -> 64,944. 5: dattn 512 -> 63,920 [65,792]. 6: dqkv 1,536 -> 65,456 [67,328];
 *           temp.probs 128 [256]                              peak    I + 65,584 [67,584]
 *           freed, dprobs 128 attains it again, but second
 *           everything but the gradients freed                end     I + 57,344
 * step      norm 2x3x8 = 48 [256], freed; moments 2 x 14,336  peak    I + 86,016
 *           gradients freed                                   end     I + 28,672
 * steady    step begins at I + 86,016, norm 48 [256]
 * eval      from I + 28,672: inputs 112 [1,280], embed 512, embed.stats 64 [256], residual 512 ->
 *           1,200 [2,560]; embed and its stats freed -> 624 [1,792]. Block, without dropout and
 *           keeping ln1 and post: qkv 1,536, probs 128 [256], attn 512, mid 512, ln1.stats 64
 *           [256], ln1 512, pre 1,024, post 1,024, sum 512, ln2.stats 64 [256], residual 512 =
 *           6,400 [6,912] -> 7,024 [8,704]                      peak    I + 35,696 [37,376]
 *           block and its residual freed -> 624 [1,792]; pooled 128 [256], pre 512, post 512,
 *           lnf.stats 64 [256], lnf 512, losses 40 [256], logits 640 [768], next 8 [256] = 2,416
 *           [3,328] -> 3,040 [5,120]; all of it freed         end     I + 28,672
 * save      nothing                                           peak = end I + 28,672
 */
static void bert_stage1_eager_dropout_by_hand(void **unused)
{
    (void)unused;
    enum { I = 1864192 };
    zl_run run;
    zl_run_init(&run);
    run.model = (zl_model){.name = "hand",
                           .family = ZL_FAMILY_BERT,
                           .activation = ZL_ACT_GELU,
                           .layers = 1,
                           .width = 32,
                           .heads = 2,
                           .kv_heads = 2,
                           .head_dim = 16,
                           .ffn = 64,
                           .vocab = 40,
                           .positions = 8,
                           .types = 2,
                           .tied = true,
                           .qkv_bias = true,
                           .out_bias = true,
                           .mlp_bias = true,
                           .pooler = true,
                           .norm_eps = 1e-12};
    run.stage = 1;
    run.ranks = 2;
    run.micro_batch = 2;
    run.seq = 4;
    run.precision = ZL_PRECISION_BF16;
    run.grad_dtype = ZL_GRAD_FP32;
    run.attention = ZL_ATTENTION_EAGER;
    run.recompute = ZL_RECOMPUTE_SELECTIVE;
    run.dropout = 0.1;
    run.eval = true;
    run.save = true;
    zl_ledger *ledger = walk(&run);
    static const expected rows[] = {
        {ZL_VISIT_COLD, ZL_PHASE_INIT, {I, I}, I},
        {ZL_VISIT_COLD, ZL_PHASE_FORWARD, {I + 29600, I + 32512}, I + 28912},
        {ZL_VISIT_COLD, ZL_PHASE_BACKWARD, {I + 65584, I + 67584}, I + 57344},
        {ZL_VISIT_COLD, ZL_PHASE_REDUCE, {I + 57344, I + 57344}, I + 57344},
        {ZL_VISIT_COLD, ZL_PHASE_STEP, {I + 86016, I + 86016}, I + 28672},
        {ZL_VISIT_COLD, ZL_PHASE_PUBLISH, {I + 28672, I + 28672}, I + 28672},
        {ZL_VISIT_COLD, ZL_PHASE_EVAL, {I + 35696, I + 37376}, I + 28672},
        {ZL_VISIT_COLD, ZL_PHASE_SAVE, {I + 28672, I + 28672}, I + 28672},
        {ZL_VISIT_STEADY, ZL_PHASE_STEP, {I + 86064, I + 86272}, I + 28672},
        {ZL_VISIT_STEADY, ZL_PHASE_EVAL, {I + 35696, I + 37376}, I + 28672},
        {ZL_VISIT_STEADY, ZL_PHASE_SAVE, {I + 28672, I + 28672}, I + 28672},
    };
    expect(ledger, rows, sizeof(rows) / sizeof(rows[0]));
    assert_int_equal(amount(ledger, ZL_VISIT_COLD, ZL_PHASE_BACKWARD, ZL_BUF_TEMP_PROBS)->at_peak,
                     128);
    assert_int_equal(amount(ledger, ZL_VISIT_COLD, ZL_PHASE_BACKWARD, ZL_BUF_TEMP_DPROBS)->at_peak,
                     0);
    assert_int_equal(
        zl_ledger_at(ledger, ZL_VISIT_COLD, ZL_PHASE_FORWARD)->kind_max[ZL_KIND_ACT][ZL_REQUESTED],
        7680); /* 6,064 - 112 when the head begins, then pooled, pre, post, lnf.stats, lnf: 1,728 */
    const zl_cell *eval = zl_ledger_at(ledger, ZL_VISIT_COLD, ZL_PHASE_EVAL);
    assert_int_equal(eval->kind_max[ZL_KIND_TEMP][ZL_REQUESTED], 40);    /* losses alone */
    assert_int_equal(eval->kind_max[ZL_KIND_LOGITS][ZL_REQUESTED], 648); /* logits and next */
    assert_int_equal(eval->kind_max[ZL_KIND_GRAD][ZL_REQUESTED], 0);
    zl_ledger_free(ledger);
}

static bool differ(const zl_ledger *a, const zl_ledger *b)
{
    zl_difference d = {0};
    zl_err err = {0};
    if (zl_ledger_compare(a, b, false, &d, &err) != ZL_OK) {
        fail_msg("%s", err.text);
    }
    return d.found;
}

/* True if one allocation, a granule larger, goes unnoticed. An early reduce.landing may: it is
 * freed before that buffer, and the total, come to their largest. */
static bool escapes(const zl_run *run, uint64_t event, const zl_ledger *plain)
{
    zl_err err = {0};
    zl_walk_mutation mutation = {.event = event};
    zl_ledger *mutant = zl_ledger_new();
    assert_non_null(mutant);
    const zl_status status = zl_walk_mutant(run, 0, &mutation, mutant, &err);
    const bool same = status == ZL_OK && !differ(plain, mutant);
    zl_ledger_free(mutant);
    if (status != ZL_OK && status != ZL_E_BUG) {
        fail_msg("%s", err.text);
    }
    return same && mutation.buffer != ZL_BUF_REDUCE_LANDING;
}

static void one_larger_allocation_is_noticed(void **unused)
{
    (void)unused;
    const uint64_t seed = 7;
    zl_random random = {.state = seed};
    zl_ledger *plain = zl_ledger_new();
    assert_non_null(plain);
    for (int i = 0; i < 50; i++) {
        zl_run run;
        zl_err err = {0};
        zl_walk_mutation none = {0};
        assert_int_equal(zl_random_run(&random, &run, &err), ZL_OK);
        assert_int_equal(zl_walk_mutant(&run, 0, &none, plain, &err), ZL_OK);
        assert_false(differ(plain, plain));
        for (int j = 0; j < 50; j++) {
            const uint64_t event = zl_random_between(&random, 1, none.events);
            if (escapes(&run, event, plain)) {
                zl_random_print(&run, stderr);
                fail_msg("seed %d: allocation %d went unnoticed", (int)seed, (int)event);
            }
        }
    }
    zl_ledger_free(plain);
}

static void overflow_is_a_usage_error(void **unused)
{
    (void)unused;
    zl_random random = {.state = 1};
    zl_run run;
    zl_err err = {0};
    zl_ledger *ledger = zl_ledger_new();
    assert_non_null(ledger);
    assert_int_equal(zl_random_run(&random, &run, &err), ZL_OK);
    run.micro_batch = UINT64_C(1) << 62;
    assert_int_equal(zl_walk(&run, 0, ledger, &err), ZL_E_USAGE);
    assert_false(zl_ledger_at(ledger, ZL_VISIT_COLD, ZL_PHASE_INIT)->present);
    zl_ledger_free(ledger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2_fp32_stage0_by_hand),
        cmocka_unit_test(eval_can_peak_in_the_head_by_hand),
        cmocka_unit_test(llama_stage3_full_recompute_by_hand),
        cmocka_unit_test(bert_stage1_eager_dropout_by_hand),
        cmocka_unit_test(one_larger_allocation_is_noticed),
        cmocka_unit_test(overflow_is_a_usage_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
