"""BERT, GPT-2 and Llama of zeroledger's run descriptions, in plain PyTorch: the modules that anybody
would write, nothing fused by hand. reference.py checks the trainer against them, speed.py measures
them."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


class Shape:
    """The model of a run description (run.json), field by field: layers, width, heads, ..."""

    def __init__(self, run):
        self.run = run
        self.__dict__.update(run["model"])

    @property
    def packed(self):
        return (self.heads + 2 * self.kv_heads) * self.head_dim

    def norm(self):
        kind = nn.RMSNorm if self.family == "llama" else nn.LayerNorm
        return kind(self.width, eps=self.norm_eps)

    def gelu(self, x):
        return F.gelu(x, approximate="tanh" if self.activation == "gelu-tanh" else "none")


class Attention(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.qkv = nn.Linear(shape.width, shape.packed, bias=shape.qkv_bias)
        self.out = nn.Linear(shape.heads * shape.head_dim, shape.width, bias=shape.out_bias)

    def forward(self, x, mask, turn):
        s = self.shape
        B, T, _ = x.shape
        sizes = [n * s.head_dim for n in (s.heads, s.kv_heads, s.kv_heads)]
        q, k, v = (y.view(B, T, -1, s.head_dim).transpose(1, 2) for y in self.qkv(x).split(sizes, dim=-1))
        if turn is not None:
            q, k = rotate(q, *turn), rotate(k, *turn)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=s.family != "bert",
                                           enable_gqa=s.kv_heads != s.heads)
        return self.out(y.transpose(1, 2).reshape(B, T, -1))


def rotate(x, cos, sin):
    """Element i turns together with i + D/2 (the layout of Hugging Face's Llama)."""
    a, b = x.chunk(2, dim=-1)
    return (x * cos + torch.cat((-b, a), dim=-1) * sin).to(x.dtype)


def rotations(shape, tokens, device):
    half = shape.head_dim // 2
    rate = shape.rope_theta ** (-torch.arange(half, dtype=torch.float64, device=device) / half)
    angle = torch.arange(tokens, dtype=torch.float64, device=device)[:, None] * rate
    return angle.cos().float().repeat(1, 2), angle.sin().float().repeat(1, 2)


class MLP(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        gated = shape.activation == "swiglu"
        self.up = nn.Linear(shape.width, shape.ffn * (2 if gated else 1), bias=shape.mlp_bias)
        self.down = nn.Linear(shape.ffn, shape.width, bias=shape.mlp_bias)

    def forward(self, x):
        y = self.up(x)
        if self.shape.activation == "swiglu":
            gate, up = y.chunk(2, dim=-1)
            return self.down(F.silu(gate) * up)
        return self.down(self.shape.gelu(y))


class Block(nn.Module):
    """GPT-2 and Llama norm before each branch, BERT after it. Checkpointed inside, so that what FSDP does around a
    block stays outside."""

    def __init__(self, shape, recompute):
        super().__init__()
        self.after, self.recompute = shape.family == "bert", recompute
        self.norm1, self.attention = shape.norm(), Attention(shape)
        self.norm2, self.mlp = shape.norm(), MLP(shape)

    def forward(self, x, mask, turn):
        if self.recompute == "full":
            return checkpoint(self.branches, x, mask, turn, use_reentrant=False)
        return self.branches(x, mask, turn)

    def branches(self, x, mask, turn):
        if self.after:
            x = self.norm1(x + self.attention(x, mask, turn))
            return self.norm2(x + self.mlp(x))
        x = x + self.attention(self.norm1(x), mask, turn)
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    """recompute: "full" checkpoints every block; "none" keeps everything."""

    def __init__(self, shape, recompute="none"):
        super().__init__()
        self.shape = shape
        bert = shape.family == "bert"
        self.token_table = nn.Embedding(shape.vocab, shape.width)
        if shape.family != "llama":
            self.position_table = nn.Embedding(shape.positions, shape.width)
        if bert:
            self.type_table = nn.Embedding(shape.types, shape.width)
            self.embed_norm = shape.norm()
            self.transform = nn.Linear(shape.width, shape.width)
        self.blocks = nn.ModuleList(Block(shape, recompute) for _ in range(shape.layers))
        self.norm = shape.norm()
        self.output = nn.Linear(shape.width, shape.vocab, bias=bert)
        if shape.tied:
            self.output.weight = self.token_table.weight
        if shape.pooler:
            self.pooler = nn.Linear(shape.width, shape.width)
            self.next = nn.Linear(shape.width, 2)
        self.apply(self.start)

    def start(self, module):
        """GPT-2's first weights; a reference overwrites them."""
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def embed(self, tokens, types):
        x = self.token_table(tokens)
        if self.shape.family != "llama":
            x = x + self.position_table(torch.arange(tokens.shape[1], device=tokens.device))
        if self.shape.family == "bert":
            x = self.embed_norm(x + self.type_table(types))
        return x

    def forward(self, tokens, types=None, lengths=None):
        """(B, T) ids -> logits (B, T, V), and with a pooler (B, 2), else None."""
        s = self.shape
        T = tokens.shape[1]
        mask = turn = None
        if s.family == "bert":
            mask = (torch.arange(T, device=tokens.device) < lengths[:, None])[:, None, None, :]
        if s.family == "llama":
            turn = rotations(s, T, tokens.device)
        x = self.embed(tokens, types)
        for block in self.blocks:
            x = block(x, mask, turn)
        pairs = self.next(torch.tanh(self.pooler(x[:, 0]))) if s.pooler else None
        if s.family == "bert":
            x = s.gelu(self.transform(x))
        return self.output(self.norm(x)), pairs


def loss_of(logits, pairs, targets, following):
    """Mean over the tokens that have a target (>= 0), and with a pooler over sequences."""
    loss = F.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), ignore_index=-1)
    return loss if pairs is None else loss + F.cross_entropy(pairs.float(), following)


def operations_per_token(s, tokens):
    """Model flops of forward and backward, as zl-train counts them (runtime/train/speed.h): 6 for each weight of
    a product, 12 L A T for attention; a causal mask is not discounted, recomputation does not count."""
    attention = s.heads * s.head_dim
    gated = 3 if s.activation == "swiglu" else 2
    head = s.vocab + (s.width if s.family == "bert" else 0)
    weights = s.layers * s.width * (s.packed + attention + gated * s.ffn) + s.width * head
    pooler = 6 * s.width * (s.width + 2) // tokens if s.pooler else 0
    return 6 * weights + 12 * s.layers * attention * tokens + pooler


def decays(parameter):
    """Matrices and tables decay, vectors do not."""
    return parameter.dim() > 1
