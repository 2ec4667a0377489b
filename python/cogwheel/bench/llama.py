"""The peer of `bench training --model 141m`: a language model in Llama's form in eager PyTorch (Touvron et al., 2023)."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cogwheel.bench.gpt import Shape
from cogwheel.bench.transformer import initialize

BASE, EPSILON = 10000.0, 1e-6


@dataclass(frozen=True)
class LlamaShape(Shape):
    hidden: int = 0

    peer = "eager Llama"

    def describe(self) -> str:
        return f"{super().describe()}, {self.hidden} hidden units, Llama's form"

    def words(self, mechanism: str) -> list[str]:
        return [*super().words(mechanism), "--set=model.form=llama", f"--set=model.feed_forward={self.hidden}"]

    def model(self) -> nn.Module:
        return Llama(self)


def turned(x: Tensor, angles: Tensor) -> Tensor:
    """Pairs of neighbouring components of [B, H, N, D] by the angles of their positions, [N, D/2]."""
    even, odd = x[..., 0::2], x[..., 1::2]
    cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    return torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], -1).flatten(-2)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(width, 3 * width, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.query_key_value(x).chunk(3, -1))
        heads = F.scaled_dot_product_attention(turned(query, angles), turned(key, angles), value, is_causal=True)
        return self.output(heads.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(shape.width, eps=EPSILON)
        self.attention = Attention(shape.width, shape.heads)
        self.feed_forward_norm = nn.RMSNorm(shape.width, eps=EPSILON)
        self.up = nn.Linear(shape.width, 2 * shape.hidden, bias=False)
        self.out = nn.Linear(shape.hidden, shape.width, bias=False)

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x), angles)
        gate, value = self.up(self.feed_forward_norm(x)).chunk(2, -1)
        return x + self.out(F.silu(gate) * value)


class Llama(nn.Module):
    """Rotary positions, RMSNorm before, SwiGLU, a head of its own, no biases."""

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.width, eps=EPSILON)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        head_dim = shape.width // shape.heads
        frequency = BASE ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
        angles = torch.outer(torch.arange(shape.context, dtype=torch.float64), frequency).float()
        self.register_buffer("angles", angles, persistent=False)
        initialize(self)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        x = self.tokens(tokens)
        for layer in self.layers:
            x = layer(x, self.angles[: tokens.shape[1]])
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())
