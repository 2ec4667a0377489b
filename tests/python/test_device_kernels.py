"""Kernels for GPUs, proved without one: the functions that are printed from headers, the kernels interpreted on the CPU (COGWHEEL_ENGINE=interpreted,
which a process chooses when it starts: what is named *interpreted* runs in one of its own), and what Triton compiles them to."""

import ctypes
import os
import pathlib
import re
import subprocess
import sys

import pairwise_formula
import pytest
import reference
import torch
from attention_cases import Shape, assert_equal_to_reference, assert_same_bits, grid_inputs, operator_results, random_inputs
from interpreted_kernels import in_process, interpreted, launching, run_interpreted
from modified_attention import assert_equal_to_formula
from modifier_cases import modified_case

import cogwheel

pytest.importorskip("triton", reason="triton is not installed: kernels for GPUs are not tried")
pytestmark = launching
LIST = pathlib.Path(__file__).parents[2] / "cogwheel/attention/mechanisms/mechanisms.def"
ROW_MAPS = re.findall(r"^ROW_MAP\((\w+),", LIST.read_text(), re.MULTILINE)


# In two processes, side by side where two may run.
@pytest.mark.parametrize("only", ["test_interpreted and not formula", "test_interpreted and formula"], ids=["calls", "options"])
def test_kernels_hold(only):
    run_interpreted(os.path.basename(__file__), "-k", only)


@pytest.mark.slow
def test_every_option_holds():
    run_interpreted(os.path.basename(__file__), "--all", "-k", "test_interpreted and formula")


@pytest.mark.slow
@pytest.mark.parametrize(
    "table, only",
    [
        ("test_attention.py", "not fp64"),
        ("test_attention_isolation.py", "non_finite"),
        ("test_half_precision.py", "rounded or rows_that or strides or infinities or hidden"),
        ("test_attention_modifiers.py", "test_equals_the_formula and not fp64"),
        ("test_scores.py", "in_single_precision"),
        ("test_statistics.py", "statistics_of_every_mechanism and not float64"),
    ],
)
def test_tables_hold(table, only):
    """A diagonal of each: every modifier, mechanism and shape, and not every combination of them."""
    run_interpreted(table, "-k", only)


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


# Of few rows: their keys in parts, of which some are hidden whole.
STEPS = {
    "causal": {"causal": True, "window": 50},
    "lengths": {"key_lengths": torch.tensor([90, 20])},
    "nothing seen": {"key_lengths": torch.tensor([0, 100])},
    "bias": {"bias": some((2, 2, 3, 100))[0].masked_fill(some((3, 100))[0] > 1, -torch.inf)},
    "alibi": {"causal": True, "alibi": torch.tensor([0.5, 0.03])},
    "centers and dropout": {"local_radius": 30.0, "local_centers": 100 * some((2, 2, 3))[0].abs().clamp_max(1), "dropout": 0.3, "seed": 5},
    "ranges": {"ranges": torch.tensor([[10, 70], [70, 70], [64, 96]]).expand(2, 2, 3, 2)},
}


@interpreted
@pytest.mark.parametrize("mechanism, step", [("cog", step) for step in STEPS] + [(m, "causal") for m in ("softmax_off_by_one", "relu_mean", "norm")])
def test_interpreted_steps_are_put_together_of_parts(mechanism, step, launches):
    inputs = some((2, 2, 3, 16), (2, 1, 100, 16), (2, 1, 100, 24))
    found, expected = (
        results_of(inputs, mechanism, dtype, **{n: t.to(dtype) if n in ("bias", "local_centers") else t for n, t in STEPS[step].items()})
        for dtype in (torch.float32, torch.float64)
    )
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=3e-6 * theirs.abs().max().item())
    assert {"decode", "merge"} <= set(launches) and "forward" not in launches


def called_directly(inputs: list[torch.Tensor], mechanism: str = "softmax", **options) -> torch.Tensor:
    """By the operator, which checks no values, as on a device."""
    none = torch.empty(inputs[0].shape[1], 0, dtype=torch.float64)
    return pairwise_formula.OPERATOR(*inputs, none, mechanism, **pairwise_formula.UNMODIFIED | options)[0]


