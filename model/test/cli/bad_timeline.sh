# The ending says what to write; nothing is predicted before that is clear.
zl predict --model gpt2-tiny --timeline run.txt
