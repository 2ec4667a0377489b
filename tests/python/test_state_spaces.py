"""State spaces whose every element decays by itself, against a loop over tokens in float64 that is written from the papers."""

import math
import os
import subprocess
import sys

import emulated_device
import pytest
import torch

import cogwheel


def token_loop(query, key, value, law, state=None, *, delta, a, b=None, c=None, skip=None, scale=1.0):
    """Outputs and the last state, token by token, each sum as it stands."""
    batch, heads, tokens, value_width = value.shape
    state = value.new_zeros(batch, heads, a.shape[-2], value_width) if state is None else state
    # Unbound, because the gradient of each slice would be as large as the whole.
    values = value.unbind(2)
    if law == "mamba":
        queries, keys, deltas = query.unbind(2), key.unbind(2), delta.unbind(2)
    outputs = []
    for t in range(tokens):
        v = values[t]
        if law == "mamba":
            state = torch.exp(deltas[t][:, :, None, :] * a) * state + keys[t][..., None] * (deltas[t] * v)[:, :, None, :]
            o = torch.einsum("bhd,bhdv->bhv", queries[t], state)
        else:
            state = torch.exp(delta[:, None, :] * a) * state + b * v[:, :, None, :]
            o = (c * state).sum(2)
        outputs.append(scale * o + (0 if skip is None else skip * v))
    return torch.stack(outputs, 2) if outputs else value.new_zeros(value.shape), state


def fused(query, key, value, law, state, **given):
    return cogwheel.recurrent(query, key, value, law, initial_state=state, return_state=True, **given)


# name: the law, and which of its tensors all heads share.
CASES = {
    "mamba": ("mamba", ()),
    "mamba_shared": ("mamba", ("a", "skip")),
    "mamba_scaled": ("mamba", ("a",)),
    "s4": ("s4", ()),
    "s4_scaled": ("s4", ()),
}


class Problem:
    """Numbers of a call in float64, which a cast to float32 leaves as they are."""

    def __init__(self, case, tokens, *, batch=2, heads=3, width=5, value_width=37, with_state=False, seed=0):
        generator = torch.Generator().manual_seed(seed)

        def drawn(*shape, uniform=False):
            return (torch.rand if uniform else torch.randn)(*shape, generator=generator).double()

        self.law, shared = CASES[case]
        self.options = {"scale": 0.375} if case.endswith("scaled") else {}
        of_head = {name: () if name in shared else (heads,) for name in ("a", "skip")}
        self.inputs = {"value": drawn(batch, heads, tokens, value_width)}
        # Rates from about 1 to about D, as S4D and Mamba begin with, and steps up to 1.
        self.inputs["a"] = (-width * drawn(*of_head["a"], width, value_width, uniform=True) - 0.0625).float().double()
        if self.law == "mamba":
            self.inputs["query"] = drawn(batch, heads, tokens, width)
            self.inputs["key"] = drawn(batch, heads, tokens, width)
            self.inputs["delta"] = drawn(batch, heads, tokens, value_width, uniform=True)
        else:
            self.inputs["delta"] = drawn(heads, value_width, uniform=True)
            self.inputs["b"] = drawn(heads, width, value_width)
            self.inputs["c"] = drawn(heads, width, value_width)
        if not case.endswith("scaled"):
            self.inputs["skip"] = drawn(*of_head["skip"], value_width)
        if with_state:
            self.inputs["S"] = drawn(batch, heads, width, value_width)

    def call(self, function, inputs):
        rest = dict(inputs)
        query, key, value, state = (rest.pop(name, None) for name in ("query", "key", "value", "S"))
        return function(query, key, value, self.law, state, **rest, **self.options)

    def results(self, function, dtype):
        """Outputs, states and every gradient, by name."""
        inputs = {name: tensor.to(dtype, copy=True).requires_grad_() for name, tensor in self.inputs.items()}
        output, state = self.call(function, inputs)
        made = {"output": output, "state": state}
        generator = torch.Generator().manual_seed(1)
        weights = {name: torch.randn(each.shape, generator=generator).to(dtype) for name, each in made.items()}
        total = sum((each * weights[name]).sum() for name, each in made.items())
        gradients = torch.autograd.grad(total, list(inputs.values()), materialize_grads=True)
        found = {name: each.detach() for name, each in made.items()}
        return found | {f"d{name}": each for name, each in zip(inputs, gradients)}


