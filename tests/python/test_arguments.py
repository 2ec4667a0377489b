"""Plain mistakes in Python: one line that names the argument. And what the checks cost: next to nothing."""

import inspect
import timeit

import pytest
import torch

import cogwheel

QUERY, KEY, VALUE = (torch.randn(1, 2, 5, 16) for _ in range(3))
ATTENTION = {
    "lam=0.3": ("differential", {"lam": 0.3}, "lam: expected a tensor, got 0.3"),
    "mechanism=None": (None, {}, "mechanism: expected a string, got None"),
    "a mechanism with parameters that is no string": (["cog"], {"sink": KEY}, "mechanism: expected a string, got a list"),
    "score=None": ("cog", {"score": None}, "score: expected a string, got None"),
    "key_lengths=[5]": ("cog", {"key_lengths": [5]}, "key_lengths: expected a tensor, got a list"),
    "window=2.5": ("cog", {"causal": True, "window": 2.5}, "window: expected an integer of 64 bits, got 2.5"),
    "window=2**70": ("cog", {"causal": True, "window": 2**70}, f"window: expected an integer of 64 bits, got {2**70}"),
    "scale='1'": ("cog", {"scale": "1"}, "scale: expected a number, got a str"),
    "scale=10**400": ("cog", {"scale": 10**400}, "scale: expected a number, got a number of many digits"),
    "causal='yes'": ("cog", {"causal": "yes"}, "causal: expected True or False, got a str"),
    "bias=0.5": ("cog", {"bias": 0.5}, "bias: expected a tensor, got 0.5"),
    "dropout=None": ("cog", {"dropout": None}, "dropout: expected a number, got None"),
    "seed=2**63": ("cog", {"dropout": 0.1, "seed": 2**63}, f"seed: expected an integer of 64 bits or a tensor, got {2**63}"),
    "seed=1.5": ("cog", {"dropout": 0.1, "seed": 1.5}, "seed: expected an integer of 64 bits or a tensor, got 1.5"),
}


def refused(call, *arguments, **options) -> str:
    with pytest.raises((TypeError, ValueError)) as caught:
        call(*arguments, **options)
    return str(caught.value)


@pytest.mark.parametrize("mistake", ATTENTION)
def test_attention_and_its_kin_say_what_is_wrong(mistake):
    mechanism, options, line = ATTENTION[mistake]
    cache = cogwheel.KeyValueCache(1, 2, 8, 16)
    cache.append(KEY, VALUE)
    assert refused(cogwheel.attention, QUERY, KEY, VALUE, mechanism, **options) == f"attention: {line}"
    assert refused(cogwheel.attention_weights, QUERY, KEY, mechanism, **options) == f"attention_weights: {line}"
    assert refused(cogwheel.attention_statistics, QUERY, KEY, VALUE, mechanism, **options) == f"attention_statistics: {line}"
    if "causal" not in options:
        assert refused(cache.attend, QUERY, mechanism, **options) == f"cache: {line}"


def test_a_name_with_line_breaks_is_one_line_of_the_message():
    assert "\n" not in refused(cogwheel.attention, QUERY, KEY, VALUE, "so\nft")


def fresh_cache() -> cogwheel.KeyValueCache:
    cache = cogwheel.KeyValueCache(1, 2, 8, 16)
    cache.append(KEY, VALUE)
    return cache