@interpreted
def test_interpreted_ranges_end_where_keys_do(monkeypatch):
    """Of a device nobody checks them: beyond the keys they would read other memory, and write gradients of biases there."""
    whole = some((1, 1, 160, 16), (1, 1, 160, 16))
    query, key, value = some((1, 1, 40, 16))[0].float(), *(each.float()[:, :, :37] for each in whole)
    ranges = torch.tensor([[0, 37]]).repeat(40, 1)
    expected = called_directly([query, key, value], ranges=ranges.view(1, 1, 40, 2))
    from cogwheel.device_kernels import interpreted as interpreter

    run = interpreter.run

    def beyond(kernel, programs, given):
        given["visible.ranges.data"] = ranges + torch.tensor([-5, 100])
        run(kernel, programs, given)

    monkeypatch.setattr(interpreter, "run", beyond)
    assert_same_bits(called_directly([query, key, value], ranges=ranges.view(1, 1, 40, 2)), expected, "output")


@interpreted
def test_interpreted_windows_may_be_any_number():
    inputs = [each.float().requires_grad_() for each in some((1, 2, 40, 16), (1, 2, 37, 16), (1, 2, 37, 16))]
    found = []
    for window in (2**63 - 1, 0):
        output = called_directly(inputs, mask="causal_first", window=window)
        found.append([output, *torch.autograd.grad(output.square().sum(), inputs)])
    for widest, none in zip(*found, strict=True):
        torch.testing.assert_close(widest, none, rtol=0, atol=1e-6)


@interpreted
def test_interpreted_draws_hide_no_number():
    """0·NaN is NaN where a weight is dropped too."""
    inputs = [each.float() for each in some((1, 1, 40, 16), (1, 1, 40, 16), (1, 1, 40, 16))]
    inputs[1][0, 0, 5] = torch.nan
    assert cogwheel.attention(*inputs, "cubic", dropout=0.5, seed=3).isnan().all()


@interpreted
def test_interpreted_parts_keep_what_is_not_finite_to_rows_that_see_it():
    query, key, value = some((1, 2, 2, 16), (1, 1, 100, 16), (1, 1, 100, 16))
    value[0, 0, 99, 3] = torch.nan
    output = cogwheel.attention(query.float(), key.float(), value.float(), "softmax", causal=True)
    assert output[0, :, 0].isfinite().all()
    assert output[0, :, 1, 3].isnan().all() and output[0, :, 1, :3].isfinite().all()


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


def in_single_precision(options: dict[str, object]) -> dict[str, object]:
    return options | {name: options[name].float() for name in pairwise_formula.DIFFERENTIABLE if options[name] is not None}


def each_case(*in_short: str) -> pytest.MarkDecorator:
    """With every map where all is asked for; without --all, of each kind of option one."""
    chosen = [(case, "cog") for case in in_short] + [("two sub-heads of everything", map) for map in ("cog", "softmax_off_by_one")]
    every = [(case, map) for case in pairwise_formula.CASES for map in ("cog", "softmax_off_by_one")]
    return pytest.mark.parametrize("case, mechanism", [pytest.param(*each, marks=() if each in chosen else pytest.mark.slow) for each in every])


@interpreted
@each_case("softcap", "sub_heads", "ranges", "bias", "energy_bias", "alibi", "centers", "dropout", "score_weight", "all that a cache says")
def test_interpreted_options_have_the_derivatives_of_the_formula(case, mechanism, launches):
    options = pairwise_formula.UNMODIFIED | pairwise_formula.CASES[case]
    inputs = pairwise_formula.inputs_of(mechanism, options["sub_heads"])
    inputs |= {name: options[name] for name in pairwise_formula.DIFFERENTIABLE if options[name] is not None}
    ours, dense = pairwise_formula.called(mechanism, list(inputs), options)
    single = [tensor if name == "parameters" else tensor.float() for name, tensor in inputs.items()]
    results = []
    for function, tensors in ((ours, single), (dense, list(inputs.values()))):
        leaves = [tensor.clone().requires_grad_() for tensor in tensors]
        output = function(*leaves)
        of_output = pairwise_formula.random(*output.shape, seed=8).to(output.dtype)
        results.append([output, *torch.autograd.grad(output, leaves, of_output, materialize_grads=True)])
    for name, found, expected in zip(["output", *inputs], *results, strict=True):
        torch.testing.assert_close(found.double(), expected, rtol=2e-5, atol=2e-6, msg=lambda text, name=name: f"{name}: {text}")
    assert {"forward", "backward_keys"} <= set(launches)


