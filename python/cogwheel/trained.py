"""Trained runs as modules of PyTorch: the models of the executable, with hooks at every activation."""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
import json
import os
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

from cogwheel import _library

Names = str | Iterable[str] | Callable[[str], bool]


class HookPoint:
    """Where a value was read: ``name``, and ``layer()`` of what lies in a layer."""

    def __init__(self, name: str) -> None:
        self.name = name

    def layer(self) -> int:
        return int(self.name.split(".")[1])

    def __repr__(self) -> str:
        return f"HookPoint({self.name!r})"


Hook = Callable[[Tensor, HookPoint], "Tensor | None"]

_numbers = itertools.count()
_callbacks: dict[int, Callable[[str, Tensor], Tensor]] = {}


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


@functools.cache
def _bindings() -> Any:
    """Loaded with the first model: attention alone does not need them."""
    torch.classes.load_library(str(_library.PATH.with_name("libcogwheel_bindings.so")))
    library = torch.library.Library("cogwheel", "IMPL")
    library.impl("hook", lambda callback, name, value: _callbacks[callback](name, value), "CompositeImplicitAutograd")
    return library, torch.classes.cogwheel.TrainedModel


class _Part(torch.nn.Module):
    """Holds parameters of a model whose pass is computed whole, in C++."""


def _refresh(part: torch.nn.Module, place: str, known: set[str]) -> None:
    """Brings parameters up to date that a module computes as it is called, which parts are not; refuses what would not be seen."""
    for hook in part._forward_pre_hooks.values():
        if isinstance(hook, (BasePruningMethod, SpectralNorm, WeightNorm)):
            hook(part, ())
        else:
            raise ValueError(f"{place}: expected hooks of run_with_hooks, for no pass calls a part of the model, got one of the part")
    if part._forward_hooks or part._backward_hooks or part._backward_pre_hooks:
        raise ValueError(f"{place}: expected hooks of run_with_hooks, for no pass calls a part of the model, got one of the part")
    computed_from = {name + ending for name in known for ending in ("_orig", "_g", "_v")}
    for name in part._parameters.keys() - known - computed_from:
        raise ValueError(f"{place}: expected the parameters of the run, got another, {name}")


def _signature_of(inputs: list[str]) -> inspect.Signature:
    """Of a pass: the names of its inputs, in their order, where those that end in ? may be left out."""
    either = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature([
        inspect.Parameter(name.rstrip("?"), either, default=None if name.endswith("?") else inspect.Parameter.empty)
        for name in inputs
    ])  # fmt: skip


