"""Kernels for GPUs, proved without one: the functions that are printed from headers, the kernels interpreted on the CPU (COGWHEEL_ENGINE=interpreted,
which a process chooses when it starts: what is named *interpreted* runs in one of its own), and what Triton compiles them to."""

import os
import pathlib
import re
import subprocess
import sys

import pytest
import reference
import torch
from attention_cases import Shape, assert_equal_to_reference, assert_same_bits, grid_inputs, operator_results, random_inputs

import cogwheel

pytest.importorskip("triton", reason="triton is not installed: kernels for GPUs are not tried")
INTERPRETED = os.environ.get("COGWHEEL_ENGINE") == "interpreted"
interpreted = pytest.mark.skipif(not INTERPRETED, reason="runs in a process of its own, of the test that starts it")
LIST = pathlib.Path(__file__).parents[2] / "cogwheel/attention/mechanisms/mechanisms.def"
ROW_MAPS = re.findall(r"^ROW_MAP\((\w+),", LIST.read_text(), re.MULTILINE)


def in_process(arguments: list[str], **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=os.path.dirname(__file__), env={**os.environ, "OMP_NUM_THREADS": "1", **environment}
    )


def run_interpreted(*arguments: str) -> None:
    done = in_process(["-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments], COGWHEEL_ENGINE="interpreted")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_kernels_hold():
    run_interpreted(os.path.basename(__file__), "-k", "test_interpreted")


@pytest.mark.slow
@pytest.mark.parametrize(
    "table, only",
    [
        ("test_attention.py", "not fp64"),
        ("test_attention_isolation.py", "non_finite"),
        ("test_half_precision.py", "rounded or rows_that or strides or infinities or hidden"),
    ],
)
def test_whole_tables_hold(table, only):
    run_interpreted(table, "-k", only)


@pytest.fixture(autouse=INTERPRETED)
def launches(monkeypatch):
    """The names of the kernels that ran: a test whose call was composed would show nothing."""
    from cogwheel.device_kernels import launch

    names, run = [], launch._run

    def counted(kernel, *arguments, **constants):
        names.append(kernel.fn.__name__)
        run(kernel, *arguments, **constants)

    monkeypatch.setattr(launch, "_run", counted)
    yield names
    assert names


# Widths that are no powers of two, groups of heads, more keys than queries and the reverse, ends of blocks within both.
SHAPES = [Shape(1, 2, 1, 33, 40, 20, 33), Shape(1, 1, 1, 40, 33, 64, 8), Shape(2, 3, 1, 1, 66, 40, 80)]


@interpreted
@pytest.mark.diagonal
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("mechanism", sorted(reference.TABLE))
def test_interpreted_equals_reference(mechanism, shape, causal):
    assert_equal_to_reference(mechanism, grid_inputs(mechanism, shape), causal=causal)


def results_of(inputs: list[torch.Tensor], mechanism: str, dtype: torch.dtype, **options) -> list[torch.Tensor]:
    """Output and gradients."""
    leaves = [each.to(dtype).requires_grad_() for each in inputs]
    output = cogwheel.attention(*leaves, mechanism, **options)
    weights = torch.randn(output.shape, generator=torch.Generator().manual_seed(9), dtype=torch.float64).to(dtype)
    return [output.detach(), *torch.autograd.grad(output, leaves, weights)]


def some(*sizes: tuple[int, ...]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(*each, generator=generator, dtype=torch.float64) for each in sizes]


CALLS = {
    "window": {"causal": True, "window": 11},
    "a window wider than a block": {"causal": True, "window": 37},
    "lengths": {"key_lengths": torch.tensor([40, 0])},
    "causal lengths": {"causal": True, "key_lengths": torch.tensor([70, 37]), "window": 20},
    "causal lengths without a window": {"causal": True, "key_lengths": torch.tensor([[33, 0], [69, 0]])[:, 0]},
    "a window without end": {"causal": True, "window": 2**31 - 1},
}


@interpreted
@pytest.mark.diagonal
@pytest.mark.parametrize("mechanism", ["softmax_off_by_one", "relu_mean"])
@pytest.mark.parametrize("call", CALLS)
def test_interpreted_sees_what_is_composed(call, mechanism):
    """What float64 is composed of ATen's operators for, which other tests hold to the reference."""
    inputs = some((2, 2, 66, 16), (2, 1, 70, 16), (2, 1, 70, 24))
    found, expected = (results_of(inputs, mechanism, dtype, **CALLS[call]) for dtype in (torch.float32, torch.float64))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=3e-6 * theirs.abs().max().item())


@interpreted
def test_interpreted_windows_have_blocks_that_are_seen_whole():
    inputs = some((1, 1, 140, 16), (1, 1, 140, 16), (1, 1, 140, 16))
    found, expected = (results_of(inputs, "cog", dtype, causal=True, window=100) for dtype in (torch.float32, torch.float64))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=3e-6 * theirs.abs().max().item())


