"""The labs of the two posts, the paper of Cog and the notes on the symmetric transformer: their numbers beside formulas written here, at
small sizes. test_labs.py has those of the lecture, and what holds of all."""

import math
import subprocess

import pytest
import torch
from lab_results import ours, run_lab, series, small_lab, table

import cogwheel


@pytest.fixture(scope="module")
def reproduce(cogwheel_executable, tmp_path_factory):
    return lambda name, *assignments: run_lab(cogwheel_executable, tmp_path_factory.mktemp("lab"), name, *assignments)[0]


@pytest.fixture(scope="module")
def small(cogwheel_executable, tmp_path_factory):
    return lambda name: small_lab(cogwheel_executable, tmp_path_factory, name)[0]


def number(cell):
    return float(cell.replace(",", "").replace("−", "-"))


def matrix(rows):
    return torch.tensor([[float(cell or 0) for cell in row[1:]] for row in rows], dtype=torch.float64)


def cog(scores):
    return scores.sign() * torch.softmax(scores.abs(), -1)


def verdict(result, beginning):
    (found,) = [each["verdict"] for each in result["findings"] if each["what"].startswith(beginning)]
    return found


def test_cog_layer(small, reproduce):
    result = small("s0/layer")
    scores, weights = matrix(table(result, "Scores p")), matrix(table(result, "Weights a"))
    hidden = torch.ones(4, 4).triu(1).bool()
    expected = scores.sign() * torch.softmax(scores.abs().masked_fill(hidden, -torch.inf), -1)
    assert weights.sub(expected).abs().max() < 1e-5 and weights.triu(1).abs().max() == 0
    assert ours(result, "Numbers of the output") == 2 * 4 * 8
    assert ours(result, "Numbers of a matrix that the post's layer reads") == 8 and verdict(result, "Numbers of a matrix") == "contradicts"
    # With biases scores differ, and all else holds.
    biased = reproduce("s0/layer", "bias_deviation=1", "tokens=6", "batch=3", "width=16")
    assert ours(biased, "Numbers of the output") == 3 * 6 * 16
    assert ours(biased, "Largest change of earlier") == 0 and ours(biased, "Numbers of a matrix") == 16
    assert abs(ours(biased, "Largest difference of Σ|a|")) < 1e-12
    assert [each["verdict"] for each in biased["findings"]].count("contradicts") == 1


def test_rows(small):
    result = small("s1/rows")
    panels = {"second panel": [1.0, -100.0], "{−x, x}": [-1e4, 1e4], "{−x, 1}": [-1e4, 1.0], "{x, −1}": [1e4, -1.0]}
    types = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    overflows = 0
    for name, kind, shift, exponent, finite, weights in table(result, "What comes out"):
        if name not in panels:
            assert finite == "yes"
            continue
        scores = torch.tensor(panels[name]).to(types[kind])
        by = scores.abs().max() if shift == "max |p|" else scores.max()
        exponents = (scores.abs() - by).double()
        assert number(exponent) == exponents.max()
        exponentials = exponents.exp().to(types[kind])
        whole = bool(exponentials.isfinite().all() and exponentials.sum().isfinite())
        assert (finite == "yes") == whole, (name, kind, shift)
        overflows += not whole
        if whole:
            expected = (scores.sign().double() * exponentials.double()) / exponentials.double().sum()
            assert [float(each) for each in weights.split(", ")] == pytest.approx(expected.tolist(), abs=4e-3)
    assert ours(result, "Rows that overflow in any numbers, shifted by max p") == overflows > 3
    assert ours(result, "Rows that overflow in any numbers, shifted by max |p|") == 0
    keys, scores = series(result, "First panel: inner products", "p")
    weights = series(result, "First panel: weights", "Cog")[1]
    assert weights == pytest.approx(cog(torch.tensor(scores, dtype=torch.float64)).tolist(), rel=1e-12)
    sums = series(result, "Sums of signed weights", "rows")[0]
    drawn = cog(torch.randn(20000, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)).sum(-1)
    assert sums[50] == pytest.approx(0, abs=0.05) and sums[80] == pytest.approx(drawn.quantile(0.8).item(), abs=0.05)


