"""The library of layers and models, ``libcogwheel_bindings.so``: loaded with the first of them, for attention alone needs none."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cogwheel import _library

# Of the passes that run now: what a value becomes, by its name.
callbacks: dict[int, Callable[[str, Tensor], Tensor]] = {}


@functools.cache
def classes() -> Any:
    """``TrainedModel`` and ``Layer``."""
    torch.classes.load_library(str(_library.PATH.with_name("libcogwheel_bindings.so")))
    library = torch.library.Library("cogwheel", "IMPL")
    library.impl("hook", lambda callback, name, value: callbacks[callback](name, value), "CompositeImplicitAutograd")
    library.impl("handle_signals", lambda: None, "CompositeImplicitAutograd")  # Python handles them before it runs this
    classes.library = library  # which lives as long as this
    return torch.classes.cogwheel
