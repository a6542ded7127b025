zl predict --model llama-tiny --framework ddp --ranks 2 --precision bf16 --lora 8:q_proj,v_proj --units MiB
