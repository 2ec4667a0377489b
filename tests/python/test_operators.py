"""The operators as PyTorch sees them: registration, derivatives, compilation, shapes without data, and refusals."""

import pytest
import reference
import torch
from attention_cases import Shape, grid_inputs, operator_results, random_inputs

import cogwheel

MECHANISMS = sorted(reference.TABLE)
SMALL = Shape(2, 4, 2, 5, 7, 8, 3)

each_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS)
each_visibility = pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])


def leaves_of(mechanism, shape=SMALL, dtype=torch.float64):
    inputs = random_inputs(mechanism, shape).to(dtype)
    return {name: tensor.requires_grad_() for name, tensor in inputs.tensors().items()}


def as_lists(parameters):
    return {"parameters": list(parameters.values()), "parameter_names": list(parameters)}


@pytest.mark.one_of_each_kind
@pytest.mark.diagonal
@each_visibility
@each_mechanism
def test_attention_is_registered_as_pytorch_demands(mechanism, causal):
    leaves = leaves_of(mechanism)
    tensors, parameters = list(leaves.values())[:3], {name: leaves[name] for name in list(leaves)[3:]}
    torch.library.opcheck(
        torch.ops.cogwheel.attention.default, (*tensors, mechanism), {"causal": causal, **as_lists(parameters)}
    )


@pytest.mark.one_of_each_kind
@each_mechanism
def test_attention_weights_is_registered_as_pytorch_demands(mechanism):
    leaves = leaves_of(mechanism)
    parameters = {name: leaves[name] for name in list(leaves)[3:]}
    torch.library.opcheck(
        torch.ops.cogwheel.attention_weights.default, (leaves["query"], leaves["key"], mechanism), as_lists(parameters)
    )


@pytest.mark.parametrize("mechanism", ["softmax", "cog"])
def test_scaled_dot_product_attention_is_registered_as_pytorch_demands(mechanism):
    torch.library.opcheck(
        torch.ops.cogwheel.scaled_dot_product_attention.default,
        (*leaves_of(mechanism).values(), mechanism),
        {"is_causal": True, "enable_gqa": True},
    )


@pytest.mark.parametrize("row_map, sub_heads", [("softmax", 1), ("softmax", 2), ("cog", 1), ("consmax", 1)])
@pytest.mark.parametrize("additive", [False, True], ids=["product", "additive"])
def test_kernel_operators_are_registered_as_pytorch_demands(row_map, sub_heads, additive):
    leaves = leaves_of("differential" if sub_heads == 2 else row_map)
    tensors = [leaves[name] for name in ("query", "key", "value")]
    heads = tensors[0].shape[1]
    columns = [leaves[name] for name in leaves if name in ("beta", "gamma")]
    parameters = torch.stack(columns, -1) if columns else torch.empty(heads, 0, dtype=torch.float64)
    tensors.append(parameters.detach().requires_grad_())
    bias, lengths, seed = torch.randn(5, 7, dtype=torch.float64), torch.tensor([4, 7]), torch.tensor(3)
    score_weight = torch.randn(heads, 8, dtype=torch.float64) if additive else None
    options = {
        "scale": 0.3, "mask": "causal", "window": 3, "sub_heads": sub_heads, "key_lengths": lengths, "bias": bias,
        "dropout": 0.1, "seed": seed, "score_weight": score_weight,
    }  # fmt: skip
    torch.library.opcheck(torch.ops.cogwheel.pairwise.default, (*tensors, row_map), options)
    detached = [tensor.detach() for tensor in tensors]
    outputs = torch.ops.cogwheel.pairwise(*detached, row_map, **options)
    torch.library.opcheck(
        torch.ops.cogwheel.pairwise_backward.default,
        (torch.ones_like(outputs[0]), *detached, *outputs[:3], row_map),
        {"bias_wanted": True, "score_weight_wanted": additive, **options},
    )

    coefficient = -torch.ones(2, 1, 1, dtype=torch.float64) if sub_heads == 2 else None
    options["key_lengths"] = torch.tensor([6, 7])  # every query sees two keys: opcheck takes no NaN, as a kurtosis of one is
    _, shift, mass, _ = torch.ops.cogwheel.pairwise(*detached, row_map, **options)
    torch.library.opcheck(
        torch.ops.cogwheel.mixture_statistics.default,
        (*detached, shift, mass, coefficient, row_map),
        {"argmax": True, **options},
        test_utils=("test_schema", "test_faketensor", "test_aot_dispatch_dynamic"),
    )


