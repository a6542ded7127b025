#!/usr/bin/env python3
"""A program of somebody else's for the meter: PyTorch's FSDP2 on a small transformer.

    zl trace --output trace.json --timeline timeline.json -- python3 torch_fsdp2.py [--ranks N] [--steps S]

Knows the meter only by its two marks, which ctypes finds where CUDA_INJECTION64_PATH says; without the meter
they are left out. --ranks 1 is a real process group of one; a larger N is one rank of N, the others played
by PyTorch's fake process group. Prints what PyTorch's allocator reserves at the end, the most that it ever
did, and how much cudaMemGetInfo says is in use, to be compared with the meter's rows.
"""
import argparse
import ctypes
import json
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def meter_mark():
    path = os.environ.get("CUDA_INJECTION64_PATH")
    if not path:
        return lambda name: None
    library = ctypes.CDLL(path)
    library.zltrace_mark.argtypes = [ctypes.c_char_p]
    library.zltrace_mark.restype = None
    return lambda name: library.zltrace_mark(name.encode())


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.norm1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    def __init__(self, layers, width, heads, vocab, positions):
        super().__init__()
        self.token = nn.Embedding(vocab, width)
        self.position = nn.Embedding(positions, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, ids):
        x = self.token(ids) + self.position(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def start(ranks):
    torch.cuda.set_device(0)
    if ranks == 1:
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", "29541")
        dist.init_process_group("nccl", rank=0, world_size=1, device_id=torch.device("cuda", 0))
    else:
        from torch.testing._internal.distributed.fake_pg import FakeStore
        dist.init_process_group("fake", rank=0, world_size=ranks, store=FakeStore())
    return init_device_mesh("cuda", (ranks,))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--warm", type=int, default=3, help="steps before the mark warm")
    parser.add_argument("--leak", type=int, default=0, help="MiB of tensors that every later step keeps")
    options = parser.parse_args()
    mark = meter_mark()
    mesh = start(options.ranks)
    torch.manual_seed(1)
    model = Model(layers=4, width=512, heads=8, vocab=8192, positions=256).cuda()
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    ids = torch.randint(0, 8192, (4, 257), device="cuda")
    kept = []
    for step in range(options.steps):
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step} loss {loss.item():.4f}", flush=True)
        if options.leak and step >= options.warm:
            kept.append(torch.empty(options.leak << 20, dtype=torch.uint8, device="cuda"))
        mark("warm" if step + 1 == options.warm else f"step {step + 1}")
    free, total = torch.cuda.mem_get_info()
    print(json.dumps({
        "torch": torch.__version__,
        "reserved": torch.cuda.memory_reserved(),
        "peak_reserved": torch.cuda.max_memory_reserved(),
        "in_use": total - free,
    }))
    mark("end")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
