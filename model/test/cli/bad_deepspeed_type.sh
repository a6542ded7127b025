echo '{"zero_optimization": {"stage": 2, "overlap_comm": {"enabled": true}}}' >ds.json
zl predict --model gpt2-tiny --deepspeed-config ds.json
