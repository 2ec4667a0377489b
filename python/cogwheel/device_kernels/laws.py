"""What calls of mechanisms with a state launch, compiled for a device that need not be there."""

import os
import pathlib
import re
import subprocess
import tempfile

import torch

import cogwheel
from cogwheel.device_kernels.compiled import Compiled, nvidia_tool, scratch_bytes, stack_bytes

_VALUES = {"at_most_0": -0.5, "above_0_to_1": 0.5, "from_0_to_2": 1.0, "at_least_0": 0.5, "below_0": -1.0}
_STATES_OF_A_CHANNEL = 16  # of laws whose every number decays by its own rate


def names() -> list[str]:
    return [entry["name"] for entry in cogwheel.mechanisms() if entry["family"] == "recurrent"]


def _call(law: str, head_dim: int, tokens: int, initial_state=None):
    """Of tensors [B, N, H, D] as layers have them, whose numbers are one and the same."""
    entry = next(each for each in cogwheel.mechanisms() if each["name"] == law)
    width = _STATES_OF_A_CHANNEL if "below_0" in entry["parameter_values"].values() else head_dim
    sizes = {"B": 2, "H": 2, "N": tokens, "D": width, "V": head_dim, "S": _STATES_OF_A_CHANNEL, "R": width}

    def filled(axes: str, number: float) -> torch.Tensor:
        stored = axes if len(axes) < 4 else f"{axes[0]}{axes[2]}{axes[1]}{axes[3]}"
        tensor = torch.full([sizes[axis] for axis in stored], number)
        return (tensor if stored == axes else tensor.transpose(1, 2)).requires_grad_(initial_state is None)

    own = {}
    for name, axes in entry["parameter_axes"].items():
        if not axes:
            own[name] = 2.0 * tokens
        elif name not in entry["optional_parameters"]:
            own[name] = filled(axes.split("|")[0], _VALUES.get(entry["parameter_values"][name], 0.5))
    tensors = [filled(axes, 0.5) if name in entry["inputs"] else None for name, axes in (("query", "BHND"), ("key", "BHND"), ("value", "BHNV"))]
    return cogwheel.recurrent(*tensors, law, initial_state=initial_state, return_state=True, **own)


def fill(law: str, head_dim: int, target: str) -> int:
    """How many kernels training and a step of decoding launch, all of which are in the cache then."""
    torch.ops.cogwheel.compile_launches(target)
    try:
        output, state = _call(law, head_dim, 128)
        output.sum().backward()
        with torch.no_grad():
            _call(law, head_dim, 1, state)
    finally:
        launched = torch.ops.cogwheel.compile_launches("")
    return launched


def compiled(law: str, head_dim: int, target: str) -> list[Compiled]:
    """The kernels of both, one by one."""
    found = []
    cache = os.environ.get("XDG_CACHE_HOME")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        try:
            fill(law, head_dim, target)
        finally:
            if cache is None:
                del os.environ["XDG_CACHE_HOME"]
            else:
                os.environ["XDG_CACHE_HOME"] = cache
        for path in (pathlib.Path(folder) / "cogwheel" / "device_kernels").glob("*.kernel"):
            contents = path.read_bytes()
            head, image = re.match(rb"(.*?)image \d+\n(.*)", contents, re.DOTALL).groups()
            words = dict(line.split(b" ", 1) for line in head.splitlines())
            if target.startswith("sm_"):
                binary = pathlib.Path(folder) / "image"
                binary.write_bytes(image)
                assembly = subprocess.run([nvidia_tool("cuobjdump"), "-sass", binary], capture_output=True, text=True, check=True).stdout
                stack = stack_bytes(image)
            else:
                assembly = image.decode()
                stack = scratch_bytes(assembly)
            found.append(Compiled(words[b"name"].decode(), assembly, int(words[b"shared_bytes"]), stack))
    return sorted(found, key=lambda each: (each.kernel, each.shared_bytes, each.stack_bytes))
