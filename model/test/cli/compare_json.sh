zl compare "${0%/*}/compare_summary.log" --model gpt2 --framework fsdp2 --ranks 8 --micro-batch 4 --format json
