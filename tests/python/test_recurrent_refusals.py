"""Calls of mechanisms with a state that are refused, each in one line."""

import math
import re

import pytest
import torch
from recurrent_reference import LAWS

import cogwheel


def call(mechanism="gla", *, query=(1, 2, 5, 4), key=(1, 2, 5, 4), value=(1, 2, 5, 3), **given):
    return cogwheel.recurrent(torch.ones(query), None if key is None else torch.ones(key), torch.ones(value), mechanism, **given)


REFUSALS = {
    "attention: mechanism: expected a mechanism of attention (cogwheel.recurrent takes this one), got gla":
        lambda: cogwheel.attention(*(torch.ones(1, 1, 4, 8) for _ in range(3)), "gla"),
    "recurrent: mechanism: expected a recurrent one (cogwheel.attention takes this one), got softmax": lambda: call("softmax"),
    "recurrent: mechanism: expected gla (the nearest of 15 names), got glla": lambda: call("glla"),
    "recurrent: log_decay: expected a tensor (gla requires it), got nothing": lambda: call(),
    "recurrent: parameters of gla: expected log_decay, got beta": lambda: call(beta=torch.ones(1)),
    "recurrent: parameters of linear_attention: expected no parameter of its own, got decay":
        lambda: call("linear_attention", decay=torch.ones(2)),
    "recurrent: log_decay: expected [1, 2, 5, 4], got [1, 2, 5]": lambda: call(log_decay=torch.zeros(1, 2, 5)),
    "recurrent: log_decay: expected [1, 2, 5], got [1, 2, 5, 4]": lambda: call("mamba2", log_decay=torch.zeros(1, 2, 5, 4)),
    "recurrent: log_decay: expected values of at most 0, got 0.5": lambda: call(log_decay=torch.full((1, 2, 5, 4), 0.5)),
    "recurrent: log_decay: expected values of at most 0, got nan": lambda: call(log_decay=torch.full((1, 2, 5, 4), math.nan)),
    "recurrent: decay: expected values above 0, up to 1, got 1.5": lambda: call("retnet", decay=torch.tensor([1.0, 1.5])),
    "recurrent: decay: expected values above 0, up to 1, got 0": lambda: call("retnet", decay=torch.tensor([0.0, 1.0])),
    "recurrent: decay dtype: expected Float (as query), got Double": lambda: call("retnet", decay=torch.ones(2).double()),
    "recurrent: key: expected [1, 2, 5, 4], got [1, 2, 6, 4]": lambda: call("linear_attention", key=(1, 2, 6, 4)),
    "recurrent: key: expected a tensor, got nothing": lambda: call("linear_attention", key=None),
    "recurrent: key: expected nothing (hgrn2 makes its own), got a tensor":
        lambda: call("hgrn2", log_decay=torch.zeros(1, 2, 5, 4)),
    "recurrent: value: expected [1, 2, 5, 3], got [1, 3, 5, 3]": lambda: call("linear_attention", value=(1, 3, 5, 3)),
    "recurrent: query: expected 4 dimensions [batch, heads, tokens, width], got 3 [2, 5, 4]":
        lambda: call("linear_attention", query=(2, 5, 4)),
    "recurrent: query head_dim: expected 1 to 256, got 257":
        lambda: call("linear_attention", query=(1, 2, 5, 257), key=(1, 2, 5, 257)),
    "recurrent: feature_map: expected identity for gla, got relu": lambda: call(feature_map="relu"),
    "recurrent: feature_map: expected relu (the nearest of 7 names), got rellu":
        lambda: call("linear_attention", feature_map="rellu"),
    "recurrent: normalize: expected False for gla, got True": lambda: call(normalize=True),
    "recurrent: scale: expected a finite number, got nan": lambda: call("linear_attention", scale=math.nan),
    "recurrent: initial_state: expected [1, 2, 4, 3], got [1, 2, 3, 4]":
        lambda: call("linear_attention", initial_state=torch.zeros(1, 2, 3, 4)),
    "recurrent: initial_state dtype: expected Float, got Double":
        lambda: call("linear_attention", initial_state=torch.zeros(1, 2, 4, 3).double()),
    "recurrent: initial_state: expected 2 tensors, S and z, got 1":
        lambda: call("linear_attention", normalize=True, initial_state=torch.zeros(1, 2, 4, 3)),
    "recurrent: input_gate: expected numbers, got nan":
        lambda: call("mlstm", input_gate=torch.full((1, 2, 5), math.nan), forget_gate=torch.zeros(1, 2, 5)),
    "recurrent: forget_gate: expected a tensor (mlstm requires it), got nothing":
        lambda: call("mlstm", input_gate=torch.zeros(1, 2, 5)),
    "recurrent: log_value_decay: expected [1, 2, 5, 3], got [1, 2, 5, 4]":
        lambda: call("dfw", log_decay=torch.zeros(1, 2, 5, 4), log_value_decay=torch.zeros(1, 2, 5, 4)),
    "recurrent: log_value_decay: expected values of at most 0, got 1":
        lambda: call("dfw", log_decay=torch.zeros(1, 2, 5, 4), log_value_decay=torch.ones(1, 2, 5, 3)),
    "recurrent: bonus: expected [2, 4], got [4]": lambda: call("rwkv6", log_decay=torch.zeros(1, 2, 5, 4), bonus=torch.ones(4)),
    "recurrent: log_decay: expected [1, 2, 5, 6], got [1, 2, 5, 7]":
        lambda: call("abc", phi=torch.ones(1, 2, 5, 6), log_decay=torch.zeros(1, 2, 5, 7)),
    "recurrent: horizon: expected values above 0, got 0": lambda: call("cosformer", horizon=0),
    "recurrent: horizon: expected a number, got [2]": lambda: call("cosformer", horizon=torch.ones(2)),
    "recurrent: projection: expected a tensor (linear_attention requires it), got nothing":
        lambda: call("linear_attention", feature_map="random_fourier"),
    "recurrent: causal: expected True for retnet, got False": lambda: call("retnet", decay=torch.ones(2), causal=False),
    "recurrent: query batch: expected 1 beside cu_seqlens, got 2":
        lambda: call("linear_attention", query=(2, 2, 5, 4), key=(2, 2, 5, 4), value=(2, 2, 5, 3), cu_seqlens=torch.tensor([0, 5])),
    "recurrent: cu_seqlens: expected 5 last (as query), got 4": lambda: call("linear_attention", cu_seqlens=torch.tensor([0, 4])),
    "recurrent: cu_seqlens: expected numbers that do not decrease, got 2 after 3":
        lambda: call("linear_attention", cu_seqlens=torch.tensor([0, 3, 2, 5])),
    "recurrent: initial_state: expected 3 tensors, S, z and m, got 1":
        lambda: call("mlstm", input_gate=torch.zeros(1, 2, 5), forget_gate=torch.zeros(1, 2, 5), initial_state=torch.zeros(1, 2, 4, 3)),
    "recurrent: initial_state: expected a tensor or a tuple of tensors, got a str":
        lambda: call("linear_attention", initial_state="none"),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSALS)
def test_refusals_are_one_line(message):
    with pytest.raises((ValueError, TypeError)) as refused:
        REFUSALS[message]()
    assert str(refused.value) == message


def test_the_documentation_names_every_law(repository):
    text = (repository / "docs/recurrent.md").read_text()
    laws = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    headers = {path.stem for path in (repository / "cogwheel/mechanisms/recurrent").glob("*.h")}
    elsewhere = {"deltanet", "gated_deltanet", "mamba", "s4"}  # test_delta_rules.py, test_state_spaces.py
    assert set(laws) == headers == {law for law, _ in LAWS.values()} | elsewhere
