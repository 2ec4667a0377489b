"""The parameters of kernels by name: `key.row` is the field `row` of the tuple `key`. What is not given is None."""

import inspect
import typing
from collections.abc import Callable

import triton
from triton.compiler import ASTSource


def _filled(kind: type, name: str, given: dict):
    """One parameter or field; a tensor that is not given is None itself."""
    if not hasattr(kind, "_fields"):
        return given.pop(name, None)
    if "data" in kind._fields and f"{name}.data" not in given:
        return None
    fields = typing.get_type_hints(kind)
    return kind(*(_filled(fields[field], f"{name}.{field}", given) for field in kind._fields))


def arguments_of(function: Callable, given: dict) -> dict:
    """The arguments of a kernel. A name that it lacks raises ValueError: C++ and the kernel disagree."""
    given = dict(given)
    kinds = inspect.get_annotations(function)
    filled = {name: _filled(kinds.get(name), name, given) for name in inspect.signature(function).parameters}
    if given:
        raise ValueError(f"{function.__name__}: expected {', '.join(inspect.signature(function).parameters)}, got {', '.join(given)}")
    return filled


def places_of(function: Callable) -> dict[str, tuple[int, ...]]:
    """Where each name stands: the number of the parameter, then of the field."""
    places = {}

    def visit(kind, name: str, place: tuple[int, ...]) -> None:
        places[name] = place
        if hasattr(kind, "_fields"):
            fields = typing.get_type_hints(kind)
            for at, field in enumerate(kind._fields):
                visit(fields[field], f"{name}.{field}", (*place, at))

    kinds = inspect.get_annotations(function)
    for at, name in enumerate(inspect.signature(function).parameters):
        visit(kinds.get(name), name, (at,))
    return places


def _with_constants(kind):
    """Of a type, or a tuple of types: what is None is a constant."""
    return type(kind)(*(_with_constants(each) for each in kind)) if isinstance(kind, tuple) else kind or "constexpr"


def source_of(function: triton.JITFunction, types: dict[str, str], constants: dict, aligned: list[str]) -> ASTSource:
    """What Triton compiles for arguments of these types; what is neither among them nor constant is None."""
    types = types | dict.fromkeys(constants, "constexpr")
    places = places_of(function.fn)
    arguments = arguments_of(function.fn, types)
    absent = dict.fromkeys((place for name, place in places.items() if _at(list(arguments.values()), place) is None), None)
    values = absent | {places[name]: value for name, value in constants.items()}
    return ASTSource(
        function, {name: _with_constants(kind) for name, kind in arguments.items()}, values, {places[name]: [["tt.divisibility", 16]] for name in aligned}
    )


def _at(arguments, place: tuple[int, ...]):
    """False within what is None itself."""
    for number in place:
        if arguments is None:
            return False
        arguments = arguments[number]
    return arguments
