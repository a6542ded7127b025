zl sweep --model gpt2 --framework ddp,fsdp2,native --ranks 2 --precision fp32,bf16-mixed --seq 512 --gpu v100-16g
