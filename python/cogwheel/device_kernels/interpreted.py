"""Runs what attention launches by Triton's interpreter, on the CPU."""

import threading

import numpy
import triton.language as tl
from torch import Tensor

from cogwheel.device_kernels.row_maps import kernel_of
from cogwheel.device_kernels.signature import arguments_of

# The interpreter runs one kernel at a time: it keeps the number of the program in one place for all threads.
_ONE_AT_A_TIME = threading.Lock()


def launch(
    mechanism: str, kernel: str, programs: int, names: list[str], tensors: list[Tensor], integers: list[int], numbers: list[float], constants: list[int]
) -> None:
    """`cogwheel::interpret` (cogwheel/ops/launch/launch.cpp): `names` are those of the tensors, integers, numbers and constants, in this
    order."""
    given = [*tensors, *integers, *numbers, *(tl.constexpr(each) for each in constants)]
    run(kernel_of(mechanism, kernel), programs, dict(zip(names, given, strict=True)))


def run(kernel, programs: int, given: dict) -> None:
    # It computes with NumPy, which warns of what is not finite.
    with _ONE_AT_A_TIME, numpy.errstate(all="ignore"):
        kernel[(programs,)](**arguments_of(kernel.fn, given))
