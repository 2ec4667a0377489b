"""Every option of the kernels' operators, in every direction: forward, backward, twice backward, tangents, statistics
and the cache, against one dense formula in float64. It fails if a direction forgets an option."""

import pytest
import torch
from pairwise_formula import (
    BATCH,
    CASES,
    DIFFERENTIABLE,
    HEADS,
    KEY_HEADS,
    KEYS,
    OF_FORWARD,
    OPERATOR,
    QUERIES,
    TENSORS,
    UNMODIFIED,
    VALUE_WIDTH,
    WIDTH,
    assert_statistics,
    called,
    dense_weights,
    each_case,
    inputs_of,
    mixture_of,
    random,
    visibility_mask,
    with_maps,
)
from torch import Tensor

import cogwheel


def test_every_option_has_a_case():
    def options(operator: object) -> set[str]:
        return {argument.name for argument in operator.default._schema.arguments} - TENSORS

    every = options(torch.ops.cogwheel.pairwise)
    assert every == set(UNMODIFIED)
    assert {name for name in every if name in CASES} == every - OF_FORWARD
    assert every - OF_FORWARD <= options(torch.ops.cogwheel.pairwise_backward)
    assert every - {"wide_output", "statistics"} <= options(torch.ops.cogwheel.mixture_statistics)


def assert_same_derivatives(ours, dense, tensors: list[Tensor], weigh=lambda output: output) -> None:
    """`weigh` selects the parts of an output that count."""
    directions = [random(*tensor.shape, seed=9).nan_to_num() for tensor in tensors]
    results = []
    for function in (ours, dense):
        leaves = [tensor.clone().requires_grad_() for tensor in tensors]
        output = weigh(function(*leaves))
        first = torch.autograd.grad((output * random(*output.shape, seed=8)).sum(), leaves, create_graph=True, materialize_grads=True)
        turned = sum((g * d).sum() for g, d in zip(first, directions))
        second = torch.autograd.grad(turned, leaves, materialize_grads=True)
        value, tangent = torch.func.jvp(function, tuple(tensors), tuple(directions))
        results.append([output, weigh(value), *first, *second, weigh(tangent)])
    names = ["output", "value beside the tangent", *("gradient",) * len(tensors), *("second derivative",) * len(tensors), "tangent"]
    for name, actual, expected in zip(names, *results):
        torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-10, msg=lambda text, name=name: f"{name}: {text}")


@each_case
def test_derivatives_are_those_of_the_formula(case, mechanism):
    options = UNMODIFIED | CASES[case]
    inputs = inputs_of(mechanism, options["sub_heads"]) | {
        name: options[name] for name in DIFFERENTIABLE if options[name] is not None
    }
    ours, dense = called(mechanism, list(inputs), options)
    # A bias of −∞ hides the key; it has no tangent.
    hidden = {name: torch.isinf(tensor) for name, tensor in inputs.items() if name.endswith("bias")}

    def hiding(function):
        return lambda *tensors: function(
            *(
                torch.where(hidden[name], -torch.inf, tensor) if name in hidden else tensor
                for name, tensor in zip(inputs, tensors)
            )
        )

    finite = [tensor.nan_to_num(neginf=0.0) for tensor in inputs.values()]
    assert_same_derivatives(hiding(ours), hiding(dense), finite)
    if case in UNMODIFIED:  # it matters
        less = {name: value for name, value in CASES[case].items() if name != case}
        less |= {"seed": torch.tensor(5)} if case == "seed" else {}
        kept = {name: tensor for name, tensor in inputs.items() if name != case}
        _, formula = called(mechanism, list(kept), UNMODIFIED | less)
        assert not torch.allclose(ours(*inputs.values()), formula(*kept.values()))


@each_case
def test_statistics_are_those_of_the_formula(case, mechanism):
    options = UNMODIFIED | CASES[case] | {"statistics": True, "argmax": True}
    inputs = inputs_of(mechanism, options["sub_heads"])
    _, shift, mass, rows = OPERATOR(*inputs.values(), mechanism, **options)
    weights = dense_weights(mechanism, inputs["query"], inputs["key"], inputs["parameters"], options)
    seen = visibility_mask(options)
    assert_statistics(rows, weights, seen)

    # Of a mixture: a second sweep.
    coefficient, mixed, seen = mixture_of(weights, options)
    taken = {name: value for name, value in options.items() if name not in ("wide_output", "statistics")}
    rows = torch.ops.cogwheel.mixture_statistics(*inputs.values(), shift, mass, coefficient, mechanism, **taken)
    assert_statistics(rows, mixed, seen)


# What `attend` of a cache takes, and the same as the kernels' operators have it.
OF_A_CACHE = {
    "nothing": ({}, {}),
    "scale": ({"scale": 0.9}, {"scale": 0.9}),
    "softcap": ({"softcap": 0.7}, {"softcap": 0.7}),
    "window": ({"window": 2}, {"window": 2}),
    "bias": ({"bias": random(HEADS, QUERIES, KEYS)}, {"bias": random(HEADS, QUERIES, KEYS)}),
    "energy_bias": ({"energy_bias": random(QUERIES, KEYS)}, {"energy_bias": random(QUERIES, KEYS)}),
    "alibi": ({"alibi": CASES["alibi"]["alibi"]}, {"alibi": CASES["alibi"]["alibi"]}),
    "additive score": (
        {"score": "additive", "score_weight": random(HEADS, WIDTH)}, {"score_weight": random(HEADS, WIDTH)},
    ),
    "dropout": ({"dropout": 0.4, "seed": 5}, {"dropout": 0.4, "seed": torch.tensor(5)}),
    "local-m": ({"local_radius": 1.5}, {"window": 2}),  # of a causal query
    "local-p": (
        {"local_radius": 40.0, "local_centers": 3 + random(BATCH, HEADS, QUERIES)},
        {"centers": 3 + random(BATCH, HEADS, QUERIES), "sigma": 20.0},
    ),
}  # fmt: skip


