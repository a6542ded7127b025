# The file of a run that was fp16 once: accelerate adds the bf16 that its mixed_precision asks for.
cat >ds.json <<'END'
{
  "train_batch_size": "auto",
  "train_micro_batch_size_per_gpu": "auto",
  "fp16": {"enabled": "auto", "loss_scale": 0},
  "zero_optimization": {"stage": 1}
}
END
sed '/fp16/d' ds.json >neither.json
for precision in bf16-mixed fp16-mixed; do
  for file in ds.json neither.json; do
    zl predict --model gpt2-tiny --deepspeed-config "$file" --ranks 8 --micro-batch 2 --precision "$precision" |
      sed -n '1p; /^ds_config.json: .*16/p'
  done
done
