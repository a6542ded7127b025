zl compare - --model gpt2 --framework fsdp2 --ranks 8 --micro-batch 4 --units MiB <"${0%/*}/compare_summary.log"
