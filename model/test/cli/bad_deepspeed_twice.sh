printf '{\n  "zero_optimization": {"stage": 2},\n  "zero_optimization": {"stage": 3}\n}\n' >ds.json
zl predict --model gpt2-tiny --deepspeed-config ds.json