def expect_close(found, expected, forward, backward):
    """To a share of the largest element."""
    assert found.keys() == expected.keys()
    for name, right in expected.items():
        bound = backward if name.startswith("d") else forward
        assert found[name].shape == right.shape and torch.isfinite(found[name]).all(), name
        error = (found[name].double() - right).abs().max().item() if right.numel() else 0
        scale = max(right.abs().max().item(), 1e-3) if right.numel() else 1
        assert error <= bound * scale, f"{name}: {error / scale:.2e} of the largest element"


def expect_as_the_loop(problem):
    expected = problem.results(token_loop, torch.float64)
    expect_close(problem.results(fused, torch.float64), expected, 1e-9, 1e-9)
    expect_close(problem.results(fused, torch.float32), expected, 2e-5, 1e-4)


@pytest.mark.diagonal("case")
@pytest.mark.parametrize("with_state", [False, True], ids=["from_nothing", "from_a_state"])
@pytest.mark.parametrize("tokens", [1, 63, 64, 65, 200])
@pytest.mark.parametrize("case", CASES)
def test_outputs_states_and_gradients(case, tokens, with_state):
    expect_as_the_loop(Problem(case, tokens, with_state=with_state))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_thousand_tokens(case):
    expect_as_the_loop(Problem(case, 1000, with_state=True))


# Blocks of columns of every kind: whole, cut, single, several in a task and several tasks for a head.
@pytest.mark.parametrize(
    "heads, width, value_width", [(1, 1, 1), (1, 16, 64), (1, 16, 300), (2, 3, 130), (9, 2, 150), (1, 130, 16), (1, 256, 3)]
)
@pytest.mark.parametrize("case", ["mamba_shared", "s4"])
def test_widths(case, heads, width, value_width):
    expect_as_the_loop(Problem(case, 34, batch=1, heads=heads, width=width, value_width=value_width, with_state=True))


@pytest.mark.parametrize("case", CASES)
def test_no_token_leaves_the_state(case):
    problem = Problem(case, 0, with_state=True)
    output, state = problem.call(fused, problem.inputs)
    assert output.shape == problem.inputs["value"].shape and torch.equal(state, problem.inputs["S"])
    gradients = problem.results(fused, torch.float64)
    assert gradients["dS"].abs().sum() > 0  # the last state is the first
    assert all(gradients[name].abs().sum() == 0 for name in gradients if name.startswith("d") and name != "dS")


@pytest.mark.parametrize("case", ["mamba", "s4"])
def test_no_batch_has_no_gradient(case):
    found = Problem(case, 3, batch=0).results(fused, torch.float32)
    assert all(each.numel() == 0 or each.abs().sum() == 0 for each in found.values())


@pytest.mark.parametrize("case", CASES)
def test_any_split_with_its_state_gives_the_whole(case):
    problem = Problem(case, 70)
    inputs = {name: tensor.float() for name, tensor in problem.inputs.items()}
    whole, last = problem.call(fused, inputs)
    of_tokens = [name for name, each in inputs.items() if each.dim() == 4]
    for cuts in ([1, 69], [33, 1, 36], [64, 6]):
        state, parts, begin = {}, [], 0
        for length in cuts:
            part = {name: inputs[name][:, :, begin : begin + length] for name in of_tokens}
            output, state["S"] = problem.call(fused, inputs | part | state)
            parts.append(output)
            begin += length
        assert torch.equal(torch.cat(parts, 2), whole) and torch.equal(state["S"], last)


