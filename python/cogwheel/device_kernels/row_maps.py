"""Kernels of a row map: the functions of forward.py and backward.py around those that Cogwheel prints from the map's header."""

import functools
import hashlib
import importlib.util
import os
import pathlib
import tempfile
import types

import torch
import triton

from cogwheel.device_kernels import backward, forward


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
    specification = importlib.util.spec_from_file_location(f"cogwheel_row_map_{name}", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def around(row_map: types.ModuleType, functions: types.ModuleType) -> types.SimpleNamespace:
    """The functions that a module defines, compiled with that row map."""
    names = {**vars(functions), "row_map": row_map}
    for name, each in vars(functions).items():
        if isinstance(each, types.FunctionType):
            copy = types.FunctionType(each.__code__, names, name)
            copy.__annotations__ = each.__annotations__  # which say what a compiler takes as constant
            names[name] = triton.jit(copy)
    return types.SimpleNamespace(**names)


@functools.cache
def row_map_of(mechanism: str) -> types.ModuleType:
    """The functions of a row map; of a form, those of its member."""
    text = torch.ops.cogwheel.triton_text(mechanism)
    if not text:
        raise ValueError(f"mechanism: expected one of fewer steps than {mechanism} has")
    return _module_of(text)


class Kernels:
    """Those of one row map."""

    def __init__(self, mechanism: str):
        row_map = row_map_of(mechanism)
        self.forward = around(row_map, forward).forward
        of_gradients = around(row_map, backward)
        self.backward_rows = of_gradients.backward_rows
        self.backward_queries, self.backward_keys = of_gradients.backward_queries, of_gradients.backward_keys


@functools.cache
def kernels_of(mechanism: str) -> Kernels:
    return Kernels(mechanism)