OTHERS = {
    "query=None": (lambda: cogwheel.attention(None, KEY, VALUE), "attention: query: expected a tensor, got nothing"),
    "key=[1]": (lambda: cogwheel.attention_statistics(QUERY, [1], VALUE), "attention_statistics: key: expected a tensor, got a list"),
    "attn_mask": (
        lambda: cogwheel.scaled_dot_product_attention(QUERY, KEY, VALUE, [[True]]),
        "scaled_dot_product_attention: attn_mask: expected a tensor, got a list",
    ),
    "dropout_p": (
        lambda: cogwheel.scaled_dot_product_attention(QUERY, KEY, VALUE, None, "0"),
        "scaled_dot_product_attention: dropout_p: expected a number, got a str",
    ),
    "batch": (lambda: cogwheel.KeyValueCache("2", 1, 8, 16), "cache: batch: expected an integer of 64 bits, got a str"),
    "value_dim": (lambda: cogwheel.KeyValueCache(1, 1, 8, 16, 1.5), "cache: value_dim: expected an integer of 64 bits, got 1.5"),
    "dtype": (lambda: cogwheel.KeyValueCache(1, 1, 8, 16, dtype="float32"), "cache: dtype: expected a torch.dtype, got a str"),
    "append": (lambda: fresh_cache().append(KEY, None), "cache: value: expected a tensor, got None"),
    "lengths": (lambda: fresh_cache().append(KEY[:, :, :1], VALUE[:, :, :1], [1]), "cache: lengths: expected a tensor, got a list"),
    "query_lengths": (lambda: fresh_cache().attend(QUERY, query_lengths=[5]), "cache: query_lengths: expected a tensor, got a list"),
    "crop": (lambda: fresh_cache().crop([1]), "cache: lengths: expected an integer of 64 bits or a tensor, got a list"),
    "crop beyond int64": (lambda: fresh_cache().crop(2**70), f"cache: lengths: expected an integer of 64 bits or a tensor, got {2**70}"),
    "fork of a number": (lambda: fresh_cache().fork(0), "cache: entries: expected a tensor or a list of integers, got 0"),
    "fork of fractions": (lambda: fresh_cache().fork([0.5]), "cache: entries: expected a tensor or a list of integers, got a list"),
    "fork of a tensor of fractions": (lambda: fresh_cache().fork(torch.tensor([0.5])), "cache: fork: expected int64 [entries] on the cpu, got Float [1]"),
    "crop to None": (lambda: fresh_cache().crop(None), "cache: crop: expected int64 [1] on the cpu, got nothing"),
    "beyond 64 bits of memory": (
        lambda: cogwheel.KeyValueCache(1, 8, 2**60, 64), "cache: memory: expected fewer than 2^63 bytes, got 2361183241434822606848"
    ),
    "a sparse query": (lambda: cogwheel.attention(QUERY.to_sparse(), KEY, VALUE), "attention: query: expected a dense tensor, got Sparse"),
    "a formula that is a number": (lambda: cogwheel.mechanism("mine", 1, "1"), "mechanism: f: expected a string, got 1"),
    "a mechanism without a name": (lambda: cogwheel.mechanism(None, "s", "1"), "mechanism: name: expected a string, got None"),
    "parameters of a mechanism": (
        lambda: cogwheel.mechanism("mine", "t*s", "1", parameters={"t": None}),
        "mechanism: parameters: expected a dict of names and numbers, got a dict",
    ),
    "window=0 without causal": (lambda: cogwheel.attention(QUERY, KEY, VALUE, window=0), "attention: window: expected 1 or more, got 0"),
    "window=-1": (lambda: cogwheel.attention(QUERY, KEY, VALUE, window=-1), "attention: window: expected 1 or more, got -1"),
    "window without causal": (lambda: cogwheel.attention(QUERY, KEY, VALUE, window=1), "attention: window: expected causal=True beside it, got causal=False"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", OTHERS)
def test_every_function_says_what_is_wrong(mistake):
    call, line = OTHERS[mistake]
    assert refused(call) == line


def test_what_python_and_pytorch_say_themselves_stays():
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'value'"):
        cogwheel.attention(QUERY, KEY)
    changed = VALUE.clone()
    out = cogwheel.attention(QUERY.clone().requires_grad_(), KEY, changed)
    changed.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_signatures_are_those_that_are_documented():
    parameters = inspect.signature(cogwheel.attention).parameters
    assert list(parameters)[:5] == ["query", "key", "value", "mechanism", "causal"]
    assert cogwheel.attention.__doc__.startswith("Attention of every query")


def test_python_adds_little_to_an_operator():
    """Over the operator with the same arguments, on few numbers: at most 1.3 of its time, and twice as much more while the machine is shared."""
    small = [tensor[:, :1] for tensor in (QUERY, KEY, VALUE)]
    operator, none = torch.ops.cogwheel.attention.default, {"parameters": [], "parameter_names": []}
    sink = torch.zeros(1)
    pairs = [
        (lambda: cogwheel.attention(*small, "cog", causal=True), lambda: operator(*small, "cog", causal=True, **none)),
        (
            lambda: cogwheel.attention(*small, "softmax_off_by_one", causal=True, window=3, sink=sink),
            lambda: operator(
                *small, "softmax_off_by_one", causal=True, window=3, parameters=[sink], parameter_names=["sink"]
            ),
        ),
    ]
    with torch.no_grad():
        for python, alone in pairs:
            rounds = [[timeit.timeit(call, number=50) / 50 for call in (python, alone)] for _ in range(60)]
            share = min(first for first, _ in rounds) / min(second for _, second in rounds)
            assert share < 1.6, f"{share:.2f}"
