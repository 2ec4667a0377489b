"""Attention as functions of tensors, with the shapes of ``torch.nn.functional.scaled_dot_product_attention``."""

import inspect
from operator import index
from typing import NamedTuple

import torch
from torch import Tensor

from cogwheel import shown
from cogwheel._arguments import checked
from cogwheel.catalogue import PARAMETERS

_ATTENTION, _PLAIN_ATTENTION = torch.ops.cogwheel.attention.default, torch.ops.cogwheel.attention.plain
_ATTENTION_WEIGHTS = torch.ops.cogwheel.attention_weights.default
_ATTENTION_STATISTICS = torch.ops.cogwheel.attention_statistics.default
_SCALED_DOT_PRODUCT_ATTENTION = torch.ops.cogwheel.scaled_dot_product_attention.default


def _dropout_seed(seed: int | Tensor | None) -> Tensor:
    """One int64 that decides which weights are dropped, drawn from torch's generator unless given."""
    if seed is None:
        return torch.randint(2**62, ())
    return seed if isinstance(seed, Tensor) else torch.tensor(index(seed))


def given_parameters(operator: str, mechanism: str, given: dict[str, object]) -> dict[str, object]:
    """A mechanism's own parameters without those that are None, which were not given.

    Refuses parameters that the mechanism does not have; an unknown mechanism is left to the operator to refuse.
    """
    allowed = PARAMETERS.get(mechanism)
    if allowed is not None:
        for name in given:
            if name not in allowed:
                expected = ", ".join(allowed) if allowed else "no parameter of its own"
                raise TypeError(f"{operator}: parameters of {mechanism}: expected {expected}, got {name}")
    return {name: tensor for name, tensor in given.items() if tensor is not None}


def keywords_for_operator(operator: str, mechanism: str, given: dict[str, object]) -> dict[str, object]:
    """Converts keywords of :func:`attention` to those of the operators."""
    options, parameters = {}, {}
    for name, value in given.items():
        (options if name in _OPTIONS else parameters)[name] = value
    if options.get("dropout", 0.0) == 0.0:
        options.pop("seed", None)
    else:
        options["seed"] = _dropout_seed(options.get("seed"))
    if parameters:
        parameters = given_parameters(operator, mechanism, parameters)
    return options | {"parameters": list(parameters.values()), "parameter_names": list(parameters)}


