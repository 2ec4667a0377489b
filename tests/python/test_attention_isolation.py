"""What must not affect a result: NaN elsewhere, the previous contents of memory, the number of threads."""

import math
import os
import pathlib

import pytest
import reference
import torch
from attention_cases import Inputs, Shape, assert_same_bits, operator_results, random_inputs

import cogwheel

MECHANISMS = sorted(reference.TABLE)

each_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS)
each_visibility = pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])


@pytest.mark.diagonal
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("position", [0, 70, 149])
@pytest.mark.parametrize("where", ["key", "value"])
@each_mechanism
def test_non_finite_keys_and_values_reach_only_rows_that_see_them(mechanism, where, position, bad):
    shape = Shape(2, 4, 2, 150, 150, 24, 40)
    inputs = random_inputs(mechanism, shape)
    clean = operator_results(mechanism, inputs, causal=True)
    heads = inputs.tensors()[where].shape[1]
    inputs.tensors()[where][0, heads - 1, position, 3] = bad
    dirty = operator_results(mechanism, inputs, causal=True)

    # The last key head of the first batch entry serves the second half of its output heads.
    for name in ("output", "query"):
        assert_same_bits(dirty[name][1], clean[name][1], f"{name} of the other batch entry")
        half = clean[name].shape[1] // 2
        assert_same_bits(dirty[name][0, :half], clean[name][0, :half], f"{name} of the other key head")
        assert_same_bits(dirty[name][0, :, :position], clean[name][0, :, :position], f"{name} of earlier rows")
    for name in ("key", "value"):
        assert_same_bits(dirty[name][1], clean[name][1], f"{name} of the other batch entry")
        half = clean[name].shape[1] // 2
        assert_same_bits(dirty[name][0, :half], clean[name][0, :half], f"{name} of the other key head")

    seen = dirty["output"][0, 2:, position:]
    if where == "value":
        assert not seen[..., 3].isfinite().any()
        assert seen[..., torch.arange(40) != 3].isfinite().all()
    elif math.isnan(bad) and reference.TABLE[mechanism].reads_scores:
        assert seen.isnan().all()


@each_mechanism
def test_non_finite_gradients_reach_only_what_the_row_saw(mechanism):
    inputs = random_inputs(mechanism, Shape(1, 2, 1, 150, 150, 24, 40))
    clean = operator_results(mechanism, inputs, causal=True)
    inputs.output_gradient[0, 1, 70, 3] = torch.nan
    dirty = operator_results(mechanism, inputs, causal=True)
    assert_same_bits(dirty["output"], clean["output"], "output")
    for name in ("key", "value"):
        assert_same_bits(dirty[name][:, :, 71:], clean[name][:, :, 71:], f"{name} that the row does not see")
        assert not dirty[name][:, :, :71].isfinite().all()
    sub_heads = reference.TABLE[mechanism].sub_heads
    other_rows = torch.arange(150) != 70
    assert_same_bits(dirty["query"][:, :, other_rows], clean["query"][:, :, other_rows], "query of other rows")
    assert_same_bits(dirty["query"][:, :sub_heads], clean["query"][:, :sub_heads], "query of the other head")
    assert dirty["query"][:, sub_heads:, 70].isnan().all()


@each_mechanism
def test_non_finite_queries_reach_only_their_row(mechanism):
    inputs = random_inputs(mechanism, Shape(1, 2, 1, 150, 150, 24, 40))
    clean = operator_results(mechanism, inputs, causal=True)
    inputs.query[0, -1, 70, 3] = torch.nan
    dirty = operator_results(mechanism, inputs, causal=True)
    other_rows = torch.arange(150) != 70
    for name in ("output", "query"):
        assert_same_bits(dirty[name][:, :, other_rows], clean[name][:, :, other_rows], f"{name} of other rows")
    assert dirty["output"][0, -1, 70].isnan().all() == reference.TABLE[mechanism].reads_scores
    assert_same_bits(dirty["key"][:, :, 71:], clean["key"][:, :, 71:], "key that the row does not see")


