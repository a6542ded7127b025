# Rows of those that fit; the others are counted.
zl sweep --model gpt2-xl --stage 0,3 --ranks 4..64x4 --micro-batch 1..9+4 --capacity 24GB --fits --units GB
