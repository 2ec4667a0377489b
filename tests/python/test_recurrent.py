"""How exact mechanisms with a state are, against loops over tokens in float64 that are written from the papers."""

import math
import os
import pathlib
import subprocess
import sys

import pytest
import torch
from recurrent_problem import LAWS, Problem, expect_as_the_loop, expect_close, fused, results_of_every_law, same_bits
from recurrent_reference import token_loop


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


@pytest.mark.diagonal("width", "value_width")
@pytest.mark.parametrize("width", [1, 7, 70])
@pytest.mark.parametrize("value_width", [1, 20, 33, 64, 150])
@pytest.mark.parametrize("case", ["deltanet", "gated_deltanet", "gated_deltanet_by_channel"])
def test_widths_of_delta_rules(case, width, value_width):
    expect_as_the_loop(Problem(case, 34, heads=1, width=width, value_width=value_width, with_state=True))


# Several blocks of columns in a task, and several tasks for a head, too.
@pytest.mark.parametrize(
    "heads, width, value_width", [(1, 1, 1), (1, 16, 64), (1, 16, 300), (2, 3, 130), (9, 2, 150), (1, 130, 16), (1, 256, 3)]
)
@pytest.mark.parametrize("case", ["mamba_shared", "s4"])
def test_widths_of_state_spaces(case, heads, width, value_width):
    expect_as_the_loop(Problem(case, 34, batch=1, heads=heads, width=width, value_width=value_width, with_state=True))


@pytest.mark.slow
@pytest.mark.parametrize("case", ["deltanet", "gated_deltanet", "gated_deltanet_by_channel"])
def test_delta_rules_that_forget_little(case):
    expect_as_the_loop(Problem(case, 1000, batch=1, width=24, max_decay=0.05, with_state=True))


def expect_within_twice(problem, dtype):
    """The error of a loop over tokens in float32 whose results are rounded to `dtype`; states have no 16-bit numbers."""
    found, (exact, eager) = problem.results(fused, dtype), (problem.results(token_loop, each, rounded=dtype) for each in (torch.float64, torch.float32))
    for name, each in found.items():
        assert each.dtype == (torch.float32 if name.startswith("last") else dtype), name
        ours, theirs = ((of.double() - exact[name]).norm() for of in (each, eager[name].to(each.dtype)))
        if name != "last m":  # one number, in whose units the others are
            assert ours <= 2 * theirs, f"{name}: {ours:.2e}, and {theirs:.2e} of the loop"
    return found["output"], exact["output"]


def slow_but_for(*cases):
    return [pytest.param(case, marks=() if case in cases else pytest.mark.slow) for case in LAWS]


# Which are remembered from the first to the last.
@pytest.mark.parametrize("case", slow_but_for("retnet", "s4"))
def test_4096_tokens_are_as_exact_as_an_eager_loop(case):
    expect_within_twice(Problem(case, 4096, batch=1, heads=2, width=4, value_width=4, max_decay=0.002), torch.float32)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("case", slow_but_for("linear_elu_normalized", "gla", "gated_deltanet_by_channel", "mamba", "mamba_shared", "s4"))
def test_16_bits_are_as_exact_as_an_eager_loop(case, dtype):
    output, exact = expect_within_twice(Problem(case, 65), dtype)
    torch.testing.assert_close(output.double(), exact, rtol=torch.finfo(dtype).eps, atol=1e-4)


def expect_right_at_an_extreme(problem, **given):
    expect_close(problem.results(fused, torch.float32), problem.results(token_loop, torch.float64), 5e-5, 3e-4, **given)


@pytest.mark.diagonal("case")
@pytest.mark.parametrize("log_decay", [0.0, -50.0, -1e3, -math.inf])
@pytest.mark.parametrize("case", [case for case, law in LAWS.items() if "log_decay" in law.parameters])
def test_extreme_decays(case, log_decay):
    problem = Problem(case, 70, with_state=True)
    problem.inputs["log_decay"][:, :, ::3] = log_decay
    expect_right_at_an_extreme(problem)
    problem.inputs["log_decay"].fill_(log_decay)
    found = problem.results(fused, torch.float32)
    assert all(torch.isfinite(each).all() for each in found.values())


@pytest.mark.parametrize("log_decay", [0.0, -50.0, -1e3, -math.inf])
def test_extreme_decays_of_columns(log_decay):
    problem = Problem("dfw", 70, with_state=True)
    problem.inputs["log_value_decay"][:, :, ::3, ::2] = log_decay
    expect_right_at_an_extreme(problem)


