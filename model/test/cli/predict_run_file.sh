# A saved run asks the same question; options beside it override it wherever they stand.
zl predict --model gpt2-tiny --stage 3 --ranks 4 --format json --out a.json --save-run run.json
zl predict --run run.json --format json --out b.json
cmp a.json b.json
zl predict --stage 1 --run run.json | sed -n 1p