def test_tables_of_ranges_are_registered_as_pytorch_demands():
    torch.library.opcheck(torch.ops.cogwheel.packed_ranges.default, (torch.tensor([0, 3, 9]), 9, True, 2))
    centers = torch.rand(2, 3, 5, dtype=torch.float64)
    torch.library.opcheck(torch.ops.cogwheel.local_ranges.default, (centers, 7, 2.0, True, 2, torch.tensor([4, 7])))


def test_what_a_cache_is_made_of_is_registered_as_pytorch_demands():
    lengths = torch.tensor([3, 5])
    torch.library.opcheck(torch.ops.cogwheel.cache_positions.default, (lengths, torch.tensor([1, 2]), 2, 5))
    torch.library.opcheck(torch.ops.cogwheel.cache_positions.default, (lengths, None, 2, 5))
    torch.library.opcheck(torch.ops.cogwheel.unwritten_zeros.default, ([2, 3],), {"dtype": torch.float64})
    key = torch.randn(2, 1, 5, 8, dtype=torch.float64)
    torch.library.opcheck(
        torch.ops.cogwheel.cache_attend.default,
        (torch.randn(2, 2, 2, 8, dtype=torch.float64, requires_grad=True), key, key, lengths, None, "cog"),
        {"parameters": [], "parameter_names": []},
    )


def test_products_are_registered_as_pytorch_demands():
    a, b = (torch.randn(*size, dtype=torch.float64, requires_grad=True) for size in ((3, 2, 4), (3, 4, 5)))
    torch.library.opcheck(torch.ops.cogwheel.batched_product.default, (a, b))
    product = torch.ops.cogwheel.batched_product
    assert torch.autograd.gradcheck(product, (a, b), check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(product, (a, b), check_fwd_over_rev=True)


def test_vmap_has_a_rule_for_every_operator_with_derivatives():
    ours = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("cogwheel::")]
    rules = {name: torch._C._dispatch_dump(name) for name in ours}
    with_derivatives = [name for name in ours if "\nAutograd[alias]: " in rules[name]]
    assert len(with_derivatives) > 20
    assert not [name for name in with_derivatives if "\nFuncTorchBatched: " not in rules[name]]


def test_lengths_are_registered_as_pytorch_demands():
    x = torch.randn(3, 5, dtype=torch.float64)
    length, own = torch.ops.cogwheel.vector_length, x.clone().requires_grad_()
    torch.library.opcheck(length.default, (own,))
    assert torch.autograd.gradcheck(length, own, check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True)
    assert torch.autograd.gradgradcheck(length, own, check_fwd_over_rev=True, check_rev_over_rev=True)
    # The bits of ATen's, of vectors of length 0 too, which have no direction.
    x = torch.cat([x, torch.zeros(1, 5), 1e-200 * x[:1]])
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        mine, atens = (x.to(dtype, copy=True).requires_grad_() for _ in range(2))
        made, expected = length(mine), torch.linalg.vector_norm(atens, dim=-1, keepdim=True)
        assert torch.equal(made, expected)
        for each in (made, expected):
            each.backward(torch.arange(1, 6, dtype=dtype)[:, None])
        assert torch.equal(mine.grad, atens.grad)


def test_subtracting_sub_heads_is_registered_as_pytorch_demands():
    output = torch.randn(2, 6, 5, 7, dtype=torch.float64, requires_grad=True)
    for shape in ((1, 3, 1), (2, 1, 5), (2, 3, 5)):
        coefficient = torch.rand(shape, dtype=torch.float64, requires_grad=True)
        torch.library.opcheck(torch.ops.cogwheel.subtract_sub_heads.default, (output, coefficient))
        torch.library.opcheck(
            torch.ops.cogwheel.subtract_sub_heads_backward.default,
            (torch.randn(2, 3, 5, 7, dtype=torch.float64), output.detach(), coefficient.detach()),
        )


