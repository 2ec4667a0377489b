"""How this process multiplies bfloat16 numbers."""

import json
from typing import Any

import torch


def bfloat16_products() -> list[dict[str, Any]]:
    """How attention and layers multiply bfloat16 numbers in this process, and how fast this machine is at each way.

    The choice is made by a measurement of some ten milliseconds, when such numbers are first multiplied; the bits of
    results depend on it. The environment variable ``COGWHEEL_PRODUCT`` (``pairs``, ``amx`` or ``widened``) decides
    instead. Each of the two is a dict of

    - ``where``: ``"attention"``, or ``"layers"`` for the matrix products of models that Cogwheel trains
    - ``product``: ``"pairs"``, ``"amx"`` (tiles) or ``"widened"`` to float32; of layers ``"native"``, as torch's library
      multiplies bfloat16, or ``"widened"``
    - ``reason``: why
    - ``flops``: of each product of this machine, what one thread computes in a second, measured now

    Raises RuntimeError where ``COGWHEEL_PRODUCT`` names what this machine lacks.
    """
    return json.loads(torch.ops.cogwheel.bfloat16_products())
