# A table of positions ends, whatever the memory.
zl fit --model bert-large --find seq --gpu h100-80g
zl fit --model bert-large --framework ddp --ranks 2 --find seq --gpu h100-80g
