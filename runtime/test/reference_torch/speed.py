"""Speed and peak memory of PyTorch on the model of a run description: what zl-train is measured beside.

    torchrun --nproc_per_node=N speed.py RUN.json CASE...      CASE = mode:recompute:compiled

RUN.json (zl predict --save-run) gives model, micro-batch and sequence. mode: ddp (without a wrapper on one
GPU), fsdp2-zero2 (no reshard after forward) or fsdp2 (reshard); recompute: none or full; compiled: 0 or 1
(each block). Mixed bf16: autocast over fp32 parameters, under FSDP2 its policy with an fp32 reduction;
fused AdamW, no clipping; random tokens. One JSON object a case on standard output, from rank 0; a failure has `error`.
"""

import gc
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from model import Model, Shape, loss_of, operations_per_token

WARM_UP, TIMED = 4, 8


def prepare(shape, mode, recompute, compiled, device):
    """The wrapped model, and whether autocast applies."""
    with device:
        model = Model(shape, recompute)
    if compiled:
        for block in model.blocks:
            block.compile()
    if mode == "ddp":
        if dist.get_world_size() > 1:
            return torch.nn.parallel.DistributedDataParallel(model, device_ids=[device.index], gradient_as_bucket_view=True), True
        return model, True
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for unit in (*model.blocks, model):
        fully_shard(unit, mp_policy=policy, reshard_after_forward=mode == "fsdp2")
    return model, False


def measure(shape, mode, recompute, compiled, device):
    torch.manual_seed(0)
    B, T = shape.run["micro_batch"], shape.run["seq"]
    model, autocast = prepare(shape, mode, recompute, compiled, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(0, shape.vocab, (B, T + 1), device=device)

    def step():
        with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
            logits, pairs = model(tokens[:, :-1])
            loss = loss_of(logits, pairs, tokens[:, 1:], None)
        loss.backward()
        del logits
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    for _ in range(WARM_UP):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    seconds = []
    for _ in range(TIMED):
        begin = time.perf_counter()
        loss = step()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
    free, total = torch.cuda.mem_get_info()
    return {"step_seconds": sorted(seconds)[TIMED // 2], "warm_up_steps": WARM_UP, "steps": WARM_UP + TIMED, "loss": loss.item(),
            "peak_allocated": torch.cuda.max_memory_allocated(), "peak_reserved": torch.cuda.max_memory_reserved(),
            "device_used": total - free}


def main():
    rank = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    torch.set_float32_matmul_precision("high")
    with open(sys.argv[1]) as file:
        shape = Shape(json.load(file))
    for case in sys.argv[2:]:
        mode, recompute, compiled = case.split(":")
        row = {"mode": mode, "recompute": recompute, "compiled": compiled == "1", "torch": torch.__version__,
               "operations_per_token": operations_per_token(shape, shape.run["seq"])}
        try:
            row |= measure(shape, mode, recompute, compiled == "1", device)
        except (RuntimeError, torch.OutOfMemoryError) as error:
            row["error"] = str(error).splitlines()[0][:200]
        if rank == 0:
            print(json.dumps(row), flush=True)
        gc.collect()
        torch.cuda.empty_cache()
        torch._dynamo.reset()
    dist.destroy_process_group()


main()
