"""Texts that a language model continues."""

from __future__ import annotations

import dataclasses
import json
import math
import numbers
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


@dataclasses.dataclass(frozen=True, eq=False)
class GeneratedText:
    """What a model made of one prompt.

    Attributes:
        text: whole characters, without the prompt, up to a stop string; empty where the model has no tokenizer.
        tokens: int64 [N], all that were drawn, those of the stop string too, without the end token.
        end: "length", "stop", or "end_token".
        log_probabilities: float64 [N], of the tokens, as the model says, before any option; None unless they were asked for.
        likeliest: for each place the most probable tokens and their log-probabilities; None unless they were asked for.
    """

    text: str
    tokens: Tensor
    end: str
    log_probabilities: Tensor | None = None
    likeliest: list[list[tuple[int, float]]] | None = None


def whole(name: str, value: object, most: int = 2**63 - 1, least: int = 0) -> int:
    try:
        found = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected a whole number, got {value!r}") from None
    if isinstance(value, bool) or not least <= found <= most:
        raise ValueError(f"{name}: expected a whole number from {least} to {most}, got {value!r}")
    return found


def number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name}: expected a number, got {value!r}")
    if not math.isfinite(value):
        raise ValueError(f"{name}: expected a finite number, got {value!r}")
    return float(value)


def texts(name: str, values: Sequence[str]) -> list[str]:
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"{name}: expected texts, got {value!r}")
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise ValueError(f"{name}: expected text in UTF-8, got {value!r}")
    return list(values)


def narrow(name: str, value: str) -> str:
    if value not in ("bf16", "int8"):
        raise ValueError(f"{name}: expected bf16 or int8, got {value!r}")
    return value


def prompts_of(model: Any, prompts: str | Tensor | Sequence[str | Tensor]) -> list[Tensor]:
    """As tokens, one tensor for each."""
    if isinstance(prompts, (str, Tensor)):
        prompts = [prompts]
    if isinstance(prompts, bytes) or not isinstance(prompts, Sequence):
        raise TypeError(f"prompts: expected texts, or tensors of tokens, got {type(prompts).__name__}")
    read = []
    for prompt in prompts:
        if not isinstance(prompt, (str, Tensor)):
            raise TypeError(f"prompts: expected texts, or tensors of tokens, got {type(prompt).__name__}")
        if isinstance(prompt, str):
            texts("prompts", [prompt])
        read.append(model.tokens(prompt) if isinstance(prompt, str) else prompt)
    return read


def generate(made: Any, prompts: list[Tensor], options: dict[str, Any]) -> list[GeneratedText]:
    """By the model of C++."""
    found = []
    for each in json.loads(made.generate(prompts, json.dumps(options))):
        logs, likeliest = each.get("log_probabilities"), each.get("likeliest")
        if options["likeliest"] >= 0 and logs is None:  # no token was drawn
            logs, likeliest = [], []
        found.append(
            GeneratedText(
                each["text"],
                torch.tensor(each["tokens"], dtype=torch.int64),
                each["end"],
                None if logs is None else torch.tensor(logs, dtype=torch.float64),
                None if likeliest is None else [[(token, log) for token, log in place] for place in likeliest],
            )
        )
    return found
