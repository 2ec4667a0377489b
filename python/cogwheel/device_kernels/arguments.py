"""What kernels take. Names of fields, joined by dots, are those that C++ fills in (cogwheel/ops/launch); what a call lacks is None, for which a
kernel is compiled without it."""

from typing import Any, NamedTuple


class Heads(NamedTuple):
    """A tensor [B, H, N, width], or what it is from one batch entry and head on. Rows are contiguous; the rest are strides."""

    data: Any
    batch: Any
    head: Any
    row: Any
