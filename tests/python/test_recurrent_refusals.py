"""Calls of mechanisms with a state that are refused, each in one line."""

import math
import re

import pytest
import torch
from recurrent_problem import LAWS
from recurrent_reference import LOOPS

import cogwheel


def call(mechanism="gla", *, query=(1, 2, 5, 4), key=(1, 2, 5, 4), value=(1, 2, 5, 3), **given):
    return cogwheel.recurrent(torch.ones(query), None if key is None else torch.ones(key), torch.ones(value), mechanism, **given)


def mamba(*, query=(1, 2, 5, 4), value=(1, 2, 5, 3), delta=None, a=None, **given):
    delta, a = torch.ones(1, 2, 5, 3) if delta is None else delta, -torch.ones(4, 3) if a is None else a
    tensors = [None if size is None else torch.ones(size) for size in (query, query, value)]
    return cogwheel.recurrent(*tensors, "mamba", delta=delta, a=a, **given)


def s4(*, query=None, key=None, value=(1, 2, 5, 3), **given):
    usual = {"delta": torch.ones(2, 3), "a": -torch.ones(2, 4, 3), "b": torch.ones(2, 4, 3), "c": torch.ones(2, 4, 3)}
    given = {name: each for name, each in (usual | given).items() if each is not None}
    return cogwheel.recurrent(query, key, torch.ones(value), "s4", **given)


def cache(mechanism="gla", **given):
    return cogwheel.RecurrentCache(mechanism, 2, 2, 4, 3, **given)


