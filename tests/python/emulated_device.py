"""A device that is not the CPU, on any machine: for tests of code that must work on every device.

Its tensors have no memory, so that code that reads a pointer fails; operators run on a CPU tensor behind each tensor
of the device. Importing this registers the device, once for the process.

COGWHEEL_TEST_DEVICE names a device of the machine instead, such as cuda: the same tests on what users have.
"""

import functools
import os

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

OF_MACHINE = os.environ.get("COGWHEEL_TEST_DEVICE", "")
NAME = OF_MACHINE or "emulated"

# By the address of their storage, which aliases share: the storage, so that the address is not given again, and the
# tensor behind. For others to see all are contiguous.
_BEHIND: dict[int, tuple[object, Tensor]] = {}


def is_there(value: object) -> bool:
    return isinstance(value, Tensor) and value.device.type == NAME


def on_device(behind: Tensor) -> Tensor:
    """A tensor of the device with these numbers."""
    if OF_MACHINE:
        return behind.detach().to(NAME)
    with torch.inference_mode(False):  # tensors of which modes ask for what views of these lack
        tensor = torch._C._acc.create_empty_tensor(tuple(behind.shape), behind.dtype)
        storage = tensor.untyped_storage()
        _BEHIND[storage._cdata] = storage, behind.detach()
    return tensor


def behind(tensor: Tensor) -> Tensor:
    """The numbers of a tensor of the device."""
    if OF_MACHINE:
        return tensor.cpu()
    found = _BEHIND[tensor.untyped_storage()._cdata][1]
    # In inference mode views are others of the same storage, without a call here.
    return found if found.shape == tensor.shape or found.numel() != tensor.numel() else found.view(tensor.shape)


def forget() -> None:
    """Frees the CPU tensors behind all tensors so far, which must not be used any more."""
    _BEHIND.clear()


def _host(value):
    """The argument of the CPU's operator for an argument on the device."""
    if is_there(value):
        return behind(value).contiguous()
    return torch.device("cpu") if isinstance(value, torch.device) and value.type == NAME else value


def _written(value):
    """The same for an argument that the operator writes to."""
    return behind(value) if is_there(value) else value


def _there(value):
    return on_device(value) if isinstance(value, Tensor) else value


def _as_strided(tensor, size, stride, offset=0):
    """A view where the strides that others see are those of what is behind, else a copy that nobody may write to."""
    base = behind(tensor).contiguous()
    return on_device(base.as_strided(size, stride, base.storage_offset() + (offset or 0)))


def _copy_from(source, target, non_blocking=False):
    source, there = (behind(each) if is_there(each) else each for each in (source, target))
    there.copy_(source)
    return target


_OF_THE_DEVICE = {torch.ops.aten.as_strided.default: _as_strided, torch.ops.aten._copy_from.default: _copy_from}


def _run(operator, *args, **kwargs):
    if operator in _OF_THE_DEVICE:
        return _OF_THE_DEVICE[operator](*args, **kwargs)
    if operator._schema.is_mutable:
        given = {argument.name: each for argument, each in zip(operator._schema.arguments, args)} | kwargs
        written = [argument.name for argument in operator._schema.arguments if argument.alias_info and argument.alias_info.is_write and argument.name in given]
        operator(**{name: tree_map(_written if name in written else _host, each) for name, each in given.items()})
        changed = [given[name] for name in written]
        for each in filter(is_there, tree_leaves(changed)):
            assert behind(each).shape == each.shape, f"{operator} gave a tensor of the device another size"
        if not operator._schema.returns:  # of lists of tensors
            return None
        return changed[0] if len(changed) == 1 else tuple(changed)
    asked = kwargs.get("device")
    stays = any(map(is_there, tree_leaves((args, kwargs)))) if asked is None else asked.type == NAME
    result = operator(*tree_map(_host, args), **tree_map(_host, kwargs))
    return tree_map(_there, result) if stays else result


class _Backend(_DummyBackendModule):
    """It draws nothing, but whoever forks the generators of all devices asks."""

    def get_rng_state(self, device=None) -> Tensor:
        return torch.zeros(0, dtype=torch.uint8)

    def set_rng_state(self, state: Tensor, device=None) -> None:
        pass


def _register() -> None:
    _setup_privateuseone_for_python_backend(NAME, _Backend())
    _LIBRARIES.extend([torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")])
    fallback, aten = _LIBRARIES
    fallback.fallback(_run, "PrivateUse1")
    # PyTorch's own way to run these anywhere gives a result its size afterwards, which tensors without memory do not take.
    in_two_steps = "abs", "logical_and", "logical_or", "logical_not", "arange", "arange.start_step", "arange.start", "eye", "reciprocal", "mm", "bmm"
    shifts = "bitwise_and.Scalar", "bitwise_xor.Scalar", "bitwise_left_shift.Tensor_Scalar", "bitwise_right_shift.Tensor_Scalar"
    for each in (*in_two_steps, *shifts):
        name, _, overload = each.partition(".")
        aten.impl(each, functools.partial(_run, getattr(getattr(torch.ops.aten, name), overload or "default")), "PrivateUse1")


_LIBRARIES: list[torch.library.Library] = []  # what they register goes with them
if not OF_MACHINE:
    _register()
