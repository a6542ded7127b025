zl predict --model bert-tiny --framework single --precision fp32 --format csv
