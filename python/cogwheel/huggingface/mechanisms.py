"""What convert gives the attention modules of a model, and its configuration says of it."""

from __future__ import annotations

import inspect
import json
import re
from typing import Any

import torch
from torch import Tensor
from transformers import PretrainedConfig, PreTrainedModel

from cogwheel import _bindings, catalogue
from cogwheel.huggingface.interface import CONVERTED, attend, check_pairwise, refuse
from cogwheel.nn.layer import draw_initial_values, layer_of
from cogwheel.nn.mechanism import OfMechanism

# In a model's configuration, and so in its config.json: the pattern of its mechanisms.
PATTERN = "cogwheel_attention"


class Mechanism(OfMechanism):
    """The mechanism of one attention module of transformers, ``module.cogwheel``, and what it learns.

    Args:
        mechanism: a name from :func:`cogwheel.mechanisms`, of level ``operator``.
        heads, key_value_heads, head_dim: of the module.
        depth: the number of its layer, from 0, on which λ_init of ``differential`` depends.

    Raises:
        ValueError: a mechanism that does not fit, or an odd number of heads for a difference of two maps.
    """

    def __init__(
        self, mechanism: str, heads: int, key_value_heads: int, head_dim: int, depth: int = 0, device: object = None, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__()
        options = {"width": heads * head_dim, "heads": heads, "key_value_heads": key_value_heads, "mechanism": mechanism, "layer": depth}
        described = layer_of("attention", json.dumps(options))
        self._add_parameters_of_mechanism(json.loads(described.description()), {"device": device, "dtype": dtype})
        self._options, self._entry = json.dumps(options), catalogue.entry(self._operator)
        self.reset_parameters()

    def reset_parameters(self, but_loaded: bool = False) -> None:
        """Initial values: where the mechanism's paper lets it begin. ``but_loaded``: not of those that transformers found in a file."""
        own = {name: each for name, each in self.named_parameters() if not (but_loaded and getattr(each, "_is_hf_initialized", False))}
        draw_initial_values(own, layer_of("attention", self._options), 0.02, 0.02)

    def forward(self, module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any) -> Any:
        """As an attention function of transformers: [B, N, heads, width] and the weights, or None."""
        parameters = self._keywords_of_mechanism(query.shape[1])
        for name, each in parameters.items():
            if each.dtype != torch.float32 or query.dtype == torch.float64:  # operators take float32 beside 16 bits
                parameters[name] = each.to(query.dtype)
        out, weights = attend(self._entry, module, query, key, value, attention_mask, parameters=parameters, **options)
        return self._normed(out).to(out.dtype), weights

    def leave_to_module(self, name: str) -> None:
        """The module itself learns this parameter, and says so with each call."""
        delattr(self, name)
        self._own = tuple(each for each in self._own if each != name)

    def extra_repr(self) -> str:
        return repr(self.mechanism)


def record(config: PretrainedConfig, pattern: str) -> None:
    setattr(config, PATTERN, pattern)
    # transformers reads this key but writes none: without Cogwheel it refuses the model instead of loading another one.
    config.attn_implementation = CONVERTED


def give_mechanisms(model: PreTrainedModel, pattern: str, replace: bool) -> None:
    stacks = attention_modules(model)
    if not stacks:
        refuse("model", "one whose attention goes through AttentionInterface", type(model).__name__)
    _bindings.classes()  # which has the operator
    given: list[tuple[torch.nn.Module, Mechanism]] = []
    for modules in stacks.values():
        names = torch.ops.cogwheel.mechanisms_of_layers(pattern, len(modules))
        for depth, (module, name) in enumerate(zip(modules, names, strict=True)):
            check_pairwise(catalogue.entry(name))
            if replace or not hasattr(module, "cogwheel"):
                given.append((module, _mechanism_of(module, name, depth)))
    for module, mechanism in given:
        module.cogwheel = mechanism.train(module.training)


def attention_modules(model: torch.nn.Module) -> dict[str, list[torch.nn.Module]]:
    """The modules whose attention goes through ``AttentionInterface``, by stack, in the order of their layers: of ``layers.3.self_attn``
    the stack is ``layers.*.self_attn``."""
    found: dict[str, list[tuple[int, torch.nn.Module]]] = {}
    for path, module in model.named_modules():
        forward = inspect.unwrap(type(module).forward)
        if "ALL_ATTENTION_FUNCTIONS" not in getattr(getattr(forward, "__code__", None), "co_names", ()):
            continue
        number = re.search(r"(?<=\.)\d+(?=\.|$)|^\d+(?=\.)", path)
        stack = path if number is None else f"{path[: number.start()]}*{path[number.end() :]}"
        found.setdefault(stack, []).append((int(number.group()) if number else 0, module))
    return {stack: [module for _, module in sorted(modules, key=lambda each: each[0])] for stack, modules in found.items()}


def _mechanism_of(module: torch.nn.Module, name: str, depth: int) -> Mechanism:
    """A mechanism of the sizes of the module, which have other names in other architectures."""
    config = getattr(module, "config", None)

    def size(names: list[str], of_config: list[str], unless: int | None) -> int:
        for holder, choices in ((module, names), (config, of_config)):
            for choice in choices:
                if isinstance(found := getattr(holder, choice, None), int) and found > 0:
                    return found
        if unless is None:
            refuse("model", f"attention modules that have {names[0]}", type(module).__name__)
        return unless

    if name.startswith("differential") and hasattr(module, "v_head_dim"):
        refuse("model", f"values as wide as keys, for {name}", f"{type(module).__name__} of multi-head latent attention")
    heads = size(["num_heads", "n_heads", "num_attention_heads"], ["num_attention_heads"], None)
    shared = size(["num_key_value_heads", "num_kv_heads"], ["num_key_value_heads"], heads)
    if isinstance(groups := getattr(module, "num_key_value_groups", None), int):
        shared = heads // groups
    width = size(["embed_dim", "hidden_size", "all_head_size"], ["hidden_size"], heads)
    head_dim = size(["head_dim", "head_size", "attention_head_size", "key_value_proj_dim"], ["head_dim"], width // heads)
    parameter = next(module.parameters())
    made = Mechanism(name, heads, shared, head_dim, depth, device=parameter.device, dtype=parameter.dtype)
    if hasattr(made, "sink") and isinstance(getattr(module, "sinks", None), torch.nn.Parameter):  # gpt-oss
        made.leave_to_module("sink")
    return made
