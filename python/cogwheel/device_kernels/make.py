"""Compiles one kernel for a device, for C++ (cogwheel/attention/device), which writes what it is compiled for and keeps what this makes."""

import hashlib
import pathlib

import triton

from cogwheel.device_kernels.row_maps import kernel_around, module_in
from cogwheel.device_kernels.signature import places_of, source_of
from cogwheel.device_kernels.targets import target_named


def main(folder: str, target: str) -> None:
    """`description` and `row_map.py` in the folder → the file `target`: what a launch needs to know, then the image."""
    words = {"kernel": "", "target": "", "warps": "0", "stages": "0", "shared_bytes": "0", "sources": ""}
    types, constants, aligned = {}, {}, []
    for line in (pathlib.Path(folder) / "description").read_text().splitlines():
        what, *rest = line.split()
        if what in words:
            [words[what]] = rest
        elif what == "constant":
            constants[rest[0]] = int(rest[1])
        else:
            types[rest[0]] = rest[1]
            if what == "aligned":
                aligned.append(rest[0])
    if words["sources"] != _fingerprint():
        raise ValueError(f"expected {pathlib.Path(__file__).parent} to be of the same build as the library, got another's")
    function = kernel_around(module_in(pathlib.Path(folder) / "row_map.py"), words["kernel"])
    made = _compiled(source_of(function, types, constants, aligned), words)
    image = made.asm["cubin"] if "cubin" in made.asm else made.asm["amdgcn"].encode()  # AMD's, which nothing launches, to be read
    places = places_of(function.fn)
    header = {
        "name": made.metadata.name, "warps": made.metadata.num_warps, "shared_bytes": made.metadata.shared,
        "parameters": " ".join(sorted(types, key=places.get)), "image": len(image),
    }  # fmt: skip
    text = "".join(f"{name} {value}\n" for name, value in header.items())
    pathlib.Path(target).write_bytes(text.encode() + image)


def _fingerprint() -> str:
    """As cogwheel/attention/device/CMakeLists.txt makes it of these files."""
    files = sorted(pathlib.Path(__file__).parent.rglob("*.py"), key=str)
    return hashlib.sha256("".join(hashlib.sha256(file.read_bytes()).hexdigest() for file in files).encode()).hexdigest()


def _in_one_line(error: BaseException) -> str:
    """What it began with, without the lines of source around it."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(f"{type(error).__name__}: {error}".split())


def _compiled(source: triton.compiler.ASTSource, words: dict[str, str]) -> triton.compiler.CompiledKernel:
    """With fewer stages, which hold fewer tiles at once, where a device has too little shared memory."""
    device = target_named(words["target"])
    for stages in range(int(words["stages"]), 0, -1):
        try:
            made = triton.compile(source, target=device, options={"num_warps": int(words["warps"]), "num_stages": stages, "enable_fp_fusion": True})
        except Exception as error:
            raise ValueError(_in_one_line(error)) from error
        if made.metadata.shared <= int(words["shared_bytes"]):
            if made.metadata.global_scratch_size + made.metadata.profile_scratch_size > 0:
                raise ValueError("expected a kernel without scratch memory, got one with")
            return made
    raise ValueError(f"expected at most {words['shared_bytes']} bytes of shared memory, got {made.metadata.shared}")
