"""Functions that read or replace values inside a pass, under the names of TransformerLens: of trained models, of :mod:`cogwheel.nn`,
and of any module that has such modules inside."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

from cogwheel import _bindings

Names = str | Iterable[str] | Callable[[str], bool]


class HookPoint:
    """Where a value was read: ``name``, and ``layer()`` of what lies in a layer of a model."""

    def __init__(self, name: str) -> None:
        self.name = name

    def layer(self) -> int:
        return int(self.name.split(".")[1])

    def __repr__(self) -> str:
        return f"HookPoint({self.name!r})"


Hook = Callable[[Tensor, HookPoint], "Tensor | None"]
Hooks = Sequence[tuple[Names, Hook]]
_ByName = dict[str, list[Hook]]

_numbers = itertools.count()


def _hooked_gradient(gradient: Tensor, hook: Hook, point: HookPoint) -> Tensor | None:
    given = gradient.clone()  # the engine may give the same tensor to other values of the pass
    before = given._version
    replaced = hook(given, point)
    if replaced is None:
        if given._version == before:
            return None
        replaced = given
    if not isinstance(replaced, Tensor):
        raise ValueError(f"{point.name}: expected a gradient or None from a hook, got {type(replaced).__name__}")
    kind = lambda of: f"{of.dtype} {list(of.shape)} on {of.device}"  # noqa: E731
    if kind(replaced) != kind(gradient):
        raise ValueError(f"{point.name}: expected a gradient {kind(gradient)}, got {kind(replaced)}")
    if replaced.isnan().any() and not gradient.isnan().any():
        raise ValueError(f"{point.name}: expected a gradient of numbers, got NaN")
    return replaced


def refresh(part: torch.nn.Module, place: str, known: set[str]) -> None:
    """Brings parameters up to date that a module computes as it is called, which parts are not; refuses what would not be seen."""
    for hook in part._forward_pre_hooks.values():
        if isinstance(hook, (BasePruningMethod, SpectralNorm, WeightNorm)):
            hook(part, ())
        else:
            raise ValueError(f"{place}: expected hooks of run_with_hooks, for no pass calls a part of the model, got one of the part")
    if part._forward_hooks or part._backward_hooks or part._backward_pre_hooks:
        raise ValueError(f"{place}: expected hooks of run_with_hooks, for no pass calls a part of the model, got one of the part")
    computed_from = {name + ending for name in known for ending in ("_orig", "_g", "_v")}
    for name in {name for name, tensor in part._parameters.items() if tensor is not None} - known - computed_from:
        raise ValueError(f"{place}: expected the parameters of the run, got another, {name}")


def _chosen(names: Names, known: Sequence[str]) -> list[str]:
    if callable(names):
        return [name for name in known if names(name)]
    return [names] if isinstance(names, str) else list(names)


class _Points:
    """What a pass can show: names, and which of them are special."""

    def __init__(self, names: Sequence[str], read_only: Sequence[str], on_request: Sequence[str]) -> None:
        self.names, self.read_only, self.on_request = list(names), set(read_only), set(on_request)

    @classmethod
    def of(cls, made: Any, renamed: Callable[[str], str]) -> _Points:
        parts = (made.hook_names(), made.read_only_hook_names(), made.on_request_hook_names())
        return cls(*([renamed(name) for name in part] for part in parts))

    def by_name(self, fwd_hooks: Hooks, bwd_hooks: Hooks) -> tuple[_ByName, _ByName]:
        forward: _ByName = {}
        backward: _ByName = {}
        for hooks, found in ((fwd_hooks, forward), (bwd_hooks, backward)):
            for names, hook in hooks:
                for name in _chosen(names, self.names):
                    if found is backward and name in self.read_only:
                        if callable(names):
                            continue
                        raise ValueError(f"bwd_hooks: expected a value that the output is computed from, got {name}")
                    found.setdefault(name, []).append(hook)
        if backward and not torch.is_grad_enabled():
            raise ValueError("bwd_hooks: expected a pass with gradients, got one under torch.no_grad()")
        return forward, backward


@contextlib.contextmanager
def _calling(forward: _ByName, backward: _ByName, shown: Callable[[str], str]) -> Iterator[int]:
    """The number by which a pass calls these; ``shown`` makes of its names those of the hooks."""

    def call(place: str, value: Tensor) -> Tensor:
        name = shown(place)
        point = HookPoint(name)
        for turn, hook in enumerate(forward.get(name, ())):
            given = value.clone() if turn else value  # what earlier hooks keep stays as they saw it
            replaced = hook(given, point)
            if replaced is not None and not isinstance(replaced, Tensor):
                raise ValueError(f"{name}: expected a tensor or None from a hook, got {type(replaced).__name__}")
            value = given if replaced is None else replaced
        if name in backward:
            # Another tensor than the one that a hook returned, which may be used elsewhere; with a gradient also
            # where nothing before it has one.
            value = value.view_as(value) if value.requires_grad else value.detach().requires_grad_()
            for hook in backward[name]:
                value.register_hook(functools.partial(_hooked_gradient, hook=hook, point=point))
        return value

    number = next(_numbers)
    _bindings.callbacks[number] = call
    try:
        yield number
    finally:
        del _bindings.callbacks[number]


class Hooked:
    """A module whose passes can show what lies inside of them, which the layers of C++ then compute.

    A subclass says by ``_hookable`` what has the points, by ``_pass`` how such a pass runs, and by ``_prefix`` what the names of
    its points begin with in C++ and not here.
    """

    _prefix = ""
    # Of a pass through a module around this one (run_with_hooks of this module): its functions, and what their names begin with.
    _outer: tuple[_ByName, _ByName, str] | None = None

    def _hookable(self) -> Any:
        raise NotImplementedError

    def _pass(self, hooked: list[str], callback: int, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def _points(self) -> _Points:
        return _Points.of(self._hookable(), lambda name: name.removeprefix(self._prefix))

    def _run(self, forward: _ByName, backward: _ByName, before: str, args: Any, kwargs: Any) -> Any:
        """A pass; ``before`` is what names of hooks begin with."""
        places = [self._prefix + name.removeprefix(before) for name in forward | backward if name.startswith(before)]
        with _calling(forward, backward, lambda place: before + place.removeprefix(self._prefix)) as number:
            return self._pass(places, number, *args, **kwargs)

    def _run_outer(self, args: Any, kwargs: Any) -> Any:
        """The pass that a module around this one is in, and shows."""
        forward, backward, before = self._outer
        self._outer = None  # a layer may call its own pass without hooks
        try:
            return self._run(forward, backward, before, args, kwargs)
        finally:
            self._outer = forward, backward, before

    def hook_names(self) -> list[str]:
        """Every value that hooks read or replace, in the order of a pass."""
        return self._points().names

    def run_with_hooks(self, *args: Any, fwd_hooks: Hooks = (), bwd_hooks: Hooks = (), **kwargs: Any) -> Any:
        """The output of a pass in which functions read or replace activations.

        A function gets the value and the :class:`HookPoint`; what it returns takes the value's place, unless it is None.
        It may write into the value, a copy of its own, to the same effect. Functions of one name run in order. Those of
        ``bwd_hooks`` get and replace the gradient of the value alike, whenever ``backward`` runs. Names are exact; a function
        chooses among all. Values that are only read, or replaced by equal ones, leave the bits of the output.

        Raises ValueError for an unknown name, for a value or a gradient of another shape or type, or NaN, for a value
        that can only be read and was replaced or has ``bwd_hooks``, and for ``bwd_hooks`` where gradients are off;
        nothing is changed.
        """
        return self._run(*self._points().by_name(fwd_hooks, bwd_hooks), "", args, kwargs)

    def run_with_cache(self, *args: Any, names: Names | None = None, **kwargs: Any) -> tuple[Any, dict[str, Tensor]]:
        """The output of a pass and its activations by name.

        ``names`` chooses: a name, names, or a function of the name. None means all but those that are computed on
        request only, which are inputs and results of single heads, both maps of a difference, and statistics of rows.
        The tensors belong to the pass: with gradients they can be differentiated for (``torch.autograd.grad``), and
        under ``torch.no_grad()`` they hold nothing but themselves.
        """
        return _with_cache(self._points(), self.run_with_hooks, names, args, kwargs)


def _with_cache(points: _Points, run: Callable[..., Any], names: Names | None, args: Any, kwargs: Any) -> tuple[Any, dict[str, Tensor]]:
    cache: dict[str, Tensor] = {}

    def keep(value: Tensor, point: HookPoint) -> None:
        cache[point.name] = value

    if names is None:
        names = [name for name in points.names if name not in points.on_request]
    return run(*args, fwd_hooks=[(names, keep)], **kwargs), cache


def _hooked_modules(module: torch.nn.Module) -> dict[str, Hooked]:
    """By path, those that are in no other such module."""
    found: dict[str, Hooked] = {}
    for path, part in module.named_modules(remove_duplicate=False):
        if isinstance(part, Hooked) and not any(path.startswith(outer + ".") or outer == "" for outer in found):
            found[path] = part
    if not found:
        raise ValueError(f"hooks: expected a module with layers of cogwheel.nn inside, got {type(module).__name__} without any")
    return found


def _points_of(module: torch.nn.Module) -> tuple[dict[str, Hooked], _Points]:
    inside = _hooked_modules(module)
    all_of: tuple[list[str], list[str], list[str]] = ([], [], [])
    for path, part in inside.items():
        points = part._points()
        for names, of_part in zip(all_of, (points.names, points.read_only, points.on_request), strict=True):
            names += [f"{path}.{name}" if path else name for name in of_part]
    return inside, _Points(*all_of)


def hook_names(module: torch.nn.Module) -> list[str]:
    """Every value that hooks read or replace in the modules of :mod:`cogwheel.nn` inside ``module``: the path of the module and the
    name there, such as ``layers.3.attention.hook_pattern``."""
    return _points_of(module)[1].names


def run_with_hooks(module: torch.nn.Module, *args: Any, fwd_hooks: Hooks = (), bwd_hooks: Hooks = (), **kwargs: Any) -> Any:
    """``module(*args, **kwargs)`` in which functions read or replace values, as :meth:`Hooked.run_with_hooks` says; names are those
    of :func:`hook_names`."""
    inside, points = _points_of(module)
    forward, backward = points.by_name(fwd_hooks, bwd_hooks)
    for name in forward | backward:
        if name not in points.names:
            raise ValueError(f"hook: expected a name of hook_names(module), got {name}")
    try:
        for path, part in inside.items():
            before = f"{path}." if path else ""
            if any(name.startswith(before) for name in forward | backward):
                part._outer = forward, backward, before
        return module(*args, **kwargs)
    finally:
        for part in inside.values():
            part._outer = None


def run_with_cache(module: torch.nn.Module, *args: Any, names: Names | None = None, **kwargs: Any) -> tuple[Any, dict[str, Tensor]]:
    """``module(*args, **kwargs)`` and the values inside by name, as :meth:`Hooked.run_with_cache` says; names are those of
    :func:`hook_names`."""
    return _with_cache(_points_of(module)[1], functools.partial(run_with_hooks, module), names, args, kwargs)
