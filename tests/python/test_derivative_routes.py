"""Every function of the package by every route of torch.func: the derivatives of its dense float64 formula, or one line
that refuses; never another number."""

import functools

import pytest
import reference
import torch
from attention_cases import Shape, grid_inputs
from derivative_routes import ROUTES, SECOND, THIRD, of_vector
from recurrent_problem import LAWS, Problem, fused
from recurrent_reference import token_loop
from test_dense_mechanisms import COEFFICIENTS, expected_weights, scores
from test_soft_window import all_steps, by_formula

import cogwheel

SHAPE = Shape(1, 1, 1, 2, 3, 8, 1)
MAPS = (
    "softmax", "cog", "softmax_off_by_one", "relu", "cubic", "sigmoid", "consmax", "norm", "differential", "centered",
    "differential_sigmoid",
)  # fmt: skip


def drawn(*size, seed=0):
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def map_inputs(mechanism, shape=SHAPE):
    """On a grid no score is near 0, where maps have kinks; off it a little, so that no two are equal."""
    inputs = grid_inputs(mechanism, shape, largest_score=3.0).to(torch.float64)
    tensors = inputs.tensors() | {name: each + 1e-3 * drawn(*each.shape) for name, each in [("query", inputs.query), ("key", inputs.key)]}
    scale = 1.0 if mechanism == "norm" else inputs.true_scale
    return tensors, scale


def dense(mechanism, names, scale, visible, *, multiplier=1.0, values=True):
    """The formula: scores, what is added to them, the map, what multiplies its weights, values."""

    def output(*tensors):
        given = dict(zip(names, tensors))
        query, key, value = (given.pop(name, None) for name in ("query", "key", "value"))
        row = reference.row_of(mechanism)
        made = reference.sub_head_scores(mechanism, query, key, scale=scale)
        added = given.pop("bias", None)
        weights = multiplier * row.weights(made if added is None else made + added, visible, given)
        weights = torch.where(visible, weights, 0.0)
        return weights @ value if values else weights

    return output


def attention_case(mechanism, *, of=cogwheel.attention, values=True, visible=None, multiplier=1.0, extra=None, shape=SHAPE, **options):
    tensors, scale = map_inputs(mechanism, shape)
    if not values:
        tensors = {name: each for name, each in tensors.items() if name != "value"}
    tensors |= extra or {}
    if visible is None:
        visible = reference.visible_keys(shape.queries, shape.keys, True)
        options["causal"] = True

    def ours(*given):
        return of(mechanism=mechanism, scale=None if mechanism == "norm" else scale, **options, **dict(zip(tensors, given)))

    multiplier = multiplier() if callable(multiplier) else multiplier
    formula = dense(mechanism, tensors, scale, visible, multiplier=multiplier, values=values)
    return ours, formula, list(tensors.values())


def statistics(*given, **options):
    return cogwheel.attention_statistics(*given, **options)[0]


def dropped():
    """What dropout multiplies weights by: that of equal weights, times their number."""
    query, key = drawn(1, 1, 2, 8), drawn(1, 1, 3, 8)
    return 3 * cogwheel.attention_weights(query, key, "uniform", dropout=0.4, seed=5)


def packed():
    ends = torch.tensor([0, 2, 3])
    own = torch.bucketize(torch.arange(3), ends[1:], right=True)
    return {"cu_seqlens": ends, "visible": own[:, None] == own[None], "shape": Shape(1, 1, 1, 3, 3, 8, 1)}


EVERY = torch.ones(2, 3, dtype=torch.bool)
SHORT = torch.tensor([[True, True, False]] * 2)
LAST_TWO = torch.tensor([[True, True, False], [False, True, True]])


def scored_case(score, of_scores, extra, **options):
    """Scores other than the product, under softmax."""
    tensors = {"query": drawn(1, 1, 2, 8), "key": drawn(1, 1, 3, 8, seed=1), "value": drawn(1, 1, 3, 2, seed=2)} | extra

    def ours(*given):
        return cogwheel.attention(score=score, **options, **dict(zip(tensors, given)))

    def formula(query, key, value, *weights):
        return of_scores(query, key, *weights).softmax(-1) @ value

    return ours, formula, list(tensors.values())


