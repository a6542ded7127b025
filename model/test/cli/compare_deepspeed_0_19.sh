# What DeepSpeed itself printed: every figure agrees. The measuring script reset the peaks at its own marks.
here=${0%/*}
zl compare "$here/../../../validate/records/logs/ds0.19.6_bert-large-pretraining_z3_w2_fp16_b8_s128_eager.log" \
  --model "$here/compare_bert.json" --framework deepspeed@0.19.6 --stage 3 --precision fp16-mixed --ranks 2 \
  --micro-batch 8 --seq 128 --attention eager --resets-at all
