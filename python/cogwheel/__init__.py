"""Attention mechanisms behind one interface, on fused forward and backward kernels.

    import torch, cogwheel

    query, key, value = (torch.randn(1, 8, 512, 64, requires_grad=True) for _ in range(3))
    out = cogwheel.attention(query, key, value, "cog", causal=True)  # [1, 8, 512, 64]
    out.square().mean().backward()

The operators themselves are in ``torch.ops.cogwheel``.
"""

from cogwheel import _library  # noqa: F401  first, because the other modules read the operators' catalogue
from cogwheel.authoring import load_mechanism, mechanism, numerics_card
from cogwheel.catalogue import mechanisms
from cogwheel.comparison import Comparison, compare, results
from cogwheel.functional import (
    AttentionStatistics,
    attention,
    attention_statistics,
    attention_weights,
    scaled_dot_product_attention,
)
from cogwheel.generation import GeneratedText
from cogwheel.key_value_cache import KeyValueCache
from cogwheel.products import bfloat16_products
from cogwheel.recurrent import RecurrentCache, recurrent, recurrent_statistics, recurrent_weights
from cogwheel.shown import show_attention
from cogwheel.soft_window import soft_window
from cogwheel.nn import LanguageModel
from cogwheel.trained import Encoder, Transformer, UVit, VisionTransformer, load

from cogwheel import distributed, hooks, interpret, nn  # isort: skip  which need the others

__all__ = [
    "AttentionStatistics",
    "Comparison",
    "Encoder",
    "GeneratedText",
    "KeyValueCache",
    "LanguageModel",
    "RecurrentCache",
    "Transformer",
    "UVit",
    "VisionTransformer",
    "attention",
    "attention_statistics",
    "attention_weights",
    "bfloat16_products",
    "compare",
    "distributed",
    "hooks",
    "interpret",
    "load",
    "load_mechanism",
    "mechanism",
    "mechanisms",
    "nn",
    "numerics_card",
    "recurrent",
    "recurrent_statistics",
    "recurrent_weights",
    "results",
    "scaled_dot_product_attention",
    "show_attention",
    "soft_window",
]
__version__ = "0.1.0"
