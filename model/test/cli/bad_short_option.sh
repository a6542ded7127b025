zl predict -m gpt2
