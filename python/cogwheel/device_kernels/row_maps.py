"""Kernels of a row map: functions of this folder around those that Cogwheel prints from the map's header."""

import functools
import hashlib
import importlib
import importlib.util
import os
import pathlib
import sys
import tempfile
import types

import triton

from cogwheel.device_kernels.choice import jit


def _folder() -> pathlib.Path:
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(cache) / "cogwheel" / "row_maps"


def _module_of(text: str) -> types.ModuleType:
    """A module with that text, which lies in a file, because Triton reads the source of what it compiles."""
    name = hashlib.sha256(text.encode()).hexdigest()[:24]
    path = _folder() / f"row_map_{name}.py"
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".new", delete=False) as written:
            written.write(text)
            written.flush()
            os.fsync(written.fileno())
        os.replace(written.name, path)
    return module_in(path)


def module_in(path: pathlib.Path) -> types.ModuleType:
    specification = importlib.util.spec_from_file_location(f"cogwheel_{path.stem}", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def around(row_map: types.ModuleType, functions: types.ModuleType) -> types.SimpleNamespace:
    """The functions of a module that stand around a row map, with that one; those that it has from another such module too."""
    names = {**vars(functions), "row_map": row_map}
    for name, each in vars(functions).items():
        home = sys.modules[each.__module__] if isinstance(each, types.FunctionType) else None
        if home is functions:
            copy = types.FunctionType(each.__code__, names, name)
            copy.__annotations__ = each.__annotations__  # which say what a compiler takes as constant
            names[name] = jit(copy)
        elif "row_map" in vars(home or types):
            names[name] = vars(around(row_map, home))[name]
    return types.SimpleNamespace(**names)


@functools.cache
def row_map_of(mechanism: str) -> types.ModuleType:
    """The functions of a row map; of a form, those of its member."""
    import torch  # which a compiling process (make.py) does without

    text = torch.ops.cogwheel.triton_text(mechanism)
    if not text:
        raise ValueError(f"mechanism: expected one of fewer steps than {mechanism} has")
    return _module_of(text)


# By folder; a module of its name defines each.
KERNELS = {
    "pairwise": ("forward", "decode", "merge", "count_keys", "weights", "backward_rows", "backward_queries", "backward_keys", "statistics"),
    "walks": (
        "token_states", "token_outputs", "token_gates", "head_gates", "delta_inverse", "delta_states", "delta_forward", "delta_backward",
        "space_forward", "space_backward", "exponential_gates",
    ),  # fmt: skip
}


def kernel_around(row_map: types.ModuleType | None, kernel: str) -> triton.JITFunction:
    """`row_map` is None of walks, which have none."""
    [folder] = (folder for folder, names in KERNELS.items() if kernel in names)
    found = getattr(around(row_map, importlib.import_module(f"cogwheel.device_kernels.{folder}.{kernel}")), kernel)
    return found if isinstance(found, triton.JITFunction) else triton.jit(found)


@functools.cache
def kernel_of(mechanism: str, kernel: str) -> triton.JITFunction:
    """`mechanism` is empty for walks."""
    return kernel_around(row_map_of(mechanism) if mechanism else None, kernel)
