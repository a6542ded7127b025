zl compare "${0%/*}/compare_wordings.log" --model gpt2
