"""Models of transformers in which each layer of attention has its own mechanism, with what it learns."""

from __future__ import annotations

import copy
from typing import Any

from transformers import PretrainedConfig, PreTrainedModel

from cogwheel.huggingface.interface import CONVERTED, refuse
from cogwheel.huggingface.mechanisms import give_mechanisms, record
from cogwheel.huggingface.registration import register


def convert(model: PreTrainedModel, mechanism: str) -> PreTrainedModel:
    """Gives each layer of attention of a model of transformers its mechanism, with what it learns, in place.

        model = AutoModelForCausalLM.from_pretrained(path)
        cogwheel.huggingface.convert(model, "softmax+cog*10+softmax")

    Weights stay as they are. A mechanism's own parameters (a sink, β and γ, λ and the norm of each head) are those of
    ``module.cogwheel``, a :class:`Mechanism`, of each attention module: they train with the others, or with LoRA by
    ``modules_to_save=["cogwheel"]``. ``save_pretrained`` keeps pattern and parameters; after ``register()`` or ``convert`` in a process
    ``from_pretrained`` makes the same model of them, and without Cogwheel refuses to.

    Args:
        model: one whose attention goes through transformers' ``AttentionInterface``.
        mechanism: of all layers, or one after another, repeated down the layers of each stack: of an encoder, a decoder, and a decoder's
            attention to the encoder alike.

    Returns:
        The model.

    Raises:
        ValueError: a model without such modules, an unknown mechanism, or one that its modules cannot have, each in one line.
    """
    register()
    for name, given, kind, expected in (("model", model, PreTrainedModel, "a model of transformers"), ("mechanism", mechanism, str, "a name or a pattern")):
        if not isinstance(given, kind):
            refuse(name, expected, f"a {type(given).__name__}")
    give_mechanisms(model, mechanism, replace=True)
    copies: dict[int, Any] = {}  # transformers keeps the configuration that it is given, which another model may share
    for module in model.modules():
        if isinstance(config := module.__dict__.get("config"), PretrainedConfig):
            module.config = copy.deepcopy(config, copies)
    for module in model.modules():
        if isinstance(module, PreTrainedModel):
            module.config._attn_implementation = CONVERTED
            record(module.config, mechanism)  # of each part, which may be loaded alone
    return model
