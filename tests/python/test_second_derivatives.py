"""Beyond first gradients: double backward, forward mode and torch.func, against finite differences and the reference."""

import math

import pytest
import reference
import torch
from attention_cases import Shape, grid_inputs

import cogwheel

MECHANISMS = sorted(reference.TABLE)
TINY = Shape(1, 2, 1, 3, 4, 8, 2)

each_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS)


def leaves_of(mechanism, shape=TINY):
    """On the grid, no score is near 0, where maps have kinks. Off it a little, so that no two scores are equal."""
    inputs = grid_inputs(mechanism, shape, largest_score=3.0).to(torch.float64)
    generator = torch.Generator().manual_seed(5)
    nudge = lambda x: x + 1e-3 * x.abs().max() * torch.rand(x.shape, generator=generator, dtype=x.dtype)
    tensors = inputs.tensors() | {"query": nudge(inputs.query), "key": nudge(inputs.key)}
    return {name: tensor.detach().requires_grad_() for name, tensor in tensors.items()}, inputs.true_scale


def called(mechanism, names, **options):
    return lambda *tensors: cogwheel.attention(mechanism=mechanism, **options, **dict(zip(names, tensors)))


def reference_function(mechanism, names, scale, causal):
    def attention(*tensors):
        by_name = dict(zip(names, tensors))
        query, key, value = (by_name.pop(name) for name in ("query", "key", "value"))
        visible = reference.visible_keys(query.shape[2], key.shape[2], causal)
        return reference.attention(mechanism, query, key, value, scale=scale, visible=visible, parameters=by_name)

    return attention


@pytest.mark.one_of_each_kind
@each_mechanism
def test_double_backward_and_forward_mode_agree_with_finite_differences(mechanism):
    leaves, scale = leaves_of(mechanism)
    attend = called(mechanism, leaves, causal=True, scale=scale)
    assert torch.autograd.gradcheck(attend, list(leaves.values()), check_forward_ad=True, fast_mode=True)
    assert torch.autograd.gradgradcheck(attend, list(leaves.values()), check_fwd_over_rev=True, fast_mode=True)