@with_maps(list(OF_A_CACHE), {"nothing", "local-p"})
def test_a_ragged_cache_has_the_derivatives_of_the_formula(case, mechanism):
    """Entries of unequal lengths, with fewer queries than rows: in the query, the sink, biases, centers and weights."""
    lengths, counts = torch.tensor([4, KEYS]), torch.tensor([1, QUERIES])
    given, options = OF_A_CACHE[case]
    options = UNMODIFIED | {
        "mask": "causal", "first_positions": lengths - counts, "key_lengths": lengths, "scale": 8**-0.5, **options
    }  # fmt: skip
    if case == "additive score":
        options["scale"] = 1.0
    inputs = inputs_of(mechanism, 1)
    cache = cogwheel.KeyValueCache(BATCH, KEY_HEADS, 9, WIDTH, VALUE_WIDTH, dtype=torch.float64)
    cache.append(inputs["key"], inputs["value"], lengths)
    moved = {"query": inputs["query"], "parameters": inputs["parameters"]} | {
        name: tensor for name, tensor in given.items() if name in (*DIFFERENTIABLE, "local_centers")
    }

    def attend(query, parameters, **more):
        sink = {"sink": parameters[:, 0]} if mechanism == "softmax_off_by_one" else {}
        return cache.attend(query, mechanism, query_lengths=counts, **given | more, **sink)

    def dense(query, parameters, **more):
        modified = options | {{"local_centers": "centers"}.get(name, name): tensor for name, tensor in more.items()}
        weights = dense_weights(mechanism, query, inputs["key"], parameters, modified)
        return weights @ inputs["value"].repeat_interleave(HEADS // KEY_HEADS, 1)

    counted = (torch.arange(QUERIES) < counts[:, None])[:, None, :, None]
    assert_same_derivatives(
        *(lambda *tensors, call=call: call(**dict(zip(moved, tensors))) for call in (attend, dense)),
        list(moved.values()),
        weigh=lambda output: torch.where(counted, output, 0.0),
    )


@pytest.mark.parametrize("case", ["mask", "dropout", "bias", "centers", "alibi"])
def test_no_keys_give_zero_in_every_direction(case):
    options = UNMODIFIED | CASES[case]
    for name in ("bias", "energy_bias"):
        options[name] = None if options[name] is None else options[name][..., :0]
    inputs = inputs_of("cog", 1)
    inputs |= {name: inputs[name][:, :, :0] for name in ("key", "value")}
    ours, _ = called("cog", list(inputs), options)
    tensors = tuple(inputs.values())
    for each in torch.func.jvp(ours, tensors, tuple(map(torch.ones_like, tensors))):
        assert each.shape == (BATCH, HEADS, QUERIES, VALUE_WIDTH) and each.count_nonzero() == 0


@pytest.mark.parametrize("queries, keys", [(5, 7), (6, 3)])
@pytest.mark.parametrize("score", ["dot", "cosine"])
def test_the_widest_window_is_none(queries, keys, score):
    """Sums of it and a position lie beyond 64 bits."""
    key = random(1, KEY_HEADS, keys, WIDTH, seed=2)

    def results(window: int | None) -> list[Tensor]:
        leaves = [random(1, HEADS, queries, WIDTH, seed=1).requires_grad_(), key.clone().requires_grad_()]
        output = cogwheel.attention(*leaves, key, "cog", causal=True, window=window, score=score)
        first = torch.autograd.grad(output.sin().sum(), leaves, create_graph=True)
        return [output, *first, *torch.autograd.grad(sum(each.square().sum() for each in first), leaves)]

    for found, expected in zip(results(2**63 - 1), results(None)):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("modifier", ["bias", "energy_bias"])
@pytest.mark.parametrize(
    "rule",
    [{"causal": True}, {"causal": True, "window": 4}, {"local_radius": 2.0}, {"causal": True, "cu_seqlens": torch.tensor([0, 3, 7])}],
    ids=["causal", "window", "local", "packed"],
)
@pytest.mark.parametrize("score", ["cosine", "concat"])
def test_what_a_rule_and_a_bias_hide_between_them_reaches_no_gradient(score, rule, modifier):
    """The last key, which the rule leaves to rows from which the bias takes it."""
    query = random(1, HEADS, KEYS, WIDTH, seed=1)
    key, hiding = random(1, KEY_HEADS, KEYS, WIDTH, seed=2), torch.zeros(KEYS, KEYS, dtype=torch.float64)
    hiding[KEYS - 1 if "causal" in rule else KEYS - 3 :, -1] = -torch.inf
    weights = {"score_weight": random(HEADS, 9), "score_projection": random(HEADS, 9, 2 * WIDTH)} if score == "concat" else {}

    def gradients(held: float) -> list[Tensor]:
        key[:, :, -1] = held
        leaves = [each.clone().requires_grad_() for each in (query, key, *weights.values())]
        output = cogwheel.attention(
            *leaves[:2], leaves[1], "cog", score=score, **rule, **{modifier: hiding}, **dict(zip(weights, leaves[2:]))
        )
        return list(torch.autograd.grad(output.sin().sum(), leaves))

    for found, expected in zip(gradients(torch.nan), gradients(0.0)):
        torch.testing.assert_close(found, expected)
