# Probabilities that eager attention keeps: flash is the first advice.
zl explain --model gpt2-tiny --micro-batch 8 --seq 256 --attention eager --dropout 0.1 |
  grep "^forward: of"
