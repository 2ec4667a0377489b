"""Kernels compiled for a device that need not be there: what `python -m cogwheel.device_kernels` measures of them."""

import dataclasses
import pathlib
import subprocess
import tempfile

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from cogwheel.device_kernels.launch import block
from cogwheel.device_kernels.row_maps import kernels_of

# Of pointers to other numbers than those of the tensors of heads.
POINTERS = dict.fromkeys(("SHIFT", "MASS", "INVERSE", "OF_MASS", "OF_SCALARS", "THETA"), "*fp32") | {"NOT_FINITE": "*i32"}
KERNELS = ("forward", "backward_rows", "backward_queries", "backward_keys")


@dataclasses.dataclass(frozen=True)
class Compiled:
    kernel: str
    assembly: str  # PTX, or AMD's
    shared_bytes: int
    stack_bytes: int | None  # of a thread: what its registers did not hold; None where no tool says it

    @property
    def products(self) -> int:
        """How many instructions of tensor cores there are."""
        return sum(self.assembly.count(each) for each in ("mma.sync", "wgmma.mma_async", "tcgen05.mma", "v_mfma"))


TARGETS = {f"sm_{capability}": GPUTarget("cuda", capability, 32) for capability in (80, 90, 100)} | {"gfx942": GPUTarget("hip", "gfx942", 64)}


def _stack_bytes(cubin: bytes) -> int:
    tool = pathlib.Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        said = subprocess.run([tool, "--dump-resource-usage", file.name], capture_output=True, text=True, check=True).stdout
    [line] = [each for each in said.splitlines() if "STACK:" in each]
    return int(line.split("STACK:")[1].split()[0])


def compiled(
    mechanism: str, kernel: str, target: str, *, dtype: str = "bf16", head_dim: int = 64, causal: bool = True, wide: bool = False, apart: bool = False
) -> Compiled:
    """One kernel, of tensors whose rows lie head_dim apart; wide: outputs and their gradients are in float32, as those of forms."""
    function = getattr(kernels_of(mechanism), kernel)
    sizes = block(kernel, head_dim, head_dim, target)
    options = {name: sizes.pop(name) for name in ("num_warps", "num_stages")} | {"enable_fp_fusion": True}
    constants = {"head_dim": head_dim, "value_dim": head_dim, "CAUSAL": causal, "WINDOWED": False, "LENGTHS": None, "FIRST": None, "APART": apart, **sizes}
    if kernel == "backward_keys":
        constants |= {"OF_KEYS": True, "OF_VALUES": True}
    names = function.arg_names
    constants = {name: value for name, value in constants.items() if name in names}
    signature = {}
    for name in names:
        if name in constants:
            signature[name] = "constexpr"
        elif name.isupper():
            signature[name] = "*fp32" if wide and name in ("O", "DO") else POINTERS.get(name, f"*{dtype}")
        else:
            signature[name] = "fp32" if name == "scale" else "i32"
    strides = [name for name in names if name.endswith(("_batch", "_head", "_row"))] if head_dim % 16 == 0 else []
    aligned = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(names) if signature[name][0] == "*" or name in strides}
    source = ASTSource(function, signature, {(names.index(name),): value for name, value in constants.items()}, aligned)
    made = triton.compile(source, target=TARGETS[target], options=options)
    cubin = made.asm.get("cubin")
    return Compiled(kernel, made.asm.get("ptx") or made.asm["amdgcn"], made.metadata.shared, _stack_bytes(cubin) if cubin else None)
