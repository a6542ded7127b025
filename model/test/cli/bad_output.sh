zl predict --model gpt2 --out missing/out.txt
