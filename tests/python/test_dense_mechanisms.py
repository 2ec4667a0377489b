"""Functions of the whole score matrix against float64 formulas that build it, row by row where causal."""

import math

import pytest
import torch

import cogwheel

COEFFICIENTS = {"coefficients": torch.tensor([[0.3, 1.0, -0.5, 0.2, 0.05], [0.0, 0.7, 0.4, -0.1, 0.02]] * 2).double()}
NORMALISED = {"matrix_exponential_by_row": 1, "matrix_exponential_l2": 2}  # by name, the order of the norm of a row
MATRIX_FUNCTIONS = ("polynomial", "matrix_exponential", "matrix_exponential_minus_identity", *NORMALISED)
SIMPLE_NORMS = ("simple_norm_by_row", "simple_norm_by_matrix")
FORMS = MATRIX_FUNCTIONS + SIMPLE_NORMS

each_form = pytest.mark.parametrize("form", FORMS)
each_visibility = pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])


def parameters_of(form):
    return COEFFICIENTS if form == "polynomial" else {}


def inputs(queries=9, keys=9, dtype=torch.float64, seed=0, size=0.8):
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return size * torch.randn(*shape, generator=generator, dtype=torch.float64)

    return [normal(2, 4, queries, 8).to(dtype), normal(2, 2, keys, 8).to(dtype), normal(2, 2, keys, 5).to(dtype)]


def scores(query, key, scale=None):
    """A = scale · QKᵀ, [B, H, N, M]."""
    key = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)
    return (query @ key.mT) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)


def polynomial(a, coefficients):
    power, total = torch.eye(a.shape[-1], dtype=a.dtype).expand_as(a), torch.zeros_like(a)
    for term in range(coefficients.shape[1]):
        total = total + coefficients[:, term, None, None] * power
        power = power @ a
    return total


def exponential(a):
    """The Taylor series, not PyTorch's own function."""
    term = total = torch.eye(a.shape[-1], dtype=a.dtype).expand_as(a)
    for order in range(1, 60):
        term = term @ a / order
        total = total + term
    return total


def matrix_function(form, a, parameters):
    if form == "polynomial":
        return polynomial(a, parameters["coefficients"])
    if form in NORMALISED:
        rows = exponential(a)
        return rows / torch.linalg.vector_norm(rows, ord=NORMALISED[form], dim=-1, keepdim=True)
    return exponential(a) - (torch.eye(a.shape[-1], dtype=a.dtype) if form.endswith("minus_identity") else 0)


def expected_weights(form, a, causal, parameters):
    if form in MATRIX_FUNCTIONS:
        if not causal:
            return matrix_function(form, a, parameters)
        rows = []
        for i in range(a.shape[-1]):
            row = matrix_function(form, a[..., : i + 1, : i + 1], parameters)[..., i, :]
            rows.append(torch.nn.functional.pad(row, (0, a.shape[-1] - i - 1)))
        return torch.stack(rows, -2)
    queries, keys = a.shape[-2:]
    visible = torch.arange(keys)[None] <= torch.arange(queries)[:, None] + (keys - queries if causal else keys)
    squares = torch.where(visible, a, 0.0) ** 2 if form == "simple_norm_by_row" else a**2
    norm = squares.sum(-1, keepdim=True) if form == "simple_norm_by_row" else squares.sum((-2, -1), keepdim=True)
    return torch.where(visible, 1 + a / norm, 0.0) / visible.sum(-1, keepdim=True).clamp_min(1)