@pytest.mark.parametrize("extreme", ["a_large", "delta_zero", "delta_large", "b_zero"])
@pytest.mark.parametrize("case", ["mamba", "s4"])
def test_extreme_transitions(case, extreme):
    problem = Problem(case, 70, with_state=True)
    if extreme == "a_large":
        problem.inputs["a"][..., ::2, :] = -1e3
    elif extreme == "delta_zero":
        problem.inputs["delta"][..., ::3, :] = 0
    elif extreme == "delta_large":
        problem.inputs["delta"][..., ::3, :] = 1e4
    elif case == "s4":
        problem.inputs["b"][:, ::2] = 0
    else:
        problem.inputs["key"][:, :, ::2] = 0
    expected = problem.results(token_loop, torch.float64)
    expect_close(problem.results(fused, torch.float32), expected, 5e-5, 1e-4)


def test_all_is_kept_where_no_step_is_taken():
    problem = Problem("mamba", 40, with_state=True)
    problem.inputs["delta"].zero_()
    _, state = problem.call(fused, problem.inputs)
    assert torch.equal(state, problem.inputs["S"])


@pytest.mark.parametrize("case", ["mamba", "s4"])
def test_a_change_at_a_token_changes_no_bit_before_it(case):
    problem = Problem(case, 70)
    inputs = {name: tensor.float() for name, tensor in problem.inputs.items()}
    before, _ = problem.call(fused, inputs)
    for name in ("query", "key", "value"):
        if name in inputs:
            changed = inputs | {name: inputs[name].clone()}
            changed[name][:, :, 41] = math.nan
            after, _ = problem.call(fused, changed)
            assert torch.equal(after[:, :, :41], before[:, :, :41]) and after[:, :, 41].isnan().all()


@pytest.mark.parametrize("case, heads", [("mamba_shared", 1), ("mamba", 3), ("s4", 1)])
def test_same_bits_for_any_number_of_threads(case, heads):
    problem, threads = Problem(case, 100, heads=heads, width=7, value_width=300), torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = problem.results(fused, torch.float32)
        torch.set_num_threads(4)
        four = problem.results(fused, torch.float32)
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(one[name], four[name]) for name in one)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("case", ["mamba", "s4"])
def test_16_bits(case, dtype):
    problem = Problem(case, 65)
    half = {name: tensor.to(dtype).requires_grad_() for name, tensor in problem.inputs.items()}
    output, state = problem.call(fused, half)
    assert output.dtype == dtype and state.dtype == torch.float32
    exact, _ = problem.call(token_loop, {name: tensor.detach().double() for name, tensor in half.items()})
    torch.testing.assert_close(output.double(), exact, rtol=torch.finfo(dtype).eps, atol=1e-4)
    output.sum().backward()
    assert all(tensor.grad.dtype == dtype for tensor in half.values())


def test_s4_is_a_convolution():
    problem = Problem("s4", 50)
    value, delta, a, b, c, skip = (problem.inputs[name] for name in ("value", "delta", "a", "b", "c", "skip"))
    output, _ = problem.call(fused, problem.inputs)
    # Its kernel by powers of the transition, and the convolution by a Fourier transform.
    powers = torch.arange(50, dtype=torch.float64)[:, None, None, None]
    kernel = (c * b * torch.exp(delta[:, None, :] * a) ** powers).sum(2)  # [N, H, Dv]
    transformed = torch.fft.rfft(kernel, 100, dim=0).permute(1, 0, 2) * torch.fft.rfft(value, 100, dim=2)
    expected = torch.fft.irfft(transformed, 100, dim=2)[:, :, :50] + skip[:, None, :] * value
    torch.testing.assert_close(output, expected)


def test_mamba_with_constant_steps_keys_and_queries_is_s4():
    s4 = Problem("s4", 50, with_state=True)
    key, query = torch.randn(3, 5, dtype=torch.float64), torch.randn(3, 5, dtype=torch.float64)
    delta = s4.inputs["delta"]
    expected = s4.call(fused, s4.inputs | {
        "b": key[..., None] * delta[:, None, :],
        "c": query[..., None].expand(3, 5, 37),
    })  # fmt: skip
    found = cogwheel.recurrent(
        query[:, None, :].expand(2, 3, 50, 5), key[:, None, :].expand(2, 3, 50, 5), s4.inputs["value"], "mamba",
        delta=delta[:, None, :].expand(2, 3, 50, 37), a=s4.inputs["a"], skip=s4.inputs["skip"],
        initial_state=s4.inputs["S"], return_state=True,
    )  # fmt: skip
    torch.testing.assert_close(found, expected)


