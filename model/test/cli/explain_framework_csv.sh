zl explain --model bert-tiny --framework zero1 --ranks 2 --format csv --at end