class Model(torch.nn.Module):
    """A trained model of any topology, which takes its inputs by name or in their order.

    Parameters have the names of the run. ``options`` are its keys of ``[model]``.

    Everything is computed by the model that trained, in C++: by the same kernels, with derivatives, in float32 or,
    after ``double()``, float64. The names of activations and their shapes are those of TransformerLens;
    ``hook_names()`` lists the model's.

    Parameters are inputs of every pass: what ``torch.func.functional_call``, ``torch.nn.utils.parametrize`` or ``prune``,
    ``load_state_dict(assign=True)`` or an assignment puts in the place of one is computed with and differentiated. Modules
    that take the place of the model's own, and hooks of these, are a ValueError, since no pass would call them.
    """

    def __init__(self, made: Any) -> None:
        super().__init__()
        self._made = made
        self.options: dict[str, Any] = json.loads(made.options())
        self._own: dict[str, Tensor] = made.parameters()
        self._signature = _signature_of(made.inputs())
        self._places: dict[str, set[str]] = {}  # by path of a module: the names of its parameters
        self._bound: tuple[dict[str, Tensor], Any] = (self._own, made)  # whose parameters are these
        for name, tensor in self._own.items():
            *path, last = name.split(".")
            for depth in range(len(path) + 1):
                self._places.setdefault(".".join(path[:depth]), set())
            self._places[".".join(path)].add(last)
            module: torch.nn.Module = self
            for part in path:
                if not hasattr(module, part):
                    module.add_module(part, _Part())
                module = getattr(module, part)
            tensor.__class__ = torch.nn.Parameter  # the model's own tensor, whose gradient backward fills in
            module.register_parameter(last, tensor)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copied = self.__class__.__new__(self.__class__)
        memo[id(self)] = copied
        # The compiled model is shared: whatever the parameters are, a pass is given them.
        shared = ("_made", "_own", "_bound")
        for name, value in self.__dict__.items():
            copied.__dict__[name] = value if name in shared else copy.deepcopy(value, memo)
        return copied

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError("a loaded model: expected to be loaded from its run (cogwheel.load), got a pickle")

    def _parameters_now(self) -> dict[str, Tensor]:
        """By name, whatever has taken the place of the model's own."""
        now: dict[str, Tensor] = {}
        for path, names in self._places.items():
            part: Any = self
            for step in filter(None, path.split(".")):
                part = getattr(part, step, None)
                if not isinstance(part, _Part):
                    raise ValueError(f"{path}: expected the model's own modules, whose parameters may be replaced, got {type(part).__name__}")
            if part is not self:
                _refresh(part, path, names)
            for last in names:
                tensor = getattr(part, last, None)
                if not isinstance(tensor, Tensor):
                    raise ValueError(f"{path}.{last}: expected a tensor, got {type(tensor).__name__}")
                now[f"{path}.{last}" if path else last] = tensor
        return now

    def _computing(self) -> Any:
        """The compiled model with the parameters that this module has now."""
        now = self._parameters_now()
        for known, made in ((self._own, self._made), self._bound):
            if all(now[name] is tensor for name, tensor in known.items()):
                return made
        made = self._made.with_parameters(now)
        if all(type(tensor) is torch.nn.Parameter and tensor.is_leaf for tensor in now.values()):
            self._bound = (now, made)  # others belong to one pass
        return made

    @classmethod
    def load(cls, run: str | os.PathLike[str]) -> Any:
        """:func:`load`, of a run that holds such a model."""
        model = load(run)
        if not isinstance(model, cls):
            raise ValueError(f"load: {run}: expected a run of {cls.__name__}, got one of {type(model).__name__}")
        return model

    def hook_names(self) -> list[str]:
        """Every activation, in the order of a pass."""
        return self._made.hook_names()

    def _inputs(self, *args: Any, **kwargs: Any) -> dict[str, Tensor]:
        given = self._signature.bind(*args, **kwargs).arguments
        optional = (name for name, parameter in self._signature.parameters.items() if parameter.default is None)
        left_out = {name for name in optional if given.get(name) is None}
        return {name: value for name, value in given.items() if name not in left_out}

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._computing().forward(self._given(*args, **kwargs), [], -1)

    def _given(self, *args: Any, **kwargs: Any) -> dict[str, Tensor]:
        inputs = self._inputs(*args, **kwargs)
        for name, value in inputs.items():
            if not isinstance(value, Tensor):
                raise TypeError(f"{name}: expected a tensor, got {type(value).__name__}")
        return inputs

    def _chosen(self, names: Names) -> list[str]:
        if callable(names):
            return [name for name in self.hook_names() if names(name)]
        return [names] if isinstance(names, str) else list(names)

    def run_with_hooks(
        self,
        *args: Any,
        fwd_hooks: Sequence[tuple[Names, Hook]] = (),
        bwd_hooks: Sequence[tuple[Names, Hook]] = (),
        **kwargs: Any,
    ) -> Tensor:
        """The output of a pass in which functions read or replace activations.

        A function gets the value and the :class:`HookPoint`; what it returns takes the value's place, unless it is None.
        It may write into the value, a copy of its own, to the same effect. Functions of one name run in order. Those of
        ``bwd_hooks`` get and replace the gradient of the value alike, whenever ``backward`` runs. Names are exact; a function
        chooses among all. Values that are only read, or replaced by equal ones, leave the bits of the output.

        Raises ValueError for an unknown name, for a value or a gradient of another shape or type, or NaN, for a value
        that can only be read and was replaced or has ``bwd_hooks``, and for ``bwd_hooks`` where gradients are off;
        nothing is changed.
        """
        read_only = set(self._made.read_only_hook_names()) if bwd_hooks else set()
        forward: dict[str, list[Hook]] = {}
        backward: dict[str, list[Hook]] = {}
        for hooks, found in ((fwd_hooks, forward), (bwd_hooks, backward)):
            for names, hook in hooks:
                for name in self._chosen(names):
                    if found is backward and name in read_only:
                        if callable(names):
                            continue
                        raise ValueError(f"bwd_hooks: expected a value that the output is computed from, got {name}")
                    found.setdefault(name, []).append(hook)

        def call(name: str, value: Tensor) -> Tensor:
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

        if backward and not torch.is_grad_enabled():
            raise ValueError("bwd_hooks: expected a pass with gradients, got one under torch.no_grad()")

        number = next(_numbers)
        _callbacks[number] = call
        try:
            return self._computing().forward(self._given(*args, **kwargs), list(forward | backward), number)
        finally:
            del _callbacks[number]

    def run_with_cache(self, *args: Any, names: Names | None = None, **kwargs: Any) -> tuple[Tensor, dict[str, Tensor]]:
        """The output of a pass and its activations by name.

        ``names`` chooses: a name, names, or a function of the name. None means all but those that are computed on
        request only, which are inputs and results of single heads, both maps of a difference, and statistics of rows.
        The tensors belong to the pass: with gradients they can be differentiated for (``torch.autograd.grad``), and
        under ``torch.no_grad()`` they hold nothing but themselves.
        """
        cache: dict[str, Tensor] = {}

        def keep(value: Tensor, point: HookPoint) -> None:
            cache[point.name] = value

        if names is None:
            on_request = set(self._made.on_request_hook_names())
            names = lambda name: name not in on_request  # noqa: E731
        return self.run_with_hooks(*args, fwd_hooks=[(names, keep)], **kwargs), cache


    def effective_attention(self, *args: Any, by_channel: bool = False, **kwargs: Any) -> list[Tensor]:
        """The matrix by which each layer mixes the values of its tokens, [B, heads, N, N] of each layer.

        It is measured, as the output for unit values, so that attention, differences of two maps, and layers with a state
        are read alike; row i is what token i reads. ``by_channel`` tells the channels of a value apart, [B, heads, N, N,
        channels]: some states forget each at its own rate, and are read as the mean without it. N / channels passes, N by
        channel and for such states; without gradients.
        """
        return self._computing().effective_attention(self._given(*args, **kwargs), by_channel)


