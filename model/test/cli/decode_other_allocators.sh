# CUDA's own pools and the host's allocator name the tensor; a message of the driver has no size.
zl decode --model gpt2-tiny --framework single --micro-batch 8 'torch.OutOfMemoryError: Allocation on device 0 would exceed
allowed memory. (out of memory)
Currently allocated     : 11.20 GiB
Requested               : 2.00 MiB
Device limit            : 11.59 GiB
Free (according to CUDA): 7.12 MiB
PyTorch limit (set by user-supplied memory fraction)
                        : 17179869184.00 GiB'
zl decode "[enforce fail at alloc_cpu.cpp:83] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 4294967296 bytes. Error code 12 (Cannot allocate memory)"
zl decode --format json 'DefaultCPUAllocator: not enough memory: you tried to allocate 512 bytes.'
zl decode 'RuntimeError: CUDA error: out of memory' || echo "exit $?"