@checked("attention")
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mechanism: str = "softmax",
    *,
    causal: bool = False,
    scale: float | None = None,
    softcap: float | None = None,
    window: int | None = None,
    key_lengths: Tensor | None = None,
    first_positions: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    ranges: Tensor | None = None,
    bias: Tensor | None = None,
    energy_bias: Tensor | None = None,
    alibi: Tensor | None = None,
    local_radius: float | None = None,
    local_centers: Tensor | None = None,
    dropout: float = 0.0,
    seed: int | Tensor | None = None,
    score: str = "dot",
    score_weight: Tensor | None = None,
    score_projection: Tensor | None = None,
    **parameters: Tensor,
) -> Tensor:
    r"""Attention of every query over the keys that it sees, in one fused pass that never holds the N×M weights.

    With scores :math:`s_{ij} = \text{scale}\; q_i \cdot k_j`, the mechanism turns the scores of row i into weights
    :math:`a_{ij}`, and the output is :math:`o_i = \sum_j a_{ij} v_j`. :func:`cogwheel.mechanisms` lists formulas and sources.

    Args:
        query: [B, H, N, D], float32, float64, bfloat16 or float16, any strides; 8 ≤ D ≤ 1024. 16-bit inputs are
            computed in float32, and the output and each gradient rounded once. Where the machine multiplies pairs of
            bfloat16, weights are rounded to it before they multiply values, as in PyTorch.
        key: [B, Hk, M, D]. Hk divides H: a key head serves H/Hk neighbouring query heads.
        value: [B, Hk, M, Dv]. Dv may differ from D.
        mechanism: a name from :func:`cogwheel.mechanisms` whose level is ``operator`` or ``dense``.
        causal: the last query sees the last key, also where N ≠ M: query i sees keys j ≤ i + M − N. A query that sees
            no key gives 0, and 0 gradient.
        scale: multiplies the scores; unless given 1/√D for products (D of the key), else 1. ``norm``, whose score is a
            cosine, has none.
        softcap: c > 0; scores become c·tanh(s/c), before anything is added to them (Gemma 2, 2024).
        window: the last keys that a causal query sees, itself included.
        key_lengths: [B] int64. Keys at and beyond the length of their batch entry are hidden; the causal diagonal stays
            where N and M put it.
        first_positions: [B] int64. Query i of batch entry b has the position of key first_positions[b] + i, whatever N
            and M are: for ``causal``, ``alibi`` and ``local_radius`` where queries are steps of something longer.
        cu_seqlens: [S + 1] int32 or int64, from 0 to N, not decreasing, for a batch of one: sequence s is rows
            cu_seqlens[s] to cu_seqlens[s + 1] and sees only itself.
        ranges: [B or 1, H or 1, N, 2] int64, in place of all that hides keys above: query i sees keys [begin, end).
        bias: broadcasts to [B, H, N, M]; added to the scores. −∞ hides the key, for every mechanism. Its gradient needs
            memory in proportion to N·M.
        energy_bias: broadcasts to [B, H, N, M]; added to the exponent of mechanisms that have one, for ``cog`` to |s|:
            a decay with distance belongs here, because a negative ``bias`` makes |s| large.
        alibi: [H] slopes, constants; slope·distance is subtracted from the exponent of mechanisms that have one, and from
            the score of the others (Press et al., 2022). Nothing of size N·M is allocated.
        local_radius: keys within this distance of a center (Luong et al., 2015). Without ``local_centers`` local-m,
            around the query's own position: that of ``first_positions``; without them key i + M − N of query i where
            causal, else key i.
        local_centers: [B, H, N], local-p: the position p of each query, from 0. Weights are also multiplied by
            exp(−(j − p)²/(2σ²)), σ = local_radius/2, after the mechanism. Differentiable.
        dropout: each weight is dropped with this probability, the others divided by 1 − dropout, after the sign and the
            normaliser. The sub-heads of a mixture drop the same weights.
        seed: decides which weights are dropped; drawn from torch's generator unless given. A tensor may be on the CPU.
        score: the score of a query and a key, before the mechanism. With query heads Hq (2H for ``differential``):
            ``dot``: q·k.
            ``general``: q·Wk, ``score_weight`` W [Hq, D, Dk]; keys may have a different width from queries.
            ``cosine``: q·k / (|q||k|).
            ``additive``: v·tanh(q + k), ``score_weight`` v [Hq, D] (Bahdanau et al., 2014; q and k are W s and U h
            there). Nothing of size N·M·D is allocated.
            ``concat``: v·tanh(W[q; k]), ``score_projection`` W [Hq, Da, D + Dk], ``score_weight`` v [Hq, Da] (Luong et
            al., 2015).
        score_weight, score_projection: in the dtype of query, differentiable.
        **parameters: the mechanism's own arguments, tensors in the dtype of query.
            ``differential``, over any map: ``lam``, λ, [H] or one that broadcasts to [B, H, N]; required.
            ``softmax_off_by_one``: ``sink`` [H], the logit of the silent key; 0 unless given.
            ``sigmoid``: ``shift`` [H], added to the scores; −log(visible keys) unless given.
            ``consmax``: ``beta`` [H] and ``gamma`` [H]; required.
            ``polynomial``: ``coefficients`` [H, terms], from the power 0; required.
            A form takes those of its map too: ``differential_sigmoid`` takes ``lam`` and ``shift``.

    For ``differential``, over any map, query is [B, 2H, N, D], key [B, 2Hk, M, D], value [B, Hk, M, Dv] and the output
    has H heads; the two sub-heads of a head are adjacent. Parameters of the map are [2H] then, one for each sub-head.

    Returns:
        [B, H, N, Dv], differentiable twice in query, key, value, weights of the score, biases, centers and parameters,
        backward and forward; any number of times for mechanisms of level ``dense``.

    Raises:
        ValueError: shapes, dtypes, devices, names or values that are not valid, each in one line that says what was
            expected and what was given.
        TypeError: a parameter that the mechanism does not have, or an argument of another type.
        NotImplementedError: a third derivative.

    On the CPU it is one fused pass. On any other device it is composed of ATen's operators in blocks of queries, slower;
    docs/python.md says what that means.

    First gradients of fused passes are bit-identical from run to run and for any number of threads. A NaN or infinity in
    a key or value reaches only the rows that see it; in second derivatives and tangents it has no effect if no query
    sees it. ``torch.autocast`` changes nothing: attention computes in the dtype of its inputs.
    """
    options = {"causal": causal}
    # Only given options are passed on: each keyword costs the dispatcher more than this test costs Python.
    if not (
        scale
        is softcap
        is window
        is key_lengths
        is first_positions
        is cu_seqlens
        is ranges
        is bias
        is energy_bias
        is alibi
        is local_radius
        is local_centers
        is score_weight
        is score_projection
        is None
    ):
        optional = {
            "scale": scale,
            "softcap": softcap,
            "window": window,
            "key_lengths": key_lengths,
            "first_positions": first_positions,
            "cu_seqlens": cu_seqlens,
            "ranges": ranges,
            "bias": bias,
            "energy_bias": energy_bias,
            "alibi": alibi,
            "local_radius": local_radius,
            "local_centers": local_centers,
            "score_weight": score_weight,
            "score_projection": score_projection,
        }
        for name, option in optional.items():
            if option is not None:
                options[name] = option
    if score != "dot":
        options["score"] = score
    if dropout != 0.0:
        options["dropout"], options["seed"] = dropout, _dropout_seed(seed)
    if parameters:
        parameters = given_parameters("attention", mechanism, parameters)
    elif len(options) == 1:
        return _PLAIN_ATTENTION(query, key, value, mechanism, causal)
    return _ATTENTION(
        query,
        key,
        value,
        mechanism,
        **options,
        parameters=list(parameters.values()),
        parameter_names=list(parameters),
    )


