zl explain --model llama-tiny --stage 2 --ranks 4 --phase backward --visit cold --attention eager --dropout 0.1 --units MiB
