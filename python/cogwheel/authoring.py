"""A user's own mechanisms: defined in one line, or loaded from a header."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from cogwheel import shown
from cogwheel._arguments import checked
from cogwheel.catalogue import entry, refresh


@dataclass(frozen=True, repr=False)
class Mechanism:
    """A mechanism that a user defined. :func:`cogwheel.attention` and related functions take its ``name``.

    A notebook shows its formula and its numerics card.
    """

    name: str
    description: dict[str, Any]  # its entry of :func:`cogwheel.mechanisms`

    def _repr_html_(self) -> str:
        return shown.of_mechanism(self.name)[0]

    def __repr__(self) -> str:
        return shown.of_mechanism(self.name)[1].rstrip("\n")

    def __str__(self) -> str:
        return self.name


@checked("mechanism")
def mechanism(
    name: str,
    f: str,
    g: str,
    *,
    n: str | None = None,
    energy: str | None = None,
    parameters: Mapping[str, float] | None = None,
) -> Mechanism:
    """A mechanism in one line: weights f(s) / N(G) with G = Σ g(s), sums over the keys that the query sees.

        cogwheel.mechanism(name="mine", f="sign(s)*exp(tau*abs(s))", g="exp(tau*abs(s))", parameters={"tau": 1.0})

    It is compiled once, with the compiler of the system, for the instruction set of this machine; then it is read from
    a cache. From then on it is a mechanism like any other, and so are the forms over it (``differential_mine``).

    Args:
        name: lower-case letters, digits and underscores, beginning with a letter.
        f, g: formulas of the score ``s``, the parameters, and ``visible``, the number of keys that the query sees.
            Numbers, + - * /, ^ with a whole exponent, and exp, log, log1p, sqrt, tanh, sin, cos, abs, sign, square,
            cube, sigmoid, softplus, max, min, where(a > b, x, y). Derivatives are made automatically.
        n: N, a formula of ``G``, ``visible`` and the parameters; G unless given.
        energy: the exponent of f and g, a formula of ``s``. Its row maximum is subtracted before exp is taken, so that
            nothing overflows. Derived where g is an exponential.
        parameters: learnable scalars by name, with their default values; ``attention(…, tau=tensor)`` takes others, one
            for each query head. Layers learn them, starting at these values.

    Raises:
        ValueError: a formula that does not parse, with the column; a name that is taken by another definition.
        TypeError: an argument of another type.
        RuntimeError: no compiler on this machine; a cache that cannot be written.
    """
    given = dict(parameters or {})
    values = [float(value) for value in given.values()]
    return _registered(torch.ops.cogwheel.define_mechanism(name, f, g, n or "", energy or "", list(given), values))


def load_mechanism(path: str | os.PathLike[str]) -> Mechanism:
    """A mechanism from a header ``<name>.h``, as ``cogwheel mechanism new`` writes one to start from.

    A row map, which :func:`cogwheel.attention` then takes by name, or a law with a state (``--family recurrent``), which
    :func:`cogwheel.recurrent` takes. Either is checked: the parts of a law must go together, and its operator is
    measured.

    This runs code: the header is C++ that is compiled and executed with the rights of this process. Load only what you
    would run. No header is loaded unless it was asked for.

    Raises:
        ValueError: C++ that does not compile, with the line; a derivative that does not match its function; a law that
            contradicts itself.
        RuntimeError: no such file; no compiler on this machine.
    """
    return _registered(torch.ops.cogwheel.load_mechanism(os.fspath(path)))


def numerics_card(mechanism: str | Mechanism) -> dict[str, Any]:
    """The measured weights of a row map, or of a mechanism with a state, and the accuracy of their computation: ``facts``
    by name, and a list of ``problems``.

    The same as ``cogwheel mechanism card NAME``. docs/mechanisms.md has those of the built-in ones.
    """
    return json.loads(torch.ops.cogwheel.mechanism_card(str(mechanism)))


def _registered(name: str) -> Mechanism:
    refresh()
    return Mechanism(name, entry(name))