# Every keyword of an operator that is not a parameter of a mechanism.
_OPTIONS = frozenset(
    name
    for name, parameter in inspect.signature(attention).parameters.items()
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY
)


@checked("attention_weights", options_of=attention)
def attention_weights(query: Tensor, key: Tensor, mechanism: str = "softmax", **options) -> Tensor:
    """The weights that :func:`attention` applies to the values, as a tensor; 0 where a key is hidden.

    For pictures and analysis: unlike :func:`attention` it needs memory in proportion to N·M.

    Args:
        query: [B, H, N, D]; for ``differential``, over any map, [B, 2H, N, D].
        key: [B, Hk, M, D]; for ``differential``, over any map, [B, 2Hk, M, D].
        mechanism, **options: as in :func:`attention`, by keyword.

    Returns:
        [B, H, N, M], with :func:`attention` = weights @ value.

    Raises:
        ValueError, TypeError: as :func:`attention`.
    """
    return _ATTENTION_WEIGHTS(
        query, key, mechanism, **keywords_for_operator("attention_weights", mechanism, options)
    )


class AttentionStatistics(NamedTuple):
    """Statistics of the weights a of every query; each [B, H, N], in the compute dtype of the kernel.

    Shown as means of each head, over the queries that see two keys or more."""

    log_mass: Tensor
    """log Σ|f|, the sum before the normaliser, including factors after the map (dropout, a Gaussian window). For a
    mixture or a dense mechanism, log Σ|a|. −∞ where all weights are 0."""
    sum: Tensor
    """Σ a"""
    abs_sum: Tensor
    """Σ |a|"""
    negative_mass: Tensor
    """Σ |a| over the keys with a < 0"""
    entropy: Tensor
    """−Σ p log p of p = |a| / Σ|a|, in nats; 0 where all weights are 0"""
    sink: Tensor
    """a of key 0; 0 where it is hidden"""
    largest: Tensor
    """max |a|"""
    keys: Tensor
    """n, the number of keys that the query sees"""
    positive: Tensor
    """The share of these with a > 0"""
    negative: Tensor
    """The share of these with a < 0"""
    kurtosis: Tensor
    """(Σ(a − μ)⁴/n) / (Σ(a − μ)²/n)² over these, with μ = Σa/n: Pearson's, 3 for normally distributed weights, n − 2 +
    1/(n − 1) where one key has all. NaN where the weights differ by no more than rounding."""
    argmax: Tensor | None
    """int64: the first key with the largest |a|, −1 where all weights are 0; None unless asked for"""

    def _shown(self) -> tuple[str, str] | None:
        """None where there are no means of heads to show: of others than tensors [B, H, N], or within torch.func and compilation."""
        numbers = {name: number for name, number in zip(self._fields, self) if name != "argmax"}
        try:
            return shown.of_statistics(numbers)
        except (RuntimeError, TypeError, ValueError, NotImplementedError):
            return None

    def _repr_html_(self) -> str | None:
        made = self._shown()
        return made and made[0]

    def __repr__(self) -> str:
        made = self._shown()
        if made is None:
            return f"AttentionStatistics({', '.join(f'{name}={value!r}' for name, value in zip(self._fields, self))})"
        return made[1].rstrip("\n")


