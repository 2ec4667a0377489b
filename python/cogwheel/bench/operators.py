"""What each operator of a training step takes, beside the least that this machine could take for it.

The least is its operations at the best rate of a library's large products, or the bytes of the tensors that it reads and writes at the
best rate of copying, scaling and adding large ones, whichever is longer. Numbers that still lie in a cache can be read faster.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch

from cogwheel.bench.machine import memory_peak, product_peak

SMALLEST_SHARE = 0.005  # of a step: operators below it are one row


@dataclass(frozen=True)
class Machine:
    """Operations a second by dtype, bytes a second."""

    rates: dict[str, float]
    bandwidth: float


def measured_machine() -> Machine:
    rates = {"Float": product_peak(torch.float32) * 1e9, "BFloat16": product_peak(torch.bfloat16) * 1e9}
    return Machine(rates, memory_peak() * 1e9)


def floating_operations(name: str, sizes: list[list[int]]) -> float:
    """Of a call: products and attention; 0 for all else.

    Attention is taken to be causal, half of the pairs, with two products, and five backward: of bidirectional models the least is twice that.
    """
    if name in ("cogwheel::matrix_product", "aten::linear", "mkldnn::_linear_pointwise"):  # by the transposed weight
        return 2.0 * math.prod(sizes[0]) * sizes[1][0]
    if name in ("aten::mm", "aten::addmm"):
        left, right = sizes[-2:]
        return 2.0 * math.prod(left) * right[1]
    if name in ("cogwheel::pairwise", "cogwheel::pairwise_backward"):
        of_heads = [size for size in sizes if len(size) == 4]
        query, key = of_heads[1:3] if name.endswith("backward") else of_heads[:2]
        return (5 if name.endswith("backward") else 2) * math.prod(query) * key[2]
    return 0.0


@dataclass(frozen=True)
class OperatorTime:
    name: str
    dtype: str
    sizes: list[list[int]]
    calls: int
    seconds: float
    least: float  # seconds, of the machine


def times(steps: list[list[dict[str, Any]]], machine: Machine) -> list[OperatorTime]:
    """The least time of each operator over the steps, the longest first."""
    least: dict[str, dict[str, Any]] = {}
    for step in steps:
        for found in step:
            key = f"{found['name']} {found['dtype']} {found['sizes']}"
            if key not in least or found["seconds"] < least[key]["seconds"]:
                least[key] = found

    def bound(found: dict[str, Any]) -> float:
        work = found["calls"] * floating_operations(found["name"], found["sizes"])
        rate = machine.rates.get(found["dtype"], machine.rates["Float"])
        return max(work / rate, found["bytes"] / machine.bandwidth)

    rows = [OperatorTime(f["name"], f["dtype"], f["sizes"], f["calls"], f["seconds"], bound(f)) for f in least.values()]
    return sorted(rows, key=lambda row: -row.seconds)


def told(rows: list[OperatorTime]) -> list[str]:
    whole = sum(row.seconds for row in rows)
    lines = [f"  {'operator':34}{'tensors':>44}{'calls':>7}{'ms':>9}{'of step':>9}{'least':>9}{'reached':>9}"]
    small = [row for row in rows if row.seconds < SMALLEST_SHARE * whole]
    for row in rows:
        if row in small:
            continue
        sizes = " ".join("×".join(map(str, size)) or "1" for size in row.sizes[:2]) + {"BFloat16": " bf16"}.get(row.dtype, "")
        lines.append(
            f"  {row.name:34}{sizes:>44}{row.calls:7}{1e3 * row.seconds:9.1f}{row.seconds / whole:9.1%}{1e3 * row.least:9.1f}"
            f"{row.least / row.seconds:9.0%}"
        )
    rest, least = sum(row.seconds for row in small), sum(row.least for row in small)
    lines.append(f"  {'all others':34}{'':44}{sum(row.calls for row in small):7}{1e3 * rest:9.1f}{rest / whole:9.1%}{1e3 * least:9.1f}")
    everything = sum(row.least for row in rows)
    lines.append(f"  {'together':34}{'':44}{sum(row.calls for row in rows):7}{1e3 * whole:9.1f}{'':9}{1e3 * everything:9.1f}{everything / whole:9.0%}")
    return lines
