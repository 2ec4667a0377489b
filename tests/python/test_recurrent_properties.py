"""Mechanisms with a state cut anywhere, packed, cached, with any strides, and what a token changes."""

import math

import pytest
import torch
from recurrent_problem import LAWS, Problem, expect_close, fused, same_bits

import cogwheel


@pytest.mark.parametrize("case", LAWS)
def test_any_split_with_its_state_gives_the_whole(case):
    problem = Problem(case, 70)
    inputs = {name: tensor.float() for name, tensor in problem.inputs.items()}
    whole, last = problem.call(fused, inputs)
    for cuts in ([1, 69], [33, 1, 36], [64, 6]):
        state, parts, begin = {}, [], 0
        for length in cuts:
            output, given = problem.call(fused, problem.cut(inputs, begin, begin + length) | state)
            state = dict(zip(problem.state_names, given))
            parts.append(output)
            begin += length
        for found, right in zip([torch.cat(parts, 2), *state.values()], [whole, *last], strict=True):
            if case == "cosformer":  # counts positions from the first token of a call, and so rounds other angles
                torch.testing.assert_close(found, right, rtol=1e-5, atol=1e-5)
            else:
                assert torch.equal(found, right)


def test_cosformer_cut_anywhere_is_the_whole_but_for_rounding():
    """In float64 nothing but the rounding of its angles is left."""
    problem = Problem("cosformer", 70)
    whole, last = problem.call(fused, problem.inputs)
    first, state = problem.call(fused, problem.cut(problem.inputs, 0, 33))
    second, found = problem.call(fused, problem.cut(problem.inputs, 33, 70) | dict(zip(problem.state_names, state)))
    assert torch.equal(first, whole[:, :, :33])
    for ours, right in zip([second, *found], [whole[:, :, 33:], *last], strict=True):
        torch.testing.assert_close(ours, right, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_random_features_are_the_same_bits_wherever_the_text_is_cut(dtype):
    """Of one token a matrix product takes another order than of many."""
    query, key, value = torch.randn(3, 2, 3, 45, 20, generator=torch.Generator().manual_seed(3)).to(dtype)
    projection = torch.randn(3, 20, 24, generator=torch.Generator().manual_seed(4)).to(dtype)
    given = {"feature_map": "random_fourier", "projection": projection, "normalize": True, "return_state": True}
    whole, last = cogwheel.recurrent(query, key, value, "linear_attention", **given)
    for cuts in ([1] * 45, [44, 1], [7, 1, 33, 4]):
        state, parts = None, []
        for q, k, v in zip(*(each.split(cuts, 2) for each in (query, key, value))):
            output, state = cogwheel.recurrent(q, k, v, "linear_attention", initial_state=state, **given)
            parts.append(output)
        assert torch.equal(torch.cat(parts, 2), whole) and all(map(torch.equal, state, last))
    angles = torch.einsum("bhnd,hdr->bhnr", query.double(), projection.double())
    found = torch.ops.cogwheel.projected_rows(query, projection)
    torch.testing.assert_close(found.double(), angles, rtol=0, atol=1e-5 if dtype == torch.float32 else 1e-13)


@pytest.mark.parametrize("case", LAWS)
def test_no_heads_have_no_gradients_but_empty_ones(case):
    results = Problem(case, 5, heads=0).results(fused, torch.float32)
    assert all(each.numel() == 0 or not each.any() for each in results.values())


@pytest.mark.parametrize("with_state", [False, True], ids=["from_nothing", "from_a_state"])
@pytest.mark.parametrize("case", LAWS)
def test_packed_sequences_are_each_their_own(case, with_state):
    """Sequences of several chunks, of one token and of none."""
    lengths = [33, 0, 40, 0, 1, 3]
    ends = torch.tensor([0, *lengths]).cumsum(0).int()
    problem = Problem(case, sum(lengths), batch=1)
    if with_state:
        problem.inputs |= Problem(case, 0, batch=len(lengths), with_state=True, seed=1).drawn_state()

    def packed(*given, **options):
        return fused(*given, cu_seqlens=ends, **options)

    def alone(query, key, value, law, state, **given):
        def of_sequence(i, name, each):
            return each[:, :, ends[i] : ends[i + 1]] if each is not None and "N" in problem.axes[name] else each

        outputs, states = [], []
        for i in range(len(lengths)):
            own = None if state is None else tuple(each[i : i + 1] for each in (state if isinstance(state, tuple) else (state,)))
            tensors = [of_sequence(i, name, each) for name, each in {"query": query, "key": key, "value": value}.items()]
            options = {name: of_sequence(i, name, each) if name in problem.axes else each for name, each in given.items()}
            output, last = fused(*tensors, law, own, **options)
            outputs.append(output)
            states.append(last if isinstance(last, tuple) else (last,))
        return torch.cat(outputs, 2), tuple(torch.cat(each) for each in zip(*states))

    whole = {f"d{name}" for name in problem.inputs if name not in (*problem.of_tokens(), *problem.state_names)}
    for dtype, bound in ((torch.float32, 1e-5), (torch.float64, 1e-9)):
        found, expected = (problem.results(function, dtype) for function in (packed, alone))
        for name in whole:  # summed in another order
            torch.testing.assert_close(found.pop(name), expected.pop(name), rtol=bound, atol=bound)
        assert same_bits(found, expected)


@pytest.mark.parametrize("case", LAWS)
def test_a_change_at_a_token_changes_no_bit_before_it(case):
    """NaN where it is taken, which gates refuse."""
    problem = Problem(case, 70)
    inputs = {name: tensor.float() for name, tensor in problem.inputs.items()}
    before, _ = problem.call(fused, inputs)
    others = {"log_decay": -30.0, "gate": 9.0, "beta": 0.0, "step": 3.0}  # by how a tensor is drawn
    for name in problem.of_tokens():
        changed = inputs | {name: inputs[name].clone()}
        changed[name][:, :, 41] = others.get(problem.how[name], math.nan)
        after, _ = problem.call(fused, changed)
        assert torch.equal(after[:, :, :41], before[:, :, :41]), name
        if problem.how[name] in others:  # RWKV-6 reads before it decays
            assert not torch.equal(after[:, :, 41:43], before[:, :, 41:43]), name
        else:
            assert after[:, :, 41].isnan().all(), name


@pytest.mark.parametrize("case", LAWS)
def test_any_strides(case):
    problem = Problem(case, 40)
    expected = problem.results(fused, torch.float32)
    for first, second in ((1, 2), (2, -1), (0, 1)):
        for name, each in problem.inputs.items():
            if each.dim() > max(first, second):
                problem.inputs[name] = each.transpose(first, second).contiguous().transpose(first, second)
        found = problem.results(fused, torch.float32)
        if case == "rwkv6":  # ATen sums q·(u∘k) in an order that depends on strides
            expect_close(found, {name: each.double() for name, each in expected.items()}, 1e-6, 1e-6)
        else:
            assert same_bits(found, expected)


@pytest.mark.parametrize("case", [case for case, law in LAWS.items() if law.queries])
def test_weights_times_values_are_the_output(case):
    problem = Problem(case, 17)
    output, _ = problem.call(fused, problem.inputs)
    rest = {name: each for name, each in problem.inputs.items() if name not in ("query", "key", "value")} | problem.options
    query, key, value = (problem.inputs.get(name) for name in ("query", "key", "value"))
    weights = cogwheel.recurrent_weights(query, key, problem.law, **rest)
    if case == "dfw" or problem.elements:
        assert weights.shape == (2, 3, 37, 17, 17)
        torch.testing.assert_close(torch.einsum("bhcij,bhjc->bhic", weights, value), output)
    else:
        assert weights.shape == (2, 3, 17, 17)
        torch.testing.assert_close(weights @ value, output)
    assert torch.equal(weights, weights.tril())
    found, rows = cogwheel.recurrent_statistics(query, key, value, problem.law, **rest)
    assert torch.equal(found, output)
    assert rows.entropy.shape == weights.shape[:-1]
    torch.testing.assert_close(rows.sum, weights.sum(-1))
    assert torch.equal(rows.argmax, torch.where(weights.abs().amax(-1) == 0, -1, weights.abs().argmax(-1)))


@pytest.mark.parametrize("case", LAWS)
def test_a_cache_decodes_as_the_whole(case):
    problem = Problem(case, 12)
    whole, _ = problem.call(fused, problem.inputs)
    cache = cogwheel.RecurrentCache(problem.law, 2, 3, problem.sizes["D"], 37, dtype=torch.float64)

    def expect_same(found, expected):
        if case == "cosformer":  # as above
            torch.testing.assert_close(found, expected)
        else:
            assert torch.equal(found, expected)

    def attend(to, begin, end, **given):
        part = problem.cut(problem.inputs, begin, end)
        query, key, value = (part.pop(name, None) for name in ("query", "key", "value"))
        return to.attend(query, key, value, **part, **problem.options, **given)

    assert cache.state is None
    expect_same(attend(cache, 0, 7), whole[:, :, :7])
    other = cache.fork([1, 0, 1])
    expect_same(attend(cache, 7, 8), whole[:, :, 7:8])
    # Entry 1 has two tokens more, entry 0 none.
    ragged = attend(cache, 8, 11, lengths=torch.tensor([0, 2]))
    expect_same(ragged[1, :, :2], whole[1, :, 8:10])
    assert ragged[0].abs().sum() == 0 and ragged[1, :, 2:].abs().sum() == 0
    assert cache.lengths.tolist() == [8, 10] and other.lengths.tolist() == [7, 7, 7]
    expect_same(attend(cache, 10, 11, lengths=torch.tensor([0, 1]))[1], whole[1, :, 10:11])
    expect_same(attend(cache, 8, 9, lengths=torch.tensor([1, 0]))[0], whole[0, :, 8:9])
    state = other.state if isinstance(other.state, tuple) else (other.state,)
    assert all(torch.equal(each[0], each[2]) for each in state)
    if problem.law != "s4":
        width = problem.sizes["D"]
        with pytest.raises(ValueError, match=rf"recurrent cache: query: expected \[2, 3, tokens, {width}\], got \[1, 3, 1, {width}\]"):
            cache.attend(torch.ones(1, 3, 1, width), None, torch.ones(1, 3, 1, 37))
    assert cache.lengths.tolist() == [9, 11]
    cache.free()
    with pytest.raises(ValueError, match="recurrent cache: lengths: expected a cache in use, got one that was freed"):
        cache.lengths


def test_a_cache_knows_a_projection_from_tokens():
    # Random features [H, D, R], with as many heads as entries and as many of them as tokens.
    query, key, value = torch.randn(3, 2, 2, 4, 5)
    given = {"feature_map": "random_fourier", "projection": torch.randn(2, 5, 4)}
    whole = cogwheel.recurrent(query, key, value, "linear_attention", **given)
    cache = cogwheel.RecurrentCache("linear_attention", 2, 2, 5)
    found = cache.attend(query, key, value, lengths=torch.tensor([4, 3]), **given)
    assert torch.equal(found[0], whole[0]) and torch.equal(found[1, :, :3], whole[1, :, :3])
