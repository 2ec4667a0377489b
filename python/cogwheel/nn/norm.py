"""Norms over the last dimension."""

import torch
from torch import Tensor

from cogwheel.nn.products import product_dtype

_NORM_OF_SUM = torch.ops.cogwheel.norm_of_sum.default


def norm_of_sum(
    x: Tensor, delta: Tensor | None, weight: Tensor, bias: Tensor | None, *, centered: bool, epsilon: float, wide: bool = False
) -> tuple[Tensor, Tensor]:
    """x + delta, and its norm, in one pass. Where products are in bfloat16, so is the norm, unless it is ``wide``."""
    if x.dtype in (torch.bfloat16, torch.float16):  # the operator has wide streams alone
        total = x if delta is None else x + delta
        wider = None if bias is None else bias.float()
        return total, _NORM_OF_SUM(total.float(), None, weight.float(), wider, centered, epsilon, False)[0].to(x.dtype)
    narrow = not wide and product_dtype(x) == torch.bfloat16
    if delta is not None and delta.dtype not in (x.dtype, torch.bfloat16):
        delta = delta.to(x.dtype)
    normed, total, _ = _NORM_OF_SUM(x, delta, weight, bias, centered, epsilon, narrow)
    return x if delta is None else total, normed


def normed_heads(heads: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """An RMSNorm of each head by itself, [..., width], in the dtype of its weight, or bfloat16 where products are."""
    return norm_of_sum(heads.to(weight.dtype), None, weight, None, centered=False, epsilon=epsilon)[1]


class Norm(torch.nn.Module):
    """LayerNorm (``"layer"``), (x − mean) / √(variance + ε), or RMSNorm (``"rms"``), x / √(mean(x²) + ε), times a weight.

    Args:
        kind: ``"layer"`` or ``"rms"``.
        width: of the last dimension.
        bias: whether a LayerNorm adds one; an RMSNorm never does.
        epsilon: ε.
    """

    def __init__(self, kind: str, width: int, bias: bool, epsilon: float, *, device: object = None, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.kind, self.epsilon = kind, epsilon
        self.weight = torch.nn.Parameter(torch.ones(width, device=device, dtype=dtype))
        has_bias = bias and kind == "layer"
        self.bias = torch.nn.Parameter(torch.zeros(width, device=device, dtype=dtype)) if has_bias else None

    def of_sum(self, x: Tensor, delta: Tensor | None = None, *, wide: bool = False) -> tuple[Tensor, Tensor]:
        """x + delta, and its norm."""
        return norm_of_sum(x, delta, self.weight, self.bias, centered=self.kind == "layer", epsilon=self.epsilon, wide=wide)

    def forward(self, x: Tensor) -> Tensor:
        return self.of_sum(x)[1]

    def extra_repr(self) -> str:
        return f"{self.kind}, {self.weight.shape[0]}, epsilon={self.epsilon}"
