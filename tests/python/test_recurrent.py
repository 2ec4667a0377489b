"""Mechanisms with a state, against a loop over tokens in float64 that is written from the papers."""

import math
import os
import re
import subprocess
import sys

import emulated_device
import pytest
import torch

import cogwheel

FEATURES = {
    "identity": lambda x: x,
    "elu_plus_one": lambda x: torch.where(x > 0, x + 1, torch.exp(torch.clamp(x, max=0))),
    "relu": torch.relu,
    "squared_relu": lambda x: torch.relu(x) ** 2,
    "exp": torch.exp,
}


def token_loop(query, key, value, law, state=None, feature_map="identity", normalize=False, scale=None, **gates):
    """Outputs and (S, z) of one law, token by token, each sum as it stands."""
    tokens, width = query.shape[2:]
    scale = 1 / math.sqrt(width) if scale is None else scale
    normalize = normalize or law == "gated_rfa"
    z, S = query.new_zeros(*query.shape[:2], width), query.new_zeros(*query.shape[:2], width, value.shape[3])
    if state is not None:
        S, z = state if normalize else (state, z)
    # Unbound, because the gradient of each slice would be as large as the whole.
    queries, values = FEATURES[feature_map](query).unbind(2), value.unbind(2)
    keys = None if key is None else FEATURES[feature_map](key).unbind(2)
    log_decays = gates["log_decay"].unbind(2) if "log_decay" in gates else None
    outputs = []
    for t in range(tokens):
        q, v = queries[t], values[t]
        decay = torch.ones_like(q)
        if law == "retnet":
            decay = gates["decay"][None, :, None] * decay
        elif law in ("mamba2", "gated_rfa"):
            decay = log_decays[t][..., None].exp() * decay
        elif law in ("gla", "hgrn2"):
            decay = log_decays[t].exp()
        k = 1 - decay if law == "hgrn2" else keys[t]
        if law == "gated_rfa":
            k = (1 - decay) * k
        S = decay[..., None] * S + k[..., None] * v[..., None, :]
        z = decay * z + k
        o = torch.einsum("bhd,bhdv->bhv", q, S)
        if normalize:
            total = torch.einsum("bhd,bhd->bh", q, z)[..., None]
            o = torch.where(total == 0, torch.zeros_like(o), o / torch.where(total == 0, torch.ones_like(total), total))
        else:
            o = scale * o
        outputs.append(o)
    output = torch.stack(outputs, 2) if outputs else value.new_zeros(value.shape)
    return output, (S, z) if normalize else S


# name: the law, and what a call of it takes.
LAWS = {
    "linear": ("linear_attention", {}),
    "linear_elu_normalized": ("linear_attention", {"feature_map": "elu_plus_one", "normalize": True}),
    "linear_relu": ("linear_attention", {"feature_map": "relu"}),
    "linear_squared_relu": ("linear_attention", {"feature_map": "squared_relu"}),
    "linear_exp_normalized": ("linear_attention", {"feature_map": "exp", "normalize": True}),
    "retnet": ("retnet", {}),
    "mamba2": ("mamba2", {}),
    "gla": ("gla", {}),
    "hgrn2": ("hgrn2", {}),
    "gated_rfa": ("gated_rfa", {}),
}


