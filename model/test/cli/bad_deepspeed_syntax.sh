# Line and column, what was expected and what is there.
printf '{\n  // sizes\n  "zero_optimization": {"stage": 2 "overlap_comm": true},\n}\n' >ds.json
zl predict --model gpt2-tiny --deepspeed-config ds.json
