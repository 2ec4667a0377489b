"""Graves' window: weights of positions alone."""

import torch
from torch import Tensor

from cogwheel._arguments import checked

_SOFT_WINDOW = torch.ops.cogwheel.soft_window.default


@checked("soft_window")
def soft_window(
    alpha: Tensor, beta: Tensor, kappa: Tensor, values: Tensor, lengths: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    r"""The sum of values under a mixture of bell curves over their positions.

    .. math:: \varphi(u) = \sum_k \alpha_k \exp(-\beta_k (\kappa_k - u)^2), \quad w = \sum_{u=1}^{U} \varphi(u) v_u

    Positions are counted from 1, and weights are not normalised. In Graves' handwriting synthesis (2013) a network makes
    α = exp(α̂), β = exp(β̂) and κ = κ of the step before + exp(κ̂), so that a centre never moves back.

    Args:
        alpha: [B, K], at least 0, float32 or float64; or [B, T, K], for T steps at once where κ of all is known.
        beta: as alpha, above 0.
        kappa: as alpha.
        values: [B, U, D].
        lengths: [B] int64, how many of its U positions an entry has; those beyond are not read.

    Returns:
        w [B, D] and φ [B, U + 1], or [B, T, D] and [B, T, U + 1]. ``phi[:, u - 1]`` is φ(u). An entry has one position
        more than its length, φ(length + 1), which Graves' rule for the end of a sample compares with all others; the
        columns beyond are 0. Differentiable any number of times in all four; gradients are the same bits for any number
        of threads.

    Raises:
        ValueError: shapes, dtypes, devices or values that do not fit, each in one line that says what was expected and
            what came. Values of alpha and beta are checked on the CPU; NaN passes, and reaches its entry alone.
    """
    return _SOFT_WINDOW(alpha, beta, kappa, values, lengths)
