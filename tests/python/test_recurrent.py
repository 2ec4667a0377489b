"""Mechanisms with a state, against a loop over tokens in float64 that is written from the papers."""

import math
import os
import subprocess
import sys

import emulated_device
import pytest
import torch
from recurrent_reference import LAWS, WHOLE, Problem, expect_as_the_loop, expect_close, fused, state_names, token_loop

import cogwheel


@pytest.mark.diagonal("case")
@pytest.mark.parametrize("with_state", [False, True], ids=["from_nothing", "from_a_state"])
@pytest.mark.parametrize("tokens", [1, 63, 64, 65, 200, 1000])
@pytest.mark.parametrize("case", LAWS)
def test_outputs_states_and_gradients(case, tokens, with_state):
    expect_as_the_loop(Problem(case, tokens, with_state=with_state))


# Blocks of columns and rows of every kind: whole, cut, and single, of each instruction set.
@pytest.mark.diagonal("case")
@pytest.mark.parametrize("width, value_width", [(1, 1), (7, 64), (64, 65), (130, 16), (256, 3)])
@pytest.mark.parametrize("case", ["linear", "retnet", "mamba2", "gla", "dfw", "rwkv6"])
def test_widths(case, width, value_width):
    expect_as_the_loop(Problem(case, 34, batch=1, heads=2, width=width, value_width=value_width, with_state=True))


@pytest.mark.parametrize("case", LAWS)
def test_no_token_leaves_the_state(case):
    problem = Problem(case, 0, with_state=True)
    output, state = problem.call(fused, problem.inputs)
    assert output.shape == problem.inputs["value"].shape
    names = state_names(problem.law, problem.options)
    for found, given in zip(state if isinstance(state, tuple) else (state,), names, strict=True):
        torch.testing.assert_close(found, problem.inputs[given], rtol=0, atol=0)
    gradients = problem.results(fused, torch.float64)
    assert gradients[f"d{names[0]}"].abs().sum() > 0  # the last state is the first


@pytest.mark.parametrize("case", LAWS)
def test_any_split_with_its_state_gives_the_whole(case):
    problem = Problem(case, 70)
    inputs = {name: tensor.float() for name, tensor in problem.inputs.items()}
    whole, last = problem.call(fused, inputs)
    # cosFormer counts positions from the first token of a call, and so rounds other angles.
    bound = 1e-5 if case == "cosformer" else 1e-6
    for cuts in ([1, 69], [33, 1, 36], [64, 6]):
        state, parts, begin = {}, [], 0
        for length in cuts:
            part = {name: each if name in WHOLE else each[:, :, begin : begin + length] for name, each in inputs.items()}
            output, given = problem.call(fused, part | state)
            state = dict(zip(state_names(problem.law, problem.options), given if isinstance(given, tuple) else (given,)))
            parts.append(output)
            begin += length
        torch.testing.assert_close(torch.cat(parts, 2), whole, rtol=bound, atol=bound)
        for found, right in zip(state.values(), last if isinstance(last, tuple) else (last,)):
            torch.testing.assert_close(found, right, rtol=bound, atol=bound)


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


@pytest.mark.parametrize("case", ["linear_elu_normalized", "retnet", "gla", "gated_rfa", "dfw", "rwkv6"])
def test_a_change_at_a_token_changes_no_bit_before_it(case):
    problem = Problem(case, 70)
    inputs = {name: tensor.float() for name, tensor in problem.inputs.items()}
    before, _ = problem.call(fused, inputs)
    for name in ("query", "key", "value"):
        changed = inputs | {name: inputs[name].clone()}
        changed[name][:, :, 41] = math.nan
        after, _ = problem.call(fused, changed)
        assert torch.equal(after[:, :, :41], before[:, :, :41]) and after[:, :, 41].isnan().all()


@pytest.mark.parametrize("case", ["linear", "retnet", "mamba2", "gla", "dfw", "rwkv6"])
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


def test_any_strides():
    query, key, value = (torch.randn(2, 40, 3, 8).transpose(1, 2) for _ in range(3))
    log_decay = -torch.rand(2, 40, 3).transpose(1, 2)
    expected = cogwheel.recurrent(*(each.contiguous() for each in (query, key, value)), "mamba2", log_decay=log_decay.contiguous())
    assert torch.equal(cogwheel.recurrent(query, key, value, "mamba2", log_decay=log_decay), expected)
    widths_apart = [each.mT.contiguous().mT for each in (query, key, value)]
    assert torch.equal(cogwheel.recurrent(*widths_apart, "mamba2", log_decay=log_decay), expected)


WALKS = {
    "linear": "none",
    "retnet": "constant",
    "mamba2": "per_token",
    "gla": "per_channel",
    "dfw": "per_channel",
    "rwkv6": "per_channel",
    "packed": "per_token",
}


@pytest.mark.parametrize("case", WALKS)
def test_registration(case):
    problem = Problem("mamba2" if case == "packed" else case, 5, batch=1, heads=2, width=4, value_width=3, with_state=True)
    given = {name: tensor.requires_grad_() for name, tensor in problem.inputs.items()}
    gate, ends = given.get("decay", given.get("log_decay")), None
    if case == "packed":
        ends, given["S"] = torch.tensor([0, 2, 2, 5]), torch.randn(3, 2, 4, 3, dtype=torch.float64, requires_grad=True)
    tensors = [given["query"], given["key"], given["value"], gate, given.get("log_value_decay"), given["S"], ends]
    settings = (WALKS[case], case == "rwkv6", 0.5)
    torch.library.opcheck(torch.ops.cogwheel.token_walk.default, (*tensors, *settings))
    walk = [torch.randn(1, 2, 5, 3, dtype=torch.float64), None, *(each if each is None else each.detach() for each in tensors)]
    torch.library.opcheck(torch.ops.cogwheel.token_walk_backward.default, (*walk, *settings))


@pytest.mark.parametrize("case", LAWS)
def test_gradients_by_differences(case, fast_mode):
    problem = Problem(case, 4, batch=1, heads=2, width=3, value_width=2, with_state=True)
    names = list(problem.inputs)

    def outputs(*tensors):
        output, state = problem.call(fused, dict(zip(names, tensors)))
        if case == "mlstm":  # m is a choice of units
            return output, state[0] * state[2].exp()[..., None, None], state[1] * state[2].exp()[..., None]
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
