"""Attention, attention with a state, blocks and language models as modules of ``torch.nn``.

    attention = cogwheel.nn.Attention(512, 8, "cog", causal=True)
    y = attention(x)  # [B, N, 512]

Parameters have the names and shapes of the layers that ``cogwheel train`` trains, and the numbers of these on equal parameters. They
compute by the operators of ``torch.ops.cogwheel``, so that ``torch.compile`` and ``torch.export`` see them as one graph,
``torch.func`` and autocast as any module. :mod:`cogwheel.hooks` shows what lies inside of them.
"""

from cogwheel.hooks import hook_names, run_with_cache, run_with_hooks
from cogwheel.nn.attention import Attention, from_multihead_attention
from cogwheel.nn.block import Block, FeedForward
from cogwheel.nn.cache import LayerCache, MemoryCache, ModelCache, RecurrentLayerCache
from cogwheel.nn.language_model import LanguageModel
from cogwheel.nn.norm import Norm
from cogwheel.nn.recurrent import RecurrentAttention
from cogwheel.nn.rotary import Rotary

__all__ = [
    "Attention",
    "Block",
    "FeedForward",
    "LanguageModel",
    "LayerCache",
    "MemoryCache",
    "ModelCache",
    "Norm",
    "RecurrentAttention",
    "RecurrentLayerCache",
    "Rotary",
    "from_multihead_attention",
    "hook_names",
    "run_with_cache",
    "run_with_hooks",
]
