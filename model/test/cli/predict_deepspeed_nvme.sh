# Below stage 3 nothing is swapped: the optimizer goes to the host, the parameters stay.
echo '{"train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "nvme", "nvme_path": "/local"}, "offload_param": {"device": "cpu"}}}' >ds.json
zl predict --model gpt2-tiny --deepspeed-config ds.json --ranks 4 | head -5
