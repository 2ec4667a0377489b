"""Every instruction set that was built and this machine runs, not only the best, gives right numbers, and the override
chooses it. A build for this machine has a few row maps for the others; that of --all has every one."""

import os
import re
import subprocess
import sys

import pytest

import cogwheel

# The machine's flags decide what can be tested, not the library's opinion of them.
with open("/proc/cpuinfo") as cpuinfo:
    FLAGS = set(next((line for line in cpuinfo if line.startswith("flags")), "").split())
INSTRUCTION_SETS = {
    "avx512": {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"},
    "avx2": {"avx2", "fma", "bmi1", "bmi2"},
    "portable": set(),
}

# Prints the bits of an output and of the gradients, for the instruction set of the environment.
BITS = """
import hashlib, torch, cogwheel
torch.manual_seed(0)
leaves = [torch.randn(1, 2, 200, 40, requires_grad=True) for _ in range(3)]
out = cogwheel.attention(*leaves, "cog", causal=True)
gradients = torch.autograd.grad(out.square().sum(), leaves)
print(hashlib.sha256(b"".join(tensor.detach().numpy().tobytes() for tensor in (out, *gradients))).hexdigest())
"""


@pytest.fixture(scope="module")
def table(cogwheel_executable):
    printed = subprocess.run([cogwheel_executable, "list", "kernels"], capture_output=True, text=True, check=True).stdout
    return printed.split("\n\n")[0].splitlines()


@pytest.fixture(scope="module")
def kernels(table):
    """Row maps that have kernels, by instruction set: of those that were built and that this machine runs."""
    rows = [line.split() for line in table[1:]]
    return {
        isa: {row[0] for row in rows if row[2] == isa}
        for isa, flags in INSTRUCTION_SETS.items()
        if flags <= FLAGS and any(row[2] == isa for row in rows)
    }


def run(repository, isa, *command):
    # A product that the tests are started under may need another instruction set.
    environment = {**os.environ, "COGWHEEL_ISA": isa, "COGWHEEL_PRODUCT": ""}
    return subprocess.run(
        [sys.executable, *command], cwd=repository, env=environment, capture_output=True, text=True, timeout=600
    )


def test_the_best_that_this_machine_runs_has_every_map(kernels):
    best = next(isa for isa, flags in INSTRUCTION_SETS.items() if flags <= FLAGS)
    members = {entry["member"] for entry in cogwheel.mechanisms() if entry["member"] and entry["definition"] is None}
    assert kernels[best] == members


def test_the_list_has_the_walks_of_the_recurrent_family(table, kernels):
    """One row of each for every instruction set and type; the best that this machine runs is chosen, and no other."""
    chosen, others = {}, set()
    for line in table[1:]:
        walk, device, isa, dtype, is_chosen, reason = re.split(r" {2,}", line)
        if walk.startswith(("token walk", "delta walk", "state space")):
            assert device == "cpu" and (is_chosen == "yes") == reason.startswith("chosen")
            if is_chosen == "yes":
                assert chosen.setdefault((walk, dtype), isa) == isa
            else:
                others.add((walk, dtype, isa))
    walks = ["token walk, none", "token walk, constant", "token walk, per_token", "token walk, per_channel"]
    walks += ["delta walk, none", "delta walk, per_token", "delta walk, per_channel", "state space"]
    assert list(chosen) == [(walk, dtype) for walk in walks for dtype in ("float32", "bfloat16", "float16", "float64")]
    best = next(iter(kernels))
    assert set(chosen.values()) == {best}
    assert {isa for _, _, isa in others} >= set(kernels) - {best}


@pytest.mark.parametrize("isa", INSTRUCTION_SETS)
def test_table_holds(isa, kernels, repository, request):
    if isa not in kernels:
        pytest.skip(f"{isa} was not built, or this machine lacks it")
    if isa == next(iter(kernels)):
        pytest.skip(f"{isa} is what all other tests run on")
    lacking = set.union(*kernels.values()) - kernels[isa]
    # One length of queries against every length of keys, tails of head_dim, rows that are not aligned, large scores and
    # zeros, every kind of score: what differs between instruction sets. The rest runs on the best one.
    result = run(
        repository,
        isa,
        *("-m", "pytest", "-x", "-p", "no:cacheprovider"),
        *(["--all"] if request.config.getoption("--all") else []),
        "tests/python/test_attention.py",
        "tests/python/test_attention_properties.py",
        "tests/python/test_scores.py",
        "tests/python/test_half_precision.py",
        "tests/python/test_statistics.py",
        "tests/python/test_gated_sequence.py",
        "tests/python/test_soft_window.py",
        "-k",
        "".join(f"not {name} and " for name in sorted(lacking)) + "("
        "(equals_reference and N65 and not M1000) or (head_dim and (9 or 96 or 255 or 1024)) or (strides and misaligned) or "
        "(extreme and 300) or exactly_zero or any_score or 16_bit or (statistics_of_every and N67 and causal and float32) or nearest_even or infinities or (rounded_once and cog) or "
        "equals_torch or equals_the_formula)",
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    assert " passed" in result.stdout


def test_the_override_chooses(kernels, repository):
    """Instruction sets sum in different widths, so that their results differ in the last bits."""
    bits = {}
    for isa in kernels:
        result = run(repository, isa, "-c", BITS)
        assert result.returncode == 0, result.stderr
        bits[isa] = result.stdout
    if len(bits) < 2:
        pytest.skip("this machine runs the portable kernels only")
    assert len(set(bits.values())) == len(bits), bits


def test_an_unknown_instruction_set_is_refused(repository):
    result = run(repository, "abacus", "-c", BITS)
    assert result.returncode != 0
    assert "COGWHEEL_ISA: expected" in result.stderr and "got abacus" in result.stderr