def unit_rows(x):
    return x / x.square().sum(-1, keepdim=True).sqrt()


def additive(query, key, weight):
    return (torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3)) * weight[:, None, None]).sum(-1)


def centers_case():
    centers = torch.tensor([[[0.9, 1.2]]], dtype=torch.float64)  # three keys are within 2 of both
    ours, _, tensors = attention_case("softmax", visible=EVERY, local_radius=2.0, extra={"local_centers": centers})
    scale = map_inputs("softmax")[1]

    def formula(query, key, value, centers):
        window = torch.exp(-((torch.arange(3) - centers.unsqueeze(-1)) ** 2) / 2)
        return ((scale * query @ key.mT).softmax(-1) * window) @ value

    return ours, formula, tensors


def energy_case():
    tensors, scale = map_inputs("cog")
    tensors["energy_bias"] = 0.3 * drawn(2, 3, seed=7)

    def ours(*given):
        return cogwheel.attention(mechanism="cog", scale=scale, **dict(zip(tensors, given)))

    def formula(query, key, value, bias):
        score = scale * query @ key.mT
        sign = score.sign().detach()
        powers = torch.exp(sign * score + bias)
        return (sign * powers / powers.sum(-1, keepdim=True)) @ value

    return ours, formula, list(tensors.values())


def drop_in_case(mechanism):
    tensors, scale = map_inputs(mechanism)
    mask = 0.3 * drawn(2, 3, seed=3)

    def ours(query, key, value):
        return cogwheel.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale, mechanism=mechanism)

    def formula(query, key, value):
        return dense(mechanism, ("query", "key", "value", "bias"), scale, EVERY)(query, key, value, mask)

    return ours, formula, [tensors[name] for name in ("query", "key", "value")]


def cache_case():
    tensors, scale = map_inputs("cog")
    key, value = tensors["key"], tensors["value"]

    def ours(query):
        cache = cogwheel.KeyValueCache(1, 1, 3, 8, value_dim=1, dtype=torch.float64)
        cache.append(key, value)
        return cache.attend(query, "cog", scale=scale)

    def formula(query):
        return dense("cog", ("query", "key", "value"), scale, reference.visible_keys(2, 3, True))(query, key, value)

    return ours, formula, [tensors["query"]]


def matrix_case(form, values):
    query, key, value = (0.8 * drawn(1, 1, 3, width, seed=seed) for seed, width in enumerate((8, 8, 2)))
    own = {name: each[:1] for name, each in COEFFICIENTS.items()} if form == "polynomial" else {}
    tensors = [query, key, *([value] if values else []), *own.values()]

    def ours(query, key, *rest):
        options = dict(zip(own, rest[values:]))
        if not values:
            return cogwheel.attention_weights(query, key, form, causal=True, **options)
        return cogwheel.attention(query, key, rest[0], form, causal=True, **options)

    def formula(query, key, *rest):
        weights = expected_weights(form, scores(query, key), True, dict(zip(own, rest[values:])))
        return weights @ rest[0] if values else weights

    return ours, formula, tensors


def window_case(steps):
    sizes = (1, 2) if steps is None else (1, steps, 2)
    alpha, beta, kappa = (drawn(*sizes, seed=seed).exp() for seed in range(3))
    values, lengths = drawn(1, 4, 2, seed=3), torch.tensor([3])

    def both(made):
        return torch.cat([each.flatten() for each in made])

    def ours(*given):
        return both(cogwheel.soft_window(*given, lengths))

    def formula(*given):
        return both(all_steps(by_formula, *given, lengths))

    return ours, formula, [alpha, beta, kappa, values]


