# Values with commas of their own: the option again.
zl sweep --model gpt2 --framework deepspeed --stage 0,3 --ranks 4 --rank 1 --lora 8:c_attn --lora 16:c_attn,c_proj --format csv
