"""The operators that layers are made of beside attention, as PyTorch sees them: registration, derivatives, refusals."""

import pytest
import torch

import cogwheel  # noqa: F401: loads the operators

NORM, NORM_BACKWARD = torch.ops.cogwheel.norm_of_sum, torch.ops.cogwheel.norm_of_sum_backward
ROTARY, DROPOUT, PRODUCT = torch.ops.cogwheel.rotary, torch.ops.cogwheel.dropout, torch.ops.cogwheel.matrix_product


def leaf(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype).requires_grad_()


def expect_registered(operator, *arguments, **options):
    torch.library.opcheck(operator.default, arguments, options)


def expect_derivatives(function, *inputs, **options):
    assert torch.autograd.gradcheck(function, inputs, check_forward_ad=True, check_batched_grad=True, **options)
    assert torch.autograd.gradgradcheck(function, inputs, check_fwd_over_rev=True, **options)


@pytest.mark.parametrize("centered", [False, True], ids=["rms", "layer"])
@pytest.mark.parametrize("with_delta", [False, True], ids=["alone", "delta"])
def test_norm_of_sum(centered, with_delta):
    x, delta, weight, bias = leaf(2, 1, 3), leaf(2, 1, 3) if with_delta else None, leaf(3), leaf(3)
    expect_registered(NORM, x, delta, weight, bias, centered, 1e-5)
    expect_derivatives(lambda *given: NORM(*given, centered, 1e-2)[: 1 + with_delta], x, delta, weight, bias)
    normed, total, moments = (each.detach() for each in NORM(x, delta, weight, bias, centered, 1e-5))
    gradient, total = leaf(2, 1, 3), (total if with_delta else x.detach()).requires_grad_()
    expect_registered(NORM_BACKWARD, gradient, delta, total, weight, moments, centered, 1e-5)


def test_norm_of_sum_in_bfloat16():
    x, delta, weight = leaf(4, 6, dtype=torch.float32), leaf(4, 6, dtype=torch.bfloat16), leaf(6, dtype=torch.float32)
    expect_registered(NORM, x, delta, weight, None, True, 1e-5, True)
    normed, total, moments = NORM(x, delta, weight, None, True, 1e-5, True)
    assert (normed.dtype, total.dtype, moments.dtype) == (torch.bfloat16, torch.float32, torch.float32)
    (normed.float().square().sum() + total.sum()).backward()
    assert (x.grad.dtype, delta.grad.dtype, weight.grad.dtype) == (torch.float32, torch.bfloat16, torch.float32)


@pytest.mark.parametrize(
    "halves, positions", [(False, None), (True, torch.tensor([5, 0])), (False, torch.tensor([[0, 6], [6, 4]]))],
    ids=["from_first", "shared", "ragged"],
)
def test_rotary(halves, positions):
    x, table = leaf(2, 2, 1, 4), torch.randn(2, 7, 2, dtype=torch.float64)
    expect_registered(ROTARY, x, table, positions, 2, halves)
    expect_derivatives(lambda given: ROTARY(given, table, positions, 2, halves), x)
    assert torch.autograd.gradcheck(lambda given: ROTARY(x, given, positions, 2, halves), table.requires_grad_())


def test_a_changed_position_is_noticed_in_backward():
    x, table, positions = leaf(1, 3, 2, 6), torch.randn(2, 7, 3, dtype=torch.float64), torch.tensor([0, 1, 2])
    turned = ROTARY(x, table, positions)
    positions += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        turned.sum().backward()


def test_dropout():
    x = leaf(3, 5)
    expect_registered(DROPOUT, x, 0.4, -9)
    expect_derivatives(lambda given: DROPOUT(given, 0.4, -9), x)


@pytest.mark.parametrize("biased", [False, True])
def test_matrix_product(biased):
    x, weight, bias = leaf(2, 1, 4), leaf(3, 4), leaf(3) if biased else None
    expect_registered(PRODUCT, x, weight, bias)
    expect_derivatives(lambda *given: PRODUCT(*given), x, weight, bias)
    single = [each.detach().float().requires_grad_() if each is not None else None for each in (x, weight, bias)]
    expect_registered(PRODUCT, *single)  # another library may multiply float32
    assert PRODUCT(x[0, 0], weight, bias).shape == (3,)
    torch.testing.assert_close(PRODUCT(single[0][0, 0], *single[1:]), PRODUCT(x[0, 0], weight, bias).float())


def test_autocast_leaves_products_alone():
    x, weight = leaf(3, 4, dtype=torch.float32), leaf(5, 4, dtype=torch.float32)
    expected = torch.autograd.grad(PRODUCT(x, weight, None).square().sum(), (x, weight))
    with torch.autocast("cpu", torch.bfloat16):
        product = PRODUCT(x, weight, None)
        assert product.dtype == torch.float32
        assert all(map(torch.equal, torch.autograd.grad(product.square().sum(), (x, weight)), expected))


REFUSALS = {
    "norm_of_sum: x dtype: expected float32 or float64, got Half":
        lambda: NORM(torch.ones(2, 4).half(), None, torch.ones(4), None, True, 1e-5),
    "norm_of_sum: x: expected [..., width], got [3, 0]":
        lambda: NORM(torch.ones(3, 0), None, torch.ones(0), None, True, 1e-5),
    "norm_of_sum: weight: expected [4], got [5]": lambda: NORM(torch.ones(2, 4), None, torch.ones(5), None, True, 1e-5),
    "norm_of_sum: delta: expected the shape and type of x, or bfloat16 beside float32, got [2, 3] Float":
        lambda: NORM(torch.ones(2, 4), torch.ones(2, 3), torch.ones(4), None, True, 1e-5),
    "rotary: table: expected [2, positions, head_dim/2], got [3, 4, 2]":
        lambda: ROTARY(torch.ones(1, 3, 1, 4), torch.ones(3, 4, 2)),
    "rotary: x: expected [B, N, heads, 4], got [1, 3, 1, 6]": lambda: ROTARY(torch.ones(1, 3, 1, 6), torch.ones(2, 4, 2)),
    "rotary: positions: expected 0 to 3, got 2 to 4":
        lambda: ROTARY(torch.ones(1, 3, 1, 4), torch.ones(2, 4, 2), None, 2),
    "rotary: positions: expected 0 to 3, got 4":
        lambda: ROTARY(torch.ones(1, 3, 1, 4), torch.ones(2, 4, 2), torch.tensor([[0, 4, 1]])),
    "dropout: rate: expected at least 0 and below 1, got 1": lambda: DROPOUT(torch.ones(3), 1.0, 0),
    "dropout: x dtype: expected float32 or float64, got Long": lambda: DROPOUT(torch.ones(3).long(), 0.1, 0),
    "matrix_product: weight: expected [5, 4], got [5, 3]": lambda: PRODUCT(torch.ones(2, 4), torch.ones(5, 3), None),
    "matrix_product: bias dtype: expected Float (as x), got Double":
        lambda: PRODUCT(torch.ones(2, 4), torch.ones(5, 4), torch.ones(5).double()),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSALS)
def test_refusals_are_one_line(message):
    with pytest.raises(ValueError) as refused:
        REFUSALS[message]()
    assert str(refused.value) == message
