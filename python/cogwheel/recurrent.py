"""Attention with a state: linear-time training, and decoding whose memory does not grow."""

import torch
from torch import Tensor

from cogwheel._arguments import checked

_RECURRENT = torch.ops.cogwheel.recurrent.default


@checked("recurrent")
def recurrent(
    query: Tensor,
    key: Tensor | None,
    value: Tensor,
    mechanism: str,
    *,
    scale: float | None = None,
    initial_state: Tensor | tuple[Tensor, ...] | None = None,
    return_state: bool = False,
    feature_map: str = "identity",
    normalize: bool = False,
    **parameters: Tensor,
) -> Tensor | tuple[Tensor, Tensor | tuple[Tensor, ...]]:
    r"""Attention of every token over those up to it, by a state that is updated token by token.

    Per head, with S [D, Dv] the state:

    .. math:: S_t = A_t \circ S_{t-1} + k_t (w_t v_t)^\top, \qquad o_t = \text{scale} \; S_t^\top q_t

    Normalised, the output is :math:`o_t / (z_t \cdot q_t)` with z by the same law for v = 1, and 0 where that product is
    0. The mechanism names A, w and k; ``docs/recurrent.md`` has the table.

    Args:
        query: [B, H, N, D], float32, float64, bfloat16 or float16, any strides; D ≤ 256. 16-bit numbers are computed
            with in float32, and the output and each gradient rounded once.
        key: as query; None for ``hgrn2``, whose keys are 1 − α.
        value: [B, H, N, Dv].
        mechanism: ``linear_attention``, ``retnet``, ``mamba2``, ``gla``, ``hgrn2`` or ``gated_rfa``.
        scale: multiplies the query after its feature map; 1/√D unless given. It cancels where the output is normalised.
        initial_state: the state before the first token, as ``return_state`` gives it; 0 unless given.
        return_state: also gives the state after the last token, so that a text may be cut anywhere.
        feature_map: of ``linear_attention``, on query and key: ``identity``, ``elu_plus_one``, ``relu``,
            ``squared_relu`` or ``exp``.
        normalize: of ``linear_attention``.
        **parameters: ``retnet``: ``decay``, γ [H], in (0, 1]. ``mamba2``, ``gated_rfa``: ``log_decay`` [B, H, N].
            ``gla``, ``hgrn2``: ``log_decay`` [B, H, N, D]. A log_decay is at most 0; −∞ forgets everything. They have
            the dtype of query, or the one that it is computed in.

    Returns:
        [B, H, N, Dv], or with ``return_state`` this and the state: S [B, H, D, Dv], or (S, z) with z [B, H, D] where the
        output is normalised, float32 for 16-bit numbers. Differentiable once in every tensor that is given, the states
        too; same bits for any number of threads.

    Raises:
        ValueError: names, shapes, dtypes, devices or values that do not fit, each in one line that says what was
            expected and what came.
        NotImplementedError: on second derivatives and tangents.
    """
    given = {name: tensor for name, tensor in parameters.items() if tensor is not None}
    states = () if initial_state is None else (initial_state,) if isinstance(initial_state, Tensor) else initial_state
    output, state = _RECURRENT(
        query,
        key,
        value,
        mechanism,
        scale=scale,
        initial_state=list(states),
        parameters=list(given.values()),
        parameter_names=list(given),
        feature_map=feature_map,
        normalize=normalize,
    )
    if not return_state:
        return output
    return output, state[0] if len(state) == 1 else tuple(state)
