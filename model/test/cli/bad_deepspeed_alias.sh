echo '{"zero_optimization": {"stage": 2, "cpu_offload": true, "offload_optimizer": {"device": "cpu"}}}' >ds.json
zl predict --model gpt2-tiny --deepspeed-config ds.json
