"""What the modules of layers share: a description, initial values and hooks of the same layer in C++."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from cogwheel import _bindings
from cogwheel.hooks import Hooked


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
        own = dict(self.named_parameters())
        seed = int(torch.randint(2**62, (), device="cpu"))
        if any(parameter.is_meta for parameter in own.values()):
            return
        deviation = (3 * self.width) ** -0.5 if standard_deviation is None else standard_deviation
        residual = deviation if residual_standard_deviation is None else residual_standard_deviation
        values = self._hookable().initial_parameters(seed, deviation, residual)
        with torch.no_grad():
            for name, parameter in own.items():
                parameter.copy_(values[name])

    def _hooked(self, parameters: dict[str, Tensor], inputs: Mapping[str, Tensor | None], hooked: list[str], callback: int, layer: Any = None) -> Tensor:
        """The pass of C++ over inputs by name, of which those that are None are left out."""
        given = {name: value for name, value in inputs.items() if value is not None}
        return (self._hookable() if layer is None else layer).forward(parameters, given, hooked, callback)

    def _parameters_now(self) -> dict[str, Tensor]:
        """By name, whatever has taken the place of a parameter; ValueError where a module has taken that of one of these."""
        now = {}
        for path in self._hookable().parameter_names():
            part: Any = self
            for step in path.split("."):
                part = getattr(part, step, None)
            if not isinstance(part, Tensor):
                raise ValueError(f"hooks: expected the layer's own modules, got another in the place of {path}")
            now[path] = part
        return now


def seed_of_dropout() -> Tensor:
    return torch.randint(2**62, (), device="cpu")
