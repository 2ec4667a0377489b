"""Graves' window against his formula in float64, written with loops over positions and components."""

import math

import emulated_device
import pytest
import torch

import cogwheel

OPERATOR, BACKWARD = torch.ops.cogwheel.soft_window, torch.ops.cogwheel.soft_window_backward


def problem(batch=3, steps=None, components=4, positions=9, width=5, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    sizes = (batch, components) if steps is None else (batch, steps, components)
    draw = lambda *size: torch.randn(*size, generator=generator, dtype=torch.float64)  # noqa: E731
    alpha, beta = draw(*sizes).exp(), (draw(*sizes) - 1).exp()
    kappa = draw(*sizes).exp().cumsum(-1) * positions / components / 2
    values = draw(batch, positions, width)
    return [each.to(dtype).requires_grad_() for each in (alpha, beta, kappa, values)]


def by_formula(alpha, beta, kappa, values, lengths=None):
    """Of one step; positions from 1."""
    windows, weights = [], []
    for entry in range(values.shape[0]):
        length = values.shape[1] if lengths is None else int(lengths[entry])
        row = [
            sum(a * torch.exp(-b * (k - u) ** 2) for a, b, k in zip(alpha[entry], beta[entry], kappa[entry], strict=True))
            for u in range(1, length + 2)
        ]
        window = 0 * values[entry].sum(0)
        for u in range(1, length + 1):
            window = window + row[u - 1] * values[entry, u - 1]
        windows.append(window)
        weights.append(torch.stack(row + [values.new_zeros(())] * (values.shape[1] - length)))
    return torch.stack(windows), torch.stack(weights)


def all_steps(function, alpha, beta, kappa, values, lengths):
    if alpha.dim() == 2:
        return function(alpha, beta, kappa, values, lengths)
    steps = [function(alpha[:, t], beta[:, t], kappa[:, t], values, lengths) for t in range(alpha.shape[1])]
    return tuple(torch.stack(each, 1) for each in zip(*steps, strict=True))


SHAPES = {
    "one": {"batch": 1, "components": 1, "positions": 1, "width": 1},
    "small": {},
    "wide": {"batch": 2, "components": 10, "positions": 33, "width": 71},
    "steps": {"steps": 7, "positions": 17, "width": 67},
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("ragged", [False, True], ids=["full", "ragged"])
@pytest.mark.parametrize("shape", SHAPES)
def test_equals_the_formula(shape, ragged, dtype):
    single = problem(**SHAPES[shape], dtype=dtype)
    batch, positions = single[3].shape[:2]
    lengths = torch.arange(batch) * positions // max(batch - 1, 1) if ragged else None  # 0 and all among them
    exact = [each.detach().double().requires_grad_() for each in single]
    ours, expected = cogwheel.soft_window(*single, lengths), all_steps(by_formula, *exact, lengths)
    factors = [torch.randn(each.shape, dtype=torch.float64) for each in expected]
    gradients = torch.autograd.grad(sum((o * f.to(dtype)).sum() for o, f in zip(ours, factors, strict=True)), single)
    wanted = torch.autograd.grad(sum((o * f).sum() for o, f in zip(expected, factors, strict=True)), exact)
    for name, a, b, single_bound in [
        *zip(("w", "phi"), ours, expected, (2e-6,) * 2, strict=True),
        *zip(("alpha", "beta", "kappa", "values"), gradients, wanted, (1e-5,) * 4, strict=True),
    ]:
        error = (a.double() - b).abs().max() / b.abs().max().clamp_min(1e-30)
        assert error <= (1e-9 if dtype == torch.float64 else single_bound), (name, float(error))


def test_each_output_alone_has_its_gradients():
    for index in (0, 1):
        inputs, lengths = problem(), torch.tensor([4, 9, 0])
        ours = torch.autograd.grad(cogwheel.soft_window(*inputs, lengths)[index].sin().sum(), inputs, allow_unused=True)
        expected = torch.autograd.grad(by_formula(*inputs, lengths)[index].sin().sum(), inputs, allow_unused=True)
        for a, b in zip(ours, expected, strict=True):
            torch.testing.assert_close(torch.zeros_like(a) if b is None else a, torch.zeros_like(a) if b is None else b)


def test_values_beyond_a_length_are_not_read_and_memory_may_lie_any_way():
    alpha, beta, kappa, values = (each.detach() for each in problem())
    lengths = torch.tensor([4, 9, 0])
    poisoned = values.clone()
    poisoned[0, 4:], poisoned[2] = math.nan, math.inf
    turned = [each.movedim(0, -1).contiguous().movedim(-1, 0).requires_grad_() for each in (alpha, beta, kappa, poisoned)]
    assert not turned[3].is_contiguous()
    ours = cogwheel.soft_window(*turned, lengths)
    for a, b in zip(ours, cogwheel.soft_window(alpha, beta, kappa, values, lengths), strict=True):
        assert torch.equal(a, b)
    assert ours[1][0, 4] > 0 and not ours[1][0, 5:].any() and not ours[0][2].any()
    (ours[0].sum() + ours[1].sum()).backward()
    assert all(each.grad.isfinite().all() for each in turned)
    assert not turned[3].grad[0, 4:].any()


def test_a_nan_stays_in_its_entry():
    alpha, beta, kappa, values = (each.detach() for each in problem())
    kappa[1, 2] = math.nan
    window, phi = cogwheel.soft_window(alpha, beta, kappa, values)
    assert window.isnan().any(1).tolist() == phi.isnan().any(1).tolist() == [False, True, False]


@pytest.mark.parametrize("steps", [None, 2])
def test_derivatives_of_every_order(steps, fast_mode):
    inputs, lengths = problem(2, steps, 2, 3, 2), torch.tensor([3, 1])
    function = lambda *given: cogwheel.soft_window(*given, lengths)  # noqa: E731
    options = {"fast_mode": fast_mode}
    assert torch.autograd.gradcheck(function, inputs, check_forward_ad=True, check_batched_grad=True, **options)
    assert torch.autograd.gradgradcheck(function, inputs, **options)


def test_registration():
    inputs, lengths = problem(2, 3), torch.tensor([9, 2])
    torch.library.opcheck(OPERATOR.default, (*inputs, lengths))
    torch.library.opcheck(OPERATOR.default, (*problem(dtype=torch.float32), None))
    plain = [each.detach() for each in inputs]
    window, phi = OPERATOR(*plain, lengths)
    torch.library.opcheck(BACKWARD.default, (window, phi, *plain, lengths, phi))
    torch.library.opcheck(BACKWARD.default, (window, None, *plain, lengths, phi, False))
    with pytest.raises(ValueError, match="soft_window: derivatives: expected those of soft_window, got"):
        BACKWARD(window, None, *inputs, lengths, phi)


def test_a_device_without_kernels_has_a_composition():
    inputs, lengths = problem(dtype=torch.float32), torch.tensor([4, 9, 0])
    there = [emulated_device.on_device(each).requires_grad_() for each in inputs]
    ours = cogwheel.soft_window(*there, emulated_device.on_device(lengths))
    expected = cogwheel.soft_window(*inputs, lengths)
    found = torch.autograd.grad(ours[0].sum() + ours[1].sum(), there)
    wanted = torch.autograd.grad(expected[0].sum() + expected[1].sum(), inputs)
    for a, b in zip((*ours, *found), (*expected, *wanted), strict=True):
        torch.testing.assert_close(emulated_device.behind(a), b.detach(), atol=1e-5, rtol=1e-5)
    emulated_device.forget()


def test_compiles_as_one_graph():
    inputs, lengths = problem(dtype=torch.float32), torch.tensor([4, 9, 0])

    def step(*given):
        window, phi = cogwheel.soft_window(*given, lengths)
        return window.sin().sum() + phi[:, 1].sum()

    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    expected = torch.autograd.grad(step(*inputs), inputs)
    for a, b in zip(torch.autograd.grad(compiled(*inputs), inputs), expected, strict=True):
        torch.testing.assert_close(a, b)


def test_gradients_do_not_depend_on_threads():
    inputs, before, found = problem(8, 3, dtype=torch.float32), torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(torch.autograd.grad(cogwheel.soft_window(*inputs)[0].square().sum(), inputs))
    finally:
        torch.set_num_threads(before)
    assert all(map(torch.equal, *found))


REFUSALS = {
    "soft_window: alpha: expected [B, K] or [B, T, K], got [4]": {"alpha": torch.ones(4)},
    "soft_window: alpha dtype: expected float32 or float64, got Half": {"alpha": torch.ones(3, 4).half()},
    "soft_window: beta: expected [3, 4], got [3, 5]": {"beta": torch.ones(3, 5)},
    "soft_window: kappa dtype: expected Float (as alpha), got Double": {"kappa": torch.ones(3, 4).double()},
    "soft_window: values: expected [3, U, D], got [2, 9, 5]": {"values": torch.ones(2, 9, 5)},
    "soft_window: lengths: expected [3], got [2]": {"lengths": torch.ones(2, dtype=torch.int64)},
    "soft_window: lengths: expected 0 to 9, got 10": {"lengths": torch.tensor([1, 10, 2])},
    "soft_window: lengths dtype: expected int64, got Float": {"lengths": torch.ones(3)},
    "soft_window: beta: expected above 0, got 0": {"beta": torch.zeros(3, 4)},
    "soft_window: alpha: expected at least 0, got -1": {"alpha": -torch.ones(3, 4)},
    "soft_window: kappa: expected a tensor, got 3": {"kappa": 3},
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSALS)
def test_refusals_are_one_line(message):
    given = dict(zip(("alpha", "beta", "kappa", "values"), (e.detach() for e in problem(dtype=torch.float32)), strict=True))
    with pytest.raises((ValueError, TypeError)) as refused:
        cogwheel.soft_window(**given | REFUSALS[message])
    assert str(refused.value) == message