@each_mechanism
def test_nothing_depends_on_what_memory_held(mechanism):
    """Freed NaN tensors of every size involved, and a call on NaN, leave the allocator and the workspaces poisoned."""
    inputs = random_inputs(mechanism, Shape(2, 4, 2, 150, 170, 24, 40))
    expected = operator_results(mechanism, inputs, causal=True)
    poisoned = Inputs(
        *(torch.full_like(tensor, torch.nan) for tensor in (inputs.query, inputs.key, inputs.value)),
        torch.full_like(inputs.output_gradient, torch.nan),
        inputs.scale,
        inputs.parameters,
    )
    for _ in range(3):
        operator_results(mechanism, poisoned, causal=True)
        freed = [torch.full_like(tensor, torch.nan) for tensor in expected.values() for _ in range(8)]
        freed += [torch.full((2**power,), torch.nan) for power in range(4, 23)]
        del freed
        for name, tensor in operator_results(mechanism, inputs, causal=True).items():
            assert_same_bits(tensor, expected[name], name)


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.diagonal
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fp32", "fp64"])
@pytest.mark.parametrize(
    "shape",
    [
        Shape(1, 1, 1, 700, 700, 64, 64),
        Shape(2, 4, 2, 150, 170, 24, 40),
        Shape(1, 4, 1, 1, 900, 64, 64),
        Shape(1, 1, 1, 70_000, 2, 8, 8),  # sums so long that at::sum would split them by threads
    ],
    ids=str,
)
@each_visibility
@each_mechanism
def test_same_bits_for_any_number_of_threads_and_every_run(mechanism, causal, shape, dtype, threads):
    inputs = random_inputs(mechanism, shape).to(dtype)
    threads(1)
    expected = operator_results(mechanism, inputs, causal=causal)
    for number in (1, 2, 3, 2):
        threads(number)
        for name, tensor in operator_results(mechanism, inputs, causal=causal).items():
            assert_same_bits(tensor, expected[name], f"{name} with {number} threads")


def processor_time_by_thread() -> dict[str, int]:
    """Clock ticks that every thread of this process has used."""
    times = {}
    for task in pathlib.Path("/proc/self/task").iterdir():
        fields = (task / "stat").read_text().rpartition(")")[2].split()
        times[task.name] = int(fields[11]) + int(fields[12])
    return times


@pytest.mark.alone
@pytest.mark.one_of_each_kind
@pytest.mark.diagonal
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
@pytest.mark.parametrize("direction", ["forward", "backward"])
@each_mechanism
def test_work_is_shared_by_threads(mechanism, direction, threads):
    """A file compiled without -fopenmp would run at::parallel_for serially, and no other test would notice."""
    threads(2)
    inputs = random_inputs(mechanism, Shape(1, 4, 4, 512, 512, 64, 64))
    leaves = {name: tensor.requires_grad_() for name, tensor in inputs.tensors().items()}

    def work():
        out = cogwheel.attention(mechanism=mechanism, causal=False, **leaves)
        before = processor_time_by_thread()
        for _ in range(60):
            if direction == "forward":
                with torch.no_grad():
                    cogwheel.attention(mechanism=mechanism, causal=False, **leaves)
            else:
                torch.autograd.grad(out, list(leaves.values()), inputs.output_gradient, retain_graph=True)
        after = processor_time_by_thread()
        return sorted((after[thread] - before.get(thread, 0) for thread in after), reverse=True)

    # Other work on the machine may keep a thread waiting once, not three times.
    for _ in range(3):
        busiest, second, *_ = work() + [0]
        if second >= 0.3 * busiest > 0:
            break
    assert second >= 0.3 * busiest > 0, f"clock ticks of the two busiest threads: {busiest}, {second}"
