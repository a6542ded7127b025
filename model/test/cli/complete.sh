zl __complete 1 zl f
zl __complete 2 zl predict --st
zl __complete 3 zl predict --model gpt2-
zl __complete 4 zl predict --recompute = s
zl __complete 3 zl predict --stage =
zl __complete 2 zl predict --recompute=s
zl __complete 2 zl predict --model=gpt2-m
zl __complete 2 zl predict --nonsense=s
zl __complete 2 zl list m
zl __complete 3 zl fit --gpu h
zl __complete 3 zl predict --out x
zl __complete 2 zl nonsense x
