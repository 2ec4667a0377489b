"""Trained runs as modules of PyTorch: the models of the executable, with hooks at every activation."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import json
import os
import pathlib
from typing import Any

import torch
from torch import Tensor

from cogwheel import _bindings
from cogwheel.hooks import Hooked, refresh


@dataclasses.dataclass
class Compiled:
    """A model of C++ and the parameters around which it is made; ``bound`` is the last one that was made around others.

    An object of Python, because torch.export looks for objects of C++ among what a module holds.
    """

    made: Any
    own: dict[str, Tensor]
    bound: tuple[dict[str, Tensor], Any]


class _Part(torch.nn.Module):
    """Holds parameters of a model whose pass is computed whole, in C++."""


def _signature_of(inputs: list[str]) -> inspect.Signature:
    """Of a pass: the names of its inputs, in their order, where those that end in ? may be left out."""
    either = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature([
        inspect.Parameter(name.rstrip("?"), either, default=None if name.endswith("?") else inspect.Parameter.empty)
        for name in inputs
    ])  # fmt: skip


class Model(Hooked, torch.nn.Module):
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
        self._begin(made)
        for name in self._compiled.own:
            *path, _ = name.split(".")
            module: torch.nn.Module = self
            for part in path:
                if not hasattr(module, part):
                    module.add_module(part, _Part())
                module = getattr(module, part)
        self._hold_own()

    _folder: str | None = None  # of the run

    def _begin(self, made: Any) -> None:
        """Of the model of C++ what there is without modules."""
        super().__init__()
        own: dict[str, Tensor] = made.parameters()
        self._compiled = Compiled(made, own, (own, made))
        self.options: dict[str, Any] = json.loads(made.options())
        self._signature = _signature_of(made.inputs())
        self._places: dict[str, set[str]] = {}  # by path of a module: the names of its parameters
        for name in self._compiled.own:
            *path, last = name.split(".")
            for depth in range(len(path) + 1):
                self._places.setdefault(".".join(path[:depth]), set())
            self._places[".".join(path)].add(last)

    def _hold_own(self) -> None:
        """Its tensors become parameters of the modules, whose gradients backward fills in."""
        for name, tensor in self._compiled.own.items():
            path, _, last = name.rpartition(".")
            tensor.__class__ = torch.nn.Parameter
            self.get_submodule(path)._parameters[last] = tensor
        self._kinds = {path: type(self.get_submodule(path)) for path in self._places if path}

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copied = self.__class__.__new__(self.__class__)
        memo[id(self)] = copied
        # The compiled model is shared: whatever the parameters are, a pass is given them.
        for name, value in self.__dict__.items():
            copied.__dict__[name] = dataclasses.replace(value) if name == "_compiled" else copy.deepcopy(value, memo)
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
            if part is not self and not isinstance(part, self._kinds[path]):
                raise ValueError(f"{path}: expected the model's own modules, whose parameters may be replaced, got {type(part).__name__}")
            if part is not self:
                refresh(part, path, names)
            for last in names:
                tensor = getattr(part, last, None)
                if not isinstance(tensor, Tensor):
                    raise ValueError(f"{path}.{last}: expected a tensor, got {type(tensor).__name__}")
                now[f"{path}.{last}" if path else last] = tensor
        return now

    def _computing(self) -> Any:
        """The compiled model with the parameters that this module has now."""
        now = self._parameters_now()
        compiled = self._compiled
        for known, made in ((compiled.own, compiled.made), compiled.bound):
            if known and all(now[name] is tensor for name, tensor in known.items()):
                return made
        made = self._compiled.made.with_parameters(now)
        if all(type(tensor) is torch.nn.Parameter and tensor.is_leaf for tensor in now.values()):
            compiled.bound = (now, made)  # others belong to one pass
        return made

    @classmethod
    def _around(cls, made: Any) -> Any:
        """The module of a model of C++."""
        return cls(made)

    @classmethod
    def load(cls, run: str | os.PathLike[str]) -> Any:
        """:func:`load`, of a run that holds such a model."""
        model = load(run)
        if not isinstance(model, cls):
            raise ValueError(f"load: {run}: expected a run of {cls.__name__}, got one of {type(model).__name__}")
        return model

    def _hookable(self) -> Any:
        return self._compiled.made

    def _pass(self, hooked: list[str], callback: int, *args: Any, **kwargs: Any) -> Tensor:
        return self._computing().forward(self._given(*args, **kwargs), hooked, callback)

    def _inputs(self, *args: Any, **kwargs: Any) -> dict[str, Tensor]:
        given = self._signature.bind(*args, **kwargs).arguments
        optional = (name for name, parameter in self._signature.parameters.items() if parameter.default is None)
        left_out = {name for name in optional if given.get(name) is None}
        return {name: value for name, value in given.items() if name not in left_out}

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._pass([], -1, *args, **kwargs)

    def _given(self, *args: Any, **kwargs: Any) -> dict[str, Tensor]:
        inputs = self._inputs(*args, **kwargs)
        for name, value in inputs.items():
            if not isinstance(value, Tensor):
                raise TypeError(f"{name}: expected a tensor, got {type(value).__name__}")
        return inputs

    def effective_attention(self, *args: Any, by_channel: bool = False, **kwargs: Any) -> list[Tensor]:
        """The matrix by which each layer mixes the values of its tokens, [B, heads, N, N] of each layer.

        It is measured, as the output for unit values, so that attention, differences of two maps, and layers with a state
        are read alike; row i is what token i reads. ``by_channel`` tells the channels of a value apart, [B, heads, N, N,
        channels]: some states forget each at its own rate, and are read as the mean without it. N / channels passes, N by
        channel and for such states; without gradients.
        """
        return self._computing().effective_attention(self._given(*args, **kwargs), by_channel)


class Encoder(Model):
    """tokens [B, N] int64 → logits of every token [B, N, vocabulary], or of a model with classes [B, classes].

    ``segments`` [B, N] say which sentence a token is of, ``lengths`` [B] what is no padding.
    """


class VisionTransformer(Model):
    """images [B, channels, image_size, image_size] in [-1, 1] → logits [B, classes]."""


class Transformer(Model):
    """source [B, S] and tokens [B, T], a target so far, int64 → logits of what follows each token [B, T, vocabulary].

    ``lengths`` [B] say what of each source is no padding. Hooks number the encoder's layers first, then the decoder's; names
    with ``memory`` are of the latter's attention to the source.
    """


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

    A module of PyTorch in float32, on any device: a :class:`cogwheel.LanguageModel`, :class:`Encoder`,
    :class:`Transformer`, :class:`VisionTransformer` or :class:`UVit`, by what the run holds, or a plain :class:`Model` of
    another topology. Its ``options`` are the keys of ``[model]``. Dropout is left out.

    Raises ValueError for another model (recurrent translation, handwriting), a mechanism of one's own that was not defined in
    this process, and a checkpoint that is cut off; FileNotFoundError where there is none.
    """
    path = pathlib.Path(run)
    if not (path / "checkpoint.safetensors").is_file():
        raise FileNotFoundError(f"load: {path}: expected the folder of a run, got none")
    made = _bindings.classes().TrainedModel(str(path))
    model = _class_of(made.topology())._around(made)
    model._folder = str(path)
    return model
