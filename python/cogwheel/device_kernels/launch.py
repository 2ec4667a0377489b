"""What attention's operators launch: the sizes of blocks and grids, and the arguments of kernels."""

import threading

import numpy
import torch
import triton
from torch import Tensor

from cogwheel.device_kernels.row_maps import kernels_of

# Rows and keys of a block by the wider of a query and a value, and how a compiler lays out the work: (ROWS, KEYS, warps, stages).
_BLOCKS = {
    "forward": {64: (128, 64, 8, 4), 128: (128, 64, 8, 2), 256: (64, 32, 8, 2)},
    "backward_rows": {256: (64, 64, 4, 1)},
    "backward_queries": {64: (64, 32, 8, 2), 128: (64, 64, 8, 2), 256: (32, 32, 8, 2)},
    "backward_keys": {64: (64, 32, 8, 2), 128: (64, 32, 8, 2), 256: (32, 32, 8, 1)},
}
# Where a generation differs: more stages took 8 bytes of stack there for `norm`.
_BLOCKS_OF = {"sm_100": {"forward": _BLOCKS["forward"] | {64: (128, 64, 8, 2)}}}


def block(kernel: str, head_dim: int, value_dim: int, target: str = "") -> dict[str, int]:
    """Widths as powers of two, of at least 16, which a product takes."""
    width, of_value = (max(16, triton.next_power_of_2(each)) for each in (head_dim, value_dim))
    table = (_BLOCKS | _BLOCKS_OF.get(target, {}))[kernel]
    rows, keys, warps, stages = next(sizes for widest, sizes in table.items() if max(width, of_value) <= widest)
    return {"D": width, "DV": of_value, "ROWS": rows, "KEYS": keys, "num_warps": warps, "num_stages": stages}


def _interpreted_block(queries: int, keys: int, head_dim: int, value_dim: int) -> dict[str, int]:
    """Small, so that short texts have several blocks; of long ones an interpreter takes a time for each block, whatever its size."""
    size = 32 if max(queries, keys) <= 256 else 128
    return block("forward", head_dim, value_dim) | {"ROWS": size, "KEYS": size}


# Where a kernel takes the marks of its blocks.
NOT_FINITE = object()


def _strides(tensor: Tensor) -> tuple[int, ...]:
    """Between batch entries, heads and rows; rows are contiguous."""
    return tensor.stride()[:3]


# The interpreter runs one kernel at a time: it keeps the number of the program in one place for all threads.
_ONE_AT_A_TIME = threading.Lock()


def _run(kernel, programs: int, *arguments, **constants) -> None:
    # It computes with NumPy, which warns of what is not finite.
    with _ONE_AT_A_TIME, numpy.errstate(all="ignore"):
        kernel[(programs,)](*arguments, **constants)


class _Call:
    """What kernels of both directions take."""

    def __init__(self, query, key, value, parameters, mechanism, scale, mask, window, sub_heads, key_lengths, first_positions):
        self.kernels = kernels_of(mechanism)
        self.batch, self.heads, self.queries, head_dim = query.shape
        self.value_heads, self.keys, value_dim = value.shape[1:]
        self.sub_heads = sub_heads
        causal = mask != "full"
        self.diagonal = self.keys - self.queries if mask == "causal" else 0
        self.window = window
        self.theta = parameters.to(query.device, torch.float32).contiguous()
        self.seen = [None if each is None else each.contiguous() for each in (key_lengths, first_positions)]
        self.sizes = (scale, self.diagonal, window, self.heads, self.value_heads, sub_heads, self.queries, self.keys)
        self.constants = {"head_dim": head_dim, "value_dim": value_dim, "CAUSAL": causal, "WINDOWED": causal and window > 0}
        self.constants |= _interpreted_block(self.queries, self.keys, head_dim, value_dim)
        self.programs = triton.cdiv(self.queries, self.constants["ROWS"]) * self.batch * self.heads
        self.blocks_of_keys = triton.cdiv(self.keys, self.constants["KEYS"])

    def launch(self, kernel, programs: int, *arguments, **constants) -> None:
        """Once, and for the blocks that met what is not finite once more (forward.py): NOT_FINITE among the arguments is their marks."""
        not_finite = torch.empty(programs, dtype=torch.int32, device=self.theta.device)
        given = [not_finite if each is NOT_FINITE else each for each in arguments]
        for apart in (False, True):
            _run(kernel, programs, *given, **self.constants, **constants, APART=apart)


def forward(query, key, value, output, shift, mass, *rest) -> None:
    """`cogwheel::triton_forward` (ops/pairwise/engines/triton)."""
    call = _Call(query, key, value, *rest)
    strides = *_strides(query), *_strides(key), *_strides(value), *_strides(output)
    call.launch(
        call.kernels.forward, call.programs,
        query, key, value, output, shift, mass, NOT_FINITE, call.theta, *call.seen, *call.sizes, *strides,
    )  # fmt: skip


def backward(gradient, query, key, value, output, shift, mass, of_query, of_key, of_value, of_parameters, *rest) -> None:
    """`cogwheel::triton_backward`."""
    call = _Call(query, key, value, *rest)
    inverse, of_mass = torch.empty_like(shift), torch.empty_like(shift)
    of_scalars = torch.empty(call.theta.shape[1], *shift.shape, device=query.device)
    only = {name: call.constants[name] for name in ("value_dim", "CAUSAL", "WINDOWED", "DV", "ROWS")}
    _run(
        call.kernels.backward_rows, call.programs, output, gradient, shift, mass, call.theta, *call.seen, inverse, of_mass, of_scalars,
        call.diagonal, call.window, call.heads, call.queries, call.keys, *_strides(output), *_strides(gradient), **only,
    )  # fmt: skip
    inputs, strides = (query, key, value, gradient), (*_strides(query), *_strides(key), *_strides(value), *_strides(gradient))
    call.launch(
        call.kernels.backward_queries, call.programs, *inputs, shift, inverse, of_mass, of_scalars, NOT_FINITE, call.theta, *call.seen, of_query,
        *call.sizes, *strides, *_strides(of_query),
    )  # fmt: skip
    if call.theta.shape[1]:
        of_parameters.copy_(of_scalars.double().sum(3).sum(1).T)  # row by row first: a sum of so many numbers into one is split by threads
    for of_keys, of_values in ((True, True),) if call.sub_heads == 1 else ((True, False), (False, True)):
        own_heads = call.value_heads * (call.sub_heads if of_keys else 1)
        call.launch(
            call.kernels.backward_keys, call.blocks_of_keys * call.batch * own_heads,
            *inputs, shift, inverse, of_mass, NOT_FINITE, call.theta, *call.seen, of_key, of_value,
            *call.sizes, *strides, *_strides(of_key), *_strides(of_value), OF_KEYS=of_keys, OF_VALUES=of_values,
        )  # fmt: skip