@pytest.mark.diagonal
@pytest.mark.parametrize("queries, keys", [(5, 7), (7, 5), (1, 6)])
@each_visibility
@each_mechanism
def test_gradients_agree_with_finite_differences(mechanism, causal, queries, keys, fast_mode):
    leaves = leaves_of(mechanism, Shape(2, 4, 2, queries, keys, 8, 3))
    names = list(leaves)

    def attention(*tensors):
        return cogwheel.attention(mechanism=mechanism, causal=causal, **dict(zip(names, tensors)))

    assert torch.autograd.gradcheck(attention, list(leaves.values()), fast_mode=fast_mode)


@pytest.mark.one_of_each_kind
@each_mechanism
def test_gradients_of_weights_agree_with_finite_differences(mechanism, fast_mode):
    leaves = leaves_of(mechanism)
    del leaves["value"]
    names = list(leaves)

    def attention_weights(*tensors):
        return cogwheel.attention_weights(mechanism=mechanism, causal=True, **dict(zip(names, tensors)))

    assert torch.autograd.gradcheck(attention_weights, list(leaves.values()), fast_mode=fast_mode)


@pytest.mark.parametrize("mechanism", ["softmax", "cog"])
def test_gradients_of_the_drop_in_agree_with_finite_differences(mechanism, fast_mode):
    leaves = leaves_of(mechanism)

    def attend(query, key, value):
        return cogwheel.scaled_dot_product_attention(
            query, key, value, is_causal=True, enable_gqa=True, mechanism=mechanism
        )

    assert torch.autograd.gradcheck(attend, list(leaves.values()), fast_mode=fast_mode)


@pytest.mark.parametrize("wanted", ["query", "key", "value", "lam"])
@each_mechanism
def test_each_gradient_alone_is_the_same(mechanism, wanted):
    inputs = grid_inputs(mechanism, Shape(2, 4, 2, 65, 70, 16, 24))
    if wanted not in inputs.tensors():
        pytest.skip(f"{mechanism} has no parameter {wanted}")
    everything = operator_results(mechanism, inputs, causal=True)
    tensors = {name: tensor.detach().clone() for name, tensor in inputs.tensors().items()}
    tensors[wanted].requires_grad_()
    out = cogwheel.attention(mechanism=mechanism, causal=True, scale=inputs.scale, **tensors)
    out.backward(inputs.output_gradient)
    assert torch.equal(tensors[wanted].grad, everything[wanted])
    assert all(tensor.grad is None for name, tensor in tensors.items() if name != wanted)


@pytest.mark.one_of_each_kind
@pytest.mark.diagonal
@pytest.mark.parametrize(
    "mechanism, dynamic",
    [("softmax", False), ("differential", False), *((mechanism, True) for mechanism in MECHANISMS)],
)
def test_compiles_as_one_graph(mechanism, dynamic):
    def step(leaves):
        return cogwheel.attention(mechanism=mechanism, causal=True, **leaves).sin()

    # The tracing is what can fail here, so the compiled graph is run by PyTorch itself; inductor has its own test.
    compiled = torch.compile(step, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for queries in (17, 33):
        leaves = leaves_of(mechanism, Shape(2, 4, 2, queries, 40, 16, 24), torch.float32)
        expected = step(leaves)
        actual = compiled(leaves)
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-6)
        gradients = [
            torch.autograd.grad(output.square().sum(), list(leaves.values())) for output in (actual, expected)
        ]
        for ours, theirs in zip(*gradients):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    torch.compiler.reset()


@pytest.mark.skipif(" " in torch.__file__, reason="torch's inductor does not quote its own path, which has a space here")
def test_compiles_with_inductor():
    def step(query, key, value):
        return cogwheel.attention(query.cos(), key, value, "cog", causal=True).sin() + 1

    leaves = list(leaves_of("cog", dtype=torch.float32).values())
    actual = torch.compile(step, fullgraph=True)(*leaves)
    torch.testing.assert_close(actual, step(*leaves), rtol=1e-5, atol=1e-5)
    torch.compiler.reset()


