"""No tokens, no heads, no batch, one token, and vmap over none: by every route of torch.func what the formula gives."""

import functools

import pytest
import reference
import torch
from recurrent_problem import LAWS, Problem, fused
from recurrent_reference import token_loop
from test_derivative_routes import drawn
from test_dense_mechanisms import COEFFICIENTS
from torch import func

import cogwheel

# batch, heads, queries, keys
SIZES = {"no queries": (1, 1, 0, 3), "no keys": (1, 1, 3, 0), "no batch": (0, 1, 2, 2), "nothing": (0, 1, 0, 0), "one token": (1, 1, 1, 1)}
MAPS = ("softmax", "norm", "differential", "centered_cog", "relu")
MATRICES = ("polynomial", "matrix_exponential", "matrix_exponential_by_row", "simple_norm_by_row")


def loss(function):
    return lambda *x: (function(*x) * (1 + function(*x))).sum()


def every(x):
    return tuple(range(len(x)))


def ones(x):
    return tuple(torch.ones_like(each) for each in x)


def by_autograd(function, x):
    leaves = [each.clone().requires_grad_() for each in x]
    made = loss(function)(*leaves)
    if not made.requires_grad:  # a formula that has read nothing
        return tuple(torch.zeros_like(each) for each in x)
    return torch.autograd.grad(made, leaves, allow_unused=True, materialize_grads=True)


ROUTES = {
    "value": lambda f, x: f(*x),
    "autograd": by_autograd,
    "grad": lambda f, x: func.grad(loss(f), every(x))(*x),
    "vjp": lambda f, x: (lambda made: made[1](torch.ones_like(made[0])))(func.vjp(f, *x)),
    "jvp": lambda f, x: func.jvp(f, x, ones(x))[1],
    "jacrev": lambda f, x: func.jacrev(f, every(x))(*x),
    "vmap": lambda f, x: func.vmap(f)(*(torch.stack([each, 0.5 * each]) for each in x)),
    "vmap of grad": lambda f, x: func.vmap(func.grad(loss(f), every(x)))(*(torch.stack([each, 0.5 * each]) for each in x)),
    "jvp of grad": lambda f, x: func.jvp(func.grad(loss(f), every(x)), x, ones(x))[1],
}


def expect_same(ours, formula, x, refuses=()):
    made = ours(*(each.clone().requires_grad_() for each in x))
    assert made.requires_grad
    over_none = func.vmap(ours)(*(each.new_zeros(0, *each.shape) for each in x))
    assert over_none.shape == (0, *made.shape) and over_none.dtype == made.dtype
    for name, route in ROUTES.items():
        try:
            found = route(ours, x)
        except NotImplementedError as error:
            assert name in refuses and ": expected " in str(error) and "\n" not in str(error)
            continue
        torch.testing.assert_close(found, route(formula, x), rtol=1e-9, atol=1e-10, msg=lambda text, name=name: f"{name}: {text}")


def zeros_of(function, shape):
    """An empty result, of which only the shape is to be known."""
    return lambda *x: sum(each.sum() for each in x) * torch.zeros(shape, dtype=torch.float64)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mechanism", MAPS + MATRICES)
@pytest.mark.parametrize("values", [True, False])
def test_attention_and_weights(mechanism, size, values):
    batch, heads, queries, keys = SIZES[size]
    matrix = mechanism in MATRICES
    if matrix and queries != keys:
        queries = keys = 0
    row = None if matrix else reference.row_of(mechanism)
    sub = row.sub_heads if row else 1
    query, key = drawn(batch, sub * heads, queries, 8), drawn(batch, sub * heads, keys, 8, seed=1)
    own = {"coefficients": COEFFICIENTS["coefficients"][:heads]} if mechanism == "polynomial" else {}
    own |= {name: draw(torch.Generator().manual_seed(3), heads) for name, draw in (row.parameters or {}).items()} if row else {}
    value = [drawn(batch, heads, keys, 2, seed=2)] if values else []
    x = (query, key, *value, *own.values())

    def ours(query, key, *rest):
        options = dict(zip(own, rest[len(value) :]))
        if values:
            return cogwheel.attention(query, key, rest[0], mechanism, **options)
        return cogwheel.attention_weights(query, key, mechanism, **options)

    def formula(query, key, *rest):
        visible = torch.ones(queries, keys, dtype=torch.bool)
        scale = 1.0 if row.cosine else 8**-0.5
        given = dict(zip(own, rest[len(value) :]))
        applied = rest[0] if values else torch.eye(keys, dtype=torch.float64).expand(batch, heads, keys, keys)
        return reference.attention(mechanism, query, key, applied, scale=scale, visible=visible, parameters=given)

    empty = 0 in (batch, queries, keys)
    if matrix and not empty:
        return  # with tokens, test_dense_mechanisms.py has the formulas
    expect_same(ours, zeros_of(ours, (batch, heads, queries, 2 if values else keys)) if empty else formula, x)


@pytest.mark.parametrize("size", [(0, 1, 1), (1, 1, 1), (2, 0, 1), (2, 1, 0)], ids=["no tokens", "one token", "no batch", "no heads"])
@pytest.mark.parametrize("case", ["linear_elu_normalized", "gla", "rwkv6", "mlstm", "cosformer", "abc", "gated_deltanet", "mamba", "s4"])
def test_laws(case, size):
    assert case in LAWS
    tokens, batch, heads = size
    problem = Problem(case, tokens, batch=batch, heads=heads, width=2, value_width=2, with_state=True)

    def by(function, *x):
        return problem.call(function, dict(zip(problem.inputs, x)))[0]

    refuses = ("jvp", "jvp of grad")
    expect_same(functools.partial(by, fused), functools.partial(by, token_loop), tuple(problem.inputs.values()), refuses)


def test_windows():
    for batch, positions, steps in ((0, 2, 1), (1, 0, 1), (1, 2, 0), (1, 1, 1)):
        alpha, beta, kappa = (drawn(batch, steps, 2, seed=seed).exp() for seed in range(3))

        def formula(alpha, beta, kappa, values):
            places = torch.arange(1, values.shape[1] + 1, dtype=torch.float64)
            phi = alpha.unsqueeze(-1) * torch.exp(-beta.unsqueeze(-1) * (kappa.unsqueeze(-1) - places) ** 2)
            return phi.sum(2) @ values

        expect_same(lambda *x: cogwheel.soft_window(*x)[0], formula, (alpha, beta, kappa, drawn(batch, positions, 2, seed=3)))
