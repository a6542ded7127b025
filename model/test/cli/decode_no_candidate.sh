zl decode '77.00 GiB' --model gpt2 --framework fsdp2 --ranks 8