class LanguageModel(Model):
    """tokens [B, N] int64 → logits [B, N, vocabulary]."""

    def tokens(self, text: str) -> Tensor:
        """A text as the run's tokenizer reads it, int64 [N], with the token that begins texts where there is one.

        Raises ValueError for a run without a tokenizer, and for what its tokenizer does not know.
        """
        return self._made.tokens(text)

    def pieces(self, tokens: Tensor) -> list[str]:
        """What each of ``tokens``, int64 [N], says."""
        return self._made.pieces(tokens)


class Encoder(Model):
    """tokens [B, N] int64 → logits of every token [B, N, vocabulary], or of a model with classes [B, classes].

    ``segments`` [B, N] say which sentence a token is of, ``lengths`` [B] what is no padding.
    """


class VisionTransformer(Model):
    """images [B, channels, image_size, image_size] in [-1, 1] → logits [B, classes]."""


class UVit(Model):
    """x [B, channels, image_size, image_size], time [B] from 0 to 1000, condition → the noise in x.

    The condition is that of the run: classes [B] int64, where their number itself means none; vectors
    [B, condition_tokens, condition_width]; or None.
    """


def _class_of(topology: str) -> type[Model]:
    """The class that says what its inputs mean, named as the topology is; of another topology, Model."""
    named = (each for each in Model.__subclasses__() if each.__name__.lower() == topology.replace("_", ""))
    return next(named, Model)


def load(run: str | os.PathLike[str]) -> Any:
    """The model of a run that ``cogwheel`` trained or imported, with its averaged weights where it has them.

    A module of PyTorch in float32, on any device: a :class:`LanguageModel`, :class:`Encoder`,
    :class:`VisionTransformer` or :class:`UVit`, by what the run holds, or a plain :class:`Model` of
    another topology. Its ``options`` are the keys of ``[model]``. Dropout is left out.

    Raises ValueError for another model (translation, handwriting), a mechanism of one's own that was not defined in
    this process, and a checkpoint that is cut off; FileNotFoundError where there is none.
    """
    path = pathlib.Path(run)
    if not (path / "checkpoint.safetensors").is_file():
        raise FileNotFoundError(f"load: {path}: expected the folder of a run, got none")
    _, trained_model = _bindings()
    made = trained_model(str(path))
    return _class_of(made.topology())(made)
