zl predict --model bert-tiny --seq 100 --micro-batch 3 --units B