@interpreted
@pytest.mark.parametrize("options", [{}, {"window": 7}], ids=str)
def test_interpreted_steps_of_a_cache(options):
    """Entries of different lengths, of which each query sees the keys up to its own position."""
    keys, values = some((2, 2, 40, 16), (2, 2, 40, 8))
    queries = some((2, 4, 3, 16))[0]
    found = []
    for dtype in (torch.float32, torch.float64):
        cache = cogwheel.KeyValueCache(2, 2, 48, 16, 8, dtype=dtype)
        cache.append(keys.to(dtype), values.to(dtype), torch.tensor([40, 35]))
        found.append(cache.attend(queries.to(dtype), "cog", **options))
    torch.testing.assert_close(found[0].double(), found[1], rtol=0, atol=3e-6 * found[1].abs().max().item())


@interpreted
@pytest.mark.diagonal
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("mechanism", ["softmax", "cog", "differential"])
def test_interpreted_multiplies_16_bits(mechanism, dtype):
    """By their numbers, and not their bits. How kernels round is compared bit for bit in printed_values.py."""
    sub_heads = 2 if mechanism == "differential" else 1
    inputs = [each.to(dtype) for each in some((1, 2 * sub_heads, 40, 32), (1, 2 * sub_heads, 45, 32), (1, 2, 45, 32))]
    lam = torch.tensor([0.25, 0.5], dtype=torch.float64)
    options = {each: {"lam": lam.to(each)} if sub_heads == 2 else {} for each in (dtype, torch.float64)}
    found, expected = (results_of(inputs, mechanism, each, causal=True, **options[each]) for each in options)
    limit = 3 * torch.finfo(dtype).eps
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == dtype
        assert (ours.double() - theirs).norm() <= limit * theirs.norm()


@interpreted
@pytest.mark.diagonal
@pytest.mark.parametrize("mechanism", ["cog", "relu"])
@pytest.mark.parametrize("where", ["key", "value", "gradient"])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_interpreted_keeps_what_is_not_finite_where_it_is_seen(where, mechanism, bad):
    position = 20
    inputs = random_inputs(mechanism, Shape(1, 2, 2, 40, 40, 24, 40))
    clean = operator_results(mechanism, inputs, causal=True)
    (inputs.output_gradient if where == "gradient" else inputs.tensors()[where])[0, 1, position, 3] = bad
    dirty = operator_results(mechanism, inputs, causal=True)
    for name in ("output", "query", "key", "value"):
        assert_same_bits(dirty[name][0, 0], clean[name][0, 0], f"{name} of the other head")
    for name in ("output", "query"):
        assert_same_bits(dirty[name][0, 1, :position], clean[name][0, 1, :position], f"{name} of earlier rows")
    if where == "gradient":
        assert_same_bits(dirty["output"], clean["output"], "output")
        for name in ("key", "value"):
            assert_same_bits(dirty[name][0, 1, position + 1 :], clean[name][0, 1, position + 1 :], f"{name} that the row does not see")
        assert not dirty["value"][0, 1, : position + 1, 3].isfinite().all()
    if where == "value":
        assert not dirty["output"][0, 1, position:, 3].isfinite().all()
        assert dirty["output"][0, 1, :, :3].isfinite().all()