class Problem:
    """Numbers of a call in float64, which a cast to float32 leaves as they are."""

    def __init__(self, case, tokens, *, batch=2, heads=3, width=12, value_width=37, with_state=False, seed=0, max_decay=2.0):
        generator = torch.Generator().manual_seed(seed)

        def drawn(*shape, uniform=False):
            numbers = (torch.rand if uniform else torch.randn)(*shape, generator=generator)
            return numbers.double()

        self.law, self.options = LAWS[case]
        normalized = self.options.get("normalize") or self.law == "gated_rfa"
        self.inputs = {"query": drawn(batch, heads, tokens, width), "value": drawn(batch, heads, tokens, value_width)}
        if self.law == "gated_rfa":  # its features are made by the caller, and positive here: no total comes near 0
            self.inputs["query"] = self.inputs["query"].abs() + 0.25
        if self.law != "hgrn2":
            self.inputs["key"] = drawn(batch, heads, tokens, width)
            if self.law == "gated_rfa":
                self.inputs["key"] = self.inputs["key"].abs() + 0.25
        if self.law == "retnet":
            self.inputs["decay"] = (0.5 + 0.5 * drawn(heads, uniform=True)).float().double()
        elif self.law in ("mamba2", "gated_rfa"):
            self.inputs["log_decay"] = (-max_decay * drawn(batch, heads, tokens, uniform=True)).float().double()
        elif self.law in ("gla", "hgrn2"):
            self.inputs["log_decay"] = (-max_decay * drawn(batch, heads, tokens, width, uniform=True)).float().double()
        self.with_state, self.normalized = with_state, normalized
        if with_state:
            self.inputs["S"] = drawn(batch, heads, width, value_width)
            if normalized:
                self.inputs["z"] = drawn(batch, heads, width).abs() + 1

    def call(self, function, inputs):
        rest = dict(inputs)
        query, key, value = (rest.pop(name, None) for name in ("query", "key", "value"))
        S, z = rest.pop("S", None), rest.pop("z", None)
        return function(query, key, value, self.law, (S, z) if z is not None else S, **rest, **self.options)

    def results(self, function, dtype):
        """Outputs, states and every gradient, by name."""
        inputs = {name: tensor.to(dtype, copy=True).requires_grad_() for name, tensor in self.inputs.items()}
        output, state = self.call(function, inputs)
        made = {"output": output} | dict(zip(("state", "z"), state if isinstance(state, tuple) else (state,)))
        generator = torch.Generator().manual_seed(1)
        weights = {name: torch.randn(each.shape, generator=generator).to(dtype) for name, each in made.items()}
        total = sum((each * weights[name]).sum() for name, each in made.items())
        gradients = torch.autograd.grad(total, list(inputs.values()), materialize_grads=True)
        found = {name: each.detach() for name, each in made.items()}
        return found | {f"d{name}": each for name, each in zip(inputs, gradients)}


def fused(query, key, value, law, state, **given):
    return cogwheel.recurrent(query, key, value, law, initial_state=state, return_state=True, **given)


def expect_close(found, expected, forward, backward, terms=1e-3):
    """To a share of the largest element, or of the terms of a sum that cancels."""
    assert found.keys() == expected.keys()
    for name, right in expected.items():
        bound = backward if name.startswith("d") else forward
        assert torch.isfinite(found[name]).all(), name
        error = (found[name].double() - right).abs().max().item() if right.numel() else 0
        scale = max(right.abs().max().item(), terms) if right.numel() else 1
        assert error <= bound * scale, f"{name}: {error / scale:.2e} of the largest element"


def expect_as_the_loop(problem):
    expected = problem.results(token_loop, torch.float64)
    # The first token's output is its value where it is normalised: query and key change nothing.
    alone = problem.inputs["query"].shape[2] == 1 and not problem.with_state
    terms = 1 if problem.normalized and alone else 1e-3
    expect_close(problem.results(fused, torch.float64), expected, 1e-9, 1e-9)
    bounds = (5e-5, 3e-4) if problem.normalized else (2e-5, 1e-4)
    expect_close(problem.results(fused, torch.float32), expected, *bounds, terms)


@pytest.mark.diagonal("case")
@pytest.mark.parametrize("with_state", [False, True], ids=["from_nothing", "from_a_state"])
@pytest.mark.parametrize("tokens", [1, 63, 64, 65, 200])
@pytest.mark.parametrize("case", LAWS)
def test_outputs_states_and_gradients(case, tokens, with_state):
    expect_as_the_loop(Problem(case, tokens, with_state=with_state))


