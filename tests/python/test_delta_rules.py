"""What a delta rule does to a state."""

import torch
from recurrent_problem import Problem, fused, same_bits


def test_beta_of_0_leaves_the_state():
    problem = Problem("deltanet", 40, with_state=True)
    problem.inputs["beta"].zero_()
    output, (state,) = problem.call(fused, problem.inputs, scale=1.0)
    assert torch.equal(state, problem.inputs["S"])
    torch.testing.assert_close(output, problem.inputs["query"] @ problem.inputs["S"])


def test_without_decay_the_gated_rule_is_the_delta_rule():
    rule = Problem("deltanet", 70, with_state=True)
    expected = rule.results(fused, torch.float32)
    for case in ("gated_deltanet", "gated_deltanet_by_channel"):
        gated = Problem(case, 70, with_state=True)
        gated.inputs |= rule.inputs | {"log_decay": torch.zeros_like(gated.inputs["log_decay"])}
        found = gated.results(fused, torch.float32)
        assert all(torch.equal(found[name], each) for name, each in expected.items())


def test_equal_decays_of_the_channels_are_one_of_the_token():
    problem = Problem("gated_deltanet", 70)
    expected = problem.made(fused, problem.inputs)
    alike = problem.inputs["log_decay"][..., None].expand_as(problem.inputs["query"])
    assert same_bits(problem.made(fused, problem.inputs | {"log_decay": alike}), expected)


def test_orthonormal_keys_store_and_overwrite():
    keys = torch.linalg.qr(torch.randn(8, 8, dtype=torch.float64))[0]
    stored, last = (torch.randn(8, 5, dtype=torch.float64) for _ in range(2))
    key, value = torch.cat([keys, keys[:3]])[None, None], torch.cat([stored, last[:3]])[None, None]
    output, state = fused(key, key, value, "deltanet", beta=torch.ones(1, 1, 11, dtype=torch.float64), scale=1.0)
    torch.testing.assert_close(output, value)  # each token reads what it has written
    torch.testing.assert_close(keys @ state[0, 0], torch.cat([last[:3], stored[3:]]))


def test_a_key_that_is_stored_twice_with_beta_2_is_reflected():
    """S (I − 2 k kᵀ): an eigenvalue of −1 along k."""
    key = torch.nn.functional.normalize(torch.randn(1, 1, 1, 6, dtype=torch.float64), dim=-1)
    state = key.mT @ torch.ones(1, 1, 1, 4, dtype=torch.float64)
    value, beta = torch.zeros(1, 1, 1, 4).double(), torch.full((1, 1, 1), 2.0).double()
    output, after = fused(key, key, value, "deltanet", state, beta=beta, scale=1.0)
    torch.testing.assert_close(after, -state)
    torch.testing.assert_close(output, -torch.ones_like(output))