BETA = torch.ones(1, 2, 5)
REFUSALS = {
    "attention: mechanism: expected a mechanism of attention (cogwheel.recurrent takes this one), got gla":
        lambda: cogwheel.attention(*(torch.ones(1, 1, 4, 8) for _ in range(3)), "gla"),
    "recurrent: mechanism: expected a recurrent one (cogwheel.attention takes this one), got softmax": lambda: call("softmax"),
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
    "recurrent: beta: expected values in 0…2, got 5.5": lambda: call("deltanet", beta=5.5 * BETA),
    "recurrent: beta: expected values in 0…2, got -0.5": lambda: call("deltanet", beta=-0.5 * BETA),
    "recurrent: beta: expected values in 0…2, got nan": lambda: call("deltanet", beta=math.nan * BETA),
    "recurrent: beta: expected a tensor (deltanet requires it), got nothing": lambda: call("deltanet"),
    "recurrent: beta: expected [1, 2, 5], got [1, 2, 5, 1]": lambda: call("deltanet", beta=BETA[..., None]),
    "recurrent: beta dtype: expected Float (as query), got Double": lambda: call("deltanet", beta=BETA.double()),
    "recurrent: parameters of deltanet: expected beta, got log_decay": lambda: call("deltanet", beta=BETA, log_decay=-BETA),
    "recurrent: causal: expected True for deltanet, got False": lambda: call("deltanet", beta=BETA, causal=False),
    "recurrent: log_decay: expected a tensor (gated_deltanet requires it), got nothing":
        lambda: call("gated_deltanet", beta=BETA),
    "recurrent: log_decay: expected [1, 2, 5], got [1, 2, 4]":
        lambda: call("gated_deltanet", beta=BETA, log_decay=-BETA[..., :4]),
    "recurrent: log_decay: expected values of at most 0, got 1": lambda: call("gated_deltanet", beta=BETA, log_decay=BETA),
    "recurrent: log_decay: expected values of at most 0, got nan":
        lambda: call("gated_deltanet", beta=BETA, log_decay=math.nan * BETA),
    "recurrent: a: expected values below 0, got 0.5": lambda: mamba(a=torch.full((4, 3), 0.5)),
    "recurrent: a: expected values below 0, got 0": lambda: s4(a=torch.zeros(2, 4, 3)),
    "recurrent: a: expected values below 0, got nan": lambda: mamba(a=torch.full((4, 3), math.nan)),
    "recurrent: a: expected finite values, got -inf": lambda: mamba(a=torch.full((4, 3), -math.inf)),
    "recurrent: delta: expected values of at least 0, got -1": lambda: mamba(delta=-torch.ones(1, 2, 5, 3)),
    "recurrent: delta: expected values of at least 0, got nan": lambda: s4(delta=torch.full((2, 3), math.nan)),
    "recurrent: delta: expected finite values, got inf": lambda: mamba(delta=torch.full((1, 2, 5, 3), math.inf)),
    "recurrent: delta: expected [1, 2, 5, 3], got [2, 3]": lambda: mamba(delta=torch.ones(2, 3)),
    "recurrent: delta: expected [2, 3], got [1, 2, 5, 3]": lambda: s4(delta=torch.ones(1, 2, 5, 3)),
    "recurrent: b: expected [2, 4, 3], got [4, 3]": lambda: s4(b=torch.ones(4, 3)),
    "recurrent: skip: expected [2, 3], got [2, 4]": lambda: mamba(skip=torch.ones(2, 4)),
    "recurrent: c: expected a tensor (s4 requires it), got nothing": lambda: s4(c=None),
    "recurrent: query: expected a tensor, got nothing": lambda: mamba(query=None),
    "recurrent: query: expected nothing (s4 has none), got a tensor": lambda: s4(query=torch.ones(1, 2, 5, 4)),
    "recurrent: key: expected nothing (s4 has none), got a tensor": lambda: s4(key=torch.ones(1, 2, 5, 4)),
    "recurrent: causal: expected True for mamba, got False": lambda: mamba(causal=False),
    "recurrent: parameters of s4: expected delta (the nearest of 5 names), got detla": lambda: s4(detla=torch.ones(2, 3)),
    "recurrent: initial_state: expected [1, 2, 4, 3], got [1, 2, 3, 4]":
        lambda: s4(initial_state=torch.zeros(1, 2, 3, 4)),
    "recurrent: mechanism: expected one with queries, for weights, got s4":
        lambda: cogwheel.recurrent_weights(torch.ones(1, 2, 5, 4), None, "s4", a=torch.ones(1)),
    "recurrent: a: expected [2, 4, 3], got [3]":
        lambda: cogwheel.recurrent_weights(
            torch.ones(1, 2, 5, 4), torch.ones(1, 2, 5, 4), "mamba", delta=torch.ones(1, 2, 5, 3), a=-torch.ones(3)),
    "recurrent: a dtype: expected Float (as value), got Double": lambda: s4(a=-torch.ones(2, 4, 3).double()),
    "recurrent: log_decay: expected values of at most 0, got 1":
        lambda: call("abc", phi=torch.ones(1, 2, 5, 6), log_decay=torch.ones(1, 2, 5, 6)),
    "recurrent: log_decay: expected a dense tensor, got Sparse": lambda: call(log_decay=-torch.ones(1, 2, 5, 4).to_sparse()),
    "recurrent: initial_state: expected a dense tensor, got Sparse":
        lambda: call("linear_attention", initial_state=torch.zeros(1, 2, 4, 3).to_sparse()),
    "recurrent: horizon: expected a tensor or a number, got a str": lambda: call("cosformer", horizon="far"),
    "recurrent cache: dtype: expected float32, float64, bfloat16 or float16, got torch.int32": lambda: cache(dtype=torch.int32),
    "recurrent cache: value: expected a tensor, got None": lambda: cache().attend(None, None, None),
    "recurrent cache: lengths: expected a tensor, got a list":
        lambda: cache("s4").attend(None, None, torch.ones(2, 2, 5, 3), lengths=[1, 2]),
    "recurrent cache: entries: expected a tensor or a list of integers, got a list": lambda: cache().fork([0.5]),
    "recurrent cache: entries: expected a tensor or a list of integers, got 0": lambda: cache().fork(0),
    "recurrent cache: entries: expected [entries] of int64, got [1] of torch.float32": lambda: cache().fork(torch.tensor([0.5])),
    "recurrent cache: entries: expected 0 to 1, got 2": lambda: cache().fork([2]),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSALS)
def test_refusals_are_one_line(message):
    with pytest.raises((ValueError, TypeError)) as refused:
        REFUSALS[message]()
    assert str(refused.value) == message


def test_names_the_nearest_law():
    # Other tests may have added laws of their own.
    with pytest.raises(ValueError, match=r"^recurrent: mechanism: expected gla \(the nearest of \d+ names\), got glla$"):
        call("glla")
    with pytest.raises(ValueError, match=r"^recurrent cache: mechanism: expected one of linear_attention, .*, got softmax$"):
        cache("softmax")


def test_every_law_is_documented_and_has_a_reference(repository):
    text = (repository / "docs/recurrent.md").read_text().split("## A law of your own")[0]
    laws = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    headers = {path.stem for path in (repository / "cogwheel/attention/mechanisms/recurrent").glob("*.h")}
    assert set(laws) == headers == {law.name for law in LAWS.values()} == set(LOOPS)
