"""Kernels for GPUs of mechanisms with a state, proved without one: interpreted against loops over tokens, and compiled."""

import math
import os
import re

import pytest
import torch
from interpreted_kernels import in_process, interpreted, launching, run_interpreted
from recurrent_problem import LAWS, Problem, expect_as_the_loop, expect_close, fused, same_bits
from recurrent_reference import token_loop

import cogwheel

pytest.importorskip("triton", reason="triton is not installed: kernels for GPUs are not tried")
pytestmark = launching


def fast_of(*cases, slow):
    return [*cases, *(pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow) for case in slow)]


BACKWARD = {"token_outputs", "delta_backward", "space_backward"}


def test_walks_hold():
    run_interpreted(os.path.basename(__file__), "-k", "test_interpreted")


@pytest.mark.slow
@pytest.mark.parametrize(
    "table, only",
    [
        ("test_device_walks.py", "test_interpreted"),
        ("test_recurrent.py", "not 1000 and not 4096 and not no_token and not no_batch and not threads and not portable"),
        ("test_recurrent_chunks.py", "all_pairs"),
        ("test_recurrent_properties.py", "packed_sequences or a_change_at_a_token or any_strides"),
    ],
    ids=["walks", "loops", "chunks", "properties"],  # what `only` selects is not among the names of this test
)
def test_tables_hold(table, only):
    """But for what is one walk on the CPU in any order: texts that are cut have other bits on a GPU, as sums are by chunks."""
    run_interpreted(table, "--all", "-k", only)


# Several chunks and blocks of tokens, and a step of decoding.
@interpreted
@pytest.mark.diagonal("case")
@pytest.mark.parametrize("with_state", [True, False], ids=["from_a_state", "from_nothing"])
@pytest.mark.parametrize("tokens", [40, 17, 1])
@pytest.mark.parametrize("case", LAWS)
def test_interpreted_equals_the_loop(case, tokens, with_state, launches):
    expect_as_the_loop(Problem(case, tokens, batch=1, heads=2, with_state=with_state))
    assert BACKWARD & set(launches)


# More than one block of rows and of columns.
@interpreted
@pytest.mark.parametrize("width, value_width", fast_of((100, 70), slow=[(5, 130)]))
@pytest.mark.parametrize("case", fast_of("retnet", "rwkv6", slow=["mamba2", "dfw", "gated_deltanet", "mamba"]))
def test_interpreted_widths(case, width, value_width):
    expect_as_the_loop(Problem(case, 34, batch=1, heads=1, width=min(width, 8) if case == "mamba" else width, value_width=value_width, with_state=True))


@interpreted
@pytest.mark.parametrize("log_decay", [-50.0, -math.inf])
@pytest.mark.parametrize("case", fast_of("mamba2", "rwkv6", slow=["gla", "gated_deltanet", "abc_decaying"]))
def test_interpreted_extreme_decays(case, log_decay):
    problem = Problem(case, 40, batch=1, heads=1, with_state=True)
    problem.inputs["log_decay"][:, :, ::3] = log_decay
    expect_close(problem.results(fused, torch.float32), problem.results(token_loop, torch.float64), 5e-5, 3e-4)


@interpreted
def test_interpreted_decays_of_heads_near_nothing():
    problem = Problem("retnet", 70, batch=1, with_state=True)
    problem.inputs["decay"][::2] = torch.tensor(math.exp(-50))
    expect_close(problem.results(fused, torch.float32), problem.results(token_loop, torch.float64), 5e-5, 3e-4)


@interpreted
@pytest.mark.parametrize("case", fast_of("mlstm", "gla", slow=["mamba2", "dfw", "gated_deltanet", "mamba", "s4"]))
def test_interpreted_packed_sequences_are_each_their_own(case):
    """The same bits, of sequences of several chunks, of one token and of none."""
    lengths = [33, 0, 40, 0, 1, 3]
    ends = torch.tensor([0, *lengths]).cumsum(0).int()
    problem = Problem(case, sum(lengths), batch=1, heads=2)
    inputs = {name: each.float() for name, each in problem.inputs.items()}
    found, states = problem.call(fused, inputs, cu_seqlens=ends)
    for i, (begin, end) in enumerate(zip(ends, ends[1:])):
        alone, last = problem.call(fused, problem.cut(inputs, begin, end))
        assert torch.equal(found[:, :, begin:end], alone)
        assert all(torch.equal(mine[i : i + 1], theirs) for mine, theirs in zip(states, last, strict=True))


