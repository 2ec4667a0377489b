"""Mechanisms inside the models of transformers.

    import cogwheel.huggingface

    cogwheel.huggingface.register()
    model = AutoModelForCausalLM.from_pretrained(path, attn_implementation="cogwheel_cog")  # every layer, as it stands
    cogwheel.huggingface.convert(model, "softmax+cog*10+softmax")  # each layer its own, with what it learns

``docs/huggingface.md`` goes from a checkpoint to a comparison. Needs transformers, which Cogwheel does not install.
"""

from cogwheel.huggingface.conversion import convert
from cogwheel.huggingface.mechanisms import Mechanism
from cogwheel.huggingface.registration import register

__all__ = ["Mechanism", "convert", "register"]
