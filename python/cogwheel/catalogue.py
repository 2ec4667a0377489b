"""What mechanisms there are. The C++ catalogue is the one source; this module only reads it."""

import copy
import json
from typing import Any

import torch

_CATALOGUE: list[dict[str, Any]] = json.loads(torch.ops.cogwheel.mechanisms())

# Names of a mechanism's own arguments, by mechanism.
PARAMETERS: dict[str, tuple[str, ...]] = {entry["name"]: tuple(entry["parameters"]) for entry in _CATALOGUE}


def mechanisms() -> list[dict[str, Any]]:
    """Every mechanism, in the order of the catalogue.

    Each is a dict of

    - ``name``: what the argument ``mechanism`` of the operators takes
    - ``title``: the name in tables and headings
    - ``family``: ``"pairwise"``
    - ``level``: ``"operator"``, or ``"layer"`` where the mechanism also decides how queries and keys are made
    - ``parameters``: list of the names of its own keyword arguments
    - ``formula``: of the weights, with s the scaled score
    - ``range``: of one weight, and of a row's sum
    - ``citation``: the paper
    """
    return copy.deepcopy(_CATALOGUE)