@interpreted
def test_interpreted_gives_the_same_bits_twice():
    inputs = some((1, 4, 66, 16), (1, 2, 70, 16), (1, 2, 70, 24))
    for first, second in zip(*(results_of(inputs, "cog", torch.float32, causal=True) for _ in range(2)), strict=True):
        assert_same_bits(first, second, "again")


@interpreted
def test_interpreted_leaves_the_rest_to_what_is_composed(launches):
    """Options that the kernels lack, float16 where weights may be beyond it, statistics, and derivatives of second order."""
    inputs = some((1, 2, 9, 16), (1, 2, 11, 16), (1, 2, 11, 8))
    half = cogwheel.attention(*(each.half() for each in inputs), "cubic", scale=3.0)
    assert half.isfinite().all()
    for options in ({"dropout": 0.3, "seed": 3}, {"softcap": 5.0}, {"alibi": torch.tensor([0.1, 0.4])}):
        found, expected = (results_of(inputs, "cog", dtype, causal=True, **options) for dtype in (torch.float32, torch.float64))
        torch.testing.assert_close(found[0].double(), expected[0], rtol=1e-5, atol=1e-5)
    rows = [cogwheel.attention_statistics(*(each.to(dtype) for each in inputs), "cog")[1] for dtype in (torch.float32, torch.float64)]
    for ours, theirs in zip(*rows, strict=True):
        if ours is not None and ours.is_floating_point():
            torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-4)
    assert not launches
    leaves = [each.float().requires_grad_() for each in inputs]
    [first] = torch.autograd.grad(cogwheel.attention(*leaves, "cog").square().sum(), leaves[:1], create_graph=True)
    second = torch.autograd.grad(first.square().sum(), leaves[0])[0]
    assert second.isfinite().all() and second.abs().max() > 0


@interpreted
def test_interpreted_runs_a_mechanism_of_ones_own():
    """With a scalar, and a number that is a function of a number. f′ is infinite at a score of 0, which rows beyond the last have and no other."""
    own = cogwheel.mechanism(name="root_of_score", f="tau*sqrt(abs(s))", g="sqrt(abs(s)) + tanh(1)", parameters={"tau": 0.5})
    inputs = some((1, 2, 40, 16), (1, 2, 40, 16), (1, 2, 40, 16))
    tau = torch.tensor([0.3, 0.9], dtype=torch.float64)
    found, expected = (results_of(inputs, own.name, dtype, tau=tau.to(dtype)) for dtype in (torch.float32, torch.float64))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=1e-4 * theirs.abs().max().item())


def test_printed_functions_have_the_values_of_the_header():
    done = in_process(["printed_values.py", *ROW_MAPS], COGWHEEL_ENGINE="interpreted")
    assert done.returncode == 0, done.stderr[-3000:]
    found = dict(line.split() for line in done.stdout.splitlines())
    assert sorted(found) == sorted(ROW_MAPS)
    # σ by 1/(1 + e⁻ˣ), whose e⁻ˣ has the error of a large exponent.
    assert all(float(off) < (2e-5 if mechanism == "sigmoid" else 2e-6) for mechanism, off in found.items()), found


