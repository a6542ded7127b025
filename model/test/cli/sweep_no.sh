# Nothing fits.
zl sweep --model gpt2-xl --stage 0,1 --capacity 1GiB --format csv
