zl compare "${0%/*}/compare_wordings.log" --model gpt2 --framework deepspeed@0.14.5 --stage 2 --ranks 8 --micro-batch 4
