"""The layers of the peers of `bench training` that are transformers: GPT, encoder, vision transformer, U-ViT."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class LayerForm:
    """What models decide for their layers.

    norms before: x = x + attention(norm(x)), x = x + feed_forward(norm(x)), Radford et al. (2019);
    norms after: x = norm(x + attention(x)), x = norm(x + feed_forward(x)), Vaswani et al. (2017), section 3.1.
    """

    causal: bool = False
    bias: bool = True
    projection_bias: bool = True  # of queries, keys and values
    norms_after: bool = False
    epsilon: float = 1e-5

    def norm(self, width: int) -> nn.LayerNorm:
        return nn.LayerNorm(width, eps=self.epsilon, bias=self.bias)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, form: LayerForm) -> None:
        super().__init__()
        self.heads, self.causal = heads, form.causal
        self.query_key_value = nn.Linear(width, 3 * width, bias=form.projection_bias)
        self.output = nn.Linear(width, width, bias=form.bias)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.query_key_value(x).chunk(3, -1)
        )
        heads = F.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        return self.output(heads.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, width: int, heads: int, form: LayerForm) -> None:
        super().__init__()
        self.norms_after = form.norms_after
        self.attention_norm = form.norm(width)
        self.attention = Attention(width, heads, form)
        self.feed_forward_norm = form.norm(width)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width, bias=form.bias),
            nn.GELU(),
            nn.Linear(4 * width, width, bias=form.bias),
        )

    def forward(self, x: Tensor) -> Tensor:
        if self.norms_after:
            x = self.attention_norm(x + self.attention(x))
            return self.feed_forward_norm(x + self.feed_forward(x))
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.feed_forward_norm(x))


def layers(count: int, width: int, heads: int, form: LayerForm) -> list[Layer]:
    return [Layer(width, heads, form) for _ in range(count)]


def initialize(model: nn.Module) -> None:
    """Matrices N(0, 0.02²), vectors but gains 0: near enough to Cogwheel's start for equal first losses."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, std=0.02)
            elif name.endswith("bias"):
                weight.zero_()
