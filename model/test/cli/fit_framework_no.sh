zl fit --model llama-2-7b --framework deepspeed --stage 2 --ranks 8 --gpu v100-32g --precision fp16-mixed --optimizer adamw-loop --recompute full --seq 512
