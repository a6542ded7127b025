# What to write in an accelerate config, and exactly what zl predict says with it there.
config() {
  cat >accelerate.yaml <<YAML
distributed_type: FSDP
mixed_precision: bf16
num_processes: 4
fsdp_config:
  fsdp_version: 2
  fsdp_reshard_after_forward: false
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  $1
YAML
}
ask() { zl "$1" --model gpt2 --micro-batch 4 --accelerate-config accelerate.yaml "${@:2}" 2>/dev/null; }
config ''
ask advise | sed -n '/^Largest/p;/^ *change/,/^$/p;s/^ *or in an accelerate config/config/p'
ask advise --format csv | sed -n 's/.*--recompute full,\([0-9]*\),.*/peak with --recompute full: \1/p'
config "$(ask advise | sed -n 's/^.*accelerate config: fsdp_config: {\(.*checkpointing.*\)}$/\1/p')"
tail -n 1 accelerate.yaml
ask predict --format csv | cut -d, -f6 | sort -n | tail -n 1
