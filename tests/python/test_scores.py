"""Scores other than the scaled product, with any row map: against sums written out over every pair, and refusals."""

import subprocess
import sys

import pytest
import reference
import torch
from attention_cases import Shape, assert_same_bits, largest_error
from torch import Tensor

import cogwheel

SCORES = ("dot", "general", "cosine", "additive", "concat")
# An exponential, a sign, a map with a scalar and no mass, a mixture of two.
MAPS = ("softmax", "cog", "sigmoid", "differential", "differential_cog")
SHAPES = (Shape(2, 4, 2, 7, 9, 8, 5), Shape(1, 6, 2, 70, 133, 20, 33), Shape(2, 2, 2, 65, 64, 64, 16), Shape(2, 1, 1, 7, 65, 515, 16))

each_score = pytest.mark.parametrize("score", SCORES)


def score_of_pairs(score: str, query: Tensor, key: Tensor, weight: Tensor | None, projection: Tensor | None) -> Tensor:
    """[B, N, M] of one head from query [B, N, D] and key [B, M, Dk], with every pair's vector in memory.

    Luong et al. (2015), section 3.1: qᵀk, qᵀWk and vᵀtanh(W[q; k]). Bahdanau et al. (2014): vᵀtanh(q + k).
    """
    if score == "dot":
        return torch.einsum("bnd,bmd->bnm", query, key)
    if score == "general":
        return torch.einsum("bnd,de,bme->bnm", query, weight, key)
    if score == "cosine":
        lengths = query.norm(dim=-1)[:, :, None] * key.norm(dim=-1)[:, None, :]
        return torch.einsum("bnd,bmd->bnm", query, key) / lengths
    pairs = query[:, :, None, :].expand(-1, -1, key.shape[1], -1), key[:, None, :, :].expand(-1, query.shape[1], -1, -1)
    if score == "additive":
        return torch.tanh(pairs[0] + pairs[1]) @ weight
    return torch.tanh(torch.cat(pairs, -1) @ projection.T) @ weight


