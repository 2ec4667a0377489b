"""Attention as functions of tensors, with the shapes of ``torch.nn.functional.scaled_dot_product_attention``."""

import torch
from torch import Tensor

from cogwheel.catalogue import PARAMETERS


def _check_parameters(operator: str, mechanism: str, parameters: dict[str, object]) -> None:
    """Refuses arguments that the mechanism does not have. An unknown mechanism is left to the operator to refuse."""
    if mechanism not in PARAMETERS:
        parameters.clear()
        return
    own = PARAMETERS[mechanism]
    for name in parameters:
        if name not in own:
            expected = ", ".join(own) if own else "no parameter of its own"
            raise TypeError(f"{operator}: parameters of {mechanism}: expected {expected}, got {name}")


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mechanism: str = "softmax",
    *,
    causal: bool = False,
    scale: float | None = None,
    **parameters: Tensor,
) -> Tensor:
    r"""Attention of every query over the keys that it sees, in one fused pass that never holds the N×M weights.

    With scores :math:`s_{ij} = \text{scale}\; q_i \cdot k_j`, the mechanism makes weights :math:`a_{ij}` of the scores
    of row i, and the output is :math:`o_i = \sum_j a_{ij} v_j`. :func:`cogwheel.mechanisms` lists formulas and sources.

    Args:
        query: [B, H, N, D], float32 or float64, any strides; 8 ≤ D ≤ 256.
        key: [B, Hk, M, D]. Hk divides H: a key head serves H/Hk neighbouring query heads.
        value: [B, Hk, M, Dv]. Dv may differ from D.
        mechanism: a name from :func:`cogwheel.mechanisms` whose level is ``operator``.
        causal: the last query sees the last key, also where N ≠ M: query i sees keys j ≤ i + M − N. A query that sees
            no key gives 0, and 0 gradient.
        scale: multiplies the scores; 1/√D unless given.
        **parameters: the mechanism's own arguments. ``differential``: ``lam``, λ as a tensor [H] or one that broadcasts
            to [B, H, N], in the dtype of query.

    For ``differential``, query is [B, 2H, N, D], key [B, 2Hk, M, D], value [B, Hk, M, Dv] and the output has H heads;
    the two sub-heads of a head are adjacent.

    Returns:
        [B, H, N, Dv], differentiable once in query, key, value and lam. A second derivative raises.

    Raises:
        ValueError: shapes, dtypes, devices, names or values that do not fit, each in one line that says what was
            expected and what came.
        TypeError: a parameter that the mechanism does not have.

    The gradients are bit-identical from run to run and for any number of threads. A NaN or infinity in a key or value
    reaches only the rows that see it.
    """
    _check_parameters("attention", mechanism, parameters)
    return torch.ops.cogwheel.attention(query, key, value, mechanism, causal=causal, scale=scale, **parameters)


def attention_weights(
    query: Tensor,
    key: Tensor,
    mechanism: str = "softmax",
    *,
    causal: bool = False,
    scale: float | None = None,
    **parameters: Tensor,
) -> Tensor:
    """The weights that :func:`attention` applies to the values, as a tensor; 0 where a key is hidden.

    For pictures and analysis: unlike :func:`attention` it takes time and memory in proportion to N·M.

    Args:
        query: [B, H, N, D]; for ``differential`` [B, 2H, N, D].
        key: [B, Hk, M, D]; for ``differential`` [B, 2Hk, M, D].
        mechanism, causal, scale, **parameters: as in :func:`attention`.

    Returns:
        [B, H, N, M], with :func:`attention` = weights @ value.

    Raises:
        ValueError, TypeError: as :func:`attention`.
    """
    _check_parameters("attention_weights", mechanism, parameters)
    return torch.ops.cogwheel.attention_weights(query, key, mechanism, causal=causal, scale=scale, **parameters)


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
    sees keys j ≤ i), and grouped heads must be asked for.

    Args:
        query: [B, H, N, D], float32 or float64, any strides; 8 ≤ D ≤ 256.
        key: [B, H, M, D], or [B, Hk, M, D] with ``enable_gqa``.
        value: [B, H, M, Dv], or [B, Hk, M, Dv] with ``enable_gqa``.
        is_causal: query i sees keys j ≤ i.
        scale: multiplies the scores; 1/√D unless given.
        enable_gqa: allow fewer key heads than query heads; Hk divides H.
        mechanism: a name from :func:`cogwheel.mechanisms` whose level is ``operator`` and which has no parameters of
            its own.

    Returns:
        [B, H, N, Dv], differentiable once in query, key and value.

    Raises:
        ValueError: as :func:`attention`.
        NotImplementedError: a mask or dropout.
    """
    if attn_mask is not None:
        raise NotImplementedError("scaled_dot_product_attention: attn_mask: expected None (not supported), got a mask")
    if dropout_p != 0.0:
        raise NotImplementedError(f"scaled_dot_product_attention: dropout_p: expected 0 (not supported), got {dropout_p}")
    return torch.ops.cogwheel.scaled_dot_product_attention(
        query, key, value, mechanism, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa
    )
