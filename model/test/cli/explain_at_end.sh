zl explain --model gpt2-tiny --stage 3 --ranks 2 --phase forward --at end --units MiB | head -40