def expected_output(
    mechanism: str,
    score: str,
    leaves: dict[str, Tensor],
    *,
    scale: float,
    causal: bool,
    hidden: Tensor | None = None,
) -> Tensor:
    """[B, H, N, Dv]: the score of every pair, plus the bias if there is one, then the dense formula of the map.

    `hidden` broadcasts to [B, H, N, M], True where a key is not seen in addition to those of the future.
    """
    row = reference.row_of(mechanism)
    query, key, value = (leaves[name] for name in ("query", "key", "value"))
    weight, projection = leaves.get("score_weight"), leaves.get("score_projection")
    heads, key_heads = query.shape[1] // row.sub_heads, key.shape[1] // row.sub_heads

    def scores_of(head: int, part: int) -> Tensor:
        at = head * row.sub_heads + part
        of_keys = head * key_heads // heads * row.sub_heads + part
        return scale * score_of_pairs(
            score,
            query[:, at],
            key[:, of_keys],
            None if weight is None else weight[at],
            None if projection is None else projection[at],
        )

    scores = torch.stack(
        [torch.stack([scores_of(head, part) for head in range(heads)], 1) for part in range(row.sub_heads)], 1
    )
    if "bias" in leaves:
        scores = scores + leaves["bias"]
    visible = reference.visible_keys(query.shape[2], key.shape[2], causal)
    if hidden is not None:
        visible = visible & ~hidden
    weights = row.weights(scores, visible, {name: leaves[name] for name in row.parameters or {}})
    return torch.stack([weights[:, head] @ value[:, head * key_heads // heads] for head in range(heads)], 1)


def drawn(mechanism: str, score: str, shape: Shape, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    """Every tensor of a call by name. Where the score can, keys have another width than queries."""
    row = reference.row_of(mechanism)
    generator = torch.Generator().manual_seed(5)
    query_heads, key_heads = row.sub_heads * shape.heads, row.sub_heads * shape.key_heads
    key_dim = shape.head_dim + 3 if score in ("general", "concat") else shape.head_dim

    def normal(*size: int) -> Tensor:
        return torch.randn(size, generator=generator, dtype=torch.float64)

    tensors = {
        "query": normal(shape.batch, query_heads, shape.queries, shape.head_dim),
        "key": normal(shape.batch, key_heads, shape.keys, key_dim),
        "value": normal(shape.batch, shape.key_heads, shape.keys, shape.value_dim),
        **{name: draw(generator, shape.heads) for name, draw in (row.parameters or {}).items()},
    }
    if score == "general":
        tensors["score_weight"] = normal(query_heads, shape.head_dim, key_dim) / shape.head_dim**0.5
    elif score == "additive":
        tensors["score_weight"] = normal(query_heads, shape.head_dim)
    elif score == "concat":
        width = shape.head_dim + 5
        tensors["score_projection"] = normal(query_heads, width, shape.head_dim + key_dim) / shape.head_dim**0.5
        tensors["score_weight"] = normal(query_heads, width)
    return {name: tensor.to(dtype).requires_grad_() for name, tensor in tensors.items()}


def with_gradients(output: Tensor, leaves: dict[str, Tensor]) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(6)
    gradient = torch.randn(output.shape, generator=generator, dtype=torch.float64).to(output.dtype)
    gradients = torch.autograd.grad(output, list(leaves.values()), gradient)
    return {"output": output.detach(), **dict(zip(leaves, gradients))}


@pytest.mark.diagonal
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("mechanism", MAPS)
@each_score
def test_any_score_with_any_row_map(score, mechanism, shape, causal):
    leaves = drawn(mechanism, score, shape)
    actual = with_gradients(
        cogwheel.attention(mechanism=mechanism, score=score, scale=0.3, causal=causal, **leaves), leaves
    )
    expected = with_gradients(expected_output(mechanism, score, leaves, scale=0.3, causal=causal), leaves)
    for name, tensor in expected.items():
        assert actual[name].shape == tensor.shape and actual[name].dtype == tensor.dtype, name
        assert largest_error(actual[name], tensor) <= (1e-13 if name == "output" else 1e-12), name


@pytest.mark.parametrize("mechanism", ["softmax", "differential_cog"])
@each_score
def test_with_other_modifiers(score, mechanism):
    """A bias with a gradient, lengths of keys and a sliding window, together."""
    shape = Shape(2, 4, 2, 70, 133, 20, 33)
    leaves = drawn(mechanism, score, shape)
    leaves["bias"] = torch.randn(70, 133, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    leaves["bias"].requires_grad_()
    lengths = torch.tensor([133, 90])
    out = cogwheel.attention(
        mechanism=mechanism, score=score, scale=0.3, causal=True, window=40, key_lengths=lengths, **leaves
    )
    actual = with_gradients(out, leaves)
    query, key = torch.arange(70)[:, None], torch.arange(133)[None, :]
    hidden = (key <= query + 63 - 40) | (key >= lengths[:, None, None])
    expected = with_gradients(
        expected_output(mechanism, score, leaves, scale=0.3, causal=True, hidden=hidden[:, None]), leaves
    )
    for name, tensor in expected.items():
        assert largest_error(actual[name], tensor) <= (1e-13 if name == "output" else 1e-12), name


@each_score
def test_in_single_precision(score):
    """As near to float64 as the same sums in eager PyTorch, to a factor of two."""
    shape = Shape(1, 4, 2, 130, 140, 24, 40)
    exact = drawn("softmax", score, shape)
    expected = with_gradients(expected_output("softmax", score, exact, scale=1.0, causal=True), exact)
    leaves = {name: tensor.detach().float().requires_grad_() for name, tensor in exact.items()}
    rounded = {name: tensor.detach().double().requires_grad_() for name, tensor in leaves.items()}
    expected = with_gradients(expected_output("softmax", score, rounded, scale=1.0, causal=True), rounded)
    eager = with_gradients(expected_output("softmax", score, leaves, scale=1.0, causal=True), leaves)
    actual = with_gradients(cogwheel.attention(score=score, scale=1.0, causal=True, **leaves), leaves)
    for name, tensor in expected.items():
        tolerance = 2e-6 if name == "output" else 1e-5
        assert largest_error(actual[name], tensor) <= max(tolerance, 2 * largest_error(eager[name], tensor)), name


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@each_score
def test_gradients_agree_with_finite_differences(score, causal, fast_mode):
    leaves = drawn("differential_sigmoid", score, Shape(1, 2, 1, 3, 4, 8, 2))
    names = list(leaves)

    def attend(*tensors):
        return cogwheel.attention(
            mechanism="differential_sigmoid", score=score, causal=causal, **dict(zip(names, tensors))
        )

    assert torch.autograd.gradcheck(attend, list(leaves.values()), fast_mode=fast_mode)


@each_score
def test_is_registered_as_pytorch_demands(score):
    leaves = drawn("softmax", score, Shape(2, 4, 2, 5, 7, 8, 3))
    options = {name: leaves.pop(name) for name in ("score_weight", "score_projection") if name in leaves}
    torch.library.opcheck(
        torch.ops.cogwheel.attention.default,
        (*leaves.values(), "softmax"),
        {"score": score, "causal": True, "parameters": [], "parameter_names": [], **options},
    )


@each_score
def test_compiles_as_one_graph(score):
    leaves = drawn("cog", score, Shape(2, 4, 2, 17, 40, 16, 24), torch.float32)

    def step(leaves):
        return cogwheel.attention(mechanism="cog", score=score, **leaves).sin()

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")(leaves)
    torch.testing.assert_close(compiled, step(leaves), rtol=0, atol=1e-6)
    torch.compiler.reset()


@each_score
def test_weights_are_what_multiplies_the_values(score):
    leaves = drawn("cog", score, SHAPES[1])
    out = cogwheel.attention(mechanism="cog", score=score, causal=True, **leaves)
    value = leaves.pop("value").repeat_interleave(3, dim=1)
    weights = cogwheel.attention_weights(mechanism="cog", score=score, causal=True, **leaves)
    assert weights.shape == (1, 6, 70, 133)
    assert largest_error(weights @ value, out) <= 1e-13


@pytest.mark.parametrize(
    "score, scale", [("dot", 8**-0.5), ("general", 11**-0.5), ("cosine", 1.0), ("additive", 1.0), ("concat", 1.0)]
)
def test_scale_unless_given(score, scale):
    leaves = drawn("softmax", score, Shape(1, 2, 2, 5, 6, 8, 4))
    torch.testing.assert_close(
        cogwheel.attention(score=score, **leaves), cogwheel.attention(score=score, scale=scale, **leaves)
    )


def test_norm_reads_cosines_whatever_is_asked():
    leaves = drawn("norm", "cosine", SHAPES[1])
    assert torch.equal(
        cogwheel.attention(mechanism="norm", **leaves), cogwheel.attention(mechanism="norm", score="cosine", **leaves)
    )


@pytest.mark.parametrize("wanted", ["query", "key", "value", "score_weight"])
def test_each_gradient_of_the_additive_score_alone(wanted):
    leaves = drawn("softmax", "additive", SHAPES[1])
    everything = with_gradients(cogwheel.attention(score="additive", **leaves), leaves)
    tensors = {name: tensor.detach().clone() for name, tensor in leaves.items()}
    tensors[wanted].requires_grad_()
    alone = with_gradients(cogwheel.attention(score="additive", **tensors), {wanted: tensors[wanted]})
    assert torch.equal(alone[wanted], everything[wanted])


def test_gradients_of_the_additive_score_do_not_depend_on_threads():
    leaves = drawn("softmax", "additive", Shape(2, 4, 2, 150, 170, 24, 40), torch.float32)
    threads, results = torch.get_num_threads(), []
    try:
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            results.append(with_gradients(cogwheel.attention(score="additive", causal=True, **leaves), leaves))
    finally:
        torch.set_num_threads(threads)
    for other in results[1:]:
        for name in results[0]:
            assert_same_bits(other[name], results[0][name], name)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_key_reaches_only_rows_that_see_it(bad):
    leaves = drawn("softmax", "additive", Shape(1, 2, 2, 150, 150, 24, 40), torch.float32)
    clean = with_gradients(cogwheel.attention(score="additive", causal=True, **leaves), leaves)
    with torch.no_grad():
        leaves["key"][0, 1, 70, 3] = bad
    dirty = with_gradients(cogwheel.attention(score="additive", causal=True, **leaves), leaves)
    for name in ("output", "query"):
        assert_same_bits(dirty[name][0, :, :70], clean[name][0, :, :70], f"{name} of earlier rows")
    for name, tensor in dirty.items():
        of_first_head = (0,) if name == "score_weight" else (slice(None), 0)
        assert_same_bits(tensor[of_first_head], clean[name][of_first_head], f"{name} of the other head")
    if bad == torch.inf:  # whose tanh is 1
        assert all(tensor.isfinite().all() for tensor in dirty.values())
    else:
        assert dirty["output"][0, 1, 70:].isnan().all()


HIDING = {
    "key_lengths": {"key_lengths": torch.tensor([6, 6])},
    "a window": {"causal": True, "window": 2},
    "ranges": {"local_radius": 1.0},
    "a bias": {"bias": torch.zeros(9).index_fill(0, torch.arange(6, 9), -torch.inf).double()},
}


@pytest.mark.parametrize("hiding", HIDING)
@pytest.mark.parametrize("mechanism", ["cog", "norm", "differential"])
@each_score
def test_values_of_a_hidden_key_reach_no_gradient(score, mechanism, hiding):
    """Keys that no query sees: padding at the end, keys before a window, keys near no query."""
    if mechanism == "norm" and (score != "cosine" or hiding == "a bias"):
        pytest.skip("norm reads cosines, and takes no bias")
    leaves = drawn(mechanism, score, Shape(2, 4, 2, 3, 9, 8, 4))
    options = {"mechanism": mechanism, "score": score, **HIDING[hiding]}
    hidden = slice(0, 4) if hiding == "a window" else slice(6, 9)
    clean = with_gradients(cogwheel.attention(**options, **leaves), leaves)
    with torch.no_grad():
        leaves["key"][:, :, hidden, ::2] = torch.nan
        leaves["key"][:, :, hidden, 1::2] = torch.inf
    dirty = with_gradients(cogwheel.attention(**options, **leaves), leaves)
    for name in clean:
        assert_same_bits(dirty[name], clean[name], name)


def test_causality_is_exact():
    leaves = drawn("cog", "additive", SHAPES[2], torch.float32)
    before = cogwheel.attention(mechanism="cog", score="additive", causal=True, **leaves)
    changed = {name: tensor.detach().clone() for name, tensor in leaves.items()}
    changed["key"][:, :, 40:] += 1
    changed["value"][:, :, 40:] -= 1
    after = cogwheel.attention(mechanism="cog", score="additive", causal=True, **changed)
    assert torch.equal(before[:, :, :41], after[:, :, :41])  # 65 queries and 64 keys: query i sees keys up to i − 1


@pytest.mark.parametrize("keys, queries", [(0, 5), (7, 0), (0, 0)])
@each_score
def test_nothing_in_gives_nothing_or_zero(score, keys, queries):
    leaves = drawn("softmax", score, Shape(2, 4, 2, queries, keys, 8, 3))
    results = with_gradients(cogwheel.attention(score=score, **leaves), leaves)
    assert results["output"].shape == (2, 4, queries, 3)
    assert all(tensor.count_nonzero() == 0 for tensor in results.values())


MEASURE = """
import resource, torch, cogwheel
tensors = [torch.randn(1, 1, 2048, 64, requires_grad=True) for _ in range(3)]
weight = torch.randn(1, 64, requires_grad=True)
small = [tensor[:, :, :64] for tensor in tensors]
cogwheel.attention(*small, score="additive", score_weight=weight).sum().backward()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
cogwheel.attention(*tensors, score="additive", score_weight=weight).sum().backward()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_the_additive_score_holds_no_pairs():
    """2,048 × 2,048 scores alone would take 16 MiB, their vectors a GiB."""
    grown = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True).stdout
    assert int(grown) < 16 * 1024, f"{grown} KiB"


REFUSALS = {
    "a misspelt score": ({"score": "aditive"}, ["score: expected dot, general, cosine, additive or concat, got aditive"]),
    "norm with another": (
        {"mechanism": "norm", "score": "additive", "score_weight": torch.zeros(4, 16)},
        ["score: expected dot or cosine (norm reads cosines), got additive"],
    ),
    "a form over norm with another": (
        {"mechanism": "centered_norm", "score": "general", "score_weight": torch.zeros(4, 16, 16)},
        ["score: expected dot or cosine (centered_norm reads cosines), got general"],
    ),
    "general without weight": ({"score": "general"}, ["score_weight: expected [4, 16, 16] (score general), got nothing"]),
    "general with a vector": (
        {"score": "general", "score_weight": torch.zeros(4, 16)},
        ["score_weight: expected [4, 16, 16] (score general), got [4, 16]"],
    ),
    "additive without weight": ({"score": "additive"}, ["score_weight: expected [4, 16] (score additive), got nothing"]),
    "additive with a weight for fewer heads": (
        {"score": "additive", "score_weight": torch.zeros(2, 16)},
        ["score_weight: expected [4, 16] (score additive), got [2, 16]"],
    ),
    "additive with a weight of another dtype": (
        {"score": "additive", "score_weight": torch.zeros(4, 16, dtype=torch.float64)},
        ["score_weight dtype: expected Float (as query), got Double"],
    ),
    "additive with a projection": (
        {"score": "additive", "score_weight": torch.zeros(4, 16), "score_projection": torch.zeros(4, 9, 32)},
        ["score_projection: expected none (score additive), got [4, 9, 32]"],
    ),
    "dot with a weight": (
        {"score_weight": torch.zeros(4, 16)},
        ["score_weight: expected none (score dot), got [4, 16]"],
    ),
    "concat without projection": (
        {"score": "concat", "score_weight": torch.zeros(4, 16)},
        ["score_projection: expected [4, 16, 32] (score concat), got nothing"],
    ),
    "concat with a projection of queries alone": (
        {"score": "concat", "score_weight": torch.zeros(4, 9), "score_projection": torch.zeros(4, 9, 16)},
        ["score_projection: expected [4, 9, 32] (score concat), got [4, 9, 16]"],
    ),
    "concat, narrower than a kernel": (
        {"score": "concat", "score_weight": torch.zeros(4, 5), "score_projection": torch.zeros(4, 5, 32)},
        ["score_projection width: expected 8 to 1024, got 5"],
    ),
    "concat with a weight of another width": (
        {"score": "concat", "score_weight": torch.zeros(4, 8), "score_projection": torch.zeros(4, 9, 32)},
        ["score_weight: expected [4, 9] (score concat), got [4, 8]"],
    ),
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_refuses_in_one_line(refusal):
    options, words = REFUSALS[refusal]
    with pytest.raises(ValueError) as caught:
        cogwheel.attention(torch.zeros(1, 4, 5, 16), torch.zeros(1, 2, 7, 16), torch.zeros(1, 2, 7, 3), **options)
    message = str(caught.value)
    assert "\n" not in message and message.startswith("attention: "), message
    for word in words:
        assert word in message, message


def test_a_width_that_the_score_cannot_bridge():
    query, key, value = torch.zeros(1, 4, 5, 16), torch.zeros(1, 2, 7, 24), torch.zeros(1, 2, 7, 3)
    with pytest.raises(ValueError, match=r"key head_dim: expected 16 \(as query\), got 24"):
        cogwheel.attention(query, key, value, score="additive", score_weight=torch.zeros(4, 16))
    with pytest.raises(ValueError, match=r"key head_dim: expected 8 to 1024, got 4"):
        cogwheel.attention(query, key[..., :4], value, score="general", score_weight=torch.zeros(4, 16, 4))
