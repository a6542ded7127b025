# At the logits' gradient: the largest amount allocated in a step, less this buffer.
zl decode 'Tried to allocate 786.00 MiB. GPU 0 has a total capacity of 6.00 GiB of which 3.00 MiB is free. Process 7 has 5.90 GiB memory in use. Of the allocated memory 4.30 GiB is allocated by PyTorch, and 24.00 MiB is reserved by PyTorch but unallocated.' \
  --model gpt2 --framework fsdp2 --ranks 8 --micro-batch 4 --format json