# Blocks of columns and rows of every kind: whole, cut, and single, of each instruction set.
@pytest.mark.parametrize("width, value_width", [(1, 1), (7, 64), (64, 65), (130, 16), (256, 3)])
@pytest.mark.parametrize("case", ["linear", "retnet", "mamba2", "gla"])
def test_widths(case, width, value_width):
    expect_as_the_loop(Problem(case, 34, batch=1, heads=2, width=width, value_width=value_width, with_state=True))


@pytest.mark.parametrize("case", LAWS)
def test_no_token_leaves_the_state(case):
    problem = Problem(case, 0, with_state=True)
    output, state = problem.call(fused, problem.inputs)
    assert output.shape == problem.inputs["value"].shape
    for found, given in zip(state if isinstance(state, tuple) else (state,), ("S", "z")):
        assert torch.equal(found, problem.inputs[given])
    gradients = problem.results(fused, torch.float64)
    assert gradients["dS"].abs().sum() > 0  # the last state is the first


@pytest.mark.parametrize("case", LAWS)
def test_any_split_with_its_state_gives_the_whole(case):
    problem = Problem(case, 70)
    inputs = {name: tensor.float() for name, tensor in problem.inputs.items()}
    whole, last = problem.call(fused, inputs)
    for cuts in ([1, 69], [33, 1, 36], [64, 6]):
        state, parts, begin = {}, [], 0
        for length in cuts:
            part = {name: each if name == "decay" else each[:, :, begin : begin + length] for name, each in inputs.items()}
            output, given = problem.call(fused, part | state)
            state = dict(zip("Sz", given if isinstance(given, tuple) else (given,)))
            parts.append(output)
            begin += length
        torch.testing.assert_close(torch.cat(parts, 2), whole, rtol=1e-6, atol=1e-6)
        for found, right in zip(state.values(), last if isinstance(last, tuple) else (last,)):
            torch.testing.assert_close(found, right, rtol=1e-6, atol=1e-6)


@pytest.mark.diagonal()
@pytest.mark.parametrize("case", ["mamba2", "gla", "hgrn2", "gated_rfa"])
@pytest.mark.parametrize("log_decay", [0.0, -50.0, -1e3, -math.inf])
def test_extreme_decays(case, log_decay):
    problem = Problem(case, 70, with_state=True)
    problem.inputs["log_decay"][:, :, ::3] = log_decay
    expected = problem.results(token_loop, torch.float64)
    expect_close(problem.results(fused, torch.float32), expected, 5e-5, 3e-4)
    problem.inputs["log_decay"].fill_(log_decay)
    found = problem.results(fused, torch.float32)
    assert all(torch.isfinite(each).all() for each in found.values())


@pytest.mark.parametrize("case", ["linear_elu_normalized", "retnet", "gla", "gated_rfa"])
def test_a_change_at_a_token_changes_no_bit_before_it(case):
    problem = Problem(case, 70)
    inputs = {name: tensor.float() for name, tensor in problem.inputs.items()}
    before, _ = problem.call(fused, inputs)
    for name in ("query", "key", "value"):
        changed = inputs | {name: inputs[name].clone()}
        changed[name][:, :, 41] = math.nan
        after, _ = problem.call(fused, changed)
        assert torch.equal(after[:, :, :41], before[:, :, :41]) and after[:, :, 41].isnan().all()


@pytest.mark.parametrize("case", ["linear", "retnet", "mamba2", "gla"])
def test_same_bits_for_any_number_of_threads(case):
    problem, threads = Problem(case, 100, width=70, value_width=80), torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = problem.results(fused, torch.float32)
        torch.set_num_threads(4)
        four = problem.results(fused, torch.float32)
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(one[name], four[name]) for name in one)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("case", ["linear_elu_normalized", "gla"])
def test_16_bits(case, dtype):
    problem = Problem(case, 65)
    half = {name: tensor.to(dtype).requires_grad_() for name, tensor in problem.inputs.items()}
    output, state = problem.call(fused, half)
    states = state if isinstance(state, tuple) else (state,)
    assert output.dtype == dtype and {each.dtype for each in states} == {torch.float32}
    exact, _ = problem.call(token_loop, {name: tensor.detach().double() for name, tensor in half.items()})
    torch.testing.assert_close(output.double(), exact, rtol=torch.finfo(dtype).eps, atol=1e-4)
    output.sum().backward()
    assert all(tensor.grad.dtype == dtype for tensor in half.values())


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