@each_mechanism
def test_shapes_without_data(mechanism):
    inputs = {name: tensor.detach().to("meta") for name, tensor in leaves_of(mechanism).items()}
    out = cogwheel.attention(mechanism=mechanism, **inputs)
    assert out.device.type == "meta" and out.shape == (2, 4, 5, 3) and out.dtype == torch.float64
    del inputs["value"]
    assert cogwheel.attention_weights(mechanism=mechanism, **inputs).shape == (2, 4, 5, 7)


@pytest.mark.parametrize(
    "shape",
    [Shape(0, 4, 2, 5, 7, 8, 3), Shape(2, 4, 2, 0, 7, 8, 3), Shape(2, 4, 2, 5, 0, 8, 3), Shape(2, 4, 2, 0, 0, 8, 3)],
    ids=str,
)
@each_visibility
@each_mechanism
def test_nothing_in_gives_nothing_or_zero(mechanism, causal, shape):
    row = reference.TABLE[mechanism]
    leaves = {
        "query": torch.ones(shape.batch, row.sub_heads * shape.heads, shape.queries, shape.head_dim),
        "key": torch.ones(shape.batch, row.sub_heads * shape.key_heads, shape.keys, shape.head_dim),
        "value": torch.ones(shape.batch, shape.key_heads, shape.keys, shape.value_dim),
        **{
            name: torch.full_like(draw(torch.Generator(), shape.heads), 0.5, dtype=torch.float32)
            for name, draw in (row.parameters or {}).items()
        },
    }
    for tensor in leaves.values():
        tensor.requires_grad_()
    out = cogwheel.attention(mechanism=mechanism, causal=causal, **leaves)
    assert out.shape == (shape.batch, shape.heads, shape.queries, shape.value_dim)
    assert out.count_nonzero() == 0
    gradients = torch.autograd.grad(out, list(leaves.values()), torch.ones_like(out))
    for leaf, gradient in zip(leaves.values(), gradients):
        assert gradient.shape == leaf.shape and gradient.count_nonzero() == 0
    weights = cogwheel.attention_weights(
        leaves["query"], leaves["key"], mechanism, **{name: leaves[name] for name in row.parameters or {}}
    )
    assert weights.shape == (shape.batch, shape.heads, shape.queries, shape.keys)


def tensors(query=(1, 4, 5, 16), key=(1, 2, 7, 16), value=(1, 2, 7, 3)):
    return [torch.zeros(shape) for shape in (query, key, value)]


