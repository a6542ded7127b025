# The answer is printed as ever; the file stands beside it.
zl predict --model gpt2-tiny --seq 16 --timeline run.json
head -c 160 run.json
zl predict --model gpt2-tiny --framework ddp --ranks 2 --seq 16 --timeline run.pickle --format csv | head -n 3
head -c 2 run.pickle | od -An -tx1
zl predict --model gpt2-tiny --timeline no/such/folder/run.json