def law_case(case, of="recurrent"):
    problem = Problem(case, 3, batch=1, heads=1, width=2, value_width=2)
    names = list(problem.inputs)

    def by(function):
        def output(*given):
            inputs = dict(zip(names, given))
            if of == "recurrent" or function is token_loop:
                return problem.call(function, inputs)[0]
            query, key, value = (inputs.pop(name, None) for name in ("query", "key", "value"))
            if of == "statistics":
                return cogwheel.recurrent_statistics(query, key, value, problem.law, **inputs, **problem.options)[0]
            if of == "weights":
                return cogwheel.recurrent_weights(query, key, problem.law, **inputs, **problem.options) @ value
            cache = cogwheel.RecurrentCache(problem.law, 1, 1, 2, dtype=torch.float64)
            return cache.attend(query, key, value, **inputs, **problem.options)

        return output

    return by(fused), by(token_loop), list(problem.inputs.values())


def layer_case(name):
    operators = torch.ops.cogwheel
    if name == "norm_of_sum":
        def formula(x, weight):
            return weight * x / (x.square().mean(-1, keepdim=True) + 1e-2).sqrt()
        return lambda x, weight: operators.norm_of_sum(x, None, weight, None, False, 1e-2)[0], formula, [drawn(3, 4), drawn(4, seed=1)]
    if name == "vector_length":
        return operators.vector_length, lambda x: x.square().sum(-1, keepdim=True).sqrt(), [drawn(3, 4)]
    if name == "matrix_product":
        return operators.matrix_product, lambda x, w, b: x @ w.mT + b, [drawn(3, 4), drawn(2, 4, seed=1), drawn(2, seed=2)]
    if name == "dropout":
        kept = operators.dropout(torch.ones(3, 4, dtype=torch.float64), 0.4, 11)
        return lambda x: operators.dropout(x.sin(), 0.4, 11), lambda x: kept * x.sin(), [drawn(3, 4)]
    if name == "rotary":
        table = drawn(2, 3, 2, seed=4)
        def formula(x):
            even, odd = x[..., ::2], x[..., 1::2]
            cosine, sine = table[:, :, None]  # of each token, for all heads
            return torch.stack([even * cosine - odd * sine, odd * cosine + even * sine], -1).flatten(-2)
        return lambda x: operators.rotary(x.sin(), table, None, 0), lambda x: formula(x.sin()), [drawn(1, 3, 1, 4)]
    raise KeyError(name)


def lstm(projected, products, hidden, memory):
    i, f, g, o = (projected + products).chunk(4, -1)
    memory = f.sigmoid() * memory + i.sigmoid() * g.tanh()
    return o.sigmoid() * memory.tanh(), memory


def gru(projected, products, hidden, memory):
    (r, z, n), (of_r, of_z, of_n) = projected.chunk(3, -1), products.chunk(3, -1)
    keep = (z + of_z).sigmoid()
    return (1 - keep) * (n + (r + of_r).sigmoid() * of_n).tanh() + keep * hidden, memory


def gated_case(cell, one_token):
    step, parts = {"lstm": (lstm, 4), "gru": (gru, 3)}[cell]
    width, tokens = 2, 1 if one_token else 2
    x, weight, bias = drawn(tokens, 1, parts * width), drawn(parts * width, width, seed=1), drawn(parts * width, seed=2)
    hidden = drawn(1, width, seed=3)
    memory = [drawn(1, width, seed=4)] if cell == "lstm" else []

    def ours(x, weight, bias, hidden, *memory):
        given = memory[0] if memory else None
        if one_token:
            products = torch.nn.functional.linear(hidden, weight, bias)
            made = torch.ops.cogwheel.gated_cell(x[0], products, hidden, given, cell)[: 1 + len(memory)]
        else:
            made = torch.ops.cogwheel.gated_sequence(x, weight, bias, hidden, given, None, cell)[: 2 + len(memory)]
        return torch.cat([each.flatten() for each in made])

    def formula(x, weight, bias, hidden, *memory):
        rest, outputs = memory[0] if memory else None, []
        for each in x:
            hidden, rest = step(each, torch.nn.functional.linear(hidden, weight, bias), hidden, rest)
            outputs.append(hidden)
        made = [*([] if one_token else [torch.stack(outputs)]), hidden, *([rest] if memory else [])]
        return torch.cat([each.flatten() for each in made])

    return ours, formula, [x, weight, bias, hidden, *memory]


