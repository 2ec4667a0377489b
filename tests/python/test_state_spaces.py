"""What state spaces whose every element decays by itself are equal to."""

import pytest
import torch
from recurrent_problem import Problem, fused

import cogwheel


def test_all_is_kept_where_no_step_is_taken():
    problem = Problem("mamba", 40, with_state=True)
    problem.inputs["delta"].zero_()
    _, (state,) = problem.call(fused, problem.inputs)
    assert torch.equal(state, problem.inputs["S"])


def test_s4_is_a_convolution():
    problem = Problem("s4", 50)
    value, delta, a, b, c, skip = (problem.inputs[name] for name in ("value", "delta", "a", "b", "c", "skip"))
    output, _ = problem.call(fused, problem.inputs)
    # Its kernel by powers of the transition, and the convolution by a Fourier transform.
    powers = torch.arange(50, dtype=torch.float64)[:, None, None, None]
    kernel = (c * b * torch.exp(delta[:, None, :] * a) ** powers).sum(2)  # [N, H, Dv]
    transformed = torch.fft.rfft(kernel, 100, dim=0).permute(1, 0, 2) * torch.fft.rfft(value, 100, dim=2)
    expected = torch.fft.irfft(transformed, 100, dim=2)[:, :, :50] + skip[:, None, :] * value
    torch.testing.assert_close(output, expected)


def test_mamba_with_constant_steps_keys_and_queries_is_s4():
    s4 = Problem("s4", 50, with_state=True)
    key, query = torch.randn(3, 5, dtype=torch.float64), torch.randn(3, 5, dtype=torch.float64)
    delta = s4.inputs["delta"]
    output, (last,) = s4.call(fused, s4.inputs | {
        "b": key[..., None] * delta[:, None, :],
        "c": query[..., None].expand(3, 5, 37),
    })  # fmt: skip
    found = cogwheel.recurrent(
        query[:, None, :].expand(2, 3, 50, 5), key[:, None, :].expand(2, 3, 50, 5), s4.inputs["value"], "mamba",
        delta=delta[:, None, :].expand(2, 3, 50, 37), a=s4.inputs["a"], skip=s4.inputs["skip"],
        initial_state=s4.inputs["S"], return_state=True,
    )  # fmt: skip
    torch.testing.assert_close(found, (output, last))


def test_mamba_with_one_rate_is_mamba2():
    """One Δ for all columns and one a: a decay for each token, and values times Δ (Dao and Gu 2024)."""
    query, key, value = (torch.randn(2, 3, 50, width, dtype=torch.float64) for width in (5, 5, 7))
    step = torch.rand(2, 3, 50, dtype=torch.float64)
    mamba = cogwheel.recurrent(
        query, key, value, "mamba", delta=step[..., None].expand(2, 3, 50, 7), a=torch.full((5, 7), -0.75, dtype=torch.float64)
    )
    mamba2 = cogwheel.recurrent(query, key, step[..., None] * value, "mamba2", log_decay=-0.75 * step, scale=1.0)
    torch.testing.assert_close(mamba, mamba2)


@pytest.mark.parametrize("case, heads", [("mamba", 2), ("s4", 2)])
def test_a_cache_continues(case, heads):
    """With as many heads as entries, and as many tokens as columns: what is of a head is not taken for a token's."""
    problem = Problem(case, 10, batch=heads, heads=heads, width=heads, value_width=4)
    inputs = {name: each.float() for name, each in problem.inputs.items()}
    expected, _ = problem.call(fused, inputs)
    cache = cogwheel.RecurrentCache(problem.law, heads, heads, heads, 4)
    of_tokens = problem.of_tokens()
    lengths = torch.tensor([4, 2])
    for begin, many in ((0, lengths), (4, None), (5, None)):
        count = 4 if begin == 0 else 1
        part = {name: inputs[name][:, :, begin : begin + count] for name in of_tokens}
        if begin:
            part = {name: torch.stack([inputs[name][i, :, begin - 4 + lengths[i]][:, None] for i in range(2)]) for name in of_tokens}
        given = inputs | part
        query, key, value = (given.pop(name, None) for name in ("query", "key", "value"))
        output = cache.attend(query, key, value, lengths=many, **given)
        for i in range(2):
            first = 0 if begin == 0 else begin - 4 + int(lengths[i])
            rows = int(lengths[i]) if begin == 0 else 1
            assert torch.equal(output[i, :, :rows], expected[i, :, first : first + rows])
    assert cache.lengths.tolist() == [6, 4]
