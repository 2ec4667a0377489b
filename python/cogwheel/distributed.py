"""Attention of texts whose tokens are cut over the ranks of ``torch.distributed``: local parts in, local parts out.

    import torch, torch.distributed as dist, cogwheel
    from cogwheel import distributed

    dist.init_process_group("gloo")
    query, key, value = (distributed.shard(tensor, 2).requires_grad_() for tensor in of_the_whole_text)
    out = distributed.attention(query, key, value, "cog", causal=True)  # the rows of this rank
    out.square().sum().backward()
    whole = distributed.unshard(out, 2)

Every function is a collective: all ranks of the group call it, with tensors of the same sizes. ``docs/distributed.md`` explains layouts and
methods.
"""

import torch
import torch.distributed as dist
from torch import Tensor

from cogwheel import _bindings
from cogwheel._arguments import checked
from cogwheel.functional import AttentionStatistics, keywords_for_operator, statistics_of_rows
from cogwheel.functional import attention as _attention_of_one
from cogwheel.recurrent import State, state_of_parts
from cogwheel.recurrent import keywords_for_operator as _keywords_for_recurrent
from cogwheel.recurrent import recurrent as _recurrent_of_one

__all__ = ["attention", "attention_statistics", "recurrent", "shard", "unshard"]


def _operators():
    _bindings.classes()
    return torch.ops.cogwheel


def _place(group: dist.ProcessGroup | None) -> dict[str, object]:
    """This rank, and how many there are; one where no group has been made."""
    if group is None and not (dist.is_available() and dist.is_initialized()):
        return {"rank": 0, "ranks": 1}
    rank = dist.get_rank(group)
    if rank < 0:
        raise ValueError("distributed: group: expected one that this rank belongs to, got another")
    return {"rank": rank, "ranks": dist.get_world_size(group)}


def _named(group: dist.ProcessGroup | None) -> dict[str, object]:
    place = _place(group)
    return place | {"group": "" if place["ranks"] == 1 else (group or dist.group.WORLD).group_name}


@checked("distributed.attention", options_of=_attention_of_one)
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mechanism: str = "softmax",
    *,
    group: dist.ProcessGroup | None = None,
    layout: str = "zigzag",
    method: str = "auto",
    **options,
) -> Tensor:
    """:func:`cogwheel.attention` of a text whose tokens are cut over ranks.

    Args:
        query, key, value: of the tokens of this rank, N/P and M/P of them, as :func:`shard` gives them.
        mechanism, **options: as in :func:`cogwheel.attention`. What has a row for each query (``bias``, ``energy_bias``, ``ranges``,
            ``local_centers``, and λ where it is one for each query) has the rows of this rank, and as columns all M keys in the order of the
            text. All else is of the whole text and alike on all ranks, the seed of dropout too.
        group: the ranks; all unless given.
        layout: ``zigzag``, stretches r and 2P − 1 − r of 2P for rank r, which shares the work of causal attention equally, or
            ``contiguous``, stretch r of P.
        method: ``gather``, where each rank computes its queries over the keys of all, some heads at a time; ``heads``, where each
            computes some heads of all tokens between two exchanges, for which P divides the heads of query and value; ``auto``, ``heads``
            where P divides them, else ``gather``. Mechanisms of level ``dense`` have ``heads`` alone.

    Returns:
        [B, H, N/P, Dv], the rows of this rank, once differentiable. The gradient of what ranks share (weights of a score, parameters, a
        bias without rows) is the part of this rank: the sum over ranks is the gradient.

    Raises:
        ValueError, TypeError: as :func:`cogwheel.attention`; tokens or heads that do not divide, ranks that call with other sizes.
        RuntimeError: a rank that has ended or does not answer within the time of the group.
    """
    return _operators().distributed_attention(
        query, key, value, **_named(group), layout=layout, method=method, mechanism=mechanism,
        **keywords_for_operator("distributed.attention", mechanism, _with_seed(options)),
    )  # fmt: skip


