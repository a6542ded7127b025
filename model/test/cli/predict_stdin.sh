# A dash is standard input.
zl predict --model gpt2-tiny --stage 3 --ranks 4 --save-run run.json --out table.txt
zl predict --run - <run.json | cmp - table.txt
