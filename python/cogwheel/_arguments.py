"""Arguments of the wrong type for a public function, reported in one line.

The operators check numbers and shapes themselves. An argument of another type never reaches those checks: PyTorch's
dispatcher refuses it in many lines. So calls are made unchecked, and the types are checked only after one failed.
"""

import functools
import inspect
import numbers
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
import torch.distributed
from torch import Tensor

_Function = TypeVar("_Function", bound=Callable[..., Any])



def _is_integer(value: object) -> bool:
    return isinstance(value, torch.SymInt) or isinstance(value, numbers.Integral) and -(2**63) <= value < 2**63


def _is_number(value: object) -> bool:
    if not isinstance(value, numbers.Real):
        return isinstance(value, (torch.SymInt, torch.SymFloat))
    try:
        float(value)
    except OverflowError:
        return False
    return True


def _is_table_of_numbers(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(key, str) and _is_number(each) for key, each in value.items())


# For each type in annotations: the check of a value, and the type's name in messages. None is not mentioned.
_KINDS: dict[Any, tuple[Callable[[Any], bool], str]] = {
    Tensor: (lambda value: isinstance(value, Tensor), "a tensor"),
    tuple[Tensor, ...]: (
        lambda value: isinstance(value, tuple) and all(isinstance(each, Tensor) for each in value), "a tuple of tensors"
    ),
    bool: (lambda value: isinstance(value, bool), "True or False"),
    int: (_is_integer, "an integer of 64 bits"),
    float: (_is_number, "a number"),
    str: (lambda value: isinstance(value, str), "a string"),
    list[int]: (lambda value: isinstance(value, list) and all(map(_is_integer, value)), "a list of integers"),
    Mapping[str, float]: (_is_table_of_numbers, "a dict of names and numbers"),
    torch.distributed.ProcessGroup: (lambda value: isinstance(value, torch.distributed.ProcessGroup), "a process group"),
    torch.device: (lambda value: isinstance(value, torch.device), "a torch.device"),
    torch.dtype: (lambda value: isinstance(value, torch.dtype), "a torch.dtype"),
    types.NoneType: (lambda value: value is None, ""),
}


def _shown(value: object) -> str:
    if isinstance(value, int) and abs(value) >= 10**40:
        return "a number of many digits"  # which Python may even refuse to write
    return repr(value) if value is None or isinstance(value, (bool, numbers.Number)) else f"a {type(value).__name__}"


def _refusal(what: str, name: str, value: object, annotation: Any) -> TypeError | ValueError | None:
    """The error for a value that its annotation does not allow; None if it does."""
    union = typing.get_origin(annotation) in (types.UnionType, typing.Union)
    allowed = typing.get_args(annotation) if union else (annotation,)
    if any(_KINDS[each][0](value) for each in allowed):
        return None
    expected = " or ".join(_KINDS[each][1] for each in allowed if each is not types.NoneType)
    kind = ValueError if int in allowed and isinstance(value, int) else TypeError
    return kind(f"{what}: {name}: expected {expected}, got {_shown(value)}")


def _first_refusal(
    what: str, function: Callable[..., Any], options_of: Callable[..., Any], args: tuple, kwargs: dict
) -> TypeError | ValueError | None:
    signature = inspect.signature(function)
    options = inspect.signature(options_of).parameters
    own = [each.annotation for each in options.values() if each.kind is inspect.Parameter.VAR_KEYWORD]
    own_annotation = own[0] if own and own[0] is not inspect.Parameter.empty else Tensor
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:  # too many arguments, or too few: Python's message says so
        return None
    for name, value in bound.arguments.items():
        parameter = signature.parameters[name]
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            given = {} if name == "self" else {name: (value, parameter.annotation)}
        else:  # options, or a mechanism's own tensors
            given = {
                key: (each, options[key].annotation if key in options else own_annotation)
                for key, each in value.items()
                if key in options or each is not None  # None is as if it were not given
            }
        for key, (each, annotation) in given.items():
            if refusal := _refusal(what, key, each, annotation):
                return refusal
    return None


def checked(what: str, *, options_of: Callable[..., Any] | None = None) -> Callable[[_Function], _Function]:
    """Makes a call that fails for the type of an argument raise one line, ``what: argument: expected …, got …``.

    Types are those of the annotations; keywords that the function passes on have those of ``options_of``.
    """

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def call(*args, **kwargs):
            try:
                return function(*args, **kwargs)
            except (AttributeError, RuntimeError, TypeError, ValueError, OverflowError) as error:
                if ": expected " in str(error):
                    raise
                refusal = _first_refusal(what, function, options_of or function, args, kwargs)
                if refusal is None:
                    raise
                raise refusal from None

        return typing.cast(_Function, call)

    return decorate
