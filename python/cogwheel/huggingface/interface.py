"""Cogwheel's operators as attention functions of transformers (``AttentionInterface``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface

from cogwheel import catalogue
from cogwheel.functional import attention, attention_weights
from cogwheel.huggingface import masks

CONVERTED = "cogwheel"  # the implementation of models whose modules have their mechanism
PREFIX = "cogwheel_"


def refuse(what: str, expected: str, got: str) -> NoReturn:
    raise ValueError(f"huggingface: {what}: expected {expected}, got {got}")


def check_pairwise(entry: dict[str, Any]) -> None:
    """ValueError for a mechanism that an attention module of transformers cannot have: its own queries, keys and values are given."""
    if entry["family"] == "recurrent":
        refuse("mechanism", "one of attention", f"{entry['name']}, with a state (cogwheel.nn.RecurrentAttention has a layer of it)")
    if entry["level"] != "operator":
        of = "reads its keys from its queries" if entry["level"] == "layer" else "is a function of the whole score matrix"
        refuse("mechanism", "one whose rows stand alone", f"{entry['name']}, which {of} (cogwheel.nn.Attention has a layer of it)")


def attend(
    mechanism: dict[str, Any],
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    parameters: dict[str, Tensor],
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    cache: object = None,
    output_attentions: bool = False,
    **_: Any,
) -> tuple[Tensor, Tensor | None]:
    """[B, N, heads, width] and, where asked for, the weights [B, heads, N, M].

    Args:
        mechanism: its entry in the catalogue.
        module: of transformers; says by ``is_causal`` what no mask means.
        query: [B, H, N, D]; key, value: [B, Hk, M, D]. Of a difference of two maps two adjacent heads are one, whose value is that of
            both, side by side.
        attention_mask: as ``masks`` makes it, or a user's.
        parameters: the mechanism's own.
        dropout, scaling, softcap, position_bias: of weights; of scores; c of c·tanh(s/c); [B or 1, H, N, M], added to the scores.
        s_aux: [H], the logit of a silent key (gpt-oss).
    """
    name = mechanism["name"]
    if cache is not None:
        refuse(f"attention of {name}", "a dynamic or static cache", "a paged one")
    options: dict[str, Any] = dict(parameters)
    if s_aux is not None:
        if "sink" not in mechanism["parameters"]:
            refuse(f"attention of {name}", "a model without sinks (softmax_off_by_one has them)", "one whose layers learn them")
        options.setdefault("sink", s_aux)
    missing = [each for each in mechanism["parameters"] if each not in options and each not in mechanism["optional_parameters"]]
    if missing:
        refuse(f"attention of {name}", f"modules that have {', '.join(missing)} (cogwheel.huggingface.convert gives them)", "none")

    if torch.is_autocast_enabled(query.device.type) and query.dtype != torch.float64:  # rotary positions have widened two of the three
        query, key, value = (each.to(torch.get_autocast_dtype(query.device.type)) for each in (query, key, value))
    queries, keys = query.shape[2], key.shape[2]
    if attention_mask is None and (is_causal if is_causal is not None else getattr(module, "is_causal", True)) and queries > 1:
        options["causal"] = True
        if keys > queries:  # as `sdpa` reads no mask: the first query sees the first key
            key, value = key[:, :, :queries], value[:, :, :queries]
            position_bias = position_bias[..., :queries] if position_bias is not None else None
    options |= masks.options_of(attention_mask, query, key)
    if position_bias is not None:
        position_bias = position_bias.to(query.dtype)
        options["bias"] = position_bias + options["bias"] if "bias" in options else position_bias
    if mechanism["score"] == "dot":
        options["scale"] = scaling
        if softcap is not None:
            options["softcap"] = softcap
    else:  # a cosine has no scale
        for what, given in (("position_bias", position_bias), ("softcap", softcap)):
            if given is not None:
                refuse(f"attention of {name}", f"a model without {what} (its score is a cosine)", "one with")
    if mechanism["form"] == "differential":
        if "bias" in options and options["bias"].shape[-3:-2] not in ((), (1,)):
            refuse(f"attention of {name}", "a bias or position_bias that heads share (two of them are one)", f"one of {options['bias'].shape[-3]} heads")
        value = value.unflatten(1, (-1, 2)).transpose(2, 3).flatten(3)
    weights = attention_weights(query, key, name, **options) if output_attentions else None
    if dropout > 0:
        options["dropout"] = dropout
    return attention(query, key, value, name, **options).transpose(1, 2), weights


def _of_catalogue(entry: dict[str, Any]) -> Callable[..., tuple[Tensor, Tensor | None]]:
    def forward(module, query, key, value, attention_mask, **options):
        check_pairwise(entry)
        return attend(entry, module, query, key, value, attention_mask, parameters={}, **options)

    return forward


def _of_module(module, query, key, value, attention_mask, **options):
    """Of a converted model: the module has its mechanism."""
    return module.cogwheel(module, query, key, value, attention_mask, **options)


def register() -> list[str]:
    """Makes every mechanism known to transformers, as ``attn_implementation="cogwheel_<name>"``, and converted models loadable.

    A mechanism that users define later needs another call. Those that transformers' modules cannot have say so, in one line, when a
    model is made with them: what reads its keys from its queries, functions of the whole score matrix, and mechanisms whose parameters
    a model has only once :func:`convert` gave it them.

    Returns:
        The names.
    """
    from cogwheel.huggingface import conversion

    conversion.install()
    functions = {CONVERTED: _of_module}
    functions |= {PREFIX + each["name"]: _of_catalogue(each) for each in catalogue.mechanisms() if each["family"] != "recurrent"}
    for name, function in functions.items():
        AttentionInterface.register(name, function)
        AttentionMaskInterface.register(name, masks.mask)
    return list(functions)
