zl predict --model gpt2 --lora 16:c_attn