def expected_output(form, query, key, value, causal, parameters):
    value = value.repeat_interleave(query.shape[1] // value.shape[1], dim=1)
    return expected_weights(form, scores(query, key), causal, parameters) @ value


def with_gradients(attend, tensors, parameters):
    leaves = [tensor.detach().clone().requires_grad_() for tensor in tensors]
    named = {name: tensor.detach().clone().requires_grad_() for name, tensor in parameters.items()}
    output = attend(*leaves, named)
    gradient = torch.sin(torch.arange(output.numel(), dtype=output.dtype)).reshape(output.shape)
    return [output.detach(), *torch.autograd.grad(output, [*leaves, *named.values()], gradient)]


def test_the_catalogue_marks_them():
    entries = {entry["name"]: entry for entry in cogwheel.mechanisms() if entry["level"] == "dense"}
    assert set(entries) == set(FORMS)
    assert entries["polynomial"]["parameters"] == ["coefficients"]
    assert [name for name in FORMS if "leaks the future" in entries[name]["range"]] == ["simple_norm_by_matrix"]


@pytest.mark.diagonal
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fp32", "fp64"])
@each_visibility
@each_form
def test_equals_the_formula(form, causal, dtype):
    tensors = inputs()
    expected = with_gradients(
        lambda q, k, v, named: expected_output(form, q, k, v, causal, named), tensors, parameters_of(form)
    )
    actual = with_gradients(
        lambda q, k, v, named: cogwheel.attention(q, k, v, form, causal=causal, **named),
        [tensor.to(dtype) for tensor in tensors],
        {name: tensor.to(dtype) for name, tensor in parameters_of(form).items()},
    )
    for ours, theirs in zip(actual, expected, strict=True):
        assert ours.dtype == dtype
        error = (ours.double() - theirs).abs().max() / theirs.abs().max()
        assert error <= (1e-5 if dtype == torch.float32 else 1e-12)


@each_visibility
@each_form
def test_weights_are_what_is_applied_to_the_values(form, causal):
    query, key, value = inputs()
    weights = cogwheel.attention_weights(query, key, form, causal=causal, **parameters_of(form))
    expected = expected_weights(form, scores(query, key), causal, parameters_of(form))
    torch.testing.assert_close(weights, expected, rtol=1e-12, atol=1e-12)
    assert not causal or weights.triu(1).count_nonzero() == 0


@pytest.mark.parametrize("queries, keys", [(4, 9), (9, 4), (1, 6)])
@each_visibility
@pytest.mark.parametrize("form", SIMPLE_NORMS)
def test_simple_norms_take_any_number_of_keys(form, causal, queries, keys):
    tensors = inputs(queries, keys)
    torch.testing.assert_close(
        cogwheel.attention(*tensors, form, causal=causal),
        expected_output(form, *tensors, causal, {}),
        rtol=1e-12,
        atol=1e-12,
    )


@pytest.mark.parametrize("form", SIMPLE_NORMS)
def test_simple_norms_of_zero_scores_are_means(form):
    query, key, value = inputs()
    query = torch.zeros_like(query).requires_grad_()
    output = cogwheel.attention(query, key, value, form)
    torch.testing.assert_close(output, value.mean(2, keepdim=True).repeat_interleave(2, 1).expand_as(output))
    assert torch.autograd.grad(output.sum(), query)[0].count_nonzero() == 0


@pytest.mark.diagonal
@each_visibility
@each_form
def test_derivatives_agree_with_finite_differences(form, causal):
    leaves = [tensor.requires_grad_() for tensor in inputs(5, 5)]
    named = {name: tensor.clone().requires_grad_() for name, tensor in parameters_of(form).items()}

    def attend(query, key, value, *given):
        return cogwheel.attention(query, key, value, form, causal=causal, **dict(zip(named, given)))

    assert torch.autograd.gradcheck(attend, (*leaves, *named.values()), fast_mode=True)
    assert torch.autograd.gradgradcheck(attend, (*leaves, *named.values()), fast_mode=True)


@pytest.mark.one_of_each_kind
@pytest.mark.diagonal
@each_visibility
@each_form
def test_is_registered_as_pytorch_demands(form, causal):
    leaves = [tensor.requires_grad_() for tensor in inputs()]
    named = {name: tensor.clone().requires_grad_() for name, tensor in parameters_of(form).items()}
    torch.library.opcheck(
        torch.ops.cogwheel.attention.default,
        (*leaves, form),
        {"causal": causal, "parameters": list(named.values()), "parameter_names": list(named)},
    )


def changes_from_the_last_token(weights_of):
    """The largest change of the weights of all rows but the last, when the last token changes."""
    query = inputs()[0]
    other = query.clone()
    other[:, :, -1] += 1.0
    return (weights_of(other) - weights_of(query))[..., :-1, :].abs().max().item()


@each_form
def test_masking_a_function_of_the_matrix_afterwards_leaks_the_future(form):
    """A²_ij sums over tokens after i, and ‖A‖ over all: row i of the masked matrix depends on them (K = Q)."""
    leak = changes_from_the_last_token(
        lambda query: cogwheel.attention_weights(query, query, form, **parameters_of(form)).tril()
    )
    assert leak > 1e-4


@each_form
def test_the_causal_form_does_not_leak_unless_it_says_so(form):
    leak = changes_from_the_last_token(
        lambda query: cogwheel.attention_weights(query, query, form, causal=True, **parameters_of(form))
    )
    if form == "simple_norm_by_matrix":
        assert leak > 1e-4
    else:
        assert leak <= 1e-14


@pytest.mark.parametrize("form", MATRIX_FUNCTIONS)
def test_the_first_causal_rows_are_those_of_a_shorter_text(form):
    """So a decoder may append tokens and keep its earlier outputs."""
    query, key, value = inputs()
    whole = cogwheel.attention(query, key, value, form, causal=True, **parameters_of(form))
    start = [tensor[:, :, :5] for tensor in (query, key, value)]
    torch.testing.assert_close(
        whole[:, :, :5], cogwheel.attention(*start, form, causal=True, **parameters_of(form)), rtol=1e-12, atol=1e-12
    )


def test_only_the_identity_has_full_rank():
    """f(A) − f(0) I has the rank of A, at most D; a causal mask raises it."""
    query = torch.randn(1, 1, 60, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) / 4

    def rank(form, causal=False, **parameters):
        weights = cogwheel.attention_weights(query, query, form, causal=causal, **parameters)[0, 0]
        return torch.linalg.matrix_rank(weights, rtol=1e-12).item()

    assert rank("matrix_exponential") == 60
    assert rank("matrix_exponential_minus_identity") == 8
    assert rank("matrix_exponential_minus_identity", causal=True) == 60
    assert rank("polynomial", coefficients=torch.tensor([[0.0, 1.0, 1.0, 1.0]]).double()) == 8
    assert rank("polynomial", coefficients=torch.tensor([[0.5, 1.0, 1.0, 1.0]]).double()) == 60


def test_the_exponential_of_a_positive_matrix_has_negative_entries():
    """QQᵀ is positive semidefinite, which says nothing of the signs of its entries."""
    query = inputs()[0]
    assert (cogwheel.attention_weights(query, query, "matrix_exponential") < 0).any()


@each_visibility
@pytest.mark.parametrize("form", NORMALISED)
def test_normalised_rows_stay_bounded_where_the_exponential_grows(form, causal):
    """Scores twenty times those of the other tests: exp(A) is beyond 1e6, its rows as long as ever."""
    query, key, _ = inputs()
    weights = cogwheel.attention_weights(4 * query, 5 * key, form, causal=causal)
    plain = cogwheel.attention_weights(4 * query, 5 * key, "matrix_exponential", causal=causal)
    assert plain.abs().max() > 1e6
    norms = torch.linalg.vector_norm(weights, ord=NORMALISED[form], dim=-1)
    torch.testing.assert_close(norms, torch.ones_like(norms), rtol=1e-9, atol=0)


@pytest.mark.parametrize("form", NORMALISED)
def test_squares_of_the_exponential_may_be_beyond_float32(form):
    """exp(50) is below the largest float, its square is not; a single token sees itself with weight 1."""
    query = torch.full((1, 1, 1, 8), 4.2)
    assert cogwheel.attention_weights(query, query, "matrix_exponential").item() > 1e20
    assert cogwheel.attention_weights(query, query, form).item() == pytest.approx(1)


@each_form
def test_shapes_without_data_and_with_none(form):
    tensors = [tensor.to("meta") for tensor in inputs()]
    named = {name: tensor.to("meta") for name, tensor in parameters_of(form).items()}
    assert cogwheel.attention(*tensors, form, causal=True, **named).shape == (2, 4, 9, 5)
    empty = cogwheel.attention(*inputs(0, 0), form, causal=True, **parameters_of(form))
    assert empty.shape == (2, 4, 0, 5)


REFUSALS = {
    "fewer keys than queries": (inputs(9, 7), "matrix_exponential", {}, ["key length", "9 (as query", "got 7"]),
    "no coefficients": (inputs(), "polynomial", {}, ["coefficients", "[H, terms]", "got nothing"]),
    "coefficients of other heads": (
        inputs(),
        "polynomial",
        {"coefficients": torch.ones(3, 2).double()},
        ["coefficients", "[4, terms]", "[3, 2]"],
    ),
    "coefficients of another dtype": (
        inputs(),
        "polynomial",
        {"coefficients": torch.ones(4, 2)},
        ["coefficients dtype", "Double", "Float"],
    ),
    "an infinite scale": (inputs(), "matrix_exponential", {"scale": math.inf}, ["scale", "finite", "inf"]),
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_refuses_in_one_line(refusal):
    tensors, form, options, words = REFUSALS[refusal]
    with pytest.raises(ValueError) as caught:
        cogwheel.attention(*tensors, form, **options)
    message = str(caught.value)
    assert message.startswith("attention: ") and "\n" not in message
    assert all(word in message for word in words), message


def outputs_and_gradients(tensors, form, weight=1.0, **options):
    """The output, and the gradients of its sum of squares times `weight`."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in tensors]
    output = cogwheel.attention(*leaves, form, **options, **parameters_of(form))
    (output.square() * weight).sum().backward()
    return [output.detach(), *(leaf.grad for leaf in leaves)]


@each_form
@each_visibility
def test_hidden_tokens_add_nothing(form, causal):
    """Padded and packed sequences are the sequences by themselves, with their gradients."""
    lengths = [6, 9]
    tensors = inputs()
    for tensor in tensors:
        tensor[0, :, lengths[0] :] = math.nan  # what is hidden is not read
    single = [
        outputs_and_gradients([tensor[entry, None, :, :length] for tensor in tensors], form, causal=causal)
        for entry, length in enumerate(lengths)
    ]
    seen = torch.arange(9) < torch.tensor(lengths)[:, None]
    padded = outputs_and_gradients(
        tensors, form, seen[:, None, :, None].double(), causal=causal, key_lengths=torch.tensor(lengths)
    )
    ends = torch.tensor([0, 6, 6, 15])
    packed = outputs_and_gradients(
        [torch.cat([tensor[0, :, :6], tensor[1]], 1)[None] for tensor in tensors], form, causal=causal, cu_seqlens=ends
    )
    for place, (of_padded, of_packed, *of_single) in enumerate(zip(padded, packed, *single, strict=True)):
        if place > 0 or form in MATRIX_FUNCTIONS:
            assert of_padded[0, :, 6:].abs().max() == 0
        for entry, (first, length) in enumerate([(0, 6), (6, 9)]):
            expected = of_single[entry][0]
            torch.testing.assert_close(of_padded[entry, :, :length], expected, rtol=1e-10, atol=1e-12)
            torch.testing.assert_close(of_packed[0, :, first : first + length], expected, rtol=1e-10, atol=1e-12)
    shape = cogwheel.attention(
        *(tensor[:1].to("meta") for tensor in inputs()),
        form,
        cu_seqlens=torch.tensor([0, 4, 9], device="meta"),
        **{name: tensor.to("meta") for name, tensor in parameters_of(form).items()},
    ).shape
    assert shape == (1, 4, 9, 5)


@each_form
def test_lengths_are_checked(form):
    with pytest.raises(ValueError, match="attention: key_lengths: expected 0 to 9 .the keys., got 10"):
        cogwheel.attention(*inputs(), form, key_lengths=torch.tensor([3, 10]), **parameters_of(form))
    with pytest.raises(ValueError, match="attention: cu_seqlens: expected 9 last .as queries., got 8"):
        single = [tensor[:1] for tensor in inputs()]
        cogwheel.attention(*single, form, cu_seqlens=torch.tensor([0, 8]), **parameters_of(form))
