zl sweep --model gpt2,llama-tiny --precision bf16,fp32 --format md --units MiB
