"""safetensors files of fp32 and int32 tensors, without the package of that name: the length of a JSON
header, the header, the bytes (tensors.h reads the same)."""

import json
import struct
import sys

import torch

TYPES = {"F32": torch.float32, "I32": torch.int32}


def load(path):
    """Returns ({name: tensor}, {word: text})."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = bytearray(file.read())
    words = header.pop("__metadata__", {})
    found = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        flat = torch.frombuffer(data[begin:end], dtype=TYPES[entry["dtype"]])
        found[name] = flat.reshape(entry["shape"]).clone()
    return found, words


def save(path, tensors, words):
    assert sys.byteorder == "little"
    header, pieces, at = {"__metadata__": words}, [], 0
    for name, tensor in tensors.items():
        kind = "F32" if tensor.dtype == torch.float32 else "I32"
        values = tensor.detach().cpu().to(TYPES[kind]).flatten().tolist()
        piece = struct.pack(f"<{len(values)}{'f' if kind == 'F32' else 'i'}", *values)
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [at, at + len(piece)]}
        pieces.append(piece)
        at += len(piece)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(pieces))