@pytest.mark.parametrize("decay", [1.0, math.exp(-50)])
def test_extreme_decays_of_heads(decay):
    problem = Problem("retnet", 70, with_state=True)
    problem.inputs["decay"][::2] = torch.tensor(decay)
    expect_right_at_an_extreme(problem)


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


def test_extreme_gates_of_mlstm():
    problem = Problem("mlstm", 70, with_state=True)
    generator = torch.Generator().manual_seed(3)
    for name in ("input_gate", "forget_gate"):
        signs = torch.randint(3, problem.inputs[name].shape, generator=generator) - 1
        problem.inputs[name] = (80 * signs).double()
    expected, found = problem.results(token_loop, torch.float64), problem.results(fused, torch.float32)
    made = ["output", *(f"last {name}" for name in problem.state_names)]
    assert all(torch.isfinite(each).all() for each in found.values())
    expect_close({name: found[name] for name in made}, {name: expected[name] for name in made}, 1e-3, 1e-3)


@pytest.mark.diagonal()
@pytest.mark.parametrize("keys", ["zero", "equal", "random"])
@pytest.mark.parametrize("beta", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("case", ["deltanet", "gated_deltanet", "gated_deltanet_by_channel"])
def test_extreme_betas_and_keys(case, beta, keys):
    problem = Problem(case, 70, with_state=True)
    problem.inputs["beta"][:, :, 1:] = beta
    with_extreme_keys(problem, keys)
    expect_right_at_an_extreme(problem)


def with_extreme_keys(problem, keys):
    if keys == "zero":
        problem.inputs["key"].zero_()
    elif keys == "equal":
        problem.inputs["key"][:] = problem.inputs["key"][:, :, :1]


@pytest.mark.diagonal("case")
@pytest.mark.parametrize("with_state", [False, True], ids=["from_nothing", "from_a_state"])
@pytest.mark.parametrize("keys", ["zero", "equal"])
@pytest.mark.parametrize("case", [case for case, law in LAWS.items() if law.keys and "beta" not in law.parameters])
def test_extreme_keys(case, keys, with_state):
    problem = Problem(case, 40, with_state=with_state)
    with_extreme_keys(problem, keys)
    # A mean of values with equal weights: what queries, keys and decays change cancels.
    expect_right_at_an_extreme(problem, terms=1 if problem.normalized else 1e-3)


@pytest.mark.parametrize("case", LAWS)
def test_no_token_leaves_the_state(case):
    problem = Problem(case, 0, with_state=True)
    found = problem.results(fused, torch.float64)
    assert found["output"].shape == problem.inputs["value"].shape
    for name in problem.state_names:
        torch.testing.assert_close(found[f"last {name}"], problem.inputs[name], rtol=0, atol=0)
    assert found[f"d{problem.state_names[0]}"].abs().sum() > 0  # the last state is the first
    rest = found.keys() - {"output", *(f"{kind}{name}" for name in problem.state_names for kind in ("last ", "d"))}
    assert all(found[name].abs().sum() == 0 for name in rest)


@pytest.mark.parametrize("case", LAWS)
def test_no_batch_has_no_gradient(case):
    found = Problem(case, 3, batch=0).results(fused, torch.float32)
    assert all(each.numel() == 0 or each.abs().sum() == 0 for each in found.values())


@pytest.mark.diagonal("case")
@pytest.mark.parametrize("heads", [1, 3])  # one head has narrower blocks where there are more threads
@pytest.mark.parametrize("case", LAWS)
def test_same_bits_for_any_number_of_threads(case, heads):
    widths = (7, 300) if LAWS[case].name in ("mamba", "s4") else (70, 150)
    problem = Problem(case, 100, batch=1, heads=heads, width=widths[0], value_width=widths[1])
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = problem.results(fused, torch.float32)
        torch.set_num_threads(4)
        four = problem.results(fused, torch.float32)
    finally:
        torch.set_num_threads(threads)
    assert same_bits(four, one)


PORTABLE = """
import sys, torch, recurrent_problem
torch.save(recurrent_problem.results_of_every_law(), sys.argv[1])
"""


def test_portable_kernels_agree(tmp_path):
    """Blocks of two and of four numbers, where this machine's may have sixteen."""
    environment = {**os.environ, "COGWHEEL_ISA": "portable"}
    subprocess.run([sys.executable, "-c", PORTABLE, tmp_path / "results"], env=environment, check=True, cwd=pathlib.Path(__file__).parent)
    portable = torch.load(tmp_path / "results")
    for case, here in results_of_every_law().items():
        for name, each in here.items():
            torch.testing.assert_close(portable[case][name], each, rtol=1e-5, atol=1e-5, msg=lambda text: f"{case}: {name}: {text}")
