"""What the modules of layers share: a description, initial values and hooks of the same layer in C++."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from cogwheel import _bindings
from cogwheel.hooks import Hooked, refresh


@functools.lru_cache(maxsize=256)
def layer_of(kind: str, options: str) -> Any:
    """The layer of C++ with these options, without memory: ``attention``, ``recurrent`` or ``block``."""
    return _bindings.classes().Layer(kind, options)


class Layer(Hooked, torch.nn.Module):
    """A module whose parameters are those of a layer of C++, by the same names."""

    kind = ""

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__()
        self._options = json.dumps(options)
        self._description: dict[str, Any] = json.loads(self._hookable().description())

    def _hookable(self) -> Any:
        return layer_of(self.kind, self._options)

    def reset_parameters(self, standard_deviation: float | None = None, residual_standard_deviation: float | None = None) -> None:
        """Draws initial values, by torch's generator: weights normal, by default with the variance that ``torch.nn.Linear`` has, biases
        0; what a mechanism learns begins where its paper lets it. ``residual_standard_deviation`` is of the output's weight."""
        deviation = (3 * self.width) ** -0.5 if standard_deviation is None else standard_deviation
        residual = deviation if residual_standard_deviation is None else residual_standard_deviation
        draw_initial_values(dict(self.named_parameters()), self._hookable(), deviation, residual)

    def _check_tokens(self, what: str, name: str, tensor: Tensor) -> None:
        if not isinstance(tensor, Tensor) or tensor.dim() != 3 or tensor.shape[-1] != self.width:
            got = list(tensor.shape) if isinstance(tensor, Tensor) else f"a {type(tensor).__name__}"
            raise ValueError(f"{what}: {name}: expected [batch, tokens, {self.width}], got {got}")

    def _hooked(self, parameters: dict[str, Tensor], inputs: Mapping[str, Tensor | None], hooked: list[str], callback: int, layer: Any = None) -> Tensor:
        """The pass of C++ over inputs by name, of which those that are None are left out."""
        given = {name: value for name, value in inputs.items() if value is not None}
        return (self._hookable() if layer is None else layer).forward(parameters, given, hooked, callback)

    def _parameters_now(self) -> dict[str, Tensor]:
        """By name, whatever has taken the place of a parameter; ValueError where a module has taken that of one of these."""
        paths = self._hookable().parameter_names()
        places: dict[str, set[str]] = {}  # by module, the names that lie in it
        for path in paths:
            *steps, last = path.split(".")
            for depth in range(1, len(steps) + 1):
                places.setdefault(".".join(steps[:depth]), set()).update([last] if depth == len(steps) else [])
        for place, names in places.items():
            part = self._at(place)
            # An adapter or a subclass computes something else than the pass of C++, whatever it has by these names.
            own = isinstance(part, torch.nn.Module) and inspect.unwrap(type(part).forward).__module__.startswith("cogwheel.nn")
            if not own:
                raise ValueError(f"hooks: expected the layer's own modules, got {type(part).__name__} in the place of {place}")
            refresh(part, place, names)
        now = {path: self._at(path) for path in paths}
        for path, tensor in now.items():
            if not isinstance(tensor, Tensor):
                raise ValueError(f"hooks: expected the layer's own modules, got {type(tensor).__name__} in the place of {path}")
        return now

    def _at(self, path: str) -> Any:
        part: Any = self
        for step in path.split("."):
            part = getattr(part, step, None)
        return part

    def run_with_hooks(self, *args: Any, **kwargs: Any) -> Any:
        if self._forward_hooks or self._forward_pre_hooks:
            raise ValueError(f"hooks: expected a {type(self).__name__} without hooks of torch.nn, which no pass of C++ calls, got some")
        return super().run_with_hooks(*args, **kwargs)

    run_with_hooks.__doc__ = Hooked.run_with_hooks.__doc__


def draw_initial_values(parameters: Mapping[str, Tensor], layer: Any, standard_deviation: float, residual_standard_deviation: float) -> None:
    """Writes those of a layer of C++ into parameters of these names, by torch's generator; nothing on the meta device."""
    if not parameters or any(parameter.is_meta for parameter in parameters.values()):
        return
    values = layer.initial_parameters(int(torch.randint(2**62, (), device="cpu")), standard_deviation, residual_standard_deviation)
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(values[name])


def seed_of_dropout() -> Tensor:
    return torch.randint(2**62, (), device="cpu")