def test_throughput(small):
    result = small("s1/throughput")
    assert result["timed"]
    megabytes = {(row[0], row[1]): [float(cell) for cell in row[5:]] for row in table(result, "By length")}
    for length in (32, 64, 128):
        softmax, cog_bytes = megabytes[str(length), "naive, forward"]
        assert cog_bytes >= softmax and cog_bytes >= 3 * 4 * length * length / 1e6 - 0.01  # scores, signs, weights at least
    assert 1.7 < ours(result, "Bytes of naive Cog, forward: exponent") < 2.2
    assert 0.8 < ours(result, "Bytes of fused Cog, forward: exponent") < 1.2
    lengths, speed = series(result, "Throughput, forward", "Cog, fused")
    milliseconds = [float(row[3]) for row in table(result, "By length") if row[1] == "fused, forward"]
    assert speed == pytest.approx([1e3 * n / ms if ms else speed[i] for i, (n, ms) in enumerate(zip(lengths, milliseconds))], rel=0.6)


def test_linear_attention(small):
    result = small("s2/linear-attention")
    for way in ("Sums less masked, over", "Walk less masked, float64", "Without a mask"):
        assert ours(result, way) < 1e-13
    assert 0 < ours(result, "Walk less masked, float32") < 1e-5
    assert ours(result, "Q(KᵀV) in place of the causal sum") > 0.1
    assert ours(result, "Rank of ψ(Q)ψ(K)ᵀ") == 1 and ours(result, "Rank of the exponential") > 8
    assert [row[0] for row in table(result, "Milliseconds")] == ["16", "32", "64"] and result["timed"]
    lengths, held = series(result, "Numbers held", "sums, Q cumsum(KᵀV)")
    assert held == [n * 64 for n in lengths]


def test_dense_layer(small, reproduce):
    result = small("s3/layer")
    assert ours(result, "Numbers of the output") == 20 * 32
    assert ours(result, "Numbers of all weights") == 4 * 32 * 64 + 3 * 64 + 32
    for near in ("Largest difference of a row's sum", "Permuted tokens", "Largest difference of the operator's"):
        assert ours(result, near) < 1e-12
    # Entries of q and k have the variance width + 1: of N(0, 1) weights and a bias.
    assert ours(result, "Standard deviation of the scores") == pytest.approx(1, abs=0.3)
    ranks, weights = series(result, "Weights of a row", "as the post draws them")
    assert sum(weights) == pytest.approx(1) and weights == sorted(weights, reverse=True)
    assert weights[0] == pytest.approx(ours(result, "Largest weight of a row"))
    assert ours(result, "Correlation of W_v and W_O") == pytest.approx(1)
    apart = reproduce("s3/layer", "tokens=20", "width=32", "hidden=64", "shared_keys=0")
    assert abs(ours(apart, "Correlation of W_v and W_O")) < 0.1


def test_dictionary(small):
    result = small("s3/dictionary")
    keys = torch.eye(8, dtype=torch.float64)
    query = 0.7 * keys[5] + 0.3 * keys[2]
    for temperature, found, word, other in table(result, "The small dictionary"):
        weights = torch.softmax(keys @ query / float(temperature), 0)
        expected = [(weights * torch.arange(8)).sum().item(), weights[5].item(), weights[2].item()]
        assert [float(found), float(word), float(other)] == pytest.approx(expected, abs=1e-6)
    assert ours(result, "Random items: found") > 1 / 16
    share = ours(result, "Share of right items that stand before")
    assert share == pytest.approx((16 + 1) / 32, abs=0.1)
    errors = series(result, "Error of the value found", "softmax")[1]
    assert errors[0] == pytest.approx(1, abs=0.1) and min(errors) < 0.9


