# The question zeroledger was made for: what helps, and exactly what zl predict says with the line in the file.
common='"train_micro_batch_size_per_gpu": 64, "fp16": {"enabled": true}, "optimizer": {"type": "Adam"}'
printf '{%s, "zero_optimization": {"stage": 3}}\n' "$common" >ds_config.json
ask() { zl "$1" --model bing-bert-large --framework deepspeed@0.5.9 --ranks 8 --seq 128 --activations 1.42GiB --skipped-step "${@:2}"; }
ask advise --deepspeed-config ds_config.json | sed -n '/^Largest/,/^ *3\. /p'
line=$(ask advise --deepspeed-config ds_config.json | sed -n 's/^ *ds_config.json: "zero_optimization": {\(.*reduce_bucket_size.*\)}$/\1/p')
echo "line: $line"
printf '{%s, "zero_optimization": {"stage": 3, %s}}\n' "$common" "$line" >ds_config.json
ask predict --deepspeed-config ds_config.json | sed -n '/^at/,$p'