def test_mamba_with_one_rate_is_mamba2():
    """One Δ for all columns and one a: a decay for each token, and values times Δ (Dao and Gu 2024)."""
    query, key, value = (torch.randn(2, 3, 50, width, dtype=torch.float64) for width in (5, 5, 7))
    step = torch.rand(2, 3, 50, dtype=torch.float64)
    mamba = cogwheel.recurrent(
        query, key, value, "mamba", delta=step[..., None].expand(2, 3, 50, 7), a=torch.full((5, 7), -0.75, dtype=torch.float64)
    )
    mamba2 = cogwheel.recurrent(query, key, step[..., None] * value, "mamba2", log_decay=-0.75 * step, scale=1.0)
    torch.testing.assert_close(mamba, mamba2)


def test_any_strides():
    query, key = (torch.randn(2, 40, 3, 8).transpose(1, 2) for _ in range(2))
    value, delta = torch.randn(2, 40, 3, 9).transpose(1, 2), torch.rand(2, 40, 3, 9).transpose(1, 2)
    a = -torch.rand(9, 8).mT
    expected = cogwheel.recurrent(*(each.contiguous() for each in (query, key, value)), "mamba", delta=delta.contiguous(), a=a.contiguous())
    assert torch.equal(cogwheel.recurrent(query, key, value, "mamba", delta=delta, a=a), expected)
    widths_apart = [each.mT.contiguous().mT for each in (query, key, value)]
    assert torch.equal(cogwheel.recurrent(*widths_apart, "mamba", delta=delta.mT.contiguous().mT, a=a), expected)


@pytest.mark.parametrize("case", ["mamba_shared", "s4"])
def test_packed_sequences_are_those_alone(case):
    """Lengths of several chunks, one token and none."""
    problem, lengths = Problem(case, 70, batch=1), [33, 0, 1, 36]
    inputs = {name: each.clone().requires_grad_() for name, each in problem.inputs.items()}
    states = torch.randn(4, 3, 5, 37, dtype=torch.float64, requires_grad=True)
    ends = torch.tensor([0, *lengths]).cumsum(0)
    found = problem.call(lambda *args, **given: fused(*args, **given, cu_seqlens=ends), inputs | {"S": states})
    of_tokens = [name for name, each in inputs.items() if each.dim() == 4]
    outputs, last = [], []
    for i, length in enumerate(lengths):
        part = {name: inputs[name][:, :, ends[i] : ends[i] + length] for name in of_tokens}
        output, state = problem.call(fused, inputs | part | {"S": states[i : i + 1]})
        outputs.append(output)
        last.append(state)
    expected = (torch.cat(outputs, 2), torch.cat(last))
    assert torch.equal(found[0], expected[0]) and torch.equal(found[1], expected[1])
    tensors = [*inputs.values(), states]
    sums = [(output.square().sum() + state.square().sum()) for output, state in (found, expected)]
    for ours, right in zip(torch.autograd.grad(sums[0], tensors), torch.autograd.grad(sums[1], tensors)):
        torch.testing.assert_close(ours, right)


@pytest.mark.parametrize("case", ["mamba", "mamba_shared"])
def test_weights_times_values(case):
    problem = Problem(case, 9)
    inputs = dict(problem.inputs)
    query, key, value = (inputs.pop(name) for name in ("query", "key", "value"))
    weights = cogwheel.recurrent_weights(query, key, "mamba", **inputs)
    assert weights.shape == (2, 3, 37, 9, 9) and weights.triu(1).abs().max() == 0
    output, statistics = cogwheel.recurrent_statistics(query, key, value, "mamba", **inputs)
    torch.testing.assert_close(torch.einsum("bhvnm,bhmv->bhnv", weights, value), output)
    assert statistics.entropy.shape == (2, 3, 37, 9)


