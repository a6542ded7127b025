zl sweep --model mixtral-8x7b --stage 0,1 --format csv
