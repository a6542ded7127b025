# The log's run had overlap_comm, the description has not.
here=${0%/*}
echo '{"train_micro_batch_size_per_gpu": 8, "zero_optimization": {"stage": 3, "overlap_comm": false}, "optimizer": {"type": "AdamW"}, "fp16": {"enabled": true}}' >ds.json
zl compare "$here/../../../validate/records/logs/ds0.19.6_bert-large-pretraining_z3_w2_fp16_b8_s128_eager.log" \
  --model "$here/compare_bert.json" --framework deepspeed@0.19.6 --deepspeed-config ds.json --ranks 2 \
  --seq 128 --attention eager --resets-at all >all.txt && exit 5
code=$?
grep -v yes all.txt | tail -n 6
exit $code
