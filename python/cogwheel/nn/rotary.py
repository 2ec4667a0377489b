"""Rotary positions (Su et al., 2021)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

_ROTARY = torch.ops.cogwheel.rotary.default


class Rotary(torch.nn.Module):
    """Turns the components of queries and keys, two by two, by angles that grow with the position.

    Args:
        head_dim: width of a query, even.
        positions: how many there are, from 0.
        base: θ, above 1.
        halves: components p and p + head_dim/2 span a plane, as in models of Hugging Face, instead of 2p and 2p + 1.
    """

    def __init__(self, head_dim: int, positions: int, base: float = 10000.0, *, halves: bool = False, device: object = None) -> None:
        super().__init__()
        if head_dim < 2 or head_dim % 2:
            raise ValueError(f"rotary: head_dim: expected an even number, got {head_dim}")
        if positions < 1:
            raise ValueError(f"rotary: positions: expected at least 1, got {positions}")
        if not 1 < base < float("inf"):
            raise ValueError(f"rotary: base: expected above 1, got {base}")
        self.head_dim, self.positions, self.base, self.halves = head_dim, positions, float(base), halves
        self.register_buffer("table", self._table(torch.float32, device), persistent=False)

    def _table(self, dtype: torch.dtype, device: object) -> Tensor:
        """Cosines, then sines: [2, positions, head_dim/2], of float64, so that far positions lose no precision."""
        on = device if device is not None else torch.empty(0).device  # a context may say
        exact = {"dtype": torch.float64, "device": "meta" if torch.device(on).type == "meta" else "cpu"}
        frequency = torch.pow(self.base, torch.arange(0, self.head_dim, 2, **exact) / -self.head_dim)
        angle = torch.outer(torch.arange(self.positions, **exact), frequency)
        return torch.stack([angle.cos(), angle.sin()]).to(dtype).to(on)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Rotary:
        super()._apply(fn, recurse)
        # The operator wants float32 or float64, and rounding twice is not rounding once.
        self.table = self._table(torch.float64 if self.table.dtype == torch.float64 else torch.float32, self.table.device)
        return self

    def forward(self, x: Tensor, positions: Tensor | None = None, first: int = 0) -> Tensor:
        """x [B, N, heads, head_dim]; token n is at ``first`` + n, or entry b's at ``positions[b, n]``, int64 [B, N] or [N]."""
        return _ROTARY(x, self.table, positions, first, self.halves, False)

    def options(self) -> dict[str, object]:
        return {"positions": self.positions, "base": self.base, "halves": self.halves}

    def extra_repr(self) -> str:
        return f"{self.head_dim}, {self.positions}, base={self.base}, halves={self.halves}"


def check_head_dim(rotary: Rotary | None, width: int, heads: int) -> None:
    if rotary is not None and not isinstance(rotary, Rotary):
        raise ValueError(f"rotary: expected a cogwheel.nn.Rotary or None, got a {type(rotary).__name__}")
    if rotary is not None and rotary.head_dim * heads != width:
        raise ValueError(f"rotary: expected positions for head_dim {width // max(heads, 1)}, got them for {rotary.head_dim}")
