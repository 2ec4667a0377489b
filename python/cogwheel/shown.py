"""What notebooks show: HTML that looks as the report does, and as text the same. Both are made in C++ (``bindings/notebook.cpp``)."""

import functools
from collections.abc import Sequence

import torch
from torch import Tensor

from cogwheel import _bindings


class Shown:
    """An object that shows itself: ``_shown()`` gives its HTML and its text."""

    def _shown(self) -> tuple[str, str]:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return self._shown()[0]

    def __repr__(self) -> str:
        return self._shown()[1].rstrip("\n")


@functools.cache  # a card is measured, for half a second; no name ever means another mechanism
def of_mechanism(name: str) -> tuple[str, str]:
    """Formula and numerics card. ValueError for an unknown name, with the nearest ones."""
    _bindings.classes()
    return tuple(torch.ops.cogwheel.shown_mechanism(name))


def of_mechanisms(names: Sequence[str]) -> tuple[str, str]:
    """Their table. ValueError for an unknown name."""
    _bindings.classes()
    return tuple(torch.ops.cogwheel.shown_mechanisms(list(names)))


def of_statistics(numbers: dict[str, Tensor]) -> tuple[str, str]:
    """Means of each head, of numbers [B, H, N] by name; ``keys`` among them."""
    _bindings.classes()
    return tuple(torch.ops.cogwheel.shown_statistics(list(numbers.values()), list(numbers)))


class ShownAttention(Shown):
    """Maps of heads, for a notebook; see :func:`show_attention`."""

    def __init__(self, layers: list[Tensor], tokens: list[str]) -> None:
        _bindings.classes()
        self._made = tuple(torch.ops.cogwheel.shown_attention(layers, tokens))

    def _shown(self) -> tuple[str, str]:
        return self._made


def _layers_of(weights: Tensor | Sequence[Tensor]) -> list[Tensor]:
    """[heads, N, N] of each layer."""
    if isinstance(weights, Tensor):
        if weights.dim() == 2:
            return [weights[None]]
        return list(weights) if weights.dim() == 4 else [weights]
    if not isinstance(weights, Sequence) or not all(isinstance(layer, Tensor) for layer in weights):
        raise TypeError(f"show_attention: weights: expected a tensor, or one for each layer, got a {type(weights).__name__}")
    # Patterns of run_with_cache have a batch, here of one.
    return [layer[0] if layer.dim() == 4 and layer.shape[0] == 1 else layer for layer in weights]


def show_attention(weights: Tensor | Sequence[Tensor], tokens: Sequence[str] | None = None) -> ShownAttention:
    """Attention maps of one head or more, as the viewer draws them: every head, and one of them large, with its numbers.

    Blue weights add a value, orange ones subtract it. Pointing at a cell, or arrow keys, read it; a click chooses the
    head. Without HTML, the text names for each head its largest weight, what it gives the first token, and its negative
    mass.

        weights = cogwheel.attention_weights(query, key, "cog", causal=True)
        cogwheel.show_attention(weights, ["the", "cat", "sat"])

    Args:
        weights: [N, N], [heads, N, N], [layers, heads, N, N], or a list with [heads, N, N] or [1, heads, N, N] of each
            layer, as ``run_with_cache`` gives them. NaN and −∞ stand for hidden keys. At most 512 tokens and 4,000,000
            weights.
        tokens: N strings; numbers from 0 unless given. ``model.pieces(tokens)`` has those of a trained model.

    Raises:
        ValueError: weights of another shape, or more of them; another number of tokens.
        TypeError: neither a tensor nor a list of them; tokens that are no strings.
    """
    if isinstance(tokens, str) or tokens is not None and not all(isinstance(token, str) for token in tokens):
        raise TypeError(f"show_attention: tokens: expected a list of strings, got {'a string' if isinstance(tokens, str) else 'others'}")
    if tokens is not None and len(tokens) == 0:
        raise ValueError("show_attention: tokens: expected a string for each, got none")
    return ShownAttention(_layers_of(weights), list(tokens or ()))
