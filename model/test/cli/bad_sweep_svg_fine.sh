zl sweep --model gpt2 --stage 0,1 --ranks 1..200 --svg map.svg
