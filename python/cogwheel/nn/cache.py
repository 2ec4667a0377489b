"""What layers keep of the tokens so far, so that a new token need not compute them again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor

from cogwheel.key_value_cache import KeyValueCache


@runtime_checkable
class LayerCache(Protocol):
    """The cache of one layer: :class:`cogwheel.KeyValueCache`, :class:`RecurrentLayerCache` or :class:`MemoryCache`."""

    @property
    def lengths(self) -> Tensor:
        """[B] int64, the tokens of each entry."""

    def append(self, *parts: Tensor) -> None:
        """Adds what the layer made of new tokens."""

    def crop(self, lengths: int | Tensor) -> None:
        """Forgets the newest tokens: each entry keeps its first ones."""

    def fork(self, entries: Tensor | list[int]) -> LayerCache:
        """An independent cache with copies of the given entries, in that order."""


def positions_after(cache: LayerCache, x: Tensor) -> Tensor:
    """[B, N]: where the tokens x stand, after those in the cache."""
    return (cache.lengths.unsqueeze(1) + torch.arange(x.shape[1], device="cpu")).to(x.device)


def check_batch(cache: LayerCache, x: Tensor, what: str) -> None:
    if cache.lengths.shape[0] != x.shape[0]:
        raise ValueError(f"{what}: cache: expected one of {x.shape[0]} texts, got one of {cache.lengths.shape[0]}")


def _entries(entries: Tensor | list[int], batch: int) -> Tensor:
    chosen = entries if isinstance(entries, Tensor) else torch.tensor(entries, dtype=torch.int64)
    if chosen.dim() != 1 or chosen.dtype != torch.int64 or (chosen.numel() and not 0 <= int(chosen.min()) <= int(chosen.max()) < batch):
        raise ValueError(f"cache: fork: expected entries from 0 to {batch - 1}, got {chosen.tolist()}")
    return chosen


def _kept(lengths: int | Tensor, now: Tensor) -> Tensor:
    kept = torch.full_like(now, lengths) if isinstance(lengths, int) else lengths
    if kept.shape != now.shape or bool((kept < 0).any()) or bool((kept > now).any()):
        raise ValueError(f"cache: crop: expected 0 to {now.tolist()}, got {kept.tolist()}")
    return kept


class MemoryCache:
    """Keys and values of a memory: the first pass is given it, later ones need not be."""

    def __init__(self) -> None:
        self.key: Tensor | None = None
        self.value: Tensor | None = None
        self.memory_lengths: Tensor | None = None

    def kept(
        self, memory: Tensor | None, lengths: Tensor | None, make: Callable[[Tensor], tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        if self.key is None:
            if memory is None:
                raise ValueError("attention: memory: expected [batch, tokens, width] in the first pass with this cache, got none")
            self.key, self.value = make(memory)
            self.memory_lengths = lengths
        elif memory is not None or lengths is not None:
            raise ValueError("attention: memory: expected it once, for the cache has it since, got it or its lengths again")
        return self.key, self.value, self.memory_lengths

    @property
    def lengths(self) -> Tensor:
        """[B] int64: 0, for a memory is no token of the text."""
        return torch.zeros(0 if self.key is None else self.key.shape[0], dtype=torch.int64)

    def append(self, key: Tensor, value: Tensor) -> None:
        self.key, self.value = key, value

    def crop(self, lengths: int | Tensor) -> None:
        """Nothing: the memory stays."""

    def fork(self, entries: Tensor | list[int]) -> MemoryCache:
        forked = MemoryCache()
        if self.key is not None:
            chosen = _entries(entries, self.key.shape[0])
            forked.key, forked.value = (part.index_select(0, chosen.to(part.device)) for part in (self.key, self.value))
            forked.memory_lengths = None if self.memory_lengths is None else self.memory_lengths.index_select(0, chosen)
        return forked


class RecurrentLayerCache:
    """What a layer with a state carries from token to token; its size does not grow.

    ``carried`` has, by name and each with the entries of the batch first, the state of the law (``law.0``, …), what a
    convolution still reads (``inputs``), the token before (``last``) and the logarithm of what was written (``total``), as far as
    the layer has them.
    """

    def __init__(self, batch: int) -> None:
        self._lengths = torch.zeros(batch, dtype=torch.int64, device="cpu")
        self.carried: dict[str, Tensor] = {}
        self._before = self._lengths, self.carried

    @property
    def lengths(self) -> Tensor:
        """[B] int64, the tokens of each entry: a copy."""
        return self._lengths.clone()

    def append(self, carried: dict[str, Tensor], tokens: int) -> None:
        """After ``tokens`` more tokens of each entry. Numbers are kept, no graph."""
        self._before = self._lengths, self.carried
        self._lengths = self._lengths + tokens
        self.carried = {name: tensor.detach() for name, tensor in carried.items()}

    def crop(self, lengths: int | Tensor) -> None:
        """Keeps all tokens of an entry, none, or in all entries those before the last pass: a state forgets no single token."""
        kept = self.check_crop(lengths)
        if torch.equal(kept, self._lengths):
            return
        if torch.equal(kept, self._before[0]):
            self._lengths, self.carried = self._before
            return
        emptied = kept == 0
        empty = {name: -torch.inf if name == "total" else 0 for name in self.carried}  # the log of nothing
        chosen = emptied.nonzero().flatten()
        self.carried = {name: tensor.index_fill(0, chosen.to(tensor.device), empty[name]) for name, tensor in self.carried.items()}
        self._lengths = kept.clone()
        self._before = self._lengths, self.carried

    def check_crop(self, lengths: int | Tensor) -> Tensor:
        """The lengths as a tensor. ValueError where :meth:`crop` would raise one."""
        kept = _kept(lengths, self._lengths)
        if not torch.equal(kept, self._before[0]) and bool(((kept != 0) & (kept != self._lengths)).any()):
            raise ValueError(f"cache: crop: expected 0 or {self._lengths.tolist()} (a state forgets no token), got {kept.tolist()}")
        return kept

    def fork(self, entries: Tensor | list[int]) -> RecurrentLayerCache:
        chosen = _entries(entries, self._lengths.shape[0])
        forked = RecurrentLayerCache(chosen.numel())
        forked._lengths = self._lengths.index_select(0, chosen)
        forked.carried = {name: tensor.index_select(0, chosen.to(tensor.device)) for name, tensor in self.carried.items()}
        forked._before = forked._lengths, forked.carried
        return forked


def _joined_states(caches: Sequence[RecurrentLayerCache]) -> RecurrentLayerCache:
    joined = RecurrentLayerCache(0)
    joined._lengths = torch.cat([cache._lengths for cache in caches])
    for name in caches[0].carried:
        parts = [cache.carried[name] for cache in caches]
        if name == "inputs":  # of fewer tokens where a text has fewer, before which there are zeros
            most = max(part.shape[1] for part in parts)
            parts = [F.pad(part, (0, 0, most - part.shape[1], 0)) for part in parts]
        joined.carried[name] = torch.cat(parts)
    joined._before = joined._lengths, joined.carried
    return joined


def _joined_keys(caches: Sequence[KeyValueCache]) -> KeyValueCache:
    lengths = torch.cat([cache.lengths for cache in caches])
    most = int(lengths.max())
    key, value = (torch.cat([F.pad(part, (0, 0, 0, most - part.shape[2])) for part in parts])
                  for parts in ([cache.key for cache in caches], [cache.value for cache in caches]))  # fmt: skip
    joined = KeyValueCache(
        len(lengths), key.shape[1], caches[0].capacity, key.shape[3], value.shape[3], value_heads=value.shape[1], dtype=key.dtype, device=key.device
    )
    joined.append(key, value, lengths)
    return joined


class ModelCache:
    """The caches of all layers of a model, in their order."""

    def __init__(self, layers: Sequence[LayerCache]) -> None:
        self.layers = list(layers)

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, layer: int) -> LayerCache:
        return self.layers[layer]

    @property
    def lengths(self) -> Tensor:
        """[B] int64, the tokens of each entry."""
        return self.layers[0].lengths

    def crop(self, lengths: int | Tensor) -> None:
        """Forgets the newest tokens in every layer, or where one cannot, in none: each entry keeps its first ones."""
        for layer in self.layers:
            if isinstance(layer, RecurrentLayerCache):
                layer.check_crop(lengths)
        for layer in self.layers:
            layer.crop(lengths)

    def fork(self, entries: Tensor | list[int]) -> ModelCache:
        """An independent cache with copies of the given entries, in that order, as for the beams of a beam search."""
        return ModelCache([layer.fork(entries) for layer in self.layers])

    @classmethod
    def joined(cls, caches: Sequence[ModelCache]) -> ModelCache:
        """One cache with copies of the entries of several of the same model, one after another."""
        layers: list[LayerCache] = []
        for of_layer in zip(*(cache.layers for cache in caches), strict=True):
            layers.append(_joined_states(of_layer) if isinstance(of_layer[0], RecurrentLayerCache) else _joined_keys(of_layer))
        return cls(layers)