@interpreted
@each_case("sub_heads", "ranges", "bias", "dropout")
def test_interpreted_statistics_are_those_of_the_formula(case, mechanism, launches):
    options = pairwise_formula.UNMODIFIED | pairwise_formula.CASES[case] | {"statistics": True, "argmax": True}
    inputs = pairwise_formula.inputs_of(mechanism, options["sub_heads"])
    weights = pairwise_formula.dense_weights(mechanism, inputs["query"], inputs["key"], inputs["parameters"], options)
    given = [tensor if name == "parameters" else tensor.float() for name, tensor in inputs.items()]
    single = in_single_precision(options)
    _, shift, mass, rows = pairwise_formula.OPERATOR(*given, mechanism, **single)
    pairwise_formula.assert_statistics(rows, weights, pairwise_formula.visibility_mask(options), error=2e-5)
    coefficient, mixed, seen = pairwise_formula.mixture_of(weights, options)
    taken = {name: value for name, value in single.items() if name not in ("wide_output", "statistics")}
    rows = torch.ops.cogwheel.mixture_statistics(
        *given, shift, mass, None if coefficient is None else coefficient.float(), mechanism, **taken
    )
    pairwise_formula.assert_statistics(rows, mixed, seen, error=2e-5)
    assert launches.count("statistics") == 2


# Several blocks of rows and keys, of which some have rows that see nothing.
@interpreted
@pytest.mark.parametrize("name", ["positions", "packed window"])
def test_interpreted_modifiers_equal_the_formula(name):
    assert_equal_to_formula("cog", modified_case("cog", name, torch.float32))


@interpreted
@pytest.mark.parametrize("mechanism", ["cog", "differential_cog"])
def test_interpreted_weights_are_what_multiplies_the_values(mechanism, launches):
    """With gradients, which reach queries and keys through the weights alone."""
    sub_heads = 2 if mechanism == "differential_cog" else 1
    query, key = some((1, 2 * sub_heads, 40, 16), (1, 2 * sub_heads, 45, 16))
    options = {"causal": True, "window": 20, "dropout": 0.2, "seed": 3}
    if sub_heads == 2:
        options["lam"] = torch.tensor([0.25, 0.5])
    results = []
    for dtype in (torch.float32, torch.float64):
        leaves = [each.to(dtype).requires_grad_() for each in (query, key)]
        given = options | ({"lam": options["lam"].to(dtype)} if sub_heads == 2 else {})
        weights = cogwheel.attention_weights(*leaves, mechanism, **given)
        results.append([weights, *torch.autograd.grad(weights, leaves, some(weights.shape)[0].to(dtype))])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=3e-6)
    assert "weights" in launches


@interpreted
def test_interpreted_leaves_the_rest_to_what_is_composed(launches):
    """float64, float16 where weights may be beyond it, heads wider than blocks may be, and derivatives of second order."""
    inputs = some((1, 2, 9, 16), (1, 2, 11, 16), (1, 2, 11, 8))
    half = cogwheel.attention(*(each.half() for each in inputs), "cubic", scale=3.0)
    assert half.isfinite().all()
    cogwheel.attention(*inputs, "cog")
    cogwheel.attention(*(each.float() for each in some((1, 1, 9, 264), (1, 1, 11, 264), (1, 1, 11, 8))), "cog")
    assert not launches
    leaves = [each.float().requires_grad_() for each in inputs]
    [first] = torch.autograd.grad(cogwheel.attention(*leaves, "cog").square().sum(), leaves[:1], create_graph=True)
    second = torch.autograd.grad(first.square().sum(), leaves[0])[0]
    assert second.isfinite().all() and second.abs().max() > 0


@interpreted
def test_interpreted_runs_a_mechanism_of_ones_own():
    """With a scalar, and a number that is a function of a number. f′ is infinite at a score of 0, which rows beyond the last have and no other."""
    own = cogwheel.mechanism(name="root_of_score", f="tau*sqrt(abs(s))", g="sqrt(abs(s)) + tanh(1)", parameters={"tau": 0.5})
    query, key, value = some((1, 2, 40, 16), (1, 2, 40, 16), (1, 2, 40, 16))
    inputs = query.abs(), key.abs(), value  # no score is near 0, where roundings that machines differ in become large
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
from cogwheel.device_kernels.compiled import MODIFIED, compiled
from cogwheel.device_kernels.row_maps import KERNELS
mechanism, target, head_dim, more = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4].split()
dtype = "fp32" if "fp32" in more else "bf16"
more = tuple(each for each in more if each != "fp32")
for kernel in MODIFIED if more else KERNELS["pairwise"]:
    found = compiled(mechanism, kernel, target, head_dim=head_dim, dtype=dtype, more=more, wide=mechanism == "differential")
    atomics = re.findall(r"^\s*(?:@\S+\s+)?(?:atom|red)\.|_atomic_", found.assembly, re.MULTILINE)
    print(kernel, found.shared_bytes, found.stack_bytes, found.products, len(atomics))
