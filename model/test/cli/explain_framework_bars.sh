zl explain --model gpt2-tiny --framework fsdp2 --ranks 2 --phase step --bars always