CASES = {
    **{f"attention {name}": functools.partial(attention_case, name) for name in MAPS},
    **{f"weights {name}": functools.partial(attention_case, name, of=cogwheel.attention_weights, values=False) for name in MAPS},
    **{f"statistics {name}": functools.partial(attention_case, name, of=statistics) for name in ("cog", "differential", "centered")},
    **{
        f"{what} with {name}": functools.partial(attention_case, mechanism, of=of, values=values, **options)
        for what, of, values in (("attention", cogwheel.attention, True), ("weights", cogwheel.attention_weights, False))
        for name, mechanism, options in (
            ("bias", "cog", {"visible": EVERY, "extra": {"bias": 0.1 * drawn(2, 3, seed=6)}}),
            ("key_lengths", "softmax", {"visible": SHORT, "key_lengths": torch.tensor([2])}),
            ("window", "cog", {"visible": LAST_TWO, "causal": True, "window": 2}),
            ("dropout", "softmax_off_by_one", {"visible": EVERY, "multiplier": dropped, "dropout": 0.4, "seed": 5}),
        )
    },
    "attention with cu_seqlens": lambda: attention_case("cog", **packed()),
    "weights with cu_seqlens": lambda: attention_case("cog", of=cogwheel.attention_weights, values=False, **packed()),
    "attention with energy_bias": energy_case,
    "attention with local_centers": centers_case,
    "additive scores": lambda: scored_case("additive", additive, {"score_weight": drawn(1, 8, seed=3)}),
    "cosine scores": lambda: scored_case("cosine", lambda q, k: unit_rows(q) @ unit_rows(k).mT, {}),
    "general scores": lambda: scored_case("general", lambda q, k, w: 0.125 * q @ w @ k.mT, {"score_weight": drawn(1, 8, 8, seed=3)}, scale=0.125),
    "drop-in softmax": lambda: drop_in_case("softmax"),
    "drop-in cog": lambda: drop_in_case("cog"),
    "cache": cache_case,
    **{f"matrix {form}": functools.partial(matrix_case, form, True) for form in ("polynomial", "matrix_exponential", "simple_norm_by_row")},
    **{f"matrix weights {form}": functools.partial(matrix_case, form, False) for form in ("polynomial", "matrix_exponential_by_row", "simple_norm_by_matrix")},
    "soft_window": lambda: window_case(None),
    "soft_window of steps": lambda: window_case(2),
    **{f"law {name}": functools.partial(law_case, name) for name in LAWS if "scaled" not in name},
    **{f"{of} of law {name}": functools.partial(law_case, name, of) for of in ("weights", "statistics", "cache") for name in ("gla", "linear_elu_normalized")},
    **{f"layer {name}": functools.partial(layer_case, name) for name in ("norm_of_sum", "vector_length", "matrix_product", "dropout", "rotary")},
    **{
        f"layer {cell} {what}": functools.partial(gated_case, cell, what == "cell")
        for cell in ("lstm", "gru")
        for what in ("cell", "sequence")
    },
}  # fmt: skip

REFUSALS = (
    "attention: derivative: expected the first or the second, got a higher one",
    "recurrent: derivatives: expected first ones, by a backward pass, got ",
)


def may_refuse(case, route):
    if "law" in case:
        return route in SECOND or route in THIRD or "jvp" in route or route == "jacfwd"
    return route in THIRD and not case.startswith(("soft_window", "matrix", "layer"))


