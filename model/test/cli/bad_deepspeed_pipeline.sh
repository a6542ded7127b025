echo '{"zero_optimization": {"stage": 1}, "pipeline": {"stages": 4}}' >ds.json
zl predict --model gpt2 --deepspeed-config ds.json
