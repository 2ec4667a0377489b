"""What mechanisms with a state are equal to: each other, their weights, their parts, and themselves step by step."""

import math

import pytest
import torch
from recurrent_reference import FEATURES, LAWS, WHOLE, Problem, cosine_weights, expect_close, fused, state_names, token_loop

import cogwheel


def test_masked_cumulative_and_recurrent_linear_attention_agree():
    query, key, value = (torch.randn(2, 2, 50, 8, dtype=torch.float64) for _ in range(3))
    recurrent = cogwheel.recurrent(query, key, value, "linear_attention", scale=1.0)
    masked = torch.tril(query @ key.mT) @ value
    cumulative = torch.einsum("bhnd,bhndv->bhnv", query, torch.einsum("bhnd,bhnv->bhndv", key, value).cumsum(2))
    torch.testing.assert_close(recurrent, masked)
    torch.testing.assert_close(recurrent, cumulative)


def test_without_decay_every_law_is_linear_attention():
    query, key, value = (torch.randn(2, 2, 50, 8) for _ in range(3))
    linear = cogwheel.recurrent(query, key, value, "linear_attention")
    for law, gates in {
        "retnet": {"decay": torch.ones(2)},
        "mamba2": {"log_decay": torch.zeros(2, 2, 50)},
        "gla": {"log_decay": torch.zeros(2, 2, 50, 8)},
    }.items():
        torch.testing.assert_close(cogwheel.recurrent(query, key, value, law, **gates), linear)


PACKED = ["linear_elu_normalized", "retnet", "gla", "dfw", "rwkv6", "mlstm", "abc_decaying", "cosformer"]


@pytest.mark.parametrize("with_state", [False, True], ids=["from_nothing", "from_a_state"])
@pytest.mark.parametrize("case", PACKED)
def test_packed_sequences_are_each_their_own(case, with_state):
    lengths = [3, 0, 40, 0, 1]
    ends = torch.tensor([0, *lengths]).cumsum(0).int()
    parts = [Problem(case, length, batch=1, with_state=with_state, seed=length + i) for i, length in enumerate(lengths)]
    names = state_names(parts[0].law, parts[0].options)
    shared = {name: each for name, each in parts[2].inputs.items() if name in WHOLE}
    inputs = dict(shared)
    for name in parts[2].inputs.keys() - shared.keys():
        along = 0 if name in names else 2
        inputs[name] = torch.cat([part.inputs[name] for part in parts], along)
    inputs = {name: each.requires_grad_() for name, each in inputs.items()}
    output, state = parts[2].call(lambda *given, **options: fused(*given, cu_seqlens=ends, **options), inputs)
    begin, expected, last = 0, [], []
    for i, length in enumerate(lengths):
        of_part = {
            name: each if name in shared else each[i : i + 1] if name in names else each[:, :, begin : begin + length]
            for name, each in inputs.items()
        }
        one, end = parts[2].call(fused, of_part)
        expected.append(one)
        last.append(end if isinstance(end, tuple) else (end,))
        begin += length
    expected, last = torch.cat(expected, 2), [torch.cat(each) for each in zip(*last)]
    bound = {"rtol": 1e-9, "atol": 1e-9}
    torch.testing.assert_close(output, expected, **bound)
    states = state if isinstance(state, tuple) else (state,)
    for found, right in zip(states, last, strict=True):
        torch.testing.assert_close(found, right, **bound)
    ours = torch.autograd.grad(output.square().sum() + states[0].square().sum(), list(inputs.values()), materialize_grads=True)
    theirs = torch.autograd.grad(expected.square().sum() + last[0].square().sum(), list(inputs.values()), materialize_grads=True)
    for name, found, right in zip(inputs, ours, theirs):
        torch.testing.assert_close(found, right, **bound, msg=name)