@pytest.mark.parametrize("case, heads", [("mamba", 2), ("s4", 2)])
def test_a_cache_continues(case, heads):
    """With as many heads as entries, and as many tokens as columns: what is of a head is not taken for a token's."""
    problem = Problem(case, 10, batch=heads, heads=heads, width=heads, value_width=4)
    inputs = {name: each.float() for name, each in problem.inputs.items()}
    expected, _ = problem.call(fused, inputs)
    cache = cogwheel.RecurrentCache(problem.law, heads, heads, heads, 4)
    of_tokens = [name for name, each in inputs.items() if each.dim() == 4]
    lengths = torch.tensor([4, 2])
    for begin, many in ((0, lengths), (4, None), (5, None)):
        count = 4 if begin == 0 else 1
        part = {name: inputs[name][:, :, begin : begin + count] for name in of_tokens}
        if begin:
            part = {name: torch.stack([inputs[name][i, :, begin - 4 + lengths[i]][:, None] for i in range(2)]) for name in of_tokens}
        given = inputs | part
        query, key, value = (given.pop(name, None) for name in ("query", "key", "value"))
        output = cache.attend(query, key, value, lengths=many, **given)
        for i in range(2):
            first = 0 if begin == 0 else begin - 4 + int(lengths[i])
            rows = int(lengths[i]) if begin == 0 else 1
            assert torch.equal(output[i, :, :rows], expected[i, :, first : first + rows])
    assert cache.lengths.tolist() == [6, 4]


def of_operator(problem, given):
    """The arguments of the operator, by name."""
    return {name: given.get(name) for name in ("value", "delta", "a", "query", "key", "b", "c", "skip")} | {
        "initial_state": given.get("S"), "scale": 0.5}  # fmt: skip


@pytest.mark.parametrize("case", ["mamba_shared", "s4"])
def test_registration(case):
    problem = Problem(case, 5, batch=1, heads=2, width=4, value_width=3, with_state=True)
    given = of_operator(problem, {name: tensor.requires_grad_() for name, tensor in problem.inputs.items()})
    torch.library.opcheck(torch.ops.cogwheel.state_space.default, (), given)
    detached = {name: each.detach() if isinstance(each, torch.Tensor) else each for name, each in given.items()}
    gradients = {"output_gradient": torch.randn(1, 2, 5, 3, dtype=torch.float64), "state_gradient": None}
    torch.library.opcheck(torch.ops.cogwheel.state_space_backward.default, (), gradients | detached)


@pytest.mark.parametrize("case", CASES)
def test_gradients_by_differences(case, fast_mode):
    problem = Problem(case, 4, batch=1, heads=2, width=3, value_width=2, with_state=True)
    names = list(problem.inputs)

    def outputs(*tensors):
        return problem.call(fused, dict(zip(names, tensors)))

    assert torch.autograd.gradcheck(outputs, [each.requires_grad_() for each in problem.inputs.values()], fast_mode=fast_mode)


@pytest.mark.parametrize("case", ["mamba", "s4"])
def test_compiled(case):
    problem = Problem(case, 5, batch=1, heads=2, width=4, value_width=3)
    compiled = torch.compile(fused, fullgraph=True, backend="aot_eager")
    found, expected = problem.results(compiled, torch.float64), problem.results(fused, torch.float64)
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("case", ["mamba", "s4"])
def test_a_device_without_kernels(case):
    problem = Problem(case, 5, batch=1, heads=2, width=4, value_width=3, with_state=True)
    here = {name: each.clone().requires_grad_() for name, each in problem.inputs.items()}
    there = {name: emulated_device.on_device(each).requires_grad_() for name, each in problem.inputs.items()}
    (output, state), (found, last) = problem.call(fused, here), problem.call(fused, there)
    (output.sum() + state.sum()).backward()
    (found.sum() + last.sum()).backward()
    pairs = [(found.detach(), output), (last.detach(), state), *((there[name].grad, here[name].grad) for name in here)]
    for ours, right in pairs:
        torch.testing.assert_close(emulated_device.behind(ours), right.detach())
    emulated_device.forget()


