"""The peer of `bench training`: a GPT in eager PyTorch, as nanoGPT builds it, and its training step."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Shape:
    """The shape of a model and of a step: tokens = batch · context."""

    layers: int
    heads: int
    width: int
    context: int
    batch: int
    vocabulary: int


class Attention(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.query_key_value = nn.Linear(shape.width, 3 * shape.width, bias=False)
        self.output = nn.Linear(shape.width, shape.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.query_key_value(x).chunk(3, -1)
        )
        heads = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.output(heads.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(shape.width, bias=False)
        self.attention = Attention(shape)
        self.feed_forward_norm = nn.LayerNorm(shape.width, bias=False)
        self.feed_forward = nn.Sequential(
            nn.Linear(shape.width, 4 * shape.width, bias=False),
            nn.GELU(),
            nn.Linear(4 * shape.width, shape.width, bias=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.feed_forward_norm(x))


class GPT(nn.Module):
    """Learned positions, pre-norm layers, a head tied to the token embedding, no biases, no dropout."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.context, shape.width)
        self.layers = nn.Sequential(*(Layer(shape) for _ in range(shape.layers)))
        self.norm = nn.LayerNorm(shape.width, bias=False)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, std=0.02)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        logits = self.head(self.norm(self.layers(x)))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class EagerTraining:
    """Fused AdamW, clipping at 1, autocast for bf16."""

    def __init__(self, shape: Shape, precision: str, *, compiled: bool = False) -> None:
        torch.manual_seed(0)
        self.shape = shape
        self.bf16 = precision == "bf16"
        self.model = GPT(shape)
        self.forward = torch.compile(self.model) if compiled else self.model
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=3e-4, betas=(0.9, 0.99), weight_decay=0.1, fused=True
        )

    def step(self) -> float:
        """One step on random tokens; returns the loss."""
        shape = self.shape
        tokens = torch.randint(shape.vocabulary, (shape.batch, shape.context + 1))
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.bf16):
            loss = self.forward(tokens[:, :-1], tokens[:, 1:])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.item()
