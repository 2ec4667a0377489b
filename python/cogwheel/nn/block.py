"""One layer of a transformer: attention, optional attention to a memory, and feed-forward, each of which adds to the stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from cogwheel.catalogue import entry
from cogwheel.nn.attention import Attention
from cogwheel.nn.cache import LayerCache
from cogwheel.nn.layer import Layer
from cogwheel.nn.norm import Norm
from cogwheel.nn.products import Linear
from cogwheel.nn.recurrent import RecurrentAttention
from cogwheel.nn.rotary import Rotary, check_head_dim


class FeedForward(torch.nn.Module):
    """``"gelu"``: out(gelu(up(x))), or ``"gelu_tanh"`` by its approximation; ``"swiglu"``: out(silu(gate(x)) ∘ up(x)), gate and up in
    one matrix, in this order."""

    def __init__(self, width: int, hidden: int, activation: str = "gelu", *, bias: bool = True, **where: Any) -> None:
        super().__init__()
        if activation not in ("gelu", "swiglu", "gelu_tanh"):
            raise ValueError(f"activation: expected gelu, swiglu or gelu_tanh, got {activation}")
        self.activation = activation
        self.up = Linear(width, hidden * (2 if activation == "swiglu" else 1), bias, **where)
        self.out = Linear(hidden, width, bias, **where)

    def forward(self, x: Tensor) -> Tensor:
        units = self.up(x)
        if self.activation != "swiglu":
            return self.out(F.gelu(units, approximate="tanh" if self.activation == "gelu_tanh" else "none"))
        gate, up = units.chunk(2, -1)
        return self.out(F.silu(gate) * up)


class Block(Layer):
    """A layer of a transformer over tokens [B, N, W], with norms before what adds to the stream, or after it.

        block = cogwheel.nn.Block(512, 8, "cog", causal=True)

    Args:
        width, heads, mechanism: as for :class:`Attention`, or for :class:`RecurrentAttention` where the mechanism has a state.
        hidden: units of the feed-forward; 4 W unless given.
        activation: ``"gelu"``, ``"gelu_tanh"`` or ``"swiglu"``.
        norm: ``"layer"`` or ``"rms"``.
        norm_place: ``"before"`` or ``"after"``.
        norm_epsilon: 1e-5 for LayerNorm and 1e-6 for RMSNorm unless given; also of norms of queries and keys.
        memory: whether the block also attends to another sequence, between attention and feed-forward, by softmax.
        dropout: of weights and of what is added to the stream, in training.
        bias: of projections, feed-forward and LayerNorms.
        rotary: of attention.
        **options: those of :class:`Attention` or :class:`RecurrentAttention`.

    Raises:
        ValueError: options that do not fit, each in one line.
    """

    kind = "block"

    def __init__(
        self,
        width: int,
        heads: int,
        mechanism: str = "softmax",
        *,
        hidden: int | None = None,
        activation: str = "gelu",
        norm: str = "layer",
        norm_place: str = "before",
        norm_epsilon: float | None = None,
        memory: bool = False,
        dropout: float = 0.0,
        bias: bool = True,
        rotary: Rotary | None = None,
        device: object = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        recurrent = has_state(mechanism)
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout: expected 0 to below 1, got {dropout}")
        if recurrent and rotary is not None:
            raise ValueError(f"rotary: expected none for {mechanism}, whose state says what came before, got one")
        check_head_dim(rotary, width, heads, options.get("head_dim"))
        mixer = {"width": width, "heads": heads, "mechanism": mechanism}
        more = options
        if recurrent:
            more = {"plain" if name == "layer" else "layer" if name == "depth" else name: value for name, value in options.items()}
            if options.get("layer", "paper") not in ("paper", "plain"):
                raise ValueError(f"layer: expected paper or plain, got {options['layer']}")
            if "plain" in more:
                more["plain"] = options["layer"] == "plain"
            mixer |= {"bias": bias} | more
        else:
            more = {"layer" if name == "depth" else name: value for name, value in options.items() if value is not None}
            epsilon = {} if norm_epsilon is None else {"norm_epsilon": float(norm_epsilon)}
            mixer |= {"projection_bias": bias, "output_bias": bias, "causal": False} | epsilon | more
        given: dict[str, Any] = {
            "recurrent" if recurrent else "attention": mixer,
            "feed_forward": {"width": width, "hidden": hidden or 4 * width, "activation": activation, "bias": bias},
            "norm": {"kind": norm, "place": norm_place, "bias": bias, "epsilon": float(norm_epsilon or 0.0)},
        }
        if memory:
            given["memory_attention"] = {"width": width, "heads": heads, "projection_bias": bias, "output_bias": bias, "causal": False, "memory": True}
        if rotary is not None:
            given["rotary"] = rotary.options()
        super().__init__(given)
        self._make(self._description, rotary, dropout, {"device": device, "dtype": dtype})
        self.reset_parameters()

    @classmethod
    def of(cls, description: Mapping[str, Any], rotary: Rotary | None, dropout: float, where: Mapping[str, Any]) -> Block:
        """The block that a model of C++ describes, with uninitialised parameters."""
        made = cls.__new__(cls)
        torch.nn.Module.__init__(made)
        made._make(description, rotary, dropout, where)
        return made

    def _make(self, of: Mapping[str, Any], rotary: Rotary | None, dropout: float, where: Mapping[str, Any]) -> None:
        def norm_of() -> Norm:
            return Norm(of["norm"]["kind"], self.width, of["norm"]["bias"], of["norm"]["epsilon"], **where)

        self.dropout, self.norm_place = dropout, of["norm"]["place"]
        self.width = of["feed_forward"]["width"]
        self.attention_norm = norm_of()
        self.attention = RecurrentAttention.of(of["recurrent"], where) if "recurrent" in of else Attention.of(of["attention"], rotary, dropout, where)
        self.has_memory = "memory_attention" in of
        if self.has_memory:
            self.memory_norm = norm_of()
            self.memory_attention = Attention.of(of["memory_attention"], None, dropout, where)
        self.feed_forward_norm = norm_of()
        feed_forward = of["feed_forward"]
        self.feed_forward = FeedForward(self.width, feed_forward["hidden"], feed_forward["activation"], bias=feed_forward["bias"], **where)
        self.is_recurrent = "recurrent" in of

    def _dropped(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout) if self.training and self.dropout > 0 else x

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        key_lengths: Tensor | None = None,
        memory_lengths: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        positions: Tensor | None = None,
        cache: LayerCache | tuple[LayerCache, LayerCache] | None = None,
        delta: Tensor | None = None,
        split: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor | None]:
        """The stream after the block, [B, N, W].

        Args:
            x: [B, N, W].
            memory: [B, M, W], of a block with ``memory``.
            memory_lengths: [B] int64: what of the memory is no padding.
            key_lengths, cu_seqlens, positions, cache: as for :meth:`Attention.forward`.
            delta: [B, N, W], to be added to x: whoever norms the sum makes it too, in one pass.
            split: gives x and delta of what follows instead of their sum.
        """
        if self._outer is not None:
            given = {"key_lengths": key_lengths, "memory_lengths": memory_lengths, "cu_seqlens": cu_seqlens, "positions": positions, "cache": cache}
            total = self._run_outer((x if delta is None else x + delta, memory), given)
            return (total, None) if split else total
        own, of_memory = cache if isinstance(cache, tuple) else (cache, None)
        if self.has_memory != (memory is not None) and of_memory is None:
            here = "one" if self.has_memory else "none, for the block has no memory"
            raise ValueError(f"block: memory: expected {here}, got {'none' if self.has_memory else 'one'}")
        if memory_lengths is not None and not self.has_memory:
            raise ValueError("block: memory_lengths: expected none, for the block has no memory, got some")
        keywords: dict[str, Any] = {"cu_seqlens": cu_seqlens, "cache": own}
        if not self.is_recurrent:
            keywords |= {"key_lengths": key_lengths, "positions": positions}
        x, delta = self._added(x, delta, self.attention_norm, lambda read: self.attention(read, **keywords))
        if self.has_memory:
            attend = lambda read: self.memory_attention(read, memory, key_lengths=memory_lengths, cache=of_memory)  # noqa: E731
            x, delta = self._added(x, delta, self.memory_norm, attend)
        x, delta = self._added(x, delta, self.feed_forward_norm, self.feed_forward)
        if split:
            return x, delta
        return x if delta is None else x + delta

    def _added(self, x: Tensor, delta: Tensor | None, norm: Norm, part: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor | None]:
        """The stream after a part that reads it."""
        if self.norm_place == "before":
            x, read = norm.of_sum(x, delta)
            return x, self._dropped(part(read))
        total = x if delta is None else x + delta
        return norm.of_sum(total, self._dropped(part(total)), wide=True)[1], None

    def make_cache(self, batch: int, capacity: int = 0, *, dtype: torch.dtype | None = None) -> LayerCache | tuple[LayerCache, LayerCache]:
        """An empty cache for up to ``capacity`` tokens of ``batch`` texts."""
        own = self.attention.make_cache(batch, capacity, dtype=dtype)
        return (own, self.memory_attention.make_cache(batch, of_memory=True)) if self.has_memory else own

    def _pass(self, hooked: list[str], callback: int, x: Tensor, memory: Tensor | None = None, *, key_lengths: Tensor | None = None, **others: Any) -> Tensor:
        if others.pop("cache", None) is not None:
            raise ValueError("block: hooks: expected a pass without cache, got one with")
        inputs = {"x": x, "memory": memory, "lengths": key_lengths} | others
        return self._hooked(self._parameters_now(), inputs, hooked, callback)


def has_state(mechanism: str) -> bool:
    """Whether it is one of the family ``recurrent``; False for a name that is none."""
    try:
        return entry(mechanism)["family"] == "recurrent"
    except StopIteration:
        return False