@pytest.mark.parametrize("case", ["mamba", "s4"])
def test_a_gradient_of_the_state_alone(case):
    problem = Problem(case, 5, with_state=True)
    inputs = {name: tensor.requires_grad_() for name, tensor in problem.inputs.items()}
    _, state = problem.call(fused, inputs)
    _, expected = problem.call(token_loop, inputs)
    tensors = [inputs[name] for name in ("value", "delta", "a", "S")]
    for found, right in zip(torch.autograd.grad(state.sum(), tensors), torch.autograd.grad(expected.sum(), tensors)):
        torch.testing.assert_close(found, right)


def test_second_derivatives_and_tangents_are_refused():
    value = torch.randn(1, 1, 4, 3, requires_grad=True)

    def output(x):
        return cogwheel.recurrent(x, x, x, "mamba", delta=torch.ones(1, 1, 4, 3), a=-torch.ones(3, 3))

    (first,) = torch.autograd.grad(output(value).square().sum(), value, create_graph=True)
    expected = "recurrent: derivatives: expected first ones, by a backward pass, got "
    with pytest.raises(NotImplementedError, match=expected + "second ones"):
        first.sum().backward()
    with pytest.raises(NotImplementedError, match=expected + "a tangent"):
        torch.func.jvp(output, (value.detach(),), (value.detach(),))


def mamba(*, query=(1, 2, 5, 4), value=(1, 2, 5, 3), delta=None, a=None, **given):
    delta, a = torch.ones(1, 2, 5, 3) if delta is None else delta, -torch.ones(4, 3) if a is None else a
    tensors = [None if size is None else torch.ones(size) for size in (query, query, value)]
    return cogwheel.recurrent(*tensors, "mamba", delta=delta, a=a, **given)


def s4(*, query=None, key=None, value=(1, 2, 5, 3), **given):
    usual = {"delta": torch.ones(2, 3), "a": -torch.ones(2, 4, 3), "b": torch.ones(2, 4, 3), "c": torch.ones(2, 4, 3)}
    given = {name: each for name, each in (usual | given).items() if each is not None}
    return cogwheel.recurrent(query, key, torch.ones(value), "s4", **given)


REFUSALS = {
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
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSALS)
def test_refusals_are_one_line(message):
    with pytest.raises((ValueError, TypeError)) as refused:
        REFUSALS[message]()
    assert str(refused.value) == message


PORTABLE = """
import sys, torch, cogwheel
given = torch.load(sys.argv[1])
out, state = cogwheel.recurrent(*given[:3], "mamba", delta=given[3], a=given[4], skip=given[5], return_state=True)
(out.sum() + state.sum()).backward()
torch.save([out.detach(), state.detach(), *(each.grad for each in given)], sys.argv[1])
"""


def test_portable_kernels_agree(tmp_path):
    """Blocks of two and of four numbers, where this machine's may have sixteen."""
    given = [torch.randn(1, 2, 40, 5), torch.randn(1, 2, 40, 5), torch.randn(1, 2, 40, 20), torch.rand(1, 2, 40, 20),
             -torch.rand(5, 20) - 0.1, torch.randn(20)]  # fmt: skip
    given = [each.requires_grad_() for each in given]
    torch.save(given, tmp_path / "numbers")
    environment = {**os.environ, "COGWHEEL_ISA": "portable"}
    subprocess.run([sys.executable, "-c", PORTABLE, tmp_path / "numbers"], env=environment, check=True)
    out, state = cogwheel.recurrent(*given[:3], "mamba", delta=given[3], a=given[4], skip=given[5], return_state=True)
    (out.sum() + state.sum()).backward()
    for portable, here in zip(torch.load(tmp_path / "numbers"), [out, state, *(each.grad for each in given)], strict=True):
        torch.testing.assert_close(portable, here.detach(), rtol=1e-5, atol=1e-5)
