zl explain --model bert-large --precision fp16-mixed --micro-batch 8 --seq 128 --format md