@pytest.mark.parametrize("log_decay", [-50.0, -math.inf])
def test_extreme_decays_of_columns(log_decay):
    problem = Problem("dfw", 70, with_state=True)
    problem.inputs["log_value_decay"][:, :, ::3, ::2] = log_decay
    expect_close(problem.results(fused, torch.float32), problem.results(token_loop, torch.float64), 5e-5, 3e-4)


def test_extreme_gates_of_mlstm():
    problem = Problem("mlstm", 70, with_state=True)
    generator = torch.Generator().manual_seed(3)
    for name in ("input_gate", "forget_gate"):
        signs = torch.randint(3, problem.inputs[name].shape, generator=generator) - 1
        problem.inputs[name] = (80 * signs).double()
    expected, found = problem.results(token_loop, torch.float64), problem.results(fused, torch.float32)
    assert all(torch.isfinite(each).all() for each in found.values())
    assert (found["output"].double() - expected["output"]).abs().max() <= 1e-3 * expected["output"].abs().max()


def test_the_bonus_is_the_weight_of_the_token_itself():
    query, key, value = (torch.randn(2, 3, 20, 8, dtype=torch.float64) for _ in range(3))
    still = {"log_decay": torch.zeros(2, 3, 20, 8, dtype=torch.float64)}
    with_itself = cogwheel.recurrent(query, key, value, "rwkv6", bonus=torch.ones(3, 8, dtype=torch.float64), **still)
    torch.testing.assert_close(with_itself, cogwheel.recurrent(query, key, value, "linear_attention"))
    alone = cogwheel.recurrent(query, key, value, "rwkv6", bonus=torch.zeros(3, 8, dtype=torch.float64), **still)
    torch.testing.assert_close(alone[:, :, 1:] * math.sqrt(8), (torch.tril(query @ key.mT, -1) @ value)[:, :, 1:])


def test_cosformer_weights_are_cosines():
    query, key, value = (torch.randn(2, 3, 30, 8, dtype=torch.float64) for _ in range(3))
    weights = cosine_weights(query, key, 45.0)
    for causal in (True, False):
        seen = torch.tril(weights) if causal else weights
        total = seen.sum(-1, keepdim=True)
        expected = torch.where(total == 0, 0.0, seen / torch.where(total == 0, 1.0, total))
        found = cogwheel.recurrent(query, key, value, "cosformer", horizon=45, causal=causal)
        torch.testing.assert_close(found, expected @ value)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("feature_map", ["elu_plus_one", "unit", "random_fourier"])
def test_every_token_sees_all(feature_map, normalize):
    query, key, value = (torch.randn(2, 3, 30, 8, dtype=torch.float64, requires_grad=True) for _ in range(3))
    own = {"projection": torch.randn(3, 8, 6, dtype=torch.float64, requires_grad=True)} if feature_map == "random_fourier" else {}
    options = {"feature_map": feature_map, "normalize": normalize, **own}

    def features(x):
        if feature_map == "unit":
            return torch.cat([torch.ones_like(x[..., :1]), x / x.norm(dim=-1, keepdim=True)], -1)
        if feature_map == "random_fourier":
            return torch.cat([torch.sin(x @ own["projection"]), torch.cos(x @ own["projection"])], -1) / math.sqrt(6)
        return FEATURES[feature_map](x)

    for causal in (False, True):
        weights = features(query) @ features(key).mT
        weights = torch.tril(weights) if causal else weights
        expected = (weights / weights.sum(-1, keepdim=True) if normalize else weights / math.sqrt(8)) @ value
        found = cogwheel.recurrent(query, key, value, "linear_attention", causal=causal, **options)
        torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-7)
        tensors = [query, key, value, *own.values()]
        for ours, right in zip(torch.autograd.grad(found.square().sum(), tensors), torch.autograd.grad(expected.square().sum(), tensors)):
            torch.testing.assert_close(ours, right, rtol=1e-6, atol=1e-6 * right.abs().max())


