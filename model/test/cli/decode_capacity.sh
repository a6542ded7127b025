zl decode 'Tried to allocate 20.00 MiB (GPU 0; 10.92 GiB total capacity; 9.57 GiB already allocated; 5.28 MiB free; 9.58 GiB reserved in total by PyTorch)'