"""
SHARED_BYTES = {"sm_80": 163 << 10, "sm_89": 99 << 10, "sm_90": 227 << 10, "sm_100": 227 << 10, "gfx942": 64 << 10}
MORE = ["softcap", "bias", "energy_bias", "alibi", "centers", "dropout", "ranges", "window lengths", "mixture bias dropout"]
WITHOUT_PRODUCTS = {"backward_rows", "merge", "count_keys"}
QUICK = [("cog", "sm_90", 64, ""), ("softmax", "sm_90", 64, "bias dropout")]
EVERY = (
    [(mechanism, target, 64, "") for mechanism in [*ROW_MAPS, "differential"] for target in SHARED_BYTES]
    + [(mechanism, target, head_dim, "") for mechanism in ("softmax", "cog") for target in SHARED_BYTES for head_dim in (128, 256)]
    + [("cog", target, 64, more) for target in ("sm_80", "sm_90") for more in MORE]
    + [("softmax", "sm_89", head_dim, "fp32") for head_dim in (64, 128, 256)]
    + [("differential", "sm_89", head_dim, "") for head_dim in (128, 256)]
)


@pytest.mark.parametrize(
    "mechanism, target, head_dim, more", QUICK + [pytest.param(*case, marks=pytest.mark.slow) for case in EVERY if case not in QUICK]
)
def test_kernels_compile_without_a_device(mechanism, target, head_dim, more):
    done = in_process(["-c", COMPILED, mechanism, target, str(head_dim), more], COGWHEEL_ENGINE="")
    assert done.returncode == 0, done.stderr[-3000:]
    for line in done.stdout.splitlines():
        kernel, shared, stack, products, atomics = line.split()
        assert int(shared) <= SHARED_BYTES[target], line
        needs_scores = kernel not in WITHOUT_PRODUCTS and not (mechanism == "uniform" and kernel in ("weights", "statistics"))
        assert int(products) > 0 or not needs_scores or more == "fp32", line
        assert int(atomics) == 0, line
        assert more == "fp32" or int(stack) <= (0 if head_dim <= 64 and kernel != "statistics" else 128), line


@pytest.mark.slow
def test_the_cache_is_filled_without_a_device(tmp_path):
    """As calls on that device would fill it: another process finds every file there."""
    words = ["-m", "cogwheel.device_kernels", "--fill", "--for", "sm_80", "--mechanism", "relu", "--head-dim", "16"]
    environment = {"XDG_CACHE_HOME": str(tmp_path), "COGWHEEL_ENGINE": "", "COGWHEEL_PYTHON": sys.executable}
    for _ in range(2):
        done = in_process(words, **environment)
        assert done.returncode == 0, done.stderr
        assert done.stdout == "14 kernels of relu for sm_80 in the cache\n"
        environment["COGWHEEL_PYTHON"] = "/bin/false"  # which is not needed again
    assert len(list((tmp_path / "cogwheel/device_kernels").glob("*.kernel"))) == 14


def test_the_command_shows_what_a_compiler_makes(capsys):
    words = ["--mechanism", "relu", "--for", "sm_80", "--head-dim", "16"]
    done = in_process(["-m", "cogwheel.device_kernels", *words])
    assert done.returncode == 0, done.stderr
    heading, *kernels = done.stdout.splitlines()
    assert [line.split()[0] for line in kernels] == ["forward", "backward_rows", "backward_queries", "backward_keys"]
    from cogwheel.device_kernels.__main__ import main

    for changed, said in {
        ("--for", "sm_10"): "error: --for: expected sm_80, sm_89, sm_90, sm_100, gfx942, got sm_10",
        ("--mechanism", "polynomial"): "error: mechanism: expected one that is a function of scores, got polynomial",
        ("--head-dim", "4"): "error: --head-dim: expected 8 to 256, got 4",
        ("--assembly", "decode"): "error: --assembly: expected forward, backward_rows, backward_queries, backward_keys, got decode",
    }.items():
        with pytest.raises(SystemExit, match="2"):
            main([*words, *changed])
        assert capsys.readouterr().err.splitlines()[-1].endswith(said)


def has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def test_the_list_says_why_a_gpu_has_no_kernels(cogwheel_executable):
    """On a machine without its driver, or where no Python has the packages."""
    environment = {**os.environ, "COGWHEEL_PYTHON": "/bin/false"}
    listed = subprocess.run([cogwheel_executable, "list", "kernels"], env=environment, capture_output=True, text=True, check=True).stdout
    [line] = [each for each in listed.splitlines() if " cuda " in each]
    packages, driver = "Python with the packages cogwheel and triton (3.7 or newer)", "lacks libcuda.so.1, the driver of a GPU"
    assert " no " in line and line.endswith(packages if has_driver() else driver)


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
