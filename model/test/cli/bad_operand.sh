zl predict gpt2