@interpreted
@pytest.mark.parametrize("case", fast_of("mamba2", "gla", slow=["dfw", "gated_deltanet", "mamba"]))
def test_interpreted_nan_stays_behind(case):
    """Of values it reaches no token before; of gradients of outputs nothing after, within a chunk too. And every run has the same bits."""
    problem = Problem(case, 50, batch=1, heads=1)
    weights = torch.randn(1, 1, 50, 37, generator=torch.Generator().manual_seed(1))

    def made(value_at=None, weights=weights):
        inputs = {name: each.float() for name, each in problem.inputs.items()}
        if value_at is not None:
            inputs["value"][:, :, value_at] = math.nan
        inputs = {name: each.requires_grad_() for name, each in inputs.items()}
        output, _ = problem.call(fused, inputs)
        return {"output": output.detach()} | dict(zip(inputs, torch.autograd.grad(output, list(inputs.values()), weights)))

    clean = made()
    assert same_bits(made(), clean)
    spoilt = made(value_at=40)["output"]
    assert torch.equal(spoilt[:, :, :40], clean["output"][:, :, :40]) and spoilt[:, :, 40].isnan().all()
    of_nothing = weights.clone()
    of_nothing[:, :, 10] = math.nan
    spoilt = made(weights=of_nothing)
    for name in ("key", "value"):
        assert torch.equal(spoilt[name][:, :, 11:], clean[name][:, :, 11:]), name


@interpreted
@pytest.mark.parametrize("law", ["mlstm", "gla"])
def test_interpreted_steps_continue(law, launches):
    """A text and then token by token, as generation goes."""
    problem = Problem(law, 40, batch=1, heads=2)
    inputs = {name: each.float() for name, each in problem.inputs.items()}
    whole, last = problem.call(fused, inputs)
    output, state = problem.call(fused, problem.cut(inputs, 0, 37))
    for at in range(37, 40):
        names = dict(zip(problem.state_names, state, strict=True))
        output, state = problem.call(fused, problem.cut(inputs, at, at + 1) | names)
        torch.testing.assert_close(output, whole[:, :, at : at + 1], rtol=1e-5, atol=1e-5)
    for mine, theirs in zip(state, last, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)


SHARED_BYTES = {"sm_80": 163 << 10, "sm_89": 99 << 10, "sm_90": 227 << 10, "sm_100": 227 << 10, "gfx942": 64 << 10}
BY_PRODUCTS = {"token_states", "token_outputs", "head_gates", "delta_inverse", "delta_states"}
# Of one kernel, in bytes; all others keep to the limits of the test.
KNOWN_STACK = {("mlstm", "sm_89", 64): 104}
# ATOMS.AND and ATOMS.OR, of shared memory, are how sm_100 allocates its tensor memory.
COMPILED = """
import re
import sys
from cogwheel.device_kernels import laws
allocating = "(?![.](AND|OR))" if sys.argv[2] == "sm_100" else ""
atomics = re.compile(rf"\\b(ATOMG?|REDG?|ATOMS{allocating})[.]|_atomic_")
for found in laws.compiled(sys.argv[1], int(sys.argv[3]), sys.argv[2]):
    print(found.kernel, found.shared_bytes, found.stack_bytes, found.products, atomics.search(found.assembly) is not None)
"""
QUICK = [("gla", "sm_90", 64)]
EVERY = [(law, target, 64) for law in ("retnet", "mamba2", "gla", "dfw", "rwkv6", "mlstm", "gated_deltanet", "mamba", "s4") for target in SHARED_BYTES]
EVERY += [(law, "sm_90", head_dim) for law in ("retnet", "mamba2", "gla", "gated_deltanet") for head_dim in (128, 256)]


@pytest.mark.parametrize("law, target, head_dim", QUICK + [pytest.param(*case, marks=pytest.mark.slow) for case in EVERY if case not in QUICK])
def test_kernels_compile_without_a_device(law, target, head_dim):
    done = in_process(["-c", COMPILED, law, target, str(head_dim)], COGWHEEL_ENGINE="")
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout
    for line in done.stdout.splitlines():
        kernel, shared, stack, products, atomics = line.split()
        assert int(shared) <= SHARED_BYTES[target], line
        assert (int(products) > 0) == (kernel in BY_PRODUCTS), line
        assert atomics == "False", line
        assert int(stack) <= KNOWN_STACK.get((law, target, head_dim), 48 if head_dim <= 64 else 128), line


def test_the_command_knows_laws():
    done = in_process(["-m", "cogwheel.device_kernels", "--mechanism", "s4", "--for", "sm_80", "--head-dim", "16"], COGWHEEL_ENGINE="")
    assert done.returncode == 0, done.stderr
    heading, *kernels = done.stdout.splitlines()
    assert re.match(r"kernel +shared memory +stack of a thread +products", heading)
    assert {line.split()[0] for line in kernels} == {"space_forward", "space_backward"}
    done = in_process(["-m", "cogwheel.device_kernels", "--mechanism", "s4", "--for", "gfx942", "--fill"], COGWHEEL_ENGINE="")
    assert done.returncode == 2
    assert done.stderr.endswith("error: --for: expected a device of NVIDIA with --fill, got gfx942\n")


def test_compiling_ends():
    """After it a walk on the CPU is computed again."""
    from cogwheel.device_kernels import laws

    with pytest.raises(ValueError, match="target: expected sm_80, .*, got sm_12"):
        laws.fill("s4", 16, "sm_12")
    query = torch.ones(1, 1, 3, 4)
    assert torch.equal(cogwheel.recurrent(query, query, query, "linear_attention", scale=1.0)[0, 0, :, 0], torch.tensor([4.0, 8.0, 12.0]))