def test_unit_features_normalised_are_the_mechanism_norm():
    query, key, value = (torch.randn(2, 3, 30, 8, dtype=torch.float64) for _ in range(3))
    found = cogwheel.recurrent(query, key, value, "linear_attention", feature_map="unit", normalize=True)
    torch.testing.assert_close(found, cogwheel.attention(query, key, value, "norm", causal=True))


@pytest.mark.parametrize("case", LAWS)
def test_weights_times_values_are_the_output(case):
    problem = Problem(case, 17)
    output, _ = problem.call(fused, problem.inputs)
    rest = {name: each for name, each in problem.inputs.items() if name not in ("query", "key", "value")} | problem.options
    weights = cogwheel.recurrent_weights(problem.inputs["query"], problem.inputs.get("key"), problem.law, **rest)
    value = problem.inputs["value"]
    if case == "dfw":
        assert weights.shape == (2, 3, 37, 17, 17)
        torch.testing.assert_close(torch.einsum("bhcij,bhjc->bhic", weights, value), output)
    else:
        assert weights.shape == (2, 3, 17, 17)
        torch.testing.assert_close(weights @ value, output)
    assert torch.equal(weights, weights.tril())
    found, rows = cogwheel.recurrent_statistics(problem.inputs["query"], problem.inputs.get("key"), value, problem.law, **rest)
    assert torch.equal(found, output)
    torch.testing.assert_close(rows.sum, weights.sum(-1))
    assert torch.equal(rows.argmax, torch.where(weights.abs().amax(-1) == 0, -1, weights.abs().argmax(-1)))


CACHED = ["linear_elu_normalized", "retnet", "dfw", "rwkv6", "mlstm", "abc_decaying", "hgrn2"]


@pytest.mark.parametrize("case", CACHED)
def test_a_cache_decodes_as_the_whole(case):
    problem = Problem(case, 12)
    inputs, own = problem.inputs, problem.inputs.keys() - {"query", "key", "value"}
    options = {name: each for name, each in problem.options.items() if name != "horizon"}
    whole, _ = problem.call(fused, inputs)
    cache = cogwheel.RecurrentCache(problem.law, 2, 3, 12, 37, dtype=torch.float64)

    def attend(to, begin, end, **given):
        part = {name: each if name in WHOLE else each[:, :, begin:end] for name, each in inputs.items()}
        gates = {name: part[name] for name in own}
        return to.attend(part["query"], part.get("key"), part["value"], **gates, **options, **given)

    assert cache.state is None
    torch.testing.assert_close(attend(cache, 0, 7), whole[:, :, :7])
    other = cache.fork([1, 0, 1])
    torch.testing.assert_close(attend(cache, 7, 8), whole[:, :, 7:8])
    # Entry 1 has two tokens more, entry 0 none.
    ragged = attend(cache, 8, 11, lengths=torch.tensor([0, 2]))
    torch.testing.assert_close(ragged[1, :, :2], whole[1, :, 8:10])
    assert ragged[0].abs().sum() == 0 and ragged[1, :, 2:].abs().sum() == 0
    assert cache.lengths.tolist() == [8, 10] and other.lengths.tolist() == [7, 7, 7]
    torch.testing.assert_close(attend(cache, 10, 11, lengths=torch.tensor([0, 1]))[1], whole[1, :, 10:11])
    torch.testing.assert_close(attend(cache, 8, 9, lengths=torch.tensor([1, 0]))[0], whole[0, :, 8:9])
    state = other.state if isinstance(other.state, tuple) else (other.state,)
    assert all(torch.equal(each[0], each[2]) for each in state)
    with pytest.raises(ValueError, match=r"recurrent cache: query: expected \[2, 3, tokens, 12\], got \[1, 3, 1, 12\]"):
        cache.attend(torch.ones(1, 3, 1, 12), None, torch.ones(1, 3, 1, 37))
    assert cache.lengths.tolist() == [9, 11]
    cache.free()
    with pytest.raises(ValueError, match="recurrent cache: lengths: expected a cache in use, got one that was freed"):
        cache.lengths