@each_mechanism
def test_tangents_and_hessian_products_are_those_of_the_formula(mechanism):
    leaves, scale = leaves_of(mechanism, Shape(2, 4, 2, 5, 7, 16, 3))
    if mechanism == "norm":
        scale = 1.0
    tensors = [leaf.detach() for leaf in leaves.values()]
    generator = torch.Generator().manual_seed(1)
    directions = [torch.randn(x.shape, generator=generator, dtype=x.dtype) for x in tensors]
    ours, formula = called(mechanism, leaves, causal=True, scale=scale), reference_function(mechanism, leaves, scale, True)

    value, tangent = torch.func.jvp(ours, tuple(tensors), tuple(directions))
    expected_value, expected = torch.func.jvp(formula, tuple(tensors), tuple(directions))
    torch.testing.assert_close(value, expected_value, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(tangent, expected, rtol=1e-10, atol=1e-12)

    every = tuple(range(len(tensors)))

    def gradient_of(function):
        return torch.func.grad(lambda *x: function(*x).square().sum(), argnums=every)

    products = [torch.func.jvp(gradient_of(f), tuple(tensors), tuple(directions))[1] for f in (ours, formula)]
    for actual, wanted in zip(*products):
        torch.testing.assert_close(actual, wanted, rtol=1e-9, atol=1e-10 * (1 + wanted.abs().max().item()))

    def twice(function):
        return torch.func.grad(
            lambda *x: sum((g * d).sum() for g, d in zip(gradient_of(function)(*x), directions)), argnums=every
        )

    for actual, wanted in zip(twice(ours)(*tensors), twice(formula)(*tensors)):
        torch.testing.assert_close(actual, wanted, rtol=1e-9, atol=1e-10 * (1 + wanted.abs().max().item()))


MODIFIED = {
    "bias": lambda random: {"bias": random(2, 3, 4)},
    "a bias that hides keys": lambda random: {
        "bias": random(1, 3, 4),
        "fixed": {"causal": True, "key_lengths": torch.tensor([3])},
    },
    "energy_bias": lambda random: {"energy_bias": random(3, 4), "fixed": {"alibi": torch.tensor([0.5, 0.25])}},
    "dropout": lambda random: {"fixed": {"dropout": 0.3, "seed": 11}},
    "window": lambda random: {"fixed": {"causal": True, "window": 2}},
    "packed": lambda random: {"packed": True, "fixed": {"cu_seqlens": torch.tensor([0, 2, 4])}},
    "local-p": lambda random: {"local_centers": 1.3 + 0.1 * random(1, 2, 3), "fixed": {"local_radius": 2.6}},
    "additive score": lambda random: {"score_weight": 3 + random(2, 8), "fixed": {"score": "additive"}},
    "general score": lambda random: {"score_weight": random(2, 8, 8), "fixed": {"score": "general"}},
}


@pytest.mark.parametrize("mechanism", ["softmax_off_by_one", "cog"])
@pytest.mark.parametrize("case", MODIFIED)
def test_what_modifies_attention_has_second_derivatives_too(case, mechanism):
    generator = torch.Generator().manual_seed(3)
    random = lambda *size: 0.3 * torch.randn(*size, generator=generator, dtype=torch.float64)
    options = MODIFIED[case](random)
    fixed = options.pop("fixed", {})
    leaves, scale = leaves_of(mechanism, Shape(1, 2, 1, 4, 4, 8, 2) if options.pop("packed", False) else TINY)
    if "score" not in fixed:
        fixed["scale"] = scale
    leaves |= {name: tensor.requires_grad_() for name, tensor in options.items()}
    if case.startswith("a bias"):
        with torch.no_grad():
            leaves["bias"][0, :, 0] = -math.inf

        def attend(bias, *others):
            return called(mechanism, ["bias", *names], **fixed)(torch.where(torch.isinf(leaves["bias"]), -math.inf, bias), *others)

        names = [name for name in leaves if name != "bias"]
        inputs = [leaves["bias"].detach().nan_to_num(neginf=0.0).requires_grad_(), *(leaves[name] for name in names)]
    else:
        attend, inputs = called(mechanism, leaves, **fixed), list(leaves.values())
    assert torch.autograd.gradcheck(attend, inputs, check_forward_ad=True, fast_mode=True)
    assert torch.autograd.gradgradcheck(attend, inputs, check_fwd_over_rev=True, fast_mode=True)


@pytest.mark.parametrize("mechanism", ["cog", "consmax", "differential"])
def test_torch_func_composes(mechanism):
    leaves, scale = leaves_of(mechanism, Shape(1, 1, 1, 2, 3, 8, 1))
    tensors = tuple(leaf.detach() for leaf in leaves.values())
    ours, formula = called(mechanism, leaves, scale=scale), reference_function(mechanism, leaves, scale, False)
    output, pull = torch.func.vjp(ours, *tensors)
    expected, expected_pull = torch.func.vjp(formula, *tensors)
    for actual, wanted in zip(pull(torch.ones_like(output)), expected_pull(torch.ones_like(expected))):
        torch.testing.assert_close(actual, wanted, rtol=1e-10, atol=1e-12)
    hessians = [
        torch.func.hessian(lambda query: f(query, *tensors[1:]).square().sum())(tensors[0]) for f in (ours, formula)
    ]
    torch.testing.assert_close(*hessians, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("mechanism", ["cog", "differential"])
def test_vmap_gives_what_a_loop_gives(mechanism):
    leaves, scale = leaves_of(mechanism)
    query, *others = (leaf.detach() for leaf in leaves.values())
    queries = torch.stack([query, 2 * query, -query])
    attend = lambda query: called(mechanism, leaves, scale=scale)(query, *others)
    torch.testing.assert_close(torch.func.vmap(attend)(queries), torch.stack([attend(x) for x in queries]))
    gradient = torch.func.grad(lambda query: attend(query).square().sum())
    torch.testing.assert_close(torch.func.vmap(gradient)(queries), torch.stack([gradient(x) for x in queries]))


def test_a_row_that_sees_nothing_and_a_score_of_zero_have_finite_derivatives():
    query = torch.zeros(1, 1, 3, 8, dtype=torch.float64, requires_grad=True)
    key, value = (torch.randn(1, 1, 2, width, dtype=torch.float64) for width in (8, 2))
    out = cogwheel.attention(query, key, value, "cog", causal=True)  # the first query sees no key
    (first,) = torch.autograd.grad(out.sum(), query, create_graph=True)
    assert first[0, 0, 0].count_nonzero() == 0 and first[0, 0, 1].count_nonzero() == 8  # f′ = 1 there
    (second,) = torch.autograd.grad(first.square().sum(), query)
    assert second.isfinite().all() and second[0, 0, 0].count_nonzero() == 0


@pytest.mark.parametrize("mechanism", ["cog", "differential"])
def test_keys_that_no_query_sees_reach_no_derivative(mechanism):
    """NaN in padded keys and values, beyond first gradients too."""
    leaves, scale = leaves_of(mechanism)
    attend = called(mechanism, leaves, scale=scale, key_lengths=torch.tensor([3]))
    results = []
    for held in (0.0, math.nan):
        for name in ("key", "value"):
            with torch.no_grad():
                leaves[name][:, :, 3:] = held
        tensors = list(leaves.values())
        first = torch.autograd.grad(attend(*tensors).square().sum(), tensors, create_graph=True)
        second = torch.autograd.grad(sum(each.square().sum() for each in first), tensors)
        tangent = torch.func.jvp(attend, *2 * [tuple(tensor.detach() for tensor in tensors)])[1]
        results.append([*first, *second, tangent])
    for clean, dirty in zip(*results):
        assert torch.equal(clean, dirty)


@pytest.mark.parametrize("mechanism", ["cog", "differential", "centered", "matrix_exponential"])
def test_vmap_over_statistics_gives_what_a_loop_gives(mechanism):
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(3, 2, heads, 4, 8, generator=generator).double() for heads in (4, 4, 4))
    options = {"lam": torch.tensor([0.3, 0.5], dtype=torch.float64)} if mechanism == "differential" else {}
    value = value[:, :, :2] if options else value
    attend = lambda *tensors: cogwheel.attention_statistics(*tensors, mechanism, causal=True, **options)
    mapped, statistics = torch.func.vmap(attend)(query, key, value)
    for at, (output, expected) in enumerate(map(attend, query, key, value)):
        torch.testing.assert_close(mapped[at], output)
        for ours, theirs in zip(statistics, expected):
            torch.testing.assert_close(ours[at], theirs, equal_nan=True)  # the kurtosis of one key


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
def test_tangents_in_lower_precision(dtype, tolerance):
    leaves, scale = leaves_of("cog", Shape(2, 4, 2, 5, 7, 16, 3))
    tensors = tuple(leaf.detach() for leaf in leaves.values())
    attend = called("cog", leaves, scale=scale)
    lower = [tuple(x.to(dtype) for x in group) for group in (tensors, map(torch.ones_like, tensors))]
    exact = torch.func.jvp(attend, *(tuple(x.double() for x in group) for group in lower))[1]
    tangent = torch.func.jvp(attend, *lower)[1]
    assert tangent.dtype == dtype
    torch.testing.assert_close(tangent.double(), exact, rtol=tolerance, atol=tolerance * exact.abs().max().item())


def test_a_third_derivative_raises_in_one_line():
    leaves, scale = leaves_of("softmax")
    query, *others = leaves.values()
    derivative = cogwheel.attention(query, *others).sin().sum()
    for _ in range(2):
        derivative = torch.autograd.grad(derivative, query, create_graph=True)[0].sin().sum()
    with pytest.raises(NotImplementedError, match="^attention: derivative: expected the first or the second") as caught:
        torch.autograd.grad(derivative, query)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("changed", ["seed", "key_lengths", "key"])
def test_a_tensor_that_changes_before_backward_is_noticed(changed):
    leaves, _ = leaves_of("cog")
    others = {"key": leaves["key"].detach().clone(), "seed": torch.tensor(3), "key_lengths": torch.tensor([3])}
    out = cogwheel.attention(leaves["query"], others["key"], leaves["value"], "cog", dropout=0.2, **{
        name: tensor for name, tensor in others.items() if name != "key"
    })
    others[changed].add_(-1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_alibi_refuses_a_tangent_in_one_line():
    leaves, _ = leaves_of("softmax")
    tensors = [leaf.detach() for leaf in leaves.values()]
    slopes = torch.tensor([0.5, 0.25], dtype=torch.float64)
    with pytest.raises(ValueError, match="^attention: alibi: expected slopes without a tangent, got slopes with one$"):
        torch.func.jvp(lambda alibi: cogwheel.attention(*tensors, alibi=alibi), (slopes,), (slopes,))


def test_operators_of_second_derivatives_are_registered_as_pytorch_demands():
    score = torch.randn(1, 2, 3, 4, dtype=torch.float64, requires_grad=True)
    shift = torch.randn(1, 2, 3, 1, dtype=torch.float64, requires_grad=True)
    visible = torch.full((1, 1, 3, 1), 4.0, dtype=torch.float64)
    parameters = torch.rand(2, 1, dtype=torch.float64).add(0.5).requires_grad_()
    for function in ("terms", "normalizer"):
        for order in (0, 1):
            torch.library.opcheck(
                torch.ops.cogwheel.row_map.default,
                (score, shift, visible, parameters, "softmax_off_by_one", function, order),
            )


def cache_over(key, value, mechanism):
    cache = cogwheel.KeyValueCache(key.shape[0], key.shape[1], key.shape[2], key.shape[3], value_dim=value.shape[3], dtype=key.dtype)
    cache.append(key, value)
    return lambda query, **own: cache.attend(query, mechanism, **own)


@pytest.mark.parametrize("mechanism", ["cog", "norm", "softmax_off_by_one", "centered_cubic"])
@pytest.mark.parametrize("function", ["weights", "statistics", "drop-in", "cache"])
def test_every_function_agrees_with_finite_differences(function, mechanism):
    """Of odd sizes, once and twice, forward and backward, and for batches of gradients."""
    leaves, scale = leaves_of(mechanism, Shape(1, 2, 1, 3, 5, 9, 3))
    query, key, value = (leaves.pop(name) for name in ("query", "key", "value"))
    options = {} if mechanism == "norm" else {"scale": scale}
    calls = {
        "weights": (lambda q, k, **own: cogwheel.attention_weights(q, k, mechanism, causal=True, **options, **own), [query, key]),
        "statistics": (lambda q, k, v, **own: cogwheel.attention_statistics(q, k, v, mechanism, **options, **own)[0], [query, key, value]),
        "drop-in": (
            lambda q, k, v: cogwheel.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True, mechanism=mechanism, **options),
            [query, key, value],
        ),
        "cache": (lambda q, **own: cache_over(key.detach(), value.detach(), mechanism)(q, **options, **own), [query]),
    }
    call, given = calls[function]
    own = {} if function == "drop-in" else leaves
    inputs = [*given, *own.values()]

    def of_inputs(*x):
        return call(*x[: len(given)], **dict(zip(own, x[len(given) :])))

    assert torch.autograd.gradcheck(of_inputs, inputs, check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True, fast_mode=True)
    assert torch.autograd.gradgradcheck(of_inputs, inputs, check_fwd_over_rev=True, check_batched_grad=True, fast_mode=True)
