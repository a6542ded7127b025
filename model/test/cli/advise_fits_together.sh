# No single change is enough; the sets are certified.
zl advise --model llama-3-8b --framework deepspeed --stage 2 --ranks 8 --seq 4096 --micro-batch 4 --gpu a100-40g --headroom 5%
