"""Cogwheel's operators as attention functions of transformers (``AttentionInterface``)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NoReturn

import torch
from torch import Tensor

from cogwheel.functional import attention, attention_weights
from cogwheel.huggingface import masks
from cogwheel.nn.products import product_dtype

CONVERTED = "cogwheel"  # the implementation of models whose modules have their mechanism
PREFIX = "cogwheel_"

# What models pass to every attention function, and no function of masks and tensors reads: the mask has it, or it is of outputs and losses.
_OF_OTHERS = frozenset({
    "sliding_window", "position_ids", "cache_position", "position_embeddings", "cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k",
    "seq_idx", "deterministic", "use_cache", "past_key_values", "return_dict", "num_items_in_batch", "output_hidden_states", "output_router_logits",
    "token_type_ids", "mm_token_type_ids", "pixel_values", "logits_to_keep", "labels", "head_mask", "output_cross_attentions",
})  # fmt: skip


def refuse(what: str, expected: str, got: str) -> NoReturn:
    raise ValueError(f"huggingface: {what}: expected {expected}, got {got}")


def check_pairwise(entry: dict[str, Any]) -> None:
    """ValueError for a mechanism that an attention module of transformers cannot have: its own queries, keys and values are given."""
    if entry["family"] == "recurrent":
        refuse("mechanism", "one of attention", f"{entry['name']}, with a state (cogwheel.nn.RecurrentAttention has a layer of it)")
    if entry["level"] != "operator":
        of = "reads its keys from its queries" if entry["level"] == "layer" else "is a function of the whole score matrix"
        refuse("mechanism", "one whose rows stand alone", f"{entry['name']}, which {of} (cogwheel.nn.Attention has a layer of it)")


def check_parameters(mechanism: dict[str, Any], given: Collection[str]) -> None:
    """ValueError for a mechanism that lacks parameters which it needs."""
    missing = [each for each in mechanism["parameters"] if each not in given and each not in mechanism["optional_parameters"]]
    if missing:
        refuse(f"attention of {mechanism['name']}", f"modules that have {', '.join(missing)} (cogwheel.huggingface.convert gives them)", "none")


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
    **others: Any,
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
    for other, given in others.items():  # what a model selects keys by, for one
        if given is not None and other not in _OF_OTHERS:
            refuse(f"attention of {name}", f"a model whose attention has no {other}", f"{type(module).__name__}, which has")
    options: dict[str, Any] = dict(parameters)
    if s_aux is not None:
        if "sink" not in mechanism["parameters"]:
            refuse(f"attention of {name}", "a model without sinks (softmax_off_by_one has them)", "one whose layers learn them")
        options.setdefault("sink", s_aux)
    check_parameters(mechanism, options)
    query, key, value = (each.to(product_dtype(each)) for each in (query, key, value))  # under autocast, rotary positions widen two of them
    if attention_mask is None and (is_causal if is_causal is not None else getattr(module, "is_causal", True)):
        options["causal"] = True  # the last query sees the last key, also where a model keeps its last queries alone
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


def of_catalogue(entry: dict[str, Any]) -> Callable[..., tuple[Tensor, Tensor | None]]:
    def forward(module, query, key, value, attention_mask, **options):
        check_pairwise(entry)
        return attend(entry, module, query, key, value, attention_mask, parameters={}, **options)

    return forward


def of_module(module, query, key, value, attention_mask, **options):
    """Of a converted model: the module has its mechanism."""
    if not hasattr(module, "cogwheel"):
        refuse("attn_implementation", "'cogwheel' of a model that cogwheel.huggingface.convert has converted", f"a {type(module).__name__} without a mechanism")
    return module.cogwheel(module, query, key, value, attention_mask, **options)