def test_any_strides():
    query, key, value = (torch.randn(2, 40, 3, 8).transpose(1, 2) for _ in range(3))
    log_decay = -torch.rand(2, 40, 3).transpose(1, 2)
    expected = cogwheel.recurrent(*(each.contiguous() for each in (query, key, value)), "mamba2", log_decay=log_decay.contiguous())
    assert torch.equal(cogwheel.recurrent(query, key, value, "mamba2", log_decay=log_decay), expected)
    widths_apart = [each.mT.contiguous().mT for each in (query, key, value)]
    assert torch.equal(cogwheel.recurrent(*widths_apart, "mamba2", log_decay=log_decay), expected)


@pytest.mark.parametrize("case", ["linear", "retnet", "mamba2", "gla"])
def test_registration(case):
    problem = Problem(case, 5, batch=1, heads=2, width=4, value_width=3, with_state=True)
    given = {name: tensor.requires_grad_() for name, tensor in problem.inputs.items()}
    gate = given.get("decay", given.get("log_decay"))
    tensors = [given["query"], given["key"], given["value"], gate, given["S"]]
    torch.library.opcheck(torch.ops.cogwheel.token_walk.default, (*tensors, problem.law, 0.5))
    walk = [torch.randn(1, 2, 5, 3, dtype=torch.float64), None, *(each if each is None else each.detach() for each in tensors)]
    torch.library.opcheck(torch.ops.cogwheel.token_walk_backward.default, (*walk, problem.law, 0.5))


@pytest.mark.parametrize("case", LAWS)
def test_gradients_by_differences(case, fast_mode):
    problem = Problem(case, 4, batch=1, heads=2, width=3, value_width=2, with_state=True)
    names = list(problem.inputs)

    def outputs(*tensors):
        output, state = problem.call(fused, dict(zip(names, tensors)))
        return (output, *(state if isinstance(state, tuple) else (state,)))

    assert torch.autograd.gradcheck(outputs, [each.requires_grad_() for each in problem.inputs.values()], fast_mode=fast_mode)


@pytest.mark.parametrize("case", ["linear_elu_normalized", "gla"])
def test_compiled(case):
    problem = Problem(case, 5, batch=1, heads=2, width=4, value_width=3)
    compiled = torch.compile(fused, fullgraph=True, backend="aot_eager")
    found, expected = problem.results(compiled, torch.float64), problem.results(fused, torch.float64)
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_vmap_and_grad_of_torch_func():
    problem = Problem("gla", 5, batch=3)
    query, key, value, log_decay = (problem.inputs[name] for name in ("query", "key", "value", "log_decay"))

    def output(*given):
        return cogwheel.recurrent(*(each[None] for each in given[:3]), "gla", log_decay=given[3][None])[0]

    expected = cogwheel.recurrent(query, key, value, "gla", log_decay=log_decay)
    assert torch.equal(torch.vmap(output)(query, key, value, log_decay), expected)
    found = torch.func.grad(lambda given: output(given, key[0], value[0], log_decay[0]).sum())(query[0])
    given = query.clone().requires_grad_()
    cogwheel.recurrent(given, key, value, "gla", log_decay=log_decay).sum().backward()
    torch.testing.assert_close(found, given.grad[0])


@pytest.mark.parametrize("case", ["retnet", "hgrn2"])
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