def _with_seed(options: dict[str, object]) -> dict[str, object]:
    if options.get("dropout", 0.0) != 0.0 and options.get("seed") is None:
        raise ValueError("distributed.attention: seed: expected one beside dropout, the same on all ranks, got nothing")
    return options


@checked("distributed.attention_statistics", options_of=_attention_of_one)
def attention_statistics(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mechanism: str = "softmax",
    *,
    argmax: bool = True,
    group: dist.ProcessGroup | None = None,
    layout: str = "zigzag",
    method: str = "auto",
    **options,
) -> tuple[Tensor, AttentionStatistics]:
    """:func:`attention` and the statistics of the rows of this rank, as :func:`cogwheel.attention_statistics` has them: of the keys of the
    whole text, by whose numbers ``argmax`` and ``sink`` count."""
    output, rows = _operators().distributed_attention_statistics(
        query, key, value, argmax, **_named(group), layout=layout, method=method, mechanism=mechanism,
        **keywords_for_operator("distributed.attention_statistics", mechanism, _with_seed(options)),
    )  # fmt: skip
    return output, statistics_of_rows(rows, argmax)


@checked("distributed.recurrent", options_of=_recurrent_of_one)
def recurrent(
    query: Tensor | None,
    key: Tensor | None,
    value: Tensor,
    mechanism: str,
    *,
    return_state: bool = False,
    group: dist.ProcessGroup | None = None,
    layout: str = "zigzag",
    method: str = "auto",
    **options,
) -> Tensor | tuple[Tensor, State]:
    """:func:`cogwheel.recurrent` of a text whose tokens are cut over ranks.

    Args:
        query, key, value: of the tokens of this rank, as :func:`shard` gives them, and so are parameters that have tokens.
        mechanism, **options: as in :func:`cogwheel.recurrent`. Other parameters, ``cu_seqlens`` and ``initial_state`` are of the whole text and
            alike on all ranks.
        return_state: also gives the state after the last token of the text, to all ranks.
        group, layout: as in :func:`attention`.
        method: ``chain``, where each rank computes its stretches from the state that the one before sends it, heads one behind the other, so that
            states travel alone; ``heads``, where each computes some heads of all tokens between two exchanges, for which P divides them; ``auto``,
            ``chain`` but for packed sequences and ``causal=False``, which have ``heads`` alone.

    Returns:
        As :func:`cogwheel.recurrent`, of the tokens of this rank. The gradient of what ranks share is the part of this rank.

    Raises:
        ValueError: as :func:`cogwheel.recurrent`; tokens or heads that do not divide, ranks that call with other sizes.
        RuntimeError: a rank that has ended or does not answer within the time of the group.
    """
    output, state = _operators().distributed_recurrent(
        query, key, value, **_named(group), layout=layout, method=method, mechanism=mechanism, **_keywords_for_recurrent(options)
    )
    return (output, state_of_parts(state)) if return_state else output


def shard(tensor: Tensor, dim: int, layout: str = "zigzag", group: dist.ProcessGroup | None = None) -> Tensor:
    """The part of this rank of a tensor that all ranks have, whose dimension ``dim`` has the tokens of a text.

    Raises:
        ValueError: tokens that the stretches of ``layout`` (P or, of ``zigzag``, 2P) do not divide.
        IndexError: a dimension that the tensor does not have.
    """
    return _operators().shard(tensor, dim, **_place(group), layout=layout)


def unshard(tensor: Tensor, dim: int, layout: str = "zigzag", group: dist.ProcessGroup | None = None) -> Tensor:
    """The whole of a tensor of which each rank has a part, on all ranks, in the order of the text: the inverse of :func:`shard`.

    Differentiable: the gradient of a part is the sum over ranks.
    """
    return _operators().unshard(tensor, dim, **_named(group), layout=layout)
