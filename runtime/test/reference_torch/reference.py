"""Computes with PyTorch what the trainer is compared with: logits, every gradient, ten losses under
AdamW, in fp32 without TF32.

    python3 reference.py [--device cuda] [--run RUN.json] INPUTS.safetensors OUT.safetensors

INPUTS and RUN.json come from `torch_reference inputs`. OUT repeats both, so that it is all that
`torch_reference compare` needs, and may itself be the INPUTS of another PyTorch. generate.sh does it for
every family.
"""

import argparse
import datetime
import json

import torch

import tensors
from model import Model, Shape, decays, loss_of

# Of each tensor of a unit: the module, and which of its two parameters.
EMBED = {"token_table": "token_table", "position_table": "position_table", "type_table": "type_table", "norm": "embed_norm"}
BLOCK = {"norm1": "norm1", "norm2": "norm2", "qkv": "attention.qkv", "out": "attention.out", "up": "mlp.up", "down": "mlp.down"}
HEAD = {"norm": "norm", "transform": "transform", "output": "output", "pooler": "pooler", "next": "next"}
# The trainer has (in, out); these only are (out, in) there too, as in PyTorch.
SAME_LAYOUT = ("token_table", "position_table", "type_table", "output_w", "next_w")


def parameter_of(model, name):
    """The parameter behind the trainer's name of a tensor."""
    unit, _, rest = name.partition(".")
    prefix = ""
    if unit == "block":
        number, _, rest = rest.partition(".")
        prefix = f"blocks.{number}."
    role, kind = rest, "weight"
    if rest.endswith(("_w", "_b")):
        role, kind = rest[:-2], "weight" if rest.endswith("_w") else "bias"
    module = {"embed": EMBED, "block": BLOCK, "head": HEAD}[unit][role]
    return dict(model.named_parameters())[f"{prefix}{module}.{kind}"]


def transposed(name, parameter):
    return parameter.dim() == 2 and name.rpartition(".")[2] not in SAME_LAYOUT


def load_weights(model, weights):
    seen = set()
    with torch.no_grad():
        for name, flat in weights.items():
            p = parameter_of(model, name)
            value = flat.view(p.shape[1], p.shape[0]).t() if transposed(name, p) else flat.view(p.shape)
            p.copy_(value)
            seen.add(p)
    missing = [name for name, p in model.named_parameters() if p not in seen]
    assert not missing, f"no weights for {missing}"


def batch_at(inputs, shape, step, device):
    B, T = shape.run["micro_batch"], shape.run["seq"]
    size = {"tokens": (B, T), "targets": (B, T), "types": (B, T), "lengths": (B,), "next": (B,)}
    return {part: inputs[f"batch.{part}"].view(-1, *s)[step].to(device).long() for part, s in size.items()}


def loss_on(model, batch):
    logits, pairs = model(batch["tokens"], batch["types"], batch["lengths"])
    return loss_of(logits, pairs, batch["targets"], batch["next"]), logits, pairs


def clip(parameters, limit):
    """The gradient's norm brought down to the limit, exactly: PyTorch's own adds 1e-6 to it."""
    norm = torch.sqrt(sum(p.grad.double().square().sum() for p in parameters))
    if norm > limit:
        for p in parameters:
            p.grad.mul_(float(limit / norm))


def train(model, inputs, words, device):
    """The losses of all steps."""
    number = {name: float(words[name]) for name in ("learning_rate", "beta1", "beta2", "eps", "weight_decay", "warmup", "clip")}
    parameters = list(model.parameters())
    groups = [{"params": [p for p in parameters if decays(p)], "weight_decay": number["weight_decay"]},
              {"params": [p for p in parameters if not decays(p)], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=number["learning_rate"], betas=(number["beta1"], number["beta2"]), eps=number["eps"])
    losses = []
    for step in range(int(words["steps"])):
        for group in optimizer.param_groups:
            group["lr"] = number["learning_rate"] * min(1.0, (step + 1) / number["warmup"])
        optimizer.zero_grad()
        loss, _, _ = loss_on(model, batch_at(inputs, model.shape, step, device))
        loss.backward()
        clip(parameters, number["clip"])
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses)


def compute(inputs, words, shape, device):
    weights = {name.removeprefix("weight."): t for name, t in inputs.items() if name.startswith("weight.")}
    model = Model(shape).to(device)
    load_weights(model, weights)
    loss, logits, pairs = loss_on(model, batch_at(inputs, shape, 0, device))
    loss.backward()
    out = {"logits.tokens": logits}
    if pairs is not None:
        out["logits.next"] = pairs
    for name in weights:
        p = parameter_of(model, name)
        out[f"gradient.{name}"] = p.grad.t().contiguous() if transposed(name, p) else p.grad.clone()
    model.zero_grad()
    out["losses"] = train(model, inputs, words, device)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--run", help="the run description, where INPUTS has none")
    parser.add_argument("inputs")
    parser.add_argument("out")
    args = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.use_deterministic_algorithms(args.device == "cpu")
    found, words = tensors.load(args.inputs)
    inputs = {name: t for name, t in found.items() if name.startswith(("weight.", "batch."))}
    if args.run:
        with open(args.run) as file:
            words["run"] = json.dumps(json.load(file))
    shape = Shape(json.loads(words["run"]))
    made = compute(inputs, words, shape, args.device)
    words["torch"] = torch.__version__
    words["device"] = torch.cuda.get_device_name() if args.device != "cpu" else "cpu"
    words["date"] = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    words["script"] = "runtime/test/reference_torch/reference.py"
    tensors.save(args.out, inputs | made, words)


main()