def test_a_gradient_of_the_state_alone():
    problem = Problem("gla", 5, with_state=True)
    inputs = {name: tensor.requires_grad_() for name, tensor in problem.inputs.items()}
    _, state = problem.call(fused, inputs)
    _, expected = problem.call(token_loop, inputs)
    tensors = [inputs[name] for name in ("key", "value", "log_decay", "S")]
    for found, right in zip(torch.autograd.grad(state.sum(), tensors), torch.autograd.grad(expected.sum(), tensors)):
        torch.testing.assert_close(found, right)


def test_second_derivatives_and_tangents_are_refused():
    x = torch.randn(1, 1, 4, 3, requires_grad=True)
    output = cogwheel.recurrent(x, x, x, "linear_attention")
    (first,) = torch.autograd.grad(output.square().sum(), x, create_graph=True)
    expected = "recurrent: derivatives: expected first ones, by a backward pass, got "
    with pytest.raises(NotImplementedError, match=expected + "second ones"):
        first.sum().backward()
    with pytest.raises(NotImplementedError, match=expected + "a tangent"):
        torch.func.jvp(lambda y: cogwheel.recurrent(y, y, y, "linear_attention"), (x.detach(),), (x.detach(),))


def call(mechanism="gla", *, query=(1, 2, 5, 4), key=(1, 2, 5, 4), value=(1, 2, 5, 3), **given):
    return cogwheel.recurrent(torch.ones(query), None if key is None else torch.ones(key), torch.ones(value), mechanism, **given)


REFUSALS = {
    "attention: mechanism: expected a mechanism of attention (cogwheel.recurrent takes this one), got gla":
        lambda: cogwheel.attention(*(torch.ones(1, 1, 4, 8) for _ in range(3)), "gla"),
    "recurrent: mechanism: expected a recurrent one (cogwheel.attention takes this one), got softmax": lambda: call("softmax"),
    "recurrent: mechanism: expected gla (the nearest of 6 names), got glla": lambda: call("glla"),
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
    "recurrent: feature_map: expected relu (the nearest of 5 names), got rellu":
        lambda: call("linear_attention", feature_map="rellu"),
    "recurrent: normalize: expected False for gla, got True": lambda: call(normalize=True),
    "recurrent: scale: expected a finite number, got nan": lambda: call("linear_attention", scale=math.nan),
    "recurrent: initial_state: expected [1, 2, 4, 3], got [1, 2, 3, 4]":
        lambda: call("linear_attention", initial_state=torch.zeros(1, 2, 3, 4)),
    "recurrent: initial_state dtype: expected Float, got Double":
        lambda: call("linear_attention", initial_state=torch.zeros(1, 2, 4, 3).double()),
    "recurrent: initial_state: expected 2 tensors, S and z, got 1":
        lambda: call("linear_attention", normalize=True, initial_state=torch.zeros(1, 2, 4, 3)),
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
    assert set(laws) == headers == {law for law, _ in LAWS.values()}


PORTABLE = """
import sys, torch, cogwheel
given = torch.load(sys.argv[1])
out, state = cogwheel.recurrent(*given[:3], "gla", log_decay=given[3], return_state=True)
(out.sum() + state.sum()).backward()
torch.save([out.detach(), state.detach(), *(each.grad for each in given)], sys.argv[1])
"""


def test_portable_kernels_agree(tmp_path):
    """Blocks of two and of four numbers, where this machine's may have sixteen."""
    given = [*(torch.randn(1, 2, 40, 20) for _ in range(3)), -torch.rand(1, 2, 40, 20)]
    given = [each.requires_grad_() for each in given]
    torch.save(given, tmp_path / "numbers")
    environment = {**os.environ, "COGWHEEL_ISA": "portable"}
    subprocess.run([sys.executable, "-c", PORTABLE, tmp_path / "numbers"], env=environment, check=True)
    out, state = cogwheel.recurrent(*given[:3], "gla", log_decay=given[3], return_state=True)
    (out.sum() + state.sum()).backward()
    for portable, here in zip(torch.load(tmp_path / "numbers"), [out, state, *(each.grad for each in given)], strict=True):
        torch.testing.assert_close(portable, here.detach(), rtol=1e-5, atol=1e-5)
