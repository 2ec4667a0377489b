"""The functions of row maps as Cogwheel prints them for kernels of GPUs, interpreted, beside those of the headers, at ten thousand scores.

    COGWHEEL_ENGINE=interpreted python printed_values.py MECHANISM…

Prints a line for each mechanism: the largest relative difference of f, g, f′ and g′ where they are finite. Fails where one is finite and the other
is not, and where kernels round to bfloat16 otherwise than PyTorch.
"""

import sys

import torch

import cogwheel  # noqa: F401  before triton, which it has interpret
from cogwheel.device_kernels import row_maps
from cogwheel.device_kernels.lane import rounded

import triton  # isort: skip
import triton.language as tl  # isort: skip

VISIBLE = 37.0
SPECIAL = [0.0, -0.0, 1e4, -1e4, 1e-20, -1e-20, 3e38, -3e38, torch.inf, -torch.inf, torch.nan]
row_map = None


def values(S, SHIFT, OUT, THETA, count, visible: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    s = tl.load(S + at, mask=at < count, other=0.0)
    shift = tl.load(SHIFT + at, mask=at < count, other=0.0)
    terms = row_map.terms_with_derivatives(s, shift, tl.full([BLOCK], visible, tl.float32), THETA)
    for i in tl.static_range(4):
        tl.store(OUT + i * count + at, terms[i], mask=at < count)


def rounding(X, OUT, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(OUT + at, rounded(tl.load(X + at, mask=at < count, other=0.0), tl.bfloat16), mask=at < count)


def check_rounding() -> None:
    """Every number of bfloat16, and what lies a quarter, a half and three quarters of the way to the next one."""
    exact = torch.arange(1 << 16, dtype=torch.int64) << 16
    bits = torch.cat([exact + more for more in (0, 1, 0x4000, 0x7FFF, 0x8000, 0x8001, 0xC000)])
    numbers = torch.where(bits < 1 << 31, bits, bits - (1 << 32)).to(torch.int32).view(torch.float32)
    found = torch.empty(len(numbers), dtype=torch.bfloat16)
    triton.jit(rounding)[(triton.cdiv(len(numbers), 4096),)](numbers, found, len(numbers), BLOCK=4096)
    expected = numbers.bfloat16()
    assert torch.equal(found.isnan(), expected.isnan())
    other = ~expected.isnan() & (found.view(torch.int16) != expected.view(torch.int16))
    assert not other.any(), f"{numbers[other][:3]} became {found[other][:3]}, expected {expected[other][:3]}"


class Header:
    """What the map's header gives, by the operator that compositions use."""

    def __init__(self, mechanism: str, theta: torch.Tensor):
        self.mechanism, self.theta = mechanism, theta

    def of(self, function: str, argument: torch.Tensor, shift: torch.Tensor, order: int = 0) -> torch.Tensor:
        row = (argument.view(1, 1, 1, -1), shift.view(1, 1, 1, -1), torch.full((1, 1, 1, 1), VISIBLE), self.theta)
        return torch.ops.cogwheel.row_map(*row, self.mechanism, function, order).view(-1, len(argument))


def largest_difference(mechanism: str) -> float:
    printed = row_maps.row_map_of(mechanism)
    scalars = printed.PARAMETERS.value
    header = Header(mechanism, torch.tensor([[0.25, 64.0][:scalars]]) if scalars else torch.zeros(1, 0))
    scores = torch.cat([torch.linspace(-20, 20, 10001), torch.tensor(SPECIAL)])
    # Two of three scores lie below the row's maximum; no maximum is infinite.
    energies = header.of("energy", scores, torch.zeros_like(scores))[0] + torch.where(torch.arange(len(scores)) % 3 > 0, 2.5, 0.0)
    shift = torch.where(energies.isfinite(), energies, 0.0)
    derivatives = header.of("terms", scores, shift, 1)
    expected = torch.stack([*header.of("terms", scores, shift), derivatives[0], derivatives[1 + scalars]])
    found = torch.full_like(expected, 7.0)
    triton.jit(row_maps.around(printed, sys.modules[__name__]).values)[(triton.cdiv(len(scores), 1024),)](scores, shift, found, header.theta.contiguous(), len(scores), visible=VISIBLE, BLOCK=1024)
    assert torch.equal(found.isnan(), expected.isnan()), f"{mechanism}: not the same are NaN"
    assert torch.equal(found.isinf(), expected.isinf()), f"{mechanism}: not the same are infinite"
    compared = expected.isfinite() & (expected.abs() > 1e-30)
    return ((found - expected).abs() / expected.abs())[compared].max().item() if compared.any() else 0.0


if __name__ == "__main__":
    check_rounding()
    for name in sys.argv[1:]:
        print(name, largest_difference(name))
