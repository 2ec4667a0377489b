"""Trained runs as modules of PyTorch, over the operators of this package."""

import json
import math
import os
import pathlib
import struct
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from cogwheel.catalogue import mechanisms
from cogwheel.functional import attention

_TYPES = {"F32": torch.float32, "F64": torch.float64, "I64": torch.int64}


def _refusal(what: object, expected: str, got: object) -> ValueError:
    return ValueError(f"load: {what}: expected {expected}, got {got}")


def _read(path: pathlib.Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and metadata of a safetensors file that ``cogwheel`` wrote."""
    try:
        content = path.read_bytes()
        (length,) = struct.unpack("<Q", content[:8])
        header = json.loads(content[8 : 8 + length])
        metadata = header.pop("__metadata__", {})
        numbers = memoryview(bytearray(content))[8 + length :]
        tensors = {}
        for name, found in header.items():
            first, last = found["data_offsets"]
            kind, shape = _TYPES[found["dtype"]], found["shape"]
            # A view of no bytes is refused by frombuffer.
            flat = torch.frombuffer(numbers[first:last], dtype=kind) if last > first else torch.empty(0, dtype=kind)
            tensors[name] = flat.view(shape).clone()
    except (ValueError, KeyError, TypeError, struct.error, RuntimeError) as error:
        raise _refusal(path, "a whole checkpoint", f"{type(error).__name__}: {error}") from error
    return tensors, metadata


def _layer_mechanism(options: dict[str, Any], layer: int) -> str:
    """As in ``gla*3+softmax``, which repeats down the layers; the outer ones may be softmax."""
    outer = layer < options["first_softmax_layers"] or layer >= options["layers"] - options["last_softmax_layers"]
    if outer:
        return "softmax"
    period = []
    for part in options["mechanism"].split("+"):
        name, _, times = part.partition("*")
        period += [name] * int(times or 1)
    return period[layer % len(period)]


class _Model(torch.nn.Module):
    """Parameters have the names of the run. ``options`` are its keys of ``[model]``."""

    norm_epsilon = 1e-5
    norms_before = True
    causal = False

    def __init__(self, options: dict[str, Any], weights: dict[str, Tensor]) -> None:
        super().__init__()
        self.options = options
        known = {each["name"]: each for each in mechanisms()}
        self._mechanisms = []
        for layer in range(options["layers"]):
            name = _layer_mechanism(options, layer)
            if name not in known:
                raise _refusal("model.mechanism", "one that this process knows (cogwheel.mechanism)", name)
            if known[name]["family"] == "recurrent":
                raise _refusal("model.mechanism", "attention in every layer", f"{name}, which has a state")
            self._mechanisms.append(known[name])
        for name, tensor in weights.items():
            *path, last = name.split(".")
            module: torch.nn.Module = self
            for part in path:
                if not hasattr(module, part):
                    module.add_module(part, torch.nn.Module())
                module = getattr(module, part)
            module.register_parameter(last, torch.nn.Parameter(tensor))
        self._names = frozenset(weights)

    def _has(self, name: str) -> bool:
        return name in self._names

    def _linear(self, name: str, x: Tensor) -> Tensor:
        bias = self.get_parameter(name + ".bias") if self._has(name + ".bias") else None
        return F.linear(x, self.get_parameter(name + ".weight"), bias)

    def _norm(self, name: str, x: Tensor) -> Tensor:
        weight = self.get_parameter(name + ".weight")
        if self.options.get("norm") == "rms":
            return F.rms_norm(x, weight.shape, weight, 1e-6)
        bias = self.get_parameter(name + ".bias") if self._has(name + ".bias") else None
        return F.layer_norm(x, weight.shape, weight, bias, self.norm_epsilon)

    def _placed(self, heads: Tensor) -> Tensor:
        """Queries or keys [B, heads, N, head_dim] after what positions make of them."""
        return heads

    def _attention(self, layer: int, x: Tensor, lengths: Tensor | None) -> Tensor:
        prefix, mechanism = f"layers.{layer}.attention.", self._mechanisms[layer]
        count = self.options["heads"]
        shared = self.options.get("key_value_heads") or count
        width, head_dim = self.options["width"], self.options["width"] // count
        difference = self._has(prefix + "lambda_query1")

        def split(part: Tensor, heads: int) -> Tensor:
            return part.unflatten(-1, (heads, -1)).transpose(1, 2)

        if self._has(prefix + "query_value.weight"):  # K = Q
            query, value = self._linear(prefix + "query_value", x).split([width, shared * head_dim], -1)
            query = key = self._placed(split(query, count))
        else:
            projected = self._linear(prefix + "query_key_value", x)
            query, key, value = projected.split([width, shared * head_dim, shared * head_dim], -1)
            query, key = self._placed(split(query, count)), self._placed(split(key, shared))
        value = split(value, shared // 2 if difference else shared)
        name = mechanism["name"]
        if mechanism["level"] == "layer":  # the layer ties the keys, the operator is that of the untied mechanism
            member = mechanism["member"]
            name = member if not difference else "differential" if member == "softmax" else "differential_" + member
        learned = {each: self.get_parameter(prefix + each) for each in mechanism["parameters"] if self._has(prefix + each)}
        if difference:
            depth = layer + self.options["first_lambda_depth"]
            first = 0.8 - 0.6 * math.exp(-0.3 * depth)
            scalar = {each: self.get_parameter(prefix + each) for each in
                      ("lambda_query1", "lambda_key1", "lambda_query2", "lambda_key2")}  # fmt: skip
            lam = (
                (scalar["lambda_query1"] @ scalar["lambda_key1"]).exp()
                - (scalar["lambda_query2"] @ scalar["lambda_key2"]).exp()
                + first
            )
            learned["lam"] = lam.expand(count // 2)
        made = attention(query, key, value, name, causal=self.causal, key_lengths=lengths, **learned).transpose(1, 2)
        if difference:
            weight = self.get_parameter(prefix + "head_norm") * (1 - first)
            made = F.rms_norm(made, weight.shape, weight, 1e-5)
        return self._linear(prefix + "output", made.flatten(2))

    def _feed_forward(self, layer: int, x: Tensor) -> Tensor:
        prefix = f"layers.{layer}.feed_forward."
        units = self._linear(prefix + "in", x)
        if self.options.get("activation") == "swiglu":
            gate, up = units.chunk(2, -1)
            units = F.silu(gate) * up
        else:
            units = F.gelu(units)
        return self._linear(prefix + "out", units)

    def _block(self, layer: int, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        prefix = f"layers.{layer}."
        if self.norms_before:
            x = x + self._attention(layer, self._norm(prefix + "attention_norm", x), lengths)
            return x + self._feed_forward(layer, self._norm(prefix + "feed_forward_norm", x))
        x = self._norm(prefix + "attention_norm", x + self._attention(layer, x, lengths))
        return self._norm(prefix + "feed_forward_norm", x + self._feed_forward(layer, x))

    def _patches(self, images: Tensor) -> Tensor:
        """Patches [B, patches, width], row by row."""
        side, channels = self.options["image_size"], self.options["channels"]
        if images.dim() != 4 or images.shape[1:] != (channels, side, side):
            raise ValueError(f"images: expected [batch, {channels}, {side}, {side}], got {list(images.shape)}")
        patch = self.options["patch"]
        return self._linear("patch", F.unfold(images, patch, stride=patch).transpose(1, 2))


class LanguageModel(_Model):
    """tokens [B, N] int64 → logits [B, N, vocabulary]."""

    causal = True

    def _placed(self, heads: Tensor) -> Tensor:
        position = self.options["position"]
        if not position.startswith("rotary"):
            return heads
        head_dim, count = heads.shape[-1], heads.shape[-2]
        places = torch.arange(0, head_dim, 2, dtype=torch.float64)
        frequencies = self.options["rotary_base"] ** (places / -head_dim)
        angles = torch.outer(torch.arange(count, dtype=torch.float64), frequencies)
        cosine, sine = angles.cos().to(heads), angles.sin().to(heads)
        if position == "rotary":
            a, b = heads[..., 0::2], heads[..., 1::2]
            return torch.stack([a * cosine - b * sine, a * sine + b * cosine], -1).flatten(-2)
        a, b = heads.chunk(2, -1)
        return torch.cat([a * cosine - b * sine, a * sine + b * cosine], -1)

    def forward(self, tokens: Tensor) -> Tensor:
        embedding = self.get_parameter("token_embedding")
        x = F.embedding(tokens, embedding)
        if self._has("position_embedding"):
            x = x + self.get_parameter("position_embedding")[: tokens.shape[1]]
        for layer in range(self.options["layers"]):
            x = self._block(layer, x)
        x = self._norm("final_norm", x)
        return self._linear("head", x) if self._has("head.weight") else F.linear(x, embedding)


class Encoder(_Model):
    """tokens [B, N] int64 → logits of every token [B, N, vocabulary], or of a model with classes [B, classes].

    ``segments`` [B, N] say which sentence a token is of, ``lengths`` [B] what is no padding.
    """

    norm_epsilon = 1e-12
    norms_before = False

    def forward(self, tokens: Tensor, segments: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        embedding = self.get_parameter("token_embedding")
        x = F.embedding(tokens, embedding)
        if self._has("position_embedding"):
            x = x + self.get_parameter("position_embedding")[: tokens.shape[1]]
        of_segments = self.get_parameter("segment_embedding")
        x = self._norm("embedding_norm", x + (of_segments[0] if segments is None else F.embedding(segments, of_segments)))
        for layer in range(self.options["layers"]):
            x = self._block(layer, x, lengths)
        if self.options["classes"] > 0:
            return self._linear("classifier", self._linear("pooler", x[:, 0]).tanh())
        read = self._norm("word_norm", F.gelu(self._linear("word_transform", x)))
        return F.linear(read, embedding, self.get_parameter("word_bias"))


class VisionTransformer(_Model):
    """images [B, channels, image_size, image_size] in [-1, 1] → logits [B, classes]."""

    norm_epsilon = 1e-12

    def forward(self, images: Tensor) -> Tensor:
        x = self._patches(images)
        if self._has("class_token"):
            x = torch.cat([self.get_parameter("class_token").expand(len(x), 1, -1), x], 1)
        if self._has("position_embedding"):
            x = x + self.get_parameter("position_embedding")
        for layer in range(self.options["layers"]):
            x = self._block(layer, x)
        x = self._norm("final_norm", x)
        return self._linear("head", x[:, 0] if self._has("class_token") else x.mean(1))


class UVit(_Model):
    """x [B, channels, image_size, image_size], time [B] from 0 to 1000, condition → the noise in x.

    The condition is that of the run: classes [B] int64, where their number itself means none; vectors
    [B, condition_tokens, condition_width]; or None.
    """

    def forward(self, x: Tensor, time: Tensor, condition: Tensor | None = None) -> Tensor:
        options = self.options
        conditioned = options["vocabulary"] > 0 or options["condition_width"] > 0
        if conditioned != (condition is not None):
            raise ValueError(f"condition: expected {'one' if conditioned else 'none'}, got {'none' if conditioned else 'one'}")
        half = options["width"] // 2
        frequencies = torch.exp(torch.arange(half, dtype=torch.float32, device=x.device) * (-math.log(10000.0) / half))
        angles = time.float()[:, None] * frequencies
        tokens = [torch.cat([angles.cos(), angles.sin()], 1).to(x.dtype)[:, None]]
        if options["vocabulary"] > 0:
            tokens.insert(0, F.embedding(condition, self.get_parameter("class_embedding"))[:, None])
        elif condition is not None:
            tokens.append(self._linear("condition", condition))
        patches = self._patches(x)
        y = torch.cat([*tokens, patches], 1)
        if self._has("position_embedding"):
            y = y + self.get_parameter("position_embedding")
        skipped: list[Tensor] = []
        middle = options["layers"] // 2
        for layer in range(options["layers"]):
            if layer > middle:
                y = self._linear(f"skips.{layer - middle - 1}", torch.cat([y, skipped.pop()], -1))
            y = self._block(layer, y)
            if layer < middle:
                skipped.append(y)
        y = self._linear("pixels", self._norm("final_norm", y)[:, -patches.shape[1] :])
        side, patch = options["image_size"] // options["patch"], options["patch"]
        pixels = y.unflatten(2, (patch, patch, -1)).unflatten(1, (side, side)).permute(0, 5, 1, 3, 2, 4)
        image = pixels.flatten(4).flatten(2, 3)
        return F.conv2d(image, self.get_parameter("convolution_weight"), self.get_parameter("convolution_bias"), padding=1)


# A key of [model] that only one topology has, and that topology.
_TOPOLOGIES = (("tied_head", LanguageModel), ("segments", Encoder), ("pooling", VisionTransformer), ("condition_tokens", UVit))


def load(run: str | os.PathLike[str]) -> LanguageModel | Encoder | VisionTransformer | UVit:
    """The model of a run that ``cogwheel`` trained or imported, with its averaged weights where it has them.

    A module of PyTorch in float32, which computes what the executable computes, to rounding, with derivatives, on any
    device: a :class:`LanguageModel`, :class:`Encoder`, :class:`VisionTransformer` or :class:`UVit`, by what the run
    holds. Its ``options`` are the keys of ``[model]``. Dropout is left out.

    Raises ValueError for another model (translation, handwriting), a mechanism with a state, a mechanism of one's own
    that was not defined in this process, and a checkpoint that is cut off; FileNotFoundError where there is none.
    """
    path = pathlib.Path(run) / "checkpoint.safetensors"
    tensors, metadata = _read(path)
    if "configuration" not in metadata:
        raise _refusal(path, "a checkpoint that records its configuration", "one without it")
    configuration = json.loads(metadata["configuration"])
    options = {key.removeprefix("model."): value for key, value in configuration.items() if key.startswith("model.")}
    topologies = [topology for key, topology in _TOPOLOGIES if key in options]
    if not topologies:
        raise _refusal(path, "a language model, an encoder, a vision transformer or a U-ViT", configuration.get("task.name"))
    prefix = "average." if any(name.startswith("average.") for name in tensors) else "model."
    weights = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    return topologies[0](options, weights)