REFUSALS = {
    "three dimensions": (lambda: tensors(query=(4, 5, 16)), {}, ["query", "4 dimensions", "[4, 5, 16]"]),
    "head_dim too small": (lambda: tensors((1, 4, 5, 4), (1, 2, 7, 4)), {}, ["head_dim", "8 to 1024", "4"]),
    "head_dim too large": (lambda: tensors((1, 4, 5, 1025), (1, 2, 7, 1025)), {}, ["head_dim", "8 to 1024", "1025"]),
    "head_dim differs": (lambda: tensors(key=(1, 2, 7, 24)), {}, ["key head_dim", "16 (as query)", "24"]),
    "batch differs": (lambda: tensors(key=(3, 2, 7, 16)), {}, ["key batch", "1 (as query)", "3"]),
    "heads do not divide": (lambda: tensors(key=(1, 3, 7, 16)), {}, ["key heads", "divisor", "4", "3"]),
    "no key heads": (lambda: tensors(key=(1, 0, 7, 16), value=(1, 0, 7, 3)), {}, ["key heads", "0"]),
    "value heads differ": (lambda: tensors(value=(1, 4, 7, 3)), {}, ["value heads", "2 (as key)", "4"]),
    "value length differs": (lambda: tensors(value=(1, 2, 8, 3)), {}, ["value length", "7 (as key)", "8"]),
    "value without width": (lambda: tensors(value=(1, 2, 7, 0)), {}, ["value width", "0"]),
    "integers": (lambda: [tensor.long() for tensor in tensors()], {}, ["query dtype", "float32, float64, bfloat16 or float16", "Long"]),
    "one of them in half precision": (
        lambda: [tensor.half() if i == 2 else tensor for i, tensor in enumerate(tensors())],
        {},
        ["value dtype", "Float (as query)", "Half"],
    ),
    "mixed dtypes": (
        lambda: [tensor.to(dtype) for tensor, dtype in zip(tensors(), (torch.float32, torch.float64, torch.float32))],
        {},
        ["key dtype", "Float (as query)", "Double"],
    ),
    "mixed devices": (
        lambda: [tensor.to(device) for tensor, device in zip(tensors(), ("cpu", "cpu", "meta"))],
        {},
        ["value device", "cpu (as query)", "meta"],
    ),
    "infinite scale": (tensors, {"scale": float("inf")}, ["scale", "finite", "inf"]),
    "a layer": (tensors, {"mechanism": "symmetric"}, ["mechanism", "symmetric", "layer"]),
    "a layer over another map": (tensors, {"mechanism": "symmetric_cog"}, ["mechanism", "symmetric_cog", "layer"]),
    "a form of a map that ignores scores": (tensors, {"mechanism": "centered_uniform"}, ["expected centered"]),
    "a misspelt composition": (tensors, {"mechanism": "diferential_cog"}, ["expected differential_cog"]),
    "a misspelt name": (tensors, {"mechanism": "softmaxx"}, ["mechanism", "softmax", "softmaxx"]),
    "another misspelt name": (tensors, {"mechanism": "Diferential"}, ["mechanism", "differential", "Diferential"]),
    "differential without lam": (
        lambda: tensors((1, 8, 5, 16), (1, 4, 7, 16)),
        {"mechanism": "differential"},
        ["lam", "[H]", "nothing"],
    ),
    "differential with an odd number of sub-heads": (
        lambda: tensors((1, 3, 5, 16), (1, 2, 7, 16), (1, 1, 7, 3)),
        {"mechanism": "differential", "lam": torch.zeros(1)},
        ["query heads", "multiple of 2", "3"],
    ),
    "lam of another length": (
        lambda: tensors((1, 8, 5, 16), (1, 4, 7, 16)),
        {"mechanism": "differential", "lam": torch.zeros(3)},
        ["lam", "[4] or broadcastable to [1, 4, 5]", "[3]"],
    ),
    "a form over a map, without lam": (
        lambda: tensors((1, 8, 5, 16), (1, 4, 7, 16)),
        {"mechanism": "differential_sigmoid", "shift": torch.zeros(8)},
        ["lam", "[H]", "nothing"],
    ),
    "a form over a map with too few scalars": (
        lambda: tensors((1, 8, 5, 16), (1, 4, 7, 16)),
        {"mechanism": "differential_sigmoid", "shift": torch.zeros(4), "lam": torch.zeros(4)},
        ["shift", "[8], one for each query sub-head", "[4]"],
    ),
    "consmax without gamma": (
        tensors,
        {"mechanism": "consmax", "beta": torch.zeros(4)},
        ["gamma", "a tensor [H]", "nothing"],
    ),
    "a sink of another length": (
        tensors,
        {"mechanism": "softmax_off_by_one", "sink": torch.zeros(5)},
        ["sink", "one for each query head", "[5]"],
    ),
    "a sink of another dtype": (
        tensors,
        {"mechanism": "softmax_off_by_one", "sink": torch.zeros(4, dtype=torch.float64)},
        ["sink dtype", "Float", "Double"],
    ),
    "lam with too many dimensions": (
        lambda: tensors((1, 8, 5, 16), (1, 4, 7, 16)),
        {"mechanism": "differential", "lam": torch.zeros(1, 4, 5, 1)},
        ["lam", "broadcastable", "[1, 4, 5, 1]"],
    ),
    "lam of another dtype": (
        lambda: tensors((1, 8, 5, 16), (1, 4, 7, 16)),
        {"mechanism": "differential", "lam": torch.zeros(4, dtype=torch.float64)},
        ["lam dtype", "Float", "Double"],
    ),
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_refuses_in_one_line(refusal):
    make, options, words = REFUSALS[refusal]
    with pytest.raises(ValueError) as caught:
        cogwheel.attention(*make(), **options)
    message = str(caught.value)
    assert "\n" not in message, message
    assert message.startswith("attention: ") and ": expected " in message and ", got " in message, message
    for word in words:
        assert word in message, message


def test_refuses_parameters_that_the_mechanism_does_not_have():
    with pytest.raises(TypeError, match=r"^attention: parameters of cog: expected no parameter of its own, got lam$"):
        cogwheel.attention(*tensors(), "cog", lam=torch.zeros(4))
    with pytest.raises(TypeError, match=r"^attention_weights: parameters of differential: expected lam, got lambda_$"):
        cogwheel.attention_weights(*tensors()[:2], "differential", lambda_=torch.zeros(4))
    with pytest.raises(ValueError, match="mechanism: expected"):
        cogwheel.attention(*tensors(), "unheard_of", lam=torch.zeros(4))


def test_refusals_change_nothing():
    """After a refused call the next one works as before."""
    query, key, value = tensors()
    with pytest.raises(ValueError):
        cogwheel.attention(query, key, value[:, :, :3])
    assert cogwheel.attention(query, key, value + 1).sub(1).abs().max() <= 1e-6


def test_catalogue():
    catalogue = [entry for entry in cogwheel.mechanisms() if entry["definition"] is None]  # the built-in ones
    by_name = {entry["name"]: entry for entry in catalogue}
    assert list(by_name)[:2] == ["softmax", "cog"] and {"differential", "symmetric"} < set(by_name)
    for entry in catalogue:
        assert set(entry) == {
            "name", "title", "family", "level", "form", "member", "inputs", "parameters", "parameter_axes", "parameter_values",
            "optional_parameters", "state", "score", "formula", "range", "citation", "definition",
        }
        assert isinstance(entry["parameters"], list)
        may_be_empty = {"parameters", "form", "member", "definition"}
        may_be_empty |= {"parameter_axes", "parameter_values", "optional_parameters", "state", "score"}
        assert all(entry[key] for key in entry if key not in may_be_empty), entry
        assert bool(entry["state"]) == (entry["family"] == "recurrent")
        assert (entry["score"] is None) == (entry["family"] == "recurrent")
        assert (entry["member"] is None) == (entry["family"] != "pairwise")
    assert by_name["differential"]["parameters"] == ["lam"]
    assert by_name["differential_consmax"]["parameters"] == ["beta", "gamma", "lam"]
    assert [by_name["differential_cog"][key] for key in ("form", "member", "formula")] == [
        "differential", "cog", "cog₁ - λ cog₂"
    ]
    assert by_name["cog"]["form"] is None and by_name["cog"]["member"] == "cog"
    assert by_name["differential_symmetric_cog"]["level"] == "layer"
    assert by_name["consmax"]["parameters"] == ["beta", "gamma"] and by_name["consmax"]["optional_parameters"] == []
    assert by_name["differential_sigmoid"]["optional_parameters"] == ["shift"]
    assert [by_name[name]["score"] for name in ("cog", "norm", "gla")] == ["dot", "cosine", None]
    assert by_name["symmetric"]["level"] == "layer"
    gla = [by_name["gla"][key] for key in ("family", "level", "parameters", "parameter_axes")]
    assert gla == ["recurrent", "operator", ["log_decay"], {"log_decay": "BHND"}]
    assert by_name["gla"]["parameter_values"] == {"log_decay": "at_most_0"} and by_name["abc"]["optional_parameters"] == ["log_decay"]
    states = {name: by_name[name]["state"] for name in ("gla", "gated_rfa", "mlstm", "abc", "cosformer")}
    assert states == {
        "gla": {"S": "DV"}, "gated_rfa": {"S": "DV", "z": "D"}, "mlstm": {"S": "DV", "z": "D", "m": ""},
        "abc": {"K": "DS", "V": "SV"}, "cosformer": {"S": "2DV", "z": "2D"},
    }
    assert list(states["mlstm"]) == ["S", "z", "m"]
    assert by_name["softmax"]["inputs"] == by_name["gla"]["inputs"] == ["query", "key", "value"]
    assert by_name["hgrn2"]["inputs"] == ["query", "value"] and by_name["s4"]["inputs"] == ["value"]
    catalogue[0]["name"] = "mine"
    assert cogwheel.mechanisms()[0]["name"] == "softmax"
