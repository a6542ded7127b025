# The nearest name is suggested wherever a name is asked for.
ask() { zl "$@" 2>&1 | head -n 1; }
ask predikt --model gpt2
ask help explian
ask predict --modle gpt2
ask predict --capacity 24GiB
ask predict --model GPT2-XL
ask predict --model gpt2 --framework depspeed
ask predict --model gpt2 --precision bf16_mixed
ask predict --model gpt2 --optimizer adamw_fused
ask predict --model gpt2 --units gib
ask fit --model gpt2 --gpu A100
ask fit --model gpt2 --capacity 24Gib
ask explain --model gpt2 --phase forwrd
ask explain --model gpt2 --visit stedy
ask list buffer
ask train --modle gpt2
ask train --model gpt2-tny
ask trace --tolerence 4MiB -- true
ask validate recods
ask validate records --formt json
ask predict --model meta-llama/Llama-3-8B
ask predict --model Qwen/Qwen2.5-7B-Instruct
ask predict --model someone/something
ask predict --model ./configs/mine
