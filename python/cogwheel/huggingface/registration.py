"""Cogwheel's names in transformers, and the models that have them."""

from __future__ import annotations

import functools
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from cogwheel import catalogue
from cogwheel.huggingface import masks
from cogwheel.huggingface.interface import CONVERTED, PREFIX, check_pairwise, check_parameters, of_catalogue, of_module, refuse
from cogwheel.huggingface.mechanisms import PATTERN, Mechanism, attention_modules, give_mechanisms, record


def register() -> list[str]:
    """Makes every mechanism known to transformers, as ``attn_implementation="cogwheel_<name>"``, and converted models loadable.

    A mechanism that users define later needs another call. Those that transformers' modules cannot have say so, in one line, where a
    model gets the name: what reads its keys from its queries, functions of the whole score matrix, and mechanisms whose parameters a
    model has only once :func:`convert` gave it them.

    Returns:
        The names.
    """
    _install()
    functions = {CONVERTED: of_module}
    functions |= {PREFIX + each["name"]: of_catalogue(each) for each in catalogue.mechanisms() if each["family"] != "recurrent"}
    for name, function in functions.items():
        AttentionInterface.register(name, function)
        AttentionMaskInterface.register(name, masks.mask)
    return list(functions)


def _install() -> None:
    """Makes transformers give a model its mechanisms where its configuration names them, before it loads weights.

    transformers has no place for this but the end of a model's own making, ``PreTrainedModel.post_init``, and the start of what a file
    had no weights for, ``_initialize_weights``; and none but ``get_correct_attn_implementation`` to refuse one of our names in one
    line. They are wrapped, once.
    """
    if hasattr(PreTrainedModel.post_init, "_of_cogwheel"):
        return
    post_init, initialize, checked = PreTrainedModel.post_init, PreTrainedModel._initialize_weights, PreTrainedModel.get_correct_attn_implementation

    @functools.wraps(post_init)
    def with_mechanisms(self: PreTrainedModel) -> None:
        implementation, pattern = self.config._attn_implementation, getattr(self.config, PATTERN, None)
        if pattern is not None:
            if implementation != CONVERTED:
                refuse("attn_implementation", f"{CONVERTED!r}, for the model was converted to {pattern}", repr(implementation))
            if attention_modules(self):
                give_mechanisms(self, pattern, replace=False)
            record(self.config, pattern)
        post_init(self)

    @functools.wraps(initialize)
    def with_initial_parameters(self: PreTrainedModel, module: torch.nn.Module, *options: Any, **more: Any) -> None:
        if isinstance(module, Mechanism):
            module.reset_parameters(but_loaded=True)
        initialize(self, module, *options, **more)

    @functools.wraps(checked)
    def with_refusals(self: PreTrainedModel, requested_attention: str | None, *options: Any, **more: Any) -> str:
        if isinstance(requested_attention, str) and requested_attention.startswith(PREFIX):
            if not self._can_set_attn_implementation():
                refuse("attn_implementation", f"one that {type(self).__name__} has (its attention is its own)", repr(requested_attention))
            known = [each for each in catalogue.mechanisms() if PREFIX + each["name"] == requested_attention]
            for entry in known:  # another name is transformers' to refuse
                check_pairwise(entry)
                check_parameters(entry, ())
        return checked(self, requested_attention, *options, **more)

    with_mechanisms._of_cogwheel = True  # type: ignore[attr-defined]
    PreTrainedModel.post_init, PreTrainedModel._initialize_weights = with_mechanisms, with_initial_parameters
    PreTrainedModel.get_correct_attn_implementation = with_refusals
