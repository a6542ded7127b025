zl explain --model gpt2-tiny --stage 1 --ranks 2 --phase step --bars always