def test_induction(small):
    result = small("s3/induction")
    assert ours(result, "Softmax: loss where it repeats") < 0.5 < ours(result, "Softmax: loss where the text is new, of")
    assert ours(result, "Regression: largest difference") < 1e-12
    # Gradient descent from 0, written out: the error of the first step of rate η for x ~ N(0, I), N examples and d inputs is
    # 1 − 2ηN + η²(N(N + 1) + N d), of independent asked points.
    layers, errors = series(result, "Regression in context", "layers of linear attention")
    rate, examples, inputs = 1 / (math.sqrt(6) + math.sqrt(3)) ** 2, 6, 3
    expected = 1 - 2 * rate * examples + rate**2 * (examples * (examples + 1) + examples * inputs)
    assert errors[0] == pytest.approx(expected, abs=0.05)
    assert errors == sorted(errors, reverse=True) and len(layers) == 5
    assert errors == pytest.approx(series(result, "Regression in context", "steps of gradient descent")[1], rel=1e-9)


def test_failures(small):
    result = small("s4/failures")
    for name in ("A²", "exp(A)", "exp(A) by the length of its rows", "exp(A) by the sums of its rows"):
        assert ours(result, f"Least change of earlier outputs with the last token, {name} masked") > 1e-3
    assert ours(result, "The same of all but 1 + A/‖A‖², in rows of the tokens up to each") == pytest.approx(0, abs=1e-9)
    assert 0 < ours(result, "The same of 1 + A/‖A‖² where") < 0.01
    assert ours(result, "Largest difference of those rows from f of the block") < 1e-6
    short, long = table(result, "What becomes of the weights")
    root = math.sqrt(8)
    draw = torch.Generator().manual_seed(1)
    for row, length in ((short, 8), (long, 64)):
        assert float(row[2]) == pytest.approx((math.sqrt(length) + root) ** 2 / root / math.log(10), abs=0.006)
        query = torch.randn(20, length, 8, generator=draw, dtype=torch.float64)
        scores = query @ query.mT / root
        largest = torch.linalg.matrix_exp(scores).abs().amax((1, 2)).log10().mean().item()
        assert float(row[1]) == pytest.approx(largest, rel=0.35)
        simple = (1 + scores / scores.square().sum((1, 2), keepdim=True)).std((1, 2)).mean().item()
        assert float(row[6]) == pytest.approx(simple, rel=0.5)
    assert float(long[1]) > 3 * float(short[1]) and float(long[4]) > float(long[5])
    assert ours(result, "Rows of exp(A) alike") == pytest.approx(float(long[4]), abs=6e-4)


def test_cost(small, reproduce):
    result = small("s4/cost")
    counts = {row[0]: number(row[3]) for row in table(result, "Parameters, and the time")}
    width, context, layers = 256, 300, 3
    block = 3 * (width * width + width) + width * width + width + 8 * width * width + 5 * width + 4 * width
    plain = 65 * width + context * width + layers * block + 2 * width + width * 65 + 65
    assert counts == {"NanoGPT": plain, "Cog": plain, "Norm": plain, "Diff": plain + 288, "Sym": plain - 3 * 65792, "Diff + Sym": plain + 288 - 3 * 65792}
    assert plain == 2479937 and verdict(result, "Parameters of Diff + Sym") == "contradicts"
    assert ours(result, "What a layer of Diff has beside") == 96 and ours(result, "What K = Q saves") == 65792
    other = reproduce("s4/cost", "tokens=16", "batch=1", "repeats=1", "seconds=0", "layers=1", "width=128")
    assert verdict(other, "Parameters of NanoGPT") is None and ours(other, "What a layer of Diff has beside") == 48


