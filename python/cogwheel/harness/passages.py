"""Which passes answer which questions: continuations that share a context, and those that begin alike, share rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

Asked = list[tuple[int, list[int]]]  # places in the answers, and the continuations


@dataclasses.dataclass
class Row:
    """Tokens after a context, and the continuations that it scores: those that begin with it, or are cut short in it.

    The last token of a continuation is scored and never fed in, so a row lacks it.
    """

    tokens: list[int]
    asked: Asked


@dataclasses.dataclass
class Passage:
    """A context, cut to what the model sees, with rows that follow it."""

    context: list[int]
    rows: list[Row]

    @property
    def length(self) -> int:
        return len(self.context) + max(len(row.tokens) for row in self.rows)


def rows_of(asked: Asked, causal: bool) -> list[Row]:
    """Rows that score all continuations; those of a model that sees later tokens have one continuation each."""
    if not causal:
        return [Row(continuation[:-1], [(place, continuation)]) for place, continuation in asked]
    rows: list[Row] = []
    # In the reverse of the lexicographic order, whatever begins a continuation follows it, and stands next to those that it begins.
    for place, continuation in sorted(asked, key=lambda each: each[1][:-1], reverse=True):
        fed = continuation[:-1]
        if not rows or rows[-1].tokens[: len(fed)] != fed:
            rows.append(Row(fed, []))
        rows[-1].asked.append((place, continuation))
    return rows


def batches(items: Iterable[Any], size: int, alike: Callable[[Any], int] = lambda _: 0) -> Iterator[list[Any]]:
    """Neighbours that are ``alike``, up to ``size`` of them."""
    batch: list[Any] = []
    for item in items:
        if batch and (len(batch) == size or alike(item) != alike(batch[0])):
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch


def padded(texts: list[list[int]]) -> torch.Tensor:
    longest = max(map(len, texts))
    return torch.tensor([text + [0] * (longest - len(text)) for text in texts])
