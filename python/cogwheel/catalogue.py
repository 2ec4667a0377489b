"""The catalogue of mechanisms. Its one source is the C++ catalogue; this module only reads it."""

import copy
import json
import typing
from typing import Any

import torch

from cogwheel import shown


class Entry(dict[str, Any]):
    """A mechanism, by the keys of :func:`mechanisms`. Shows its formula and its numerics card; ``dict(entry)`` shows the keys."""

    def _repr_html_(self) -> str:
        return shown.of_mechanism(self["name"])[0]

    def __repr__(self) -> str:
        try:
            return shown.of_mechanism(self["name"])[1].rstrip("\n")
        except (KeyError, TypeError, ValueError):  # no longer a mechanism
            return super().__repr__()


class Catalogue(list[Entry]):
    """Mechanisms in their order, by place or by name. Shows a table of them."""

    @typing.overload
    def __getitem__(self, place: typing.SupportsIndex | str) -> Entry: ...
    @typing.overload
    def __getitem__(self, place: slice) -> "Catalogue": ...
    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return Catalogue(super().__getitem__(place))
        if not isinstance(place, str):
            return super().__getitem__(place)
        found = next((each for each in self if each["name"] == place), None)
        if found is None:
            shown.of_mechanism(place)  # which raises ValueError with the nearest names
            raise ValueError(f"mechanism: expected one of those here, got {place}")
        return found

    def _shown(self) -> tuple[str, str]:
        return shown.of_mechanisms([entry["name"] for entry in self])

    def _repr_html_(self) -> str:
        return self._shown()[0]

    def __repr__(self) -> str:
        try:
            return self._shown()[1].rstrip("\n")
        except (KeyError, TypeError, RuntimeError, ValueError):  # of something else
            return super().__repr__()


_CATALOGUE: list[dict[str, Any]] = []

# Names of a mechanism's own arguments, by mechanism.
PARAMETERS: dict[str, tuple[str, ...]] = {}


def refresh() -> None:
    """Reads the catalogue: at import, and after a mechanism was added."""
    _CATALOGUE[:] = json.loads(torch.ops.cogwheel.mechanisms())
    PARAMETERS.update({entry["name"]: tuple(entry["parameters"]) for entry in _CATALOGUE})


def entry(name: str) -> dict[str, Any]:
    """The catalogue's entry of that name."""
    return copy.deepcopy(next(entry for entry in _CATALOGUE if entry["name"] == name))


refresh()


def mechanisms() -> Catalogue:
    """Every mechanism, in the order of the catalogue: row maps, forms over softmax, dense mechanisms,
    those with a state, forms over other row maps, then those that users defined.

    A form, such as ``differential``, combines with every row map that reads its scores; its own name means softmax,
    ``differential_cog`` the same form over Cog.

    ``mechanisms()["cog"]`` is the one of that name, a ValueError with the nearest names where there is none. Each is a
    dict of

    - ``name``: what the argument ``mechanism`` of the operators takes
    - ``title``: the name in tables and headings
    - ``family``: ``"pairwise"``; ``"matrix"`` for functions of the whole score matrix; ``"recurrent"`` for those with a
      state, which ``cogwheel.recurrent`` takes
    - ``level``: ``"operator"``; ``"dense"``, an operator by matrix products, without a fused kernel; or ``"layer"`` where
      the mechanism also decides how queries and keys are made
    - ``form``: its form, or None for one that is not a form
    - ``member``: the row map that it is made of; its own name for a row map, None outside of the pairwise family
    - ``inputs``: which of ``query``, ``key`` and ``value`` it takes; all but for some with a state
    - ``parameters``: list of the names of its own keyword arguments
    - ``parameter_axes``: of a mechanism with a state, the dimensions of each by name, a letter each: Batch, Heads, tokens
      (N), key width (D), value width (V), Slots, features (R); alternatives between bars, nothing for a number
    - ``parameter_values``: what values these may have, as in ``at_most_0`` or ``any``
    - ``optional_parameters``: which of the parameters may be left out
    - ``state``: of a mechanism with a state, its parts and the dimensions of each after those of sequences and heads; one
      with a 2 before it is twice as wide. Where callers choose to normalise (``normalize``), there is ``z`` [D] too
    - ``score``: ``"dot"``, or ``"cosine"`` where the mechanism is one of cosines, without a scale; None for those with a state
    - ``formula``: of the weights, with s the scaled score, or of the state
    - ``range``: of one weight, and of a row's sum
    - ``citation``: the paper
    - ``definition``: for a user's mechanism, the line or the file; None for built-in ones
    """
    return Catalogue(Entry(copy.deepcopy(entry)) for entry in _CATALOGUE)
