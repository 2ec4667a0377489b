"""Rotary positions (Su et al., 2021)."""

from __future__ import annotations

import json
from collections.abc import Callable

import torch
from torch import Tensor

from cogwheel import _bindings

_ROTARY = torch.ops.cogwheel.rotary.default


class Rotary(torch.nn.Module):
    """Turns the components of queries and keys, two by two, by angles that grow with the position.

    Args:
        head_dim: width of a query, even.
        positions: how many there are, from 0.
        base: θ, above 1.
        halves: components p and p + head_dim/2 span a plane, as in models of Hugging Face, instead of 2p and 2p + 1.
        scaling: for texts longer than those that a model first learned: ``"linear"`` divides all angles by ``factor``; ``"llama3"``
            those of planes that turn at most ``low_frequency`` times in ``original_context`` tokens, and keeps those that turn
            ``high_frequency`` times or more (``cogwheel/nn/rotary.h``).

    Raises:
        ValueError: numbers outside of these ranges, in one line.
    """

    def __init__(
        self,
        head_dim: int,
        positions: int,
        base: float = 10000.0,
        *,
        halves: bool = False,
        scaling: str = "none",
        factor: float = 8.0,
        low_frequency: float = 1.0,
        high_frequency: float = 4.0,
        original_context: int = 8192,
        device: object = None,
    ) -> None:
        super().__init__()
        self.head_dim, self.positions, self.base, self.halves = head_dim, positions, float(base), halves
        self.scaling = {
            "scaling": scaling,
            "factor": float(factor),
            "low_frequency": float(low_frequency),
            "high_frequency": float(high_frequency),
            "original_context": original_context,
        }
        _bindings.classes()
        self._frequencies = torch.ops.cogwheel.rotary_frequencies(json.dumps(self.options()))
        self.register_buffer("table", self._table(torch.float32, device), persistent=False)

    def _table(self, dtype: torch.dtype, device: object) -> Tensor:
        """Cosines, then sines: [2, positions, head_dim/2], of float64, so that far positions lose no precision."""
        on = device if device is not None else torch.empty(0).device  # a context may say
        exact = {"dtype": torch.float64, "device": "meta" if torch.device(on).type == "meta" else "cpu"}
        angle = torch.outer(torch.arange(self.positions, **exact), self._frequencies.to(exact["device"]))
        return torch.stack([angle.cos(), angle.sin()]).to(dtype).to(on)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Rotary:
        super()._apply(fn, recurse)
        # The operator wants float32 or float64, and rounding twice is not rounding once.
        self.reset_buffers()
        return self

    def reset_buffers(self) -> None:
        """Computes the table anew, where its memory is."""
        self.table = self._table(torch.float64 if self.table.dtype == torch.float64 else torch.float32, self.table.device)

    def forward(self, x: Tensor, positions: Tensor | None = None, first: int = 0) -> Tensor:
        """x [B, N, heads, head_dim]; token n is at ``first`` + n, or entry b's at ``positions[b, n]``, int64 [B, N] or [N]."""
        return _ROTARY(x, self.table, positions, first, self.halves, False)

    def options(self) -> dict[str, object]:
        return {"head_dim": self.head_dim, "positions": self.positions, "base": self.base, "halves": self.halves} | self.scaling

    def extra_repr(self) -> str:
        return f"{self.head_dim}, {self.positions}, base={self.base}, halves={self.halves}" + ("" if self.scaling["scaling"] == "none" else f", {self.scaling}")


def check_head_dim(rotary: Rotary | None, width: int, heads: int, head_dim: int | None) -> None:
    if rotary is not None and not isinstance(rotary, Rotary):
        raise ValueError(f"rotary: expected a cogwheel.nn.Rotary or None, got a {type(rotary).__name__}")
    if rotary is not None and (rotary.head_dim != head_dim if head_dim else rotary.head_dim * heads != width):
        raise ValueError(f"rotary: expected positions for head_dim {head_dim or width // max(heads, 1)}, got them for {rotary.head_dim}")
