# The file that accelerate's guide gives: its own settings replace the stage and the devices as well.
cat >ds.json <<'END'
{
  "bf16": {"enabled": "auto"},
  "zero_optimization": {
    "stage": "auto",
    "stage3_gather_16bit_weights_on_model_save": "auto",
    "offload_optimizer": {"device": "auto"},
    "offload_param": {"device": "auto"}
  },
  "gradient_clipping": "auto",
  "train_batch_size": "auto",
  "train_micro_batch_size_per_gpu": "auto",
  "gradient_accumulation_steps": "auto",
  "steps_per_print": 2000000
}
END
options='--model gpt2-tiny --deepspeed-config ds.json --ranks 8 --micro-batch 2 --precision bf16-mixed'
zl predict $options --stage 3 | sed -n '1p; /^ds_config.json/p'
zl predict $options || echo "exit $?"
