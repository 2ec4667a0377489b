"""What transformers' masks let a query see, as ranges of keys: of N queries 2N numbers, where a mask has N · M.

A mask of transformers is a function of the index of an entry, a head, a query and a key, and a padding mask. All that its own masks of
decoders and of windows hide leaves each query a range of keys: causal, sliding windows, chunks, packed documents, padding on either
side. What leaves gaps (padding within a text, images that see themselves, functions of users) becomes a bias of −∞.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers.masking_utils import bidirectional_mask_function, causal_mask_function, sdpa_mask
from transformers.utils.import_utils import is_tracing

Rule = Callable[..., Tensor]

# Masks of numbers: what hides a key, at once, or beside another key of the query.
_HIDDEN, _FAR_BELOW = -1e4, 100

# The function that transformers makes of several, each of which leaves a range with the query's own position in it, images that see
# themselves too; one that a user gave comes with use_vmap.
_ALL_OF = "and_masks.<locals>.and_mask"


def mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | Tensor = 0,
    kv_offset: int = 0,
    mask_function: Rule = causal_mask_function,
    attention_mask: Tensor | None = None,
    local_size: int | None = None,
    allow_is_causal_skip: bool = True,
    allow_is_bidirectional_skip: bool = False,
    use_vmap: bool = False,
    device: torch.device | str = "cpu",
    **kwargs: Any,
) -> Tensor | None:
    """The mask of a pass, for ``AttentionMaskInterface``.

    Args:
        batch_size, q_length, kv_length: B, N and M.
        q_offset, kv_offset: the positions of the first query and of the first key.
        mask_function: of indices that broadcast → bool, true where the query sees the key.
        attention_mask: [B, positions] bool, false for padding.
        allow_is_causal_skip, allow_is_bidirectional_skip: whether the caller can do without the mask. Where it cannot, and does more
            with the mask than pass it on, it gets that of ``sdpa``.

    Returns:
        None where causality alone hides; [B or 1, 1, N, 2] int64, keys [begin, end) of each query; or what ``sdpa`` gets,
        [B, 1, N, M] bool.
    """
    hidden: tuple[Tensor, Tensor] | None = None
    ranges = not use_vmap and (
        mask_function is causal_mask_function or mask_function is bidirectional_mask_function or mask_function.__qualname__ == _ALL_OF
    )
    if ranges and attention_mask is not None:
        if is_tracing(attention_mask):
            ranges = False  # whether it has gaps is not known
        else:
            hidden, ranges = _padding(attention_mask, kv_length, kv_offset)
    # One query per entry is a step of a static cache, whose mask is only passed on.
    combined = not (allow_is_causal_skip or allow_is_bidirectional_skip) and q_length > 1 and mask_function.__qualname__ != _ALL_OF
    if not ranges or combined or kv_length == 2:  # ranges of two keys would look like a mask of numbers
        return sdpa_mask(
            batch_size, q_length, kv_length, q_offset, kv_offset, mask_function, attention_mask, local_size,
            allow_is_causal_skip=False, allow_is_bidirectional_skip=False, use_vmap=use_vmap, device=device,
        )  # fmt: skip
    known = not isinstance(q_offset, Tensor)
    if hidden is None and mask_function is causal_mask_function and known and kv_offset == 0:
        if q_length == kv_length or q_length == 1 and q_offset + 1 == kv_length:
            return None
    begin, end = _ends(mask_function, batch_size, q_length, kv_length, q_offset, kv_offset, device)
    if hidden is not None:
        begin, end = torch.maximum(begin, hidden[0]), torch.minimum(end, hidden[1])
    begin = begin.clamp(0, kv_length)
    return torch.stack(torch.broadcast_tensors(begin, torch.maximum(begin, end.clamp(max=kv_length))), -1)


def _padding(attention_mask: Tensor, keys: int, first: int) -> tuple[tuple[Tensor, Tensor] | None, bool]:
    """The first token that is none and one past the last, [B, 1, 1] each, None where none is; and whether there are no gaps."""
    real = attention_mask[:, first : first + keys]
    count = real.sum(-1)
    begin = real.to(torch.int8).argmax(-1)
    end = real.shape[1] - real.flip(-1).to(torch.int8).argmax(-1)
    found = torch.stack([(end - begin == count) | (count == 0), count == keys]).all(-1).tolist()
    end = torch.where(count > 0, end, 0)
    return (None if found[1] else (begin[:, None, None], end[:, None, None])), found[0]


def _ends(
    rule: Rule, batch: int, queries: int, keys: int, first_query: int | Tensor, first_key: int, device: torch.device | str
) -> tuple[Tensor, Tensor]:
    """The keys [begin, end) that a rule which leaves ranges lets each query see, [B or 1, 1, N], counted from the first key there is."""
    position = (torch.arange(queries, device=device) + first_query)[None, None, :, None]  # [1, 1, N, 1]
    if rule is causal_mask_function:
        own = position[..., 0] - first_key
        return torch.zeros_like(own), own + 1
    if rule is bidirectional_mask_function:
        none = torch.zeros_like(position[..., 0])
        return none, none + keys
    entry = torch.arange(batch, device=device)[:, None, None, None]
    head = torch.zeros(1, 1, 1, 1, dtype=torch.long, device=device)

    def sees(key: Tensor) -> Tensor:
        return rule(entry, head, position, key)

    if queries == 1:  # as many tests as keys
        seen = sees(torch.arange(keys, device=device)[None, None, None, :] + first_key).expand(batch, 1, 1, keys)
        begin = seen.to(torch.int8).argmax(-1)
        return begin, torch.where(seen.any(-1), keys - seen.flip(-1).to(torch.int8).argmax(-1), begin)
    # A query sees its own position: either end is found by halves.
    zero = torch.zeros(batch, 1, queries, 1, dtype=torch.long, device=device)
    own = position.clamp(max=first_key + keys - 1)
    low, high = zero + first_key, zero + own  # the first key seen
    last, beyond = zero + own, zero + (first_key + keys)  # the last key seen, and one past it that is not
    for _ in range(keys.bit_length() if isinstance(keys, int) else 32):
        middle = (low + high) // 2
        seen = sees(middle)
        low, high = torch.where(seen, low, middle + 1), torch.where(seen, middle, high)
        middle = (last + beyond) // 2
        seen = sees(middle)
        last, beyond = torch.where(seen, middle, last), torch.where(seen, beyond, middle)
    return high[..., 0] - first_key, beyond[..., 0] - first_key


def options_of(mask: Tensor | None, query: Tensor, key: Tensor) -> dict[str, Tensor]:
    """``ranges`` or ``bias`` of :func:`cogwheel.attention` for a mask of a pass: of the above, or of a user, [B or 1, H or 1, N, M],
    bool, or numbers that are added to the scores.

    Of numbers those that are meant to hide do: with softmax, a key that is 100 below another has 4e-44 of its weight at equal scores,
    while |s| would make it Cog's heaviest. Swin writes −100, others −1e4, −1e9 or the least number of a type.
    """
    if mask is None:
        return {}
    if mask.dtype == torch.int64 and mask.dim() == 4 and mask.shape[-1] == 2 != key.shape[2]:
        return {"ranges": mask[:, :, -query.shape[2] :]}  # of a model that keeps its last queries alone
    if mask.dtype == torch.bool:
        return {"bias": torch.zeros((), dtype=query.dtype, device=mask.device).where(mask, -torch.inf)}
    if mask.dtype.is_floating_point:
        hidden = (mask <= _HIDDEN) | (mask <= mask.amax(-1, keepdim=True) - _FAR_BELOW)
        return {"bias": mask.masked_fill(hidden, -torch.inf).to(query.dtype)}
    raise ValueError(f"huggingface: attention mask: expected bool or floating-point, got {mask.dtype}")
