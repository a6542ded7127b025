# The first option has a panel for each value; what cannot be is grey, without words where cells are small.
zl sweep --model gpt2 --stage 0,3 --seq 256..2048+256 --micro-batch 1..3 --svg map.svg --units B
cat map.svg