@functools.cache
def numbers_of(case):
    made = CASES[case]()
    ours, formula, tensors = made
    return (*(of_vector(function, tensors)[0] for function in (ours, formula)), of_vector(ours, tensors)[1])


@pytest.mark.diagonal
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("case", CASES)
def test_a_route_is_right_or_refused(case, route):
    ours, formula, x = numbers_of(case)
    differentiate = ROUTES[route]
    try:
        found = differentiate(ours)(x)
    except NotImplementedError as error:
        assert may_refuse(case, route) and str(error).startswith(REFUSALS) and "\n" not in str(error)
        return
    expected = differentiate(formula)(x)
    assert not found.requires_grad
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-9 * (1 + expected.abs().max().item()))


@pytest.mark.parametrize("case", ["attention norm", "weights norm", "cosine scores"])
def test_third_derivatives_of_cosines_are_refused_in_one_line(case):
    ours, _, x = numbers_of(case)
    for route in THIRD:
        with pytest.raises(NotImplementedError, match=f"^{REFUSALS[0]}$"):
            ROUTES[route](ours)(x)


def slopes_at_two_levels(transform):
    """alibi's slopes belong to the level around the one that differentiates the query."""
    query, key, value = drawn(1, 2, 3, 8), drawn(1, 2, 3, 8, seed=1), drawn(1, 2, 3, 2, seed=2)

    def gradient(slopes):
        return torch.func.grad(lambda query: cogwheel.attention(query, key, value, alibi=slopes).sum())(query).square().sum()

    return transform(gradient)(torch.tensor([0.5, 0.25], dtype=torch.float64))


@pytest.mark.parametrize(
    "transform, got",
    [
        (torch.func.grad, "that need no gradient, got slopes that need one"),
        (torch.func.jacrev, "that need no gradient, got slopes that need one"),
        (lambda f: lambda x: torch.func.jvp(f, (x,), (x,)), "without a tangent, got slopes with one"),
    ],
)
def test_slopes_are_refused_at_every_level(transform, got):
    with pytest.raises(ValueError, match=f"^attention: alibi: expected slopes {got}$"):
        slopes_at_two_levels(transform)


def test_slopes_that_could_need_a_gradient_serve_where_none_is_recorded():
    query, slopes = drawn(1, 2, 3, 8), torch.tensor([0.5, 0.25], dtype=torch.float64)
    with torch.no_grad():
        found = cogwheel.attention(query, query, query, alibi=slopes.clone().requires_grad_())
    assert torch.equal(found, cogwheel.attention(query, query, query, alibi=slopes))


def test_a_pullback_used_after_all_levels_have_ended_leaves_no_graph():
    query, key = drawn(1, 1, 2, 8), drawn(1, 1, 3, 8, seed=1)
    loss = lambda query, key: cogwheel.attention_weights(query, key, "cog").sin().sum()
    formula = lambda query, key: dense("cog", ("query", "key"), 1 / 8**0.5, EVERY, values=False)(query, key).sin().sum()
    directions = drawn(1, 1, 2, 8, seed=2)
    for_key = key.clone().requires_grad_()  # which belongs to ordinary autograd
    for needs in (False, True):
        pulled = []
        for function in (loss, formula):
            held = for_key if needs else key
            _, pull = torch.func.vjp(torch.func.grad(lambda query, function=function: function(query, held)), query)
            (found,) = pull(directions)
            assert found.requires_grad == needs
            pulled.append(found)
        torch.testing.assert_close(*pulled)


def test_weights_take_no_square_of_the_keys():
    """One query over 300,000 keys: an identity beside them would be 360 GB."""
    query, key = (torch.randn(1, 1, size, 8, requires_grad=True) for size in (1, 300_000))
    weights = cogwheel.attention_weights(query, key, "cog")
    assert weights.shape == (1, 1, 1, 300_000)
    torch.testing.assert_close(weights.abs().sum(), torch.tensor(1.0))
    weights[..., 7].sum().backward()
    assert key.grad.isfinite().all() and query.grad.count_nonzero() == 8