def statistics_of_rows(rows: Tensor, argmax: bool = True) -> AttentionStatistics:
    """Names the statistics that an operator returns as [12, …]."""
    *numbers, largest_at = rows.unbind(0)
    return AttentionStatistics(*numbers, largest_at.long() if argmax else None)


@checked("attention_statistics", options_of=attention)
def attention_statistics(
    query: Tensor, key: Tensor, value: Tensor, mechanism: str = "softmax", *, argmax: bool = True, **options
) -> tuple[Tensor, AttentionStatistics]:
    """:func:`attention` and, from the same pass, statistics of the weights of each row, without the weights.

    Args:
        query, key, value, mechanism, **options: as in :func:`attention`, by keyword.
        argmax: also find the key of the largest weight.

    Returns:
        The output, differentiable as that of :func:`attention`, and the statistics, which have no gradient.
        Mixtures (``differential``, ``centered``) sweep over the scores a second time, because each weight combines
        two; dense mechanisms compute their weights.

    Raises:
        ValueError, TypeError: as :func:`attention`; ValueError for ``argmax`` over more than 2²⁴ keys.
    """
    output, rows = _ATTENTION_STATISTICS(
        query,
        key,
        value,
        argmax,
        mechanism,
        **keywords_for_operator("attention_statistics", mechanism, options),
    )
    return output, statistics_of_rows(rows, argmax)


@checked("scaled_dot_product_attention")
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    mechanism: str = "softmax",
) -> Tensor:
    """A drop-in for ``torch.nn.functional.scaled_dot_product_attention`` with another mechanism in place of softmax.

    It differs from :func:`attention` as torch does: ``is_causal`` aligns the *first* query with the first key (query i
    sees keys j ≤ i), grouped heads must be asked for, and [B, N, D] stands for one head.

    Args:
        query: [B, H, N, D], float32, float64, bfloat16 or float16, any strides; 8 ≤ D ≤ 1024. 16-bit inputs are
            computed in float32, and the output and each gradient rounded once. Where the machine multiplies pairs of
            bfloat16, weights are rounded to it before they multiply values, as in PyTorch.
        key: [B, H, M, D], or [B, Hk, M, D] with ``enable_gqa``.
        value: [B, H, M, Dv], or [B, Hk, M, Dv] with ``enable_gqa``.
        attn_mask: broadcasts to [B, H, N, M]: bool, True where a key is seen, or numbers that are added to the scores.
        dropout_p: as ``dropout`` of :func:`attention`.
        is_causal: query i sees keys j ≤ i. Excludes a mask.
        scale: multiplies the scores; 1/√D unless given.
        enable_gqa: allow fewer key heads than query heads; Hk divides H.
        mechanism: a name from :func:`cogwheel.mechanisms` whose level is ``operator``, or ``dense`` without a mask and
            dropout, and which needs no parameters.

    Returns:
        [B, H, N, Dv], differentiable in query, key, value and a mask of numbers as the output of :func:`attention`.

    Raises:
        ValueError, TypeError: as :func:`attention`.
    """
    return _SCALED_DOT_PRODUCT_ATTENTION(
        query,
        key,
        value,
        mechanism,
        attn_mask=attn_mask,
        dropout_p=dropout_p,
        seed=None if dropout_p == 0.0 else _dropout_seed(None),
        is_causal=is_causal,
        scale=scale,
        enable_gqa=enable_gqa,
    )
