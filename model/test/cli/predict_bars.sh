LC_ALL=C.UTF-8 zl predict --model gpt2 --stage 3 --ranks 8 --bars always