def test_features(small):
    result = small("s4/features")
    assert ours(result, "Positive features: slope") == pytest.approx(-0.5, abs=0.15)
    assert ours(result, "Squared relative error of an entry") == pytest.approx(1, abs=0.4)
    draw = torch.Generator().manual_seed(5)
    rows = [row for row in table(result, "Error of the matrix") if row[0] == "0.1"]
    errors = {"positive": [], "waves": []}
    for _ in range(40):
        query = torch.randn(32, 8, generator=draw, dtype=torch.float64) * math.sqrt(0.1) / 8**0.25
        truth, half = (query @ query.T).exp(), query.square().sum(-1, keepdim=True) / 2
        angles = query @ torch.randn(8, 64, generator=draw, dtype=torch.float64)
        positive = (angles - half).exp() / 8
        waves = torch.cat([angles[:, :32].sin(), angles[:, :32].cos()], 1) * half.exp() / math.sqrt(32)
        for name, each in (("positive", positive), ("waves", waves)):
            errors[name].append(((each @ each.T - truth).norm() / truth.norm()).item())
    (middle,) = [row for row in rows if row[1] == "64"]
    assert float(middle[2]) == pytest.approx(sum(errors["positive"]) / 40, rel=0.3)
    assert float(middle[3]) == pytest.approx(sum(errors["waves"]) / 40, rel=0.3)
    (small_scores, large_scores) = table(result, "Features for an error")
    taylor, degree = small_scores[3].rstrip(")").split(" (")
    assert number(taylor) == math.comb(8 + int(degree), int(degree))
    assert 1 <= number(small_scores[4]) <= number(large_scores[4]) <= 32 and number(small_scores[5]) <= number(large_scores[5]) <= 32


def test_noise(small):
    result = small("s4/noise")
    lengths, softmax = series(result, "Signal over noise by distance", "softmax")
    draw = torch.Generator().manual_seed(2)
    for at, length in enumerate(lengths):
        scores = torch.randn(400, int(length), generator=draw, dtype=torch.float64)
        gap = torch.full((400, 1), 4.0, dtype=torch.float64)
        first = torch.softmax(torch.cat([gap, scores], 1), 1)
        ratio = first[:, 0] / first[:, 1:].norm(dim=1)
        assert softmax[at] == pytest.approx(ratio.mean().item(), rel=0.25)
        for name, other in (("differential, 1 shared", scores), ("differential, 0 shared", torch.randn(scores.shape, generator=draw, dtype=torch.float64))):
            weights = first - 0.8 * torch.softmax(torch.cat([0 * gap, other], 1), 1)
            found = series(result, "Signal over noise by distance", name)[1][at]
            assert found == pytest.approx((weights[:, 0] / weights[:, 1:].norm(dim=1)).mean().item(), rel=0.25)
    shared = ours(result, "Signal over noise, differential over softmax, 1 of the noise shared")
    apart = ours(result, "Signal over noise, differential over softmax, 0 of the noise shared")
    assert shared > 2 > 1 > apart and verdict(result, "Signal over noise, differential over softmax, 0") == "contradicts"
    (finding,) = [each for each in result["findings"] if each["what"].startswith("Signal over noise, differential over softmax, 1")]
    assert 0 < finding["interval"] < 0.5 * shared and finding["p"] < 1e-6


def test_causal_matrix_exponentials_are_the_operator_of_python():
    """The rows that the lab calls safe are those that models use."""
    query = torch.randn(1, 1, 6, 8, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    value = torch.eye(6, dtype=torch.float64)[None, None]
    rows = cogwheel.attention(query, query, value, "matrix_exponential", causal=True)[0, 0]
    for row in range(6):
        block = query[0, 0, : row + 1]
        expected = torch.linalg.matrix_exp(block @ block.T / math.sqrt(8))[row]
        assert torch.allclose(rows[row, : row + 1], expected, rtol=1e-8)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("s1/throughput", "lengths=64,32"), "lengths: expected rising numbers, got [64, 32]"),
        (("s3/dictionary", "temperatures=1,2"), "temperatures: expected falling numbers, got [1, 2]"),
        (("s3/induction", "half=32"), "half: expected at most the vocabulary of 16, got 32"),
        (("s4/noise", "lengths=16"), "lengths: expected two at least, got 1"),
        (("s4/cost", "width=200"), "width: expected a multiple of 16, got 200"),
        (("s2/hopfield", "end_loads=0.2,0.1"), "end_loads: expected rising numbers, got [0.2, 0.1]"),
    ],
)
def test_refusals_are_one_line(cogwheel_executable, tmp_path, words, line):
    done = subprocess.run([cogwheel_executable, "reproduce", words[0], "--set", words[1]], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stderr == f"cogwheel: {line}\n" and not (tmp_path / "runs").exists()