COMPILED = r"""
import re, sys
from cogwheel.device_kernels.compiled import KERNELS, compiled
mechanism, target, head_dim = sys.argv[1], sys.argv[2], int(sys.argv[3])
for kernel in KERNELS:
    found = compiled(mechanism, kernel, target, head_dim=head_dim, wide=mechanism == "differential")
    atomics = re.findall(r"^\s*(?:@\S+\s+)?(?:atom|red)\.|_atomic_", found.assembly, re.MULTILINE)
    print(kernel, found.shared_bytes, found.stack_bytes, found.products, len(atomics))
"""
SHARED_BYTES = {"sm_80": 163 << 10, "sm_90": 227 << 10, "sm_100": 227 << 10, "gfx942": 64 << 10}
ALL = pytest.mark.slow


@pytest.mark.parametrize(
    "mechanism, target, head_dim",
    [("cog", "sm_90", 64), pytest.param("differential", "sm_90", 64, marks=ALL)]
    + [pytest.param(mechanism, target, 64, marks=ALL) for mechanism in ROW_MAPS for target in SHARED_BYTES if (mechanism, target) != ("cog", "sm_90")]
    + [pytest.param(mechanism, target, head_dim, marks=ALL) for mechanism in ("softmax", "cog") for target in SHARED_BYTES for head_dim in (128, 256)],
)
def test_kernels_compile_without_a_device(mechanism, target, head_dim):
    done = in_process(["-c", COMPILED, mechanism, target, str(head_dim)], COGWHEEL_ENGINE="")
    assert done.returncode == 0, done.stderr[-3000:]
    for line in done.stdout.splitlines():
        kernel, shared, stack, products, atomics = line.split()
        assert int(shared) <= SHARED_BYTES[target], line
        assert int(products) > 0 or kernel == "backward_rows", line
        assert int(atomics) == 0, line
        assert (stack == "None") == target.startswith("gfx"), line
        assert stack == "None" or int(stack) <= (0 if head_dim <= 64 else 128), line


def test_the_command_shows_what_a_compiler_makes(capsys):
    words = ["--mechanism", "relu", "--for", "sm_80", "--head-dim", "16"]
    done = in_process(["-m", "cogwheel.device_kernels", *words])
    assert done.returncode == 0, done.stderr
    heading, *kernels = done.stdout.splitlines()
    assert [line.split()[0] for line in kernels] == ["forward", "backward_rows", "backward_queries", "backward_keys"]
    from cogwheel.device_kernels.__main__ import main

    for changed, said in {
        ("--for", "sm_10"): "error: --for: expected sm_80, sm_90, sm_100, gfx942, got sm_10",
        ("--mechanism", "gla"): "error: mechanism: expected one that is a function of scores, got gla",
        ("--head-dim", "4"): "error: --head-dim: expected 8 to 256, got 4",
        ("--assembly", "decode"): "error: --assembly: expected forward, backward_rows, backward_queries, backward_keys, got decode",
    }.items():
        with pytest.raises(SystemExit, match="2"):
            main([*words, *changed])
        assert capsys.readouterr().err.splitlines()[-1].endswith(said)


def test_what_cannot_run_says_so(cogwheel_executable, tmp_path):
    (tmp_path / "triton.py").write_text("raise ImportError('no triton here')")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = in_process(["-c", "import cogwheel"], COGWHEEL_ENGINE="interpreted", PYTHONPATH=path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ImportError: COGWHEEL_ENGINE=interpreted: expected the package triton, got none; pip install triton"
    )
    done = in_process(["-c", "import triton, cogwheel"], COGWHEEL_ENGINE="interpreted", TRITON_INTERPRET="")
    assert done.stderr.splitlines()[-1].endswith("expected cogwheel to be imported before triton, or TRITON_INTERPRET=1, got triton imported")
    listed = subprocess.run([cogwheel_executable, "list", "kernels"], env={**os.environ, "COGWHEEL_ENGINE": "interpreted"}, capture_output=True, text=True, check=True)
    assert any("Triton" in line and " yes " in line for line in listed.stdout.splitlines())
    assert not any(line.startswith("softmax ") and " yes " in line for line in listed.stdout.splitlines())
