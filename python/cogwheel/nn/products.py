"""Matrix products by the operator that trained models use, in the type of autocast where that is on."""

import torch
from torch import Tensor

_PRODUCT = torch.ops.cogwheel.matrix_product.default


def product_dtype(x: Tensor) -> torch.dtype:
    """The type of a product of x: that of x, or autocast's, which leaves float64 as it is."""
    kind = "cpu" if x.is_cpu else x.device.type
    is_on = (x.is_cpu or torch.amp.is_autocast_available(kind)) and torch.is_autocast_enabled(kind)
    return torch.get_autocast_dtype(kind) if is_on and x.dtype != torch.float64 else x.dtype


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b: x [..., inputs], weight [outputs, inputs], bias [outputs]."""
    dtype = product_dtype(x)
    if x.dtype is not dtype:
        x = x.to(dtype)
    if weight.dtype is not dtype:
        weight, bias = weight.to(dtype), None if bias is None else bias.to(dtype)
    return _PRODUCT(x, weight, bias)


class Linear(torch.nn.Linear):
    """torch.nn.Linear, multiplied by whichever library is fastest on this CPU."""

    def forward(self, input: Tensor) -> Tensor:
        weight, bias = self.weight, self.bias
        if input.dtype is weight.dtype and input.is_cpu and not torch.is_autocast_enabled("cpu"):
            return _PRODUCT(input, weight, bias)
        return product(input, weight, bias)
