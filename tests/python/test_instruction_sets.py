"""Every instruction set that this machine runs, not only the best, gives right numbers, and the override chooses it."""

import os
import subprocess
import sys

import pytest

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


def run(repository, isa, *command):
    environment = {**os.environ, "COGWHEEL_ISA": isa, "PYTHONPATH": str(repository / "python")}
    return subprocess.run(
        [sys.executable, *command], cwd=repository, env=environment, capture_output=True, text=True, timeout=600
    )


@pytest.mark.parametrize("isa", INSTRUCTION_SETS)
def test_table_holds(isa, repository):
    if not INSTRUCTION_SETS[isa] <= FLAGS:
        pytest.skip(f"this machine has no {isa}")
    # One length of queries against every length of keys, tails of head_dim, rows that are not aligned, large scores and
    # zeros, every kind of score: what differs between instruction sets. The rest runs on the best one.
    result = run(
        repository,
        isa,
        *("-m", "pytest", "-x", "-p", "no:cacheprovider"),
        "tests/python/test_attention.py",
        "tests/python/test_attention_properties.py",
        "tests/python/test_scores.py",
        "tests/python/test_half_precision.py",
        "tests/python/test_statistics.py",
        "-k",
        "(equals_reference and N65 and not M1000) or (head_dim and (9 or 96 or 255)) or (strides and misaligned) or "
        "(extreme and 300) or exactly_zero or any_score or 16_bit or (statistics_of_every and N67 and causal and float32) or nearest_even or infinities or (rounded_once and cog)",
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    assert " passed" in result.stdout


def test_the_override_chooses(repository):
    """Instruction sets sum in different widths, so that their results differ in the last bits."""
    bits = {}
    for isa, flags in INSTRUCTION_SETS.items():
        if flags <= FLAGS:
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
