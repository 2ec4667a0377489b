"""Kernels compiled for a device that need not be there: what `python -m cogwheel.device_kernels` measures of them."""

import dataclasses
import pathlib
import re
import subprocess
import tempfile

import torch
import triton

from cogwheel.device_kernels.row_maps import kernel_of
from cogwheel.device_kernels.signature import places_of, source_of
from cogwheel.device_kernels.targets import TARGETS

# What a causal call gives kernels, by type; tensors of heads are in the dtype of queries.
_ROWS = dict.fromkeys(("shift", "mass", "of_shift", "of_output", "inverse", "of_mass", "of_scalars", "theta", "found"), "*fp32") | {"not_finite": "*i32"}
_HEADS = ("query", "key", "value", "output", "gradient", "of_query", "of_key", "of_value")
_STRIDES = ("batch", "head", "row")
_PAIRS = {"data": "*fp32", **dict.fromkeys((*_STRIDES, "key"), "i32")}
# What a call may have beside.
MORE = {
    "softcap": {"modifiers.softcap": "fp32"},
    "bias": {f"modifiers.bias.{name}": kind for name, kind in _PAIRS.items()} | {"visible.counts": "*i32", "of_bias": "*fp32"},
    "energy_bias": {f"modifiers.energy_bias.{name}": kind for name, kind in _PAIRS.items()} | {"visible.counts": "*i32", "of_energy_bias": "*fp32"},
    "alibi": {"modifiers.slopes": "*fp32", "modifiers.diagonal": "i32"},
    "centers": {"modifiers.centers": "*fp32", "modifiers.precision": "fp32", "of_centers": "*fp32"},
    "dropout": {"modifiers.seed": "*i64", "modifiers.kept_below": "i64", "modifiers.kept_factor": "fp32"},
    "ranges": {"visible.ranges.data": "*i64", "visible.ranges.batch": "i32", "visible.ranges.head": "i32"},
    "window": {"visible.window": "i32"},
    "lengths": {"visible.lengths": "*i64", "visible.first_positions": "*i64"},
    "additive": {"score.weight": "*fp32", "of_weight": "*fp32"},
    "mixture": {"coefficient": "*fp32"},
}
# What the command shows, and what reads modifiers.
KERNELS = ("forward", "backward_rows", "backward_queries", "backward_keys")
MODIFIED = ("forward", "decode", "backward_queries", "backward_keys", "weights", "statistics")


@dataclasses.dataclass(frozen=True)
class Compiled:
    kernel: str
    assembly: str  # PTX, AMD's, or what NVIDIA's tool makes of an image
    shared_bytes: int
    stack_bytes: int  # of a thread: what its registers did not hold

    @property
    def products(self) -> int:
        """How many instructions of tensor cores there are."""
        return sum(self.assembly.count(each) for each in ("mma.sync", "wgmma.mma_async", "tcgen05.mma", "v_mfma", " HMMA.", "HGMMA.", " UTCHMMA"))


def nvidia_tool(name: str) -> pathlib.Path:
    """Of Triton's package."""
    return pathlib.Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / name


def stack_bytes(cubin: bytes) -> int:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        said = subprocess.run([nvidia_tool("cuobjdump"), "--dump-resource-usage", file.name], capture_output=True, text=True, check=True).stdout
    [line] = [each for each in said.splitlines() if "STACK:" in each]
    return int(line.split("STACK:")[1].split()[0])


def scratch_bytes(assembly: str) -> int:
    """The same of AMD's."""
    [size] = re.findall(r"^; ScratchSize: (\d+)$", assembly, re.MULTILINE)
    return int(size)


def compiled(
    mechanism: str, kernel: str, target: str, *, dtype: str = "bf16", head_dim: int = 64, wide: bool = False, more: tuple[str, ...] = (), apart: bool = False
) -> Compiled:
    """One kernel of a causal call, of tensors whose rows lie head_dim apart. wide: outputs and their gradients are in float32, as those of
    forms. `more` names what else the call has."""
    function = kernel_of(mechanism, kernel)
    rows, keys, warps, stages = torch.ops.cogwheel.block_sizes(kernel, head_dim, target, not {"bias", "energy_bias", "additive"}.isdisjoint(more), wide or dtype == "fp32")
    width = max(16, triton.next_power_of_2(head_dim))
    constants = {"block.head_dim": head_dim, "block.D": width, "block.value_dim": head_dim, "block.DV": width, "block.ROWS": rows, "block.KEYS": keys}
    constants |= {"OF_KEYS": True, "OF_VALUES": True, "APART": apart, "MINUS_MEAN": False, "OF_MIXTURE": "mixture" in more, "ARGMAX": True}
    types = _ROWS | {"visible.diagonal": "i32", "score.scale": "fp32", "counts": "*i32", "keys_of_program": "i32", "parts": "i32"}
    types |= dict.fromkeys((f"shape.{each}" for each in ("heads", "value_heads", "sub_heads", "queries", "keys")), "i32")
    for name in _HEADS:
        types[f"{name}.data"] = "*fp32" if wide and name in ("output", "gradient") else f"*{dtype}"
        types |= {f"{name}.{stride}": "i32" for stride in _STRIDES}
    for name in more:
        types |= MORE[name]
    places = places_of(function.fn)
    types = {name: kind for name, kind in types.items() if name in places}
    constants = {name: value for name, value in constants.items() if name in places}
    aligned = [name for name, kind in types.items() if kind[0] == "*" or head_dim % 16 == 0 and name.endswith(tuple(f".{each}" for each in _STRIDES))]
    options = {"num_warps": warps, "num_stages": stages, "enable_fp_fusion": True}
    made = triton.compile(source_of(function, types, constants, aligned), target=TARGETS[target], options=options)
    cubin = made.asm.get("cubin")
    assembly = made.asm.get("ptx") or made.asm["amdgcn"]
    return Compiled(kernel, assembly, made.metadata.shared, stack_bytes(cubin) if cubin else scratch_bytes(assembly))
