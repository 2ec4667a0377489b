"""The benchmarks: they time what they say, and their files can be read. No test here depends on a time."""

import json
import math
import os
import pathlib
import subprocess
import sys
import types
from xml.etree import ElementTree

import pytest
import torch

import cogwheel
from cogwheel.bench import __main__ as bench_command
from cogwheel.bench import alignment, attention, decode, eager, generation, kernel_tables, operators, options, recurrent, scale, training, tune
from cogwheel.bench.chart import CHART_JS
from cogwheel.bench.eager_training import EagerTraining
from cogwheel.bench.encoder import WordShape
from cogwheel.bench.gpt import Shape
from cogwheel.bench.handwriting import PenShape, negative_log_likelihood
from cogwheel.bench.llama import LlamaShape
from cogwheel.bench.seq2seq import BEGIN, END, SequenceShape, beam_search
from cogwheel.bench.timing import clock_of, take_turns
from cogwheel.bench.training import CogwheelSteps
from cogwheel.bench.u_vit import NoiseShape
from cogwheel.bench.vision_transformer import ImageShape


def run(executable, *words):
    return subprocess.run([executable, "bench", *words], capture_output=True, text=True, timeout=280)


def test_jobs_take_turns():
    made = []
    timings = take_turns({name: lambda name=name: made.append(name) for name in "abc"}, seconds=0.0, min_turns=4)
    assert made == list("abc") * 5  # the first turn is not counted
    assert all(timing.turns == 4 and 0 < timing.min <= timing.median for timing in timings.values())


def test_cuda_measures_between_events(monkeypatch):
    """Without a GPU: what is recorded in which order, and that milliseconds become seconds."""
    said = []

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            said.append("record")

        def synchronize(self):
            said.append("wait")

        def elapsed_time(self, end):
            assert end is not self
            return 250.0

    class Queue:
        synchronize = staticmethod(lambda: said.append("wait"))

    monkeypatch.setattr(torch, "get_device_module", lambda kind: type("Module", (), {"Event": Event}) if kind == "cuda" else Queue)
    class Memory:
        def zero_(self):
            said.append("write")

    monkeypatch.setattr(torch, "empty", lambda *sizes, dtype, device: Memory())
    assert clock_of("cuda:1")(lambda: said.append("job")) == 0.25
    assert said == ["write", "record", "job", "record", "wait"]
    said.clear()
    assert clock_of("mps")(lambda: said.append("job")) >= 0 and said == ["job", "wait"]


def test_backends_that_papers_name_are_the_same_attention():
    case = attention.Case(length=70, heads=2, head_dim=16)
    tensors = attention.inputs("softmax", case)
    plain = attention.baselines(case)[attention.BASELINE]
    assert attention.usable_backends(case) == ["torch FlashAttention-2"]  # a CPU has no cuDNN
    torch.testing.assert_close(attention.by_backend("torch FlashAttention-2", case)(**tensors), plain(**tensors))
    asked = attention.deterministic(lambda: (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()))
    assert asked() == (True, False) and not torch.are_deterministic_algorithms_enabled()


# The benchmarks in this process, which has registered a device that tests emulate.
ON_DEVICE = """
import sys
import emulated_device
from cogwheel.bench.__main__ import main
from cogwheel.bench import decode
decode.MIN_BYTES = 1
main(sys.argv[1:])
"""


def python(program, *words, **environment):
    path = os.pathsep.join([str(pathlib.Path(__file__).parent), *sys.path])
    command = [sys.executable, "-c", program, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=280, env={**os.environ, **attention.ALLOCATOR, "PYTHONPATH": path, **environment})


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["attention", "--backward", "--memory"], ["torch softmax", "cog", "eager cog", "differential", "eager differential", "gla", "chunked gla", "loop gla"]),
        (["decode"], ["reading K and V", "torch softmax", "cog", "differential", "gla"]),
    ],
    ids=["attention", "decode"],
)
def test_another_device(words, names, tmp_path):
    done = python(
        ON_DEVICE, *words, "--device", "emulated", "--mechanisms", "cog", "differential", "gla", "--lengths", "40", "--heads", "2", "--head-dim", "8", "--seconds", "0.01", "--out", tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    whole = json.loads((tmp_path / "bench.json").read_text())
    assert [row["name"] for row in whole["results"]] == names and whole["machine"]["device"] == "emulated"
    assert all(row["case"]["device"] == "emulated" and row["least_seconds"] > 0 for row in whole["results"])
    assert "emulated, CUDA none" in done.stdout


TUNED = """
import sys
import torch
from cogwheel.bench import attention, tune
from cogwheel.bench.__main__ import main
tune.CANDIDATES = (16, 32, 4, 1), (32, 16, 4, 2), (3, 32, 4, 1)
case = attention.Case(length=70, heads=1, head_dim=16, backward=True)
calls = {name: attention.job(attention.peers(name, case, with_eager=False, with_flex=False)[name], attention.inputs(name, case), True) for name in ("softmax", "cog")}
before = {name: call() for name, call in calls.items()}
for kernel in tune.FORWARD + tune.BACKWARD:
    torch.ops.cogwheel.try_block_sizes(kernel, (16, 16, 4, 1))
    for name, call in calls.items():
        found = call()
        torch.testing.assert_close(found, before[name], rtol=1e-5, atol=1e-5)
        assert not all(map(torch.equal, found, before[name])), kernel  # other blocks add in another order
    torch.ops.cogwheel.try_block_sizes(kernel, ())
tune.CANDIDATES = tune.CANDIDATES[:2]
tune.trials.__kwdefaults__["turns"] = 1
main(sys.argv[1:])
assert all(map(torch.equal, calls["cog"](), before["cog"]))  # the table's sizes again
"""


def test_tuning_tries_other_blocks_and_leaves_the_table(tmp_path):
    pytest.importorskip("triton")
    done = python(TUNED, "attention", "--tune", "--backward", "--mechanisms", "cog", "--lengths", "70", "--heads", "1", "--head-dim", "16", "--out", tmp_path, COGWHEEL_ENGINE="interpreted")
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "bench.json").read_text())["results"]
    assert [(row["kernel"], row["sizes"]) for row in rows] == [(kernel, list(sizes)) for kernel in tune.FORWARD + tune.BACKWARD for sizes in ((16, 32, 4, 1), (32, 16, 4, 2))]
    assert all(row["seconds"] > 0 and row["seconds_of_table"] > 0 for row in rows) and "32 rows x 16 keys, 4 warps, 2 stages" in done.stdout
    assert not (tmp_path / "bench.html").exists()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["attention", "--device", "cudda"], "device: expected one of PyTorch's on this machine, got cudda ("),
        (["decode", "--device", "xpu"], "device: expected one of PyTorch's on this machine, got xpu ("),
        (["attention", "--tune"], "tune: expected --device cuda, whose kernels have blocks, got cpu\n"),
    ],
)
def test_devices_that_are_not_there_are_refused(words, line, capsys):
    with pytest.raises(SystemExit) as ended:
        bench_command.main(words)
    said = capsys.readouterr().err
    assert ended.value.code == 2 and said.startswith(f"cogwheel: bench: {line}") and said.count("\n") == 1


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("mechanism", [*eager.WEIGHTS, "differential"])
def test_the_eager_peer_is_the_same_mechanism(mechanism, causal):
    case = attention.Case(length=40, heads=4, head_dim=16, causal=causal)
    tensors = {name: tensor.double() for name, tensor in attention.inputs(mechanism, case).items()}
    ours = cogwheel.attention(mechanism=mechanism, causal=causal, **tensors)
    theirs = eager.attention(mechanism)(causal=causal, **tensors)
    # What keeps the sum of a ReLU away from 0 is not the same number.
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4 if mechanism == "relu" else 1e-12)


@pytest.mark.parametrize("name", alignment.ALIGNMENTS)
@pytest.mark.parametrize("mechanism", ["softmax", "cog", "sigmoid"])
def test_the_eager_peer_is_the_same_alignment(name, mechanism):
    case = alignment.Case(steps=4, batch=3, source=25, width=16)
    leaves = {each: tensor.double().requires_grad_() for each, tensor in alignment.inputs(name, case).items()}
    sides = [side(name, mechanism, case)(**leaves) for side in (alignment.cogwheel_side, alignment.eager_side)]
    torch.testing.assert_close(*sides, rtol=1e-9, atol=1e-12)
    assert torch.autograd.grad(sides[0].sum(), list(leaves.values()))  # every tensor has a part in the result


@pytest.mark.parametrize("mechanism", recurrent.EAGER)
def test_loops_and_chunks_are_the_same_law(mechanism):
    case = attention.Case(length=150, heads=2, head_dim=16)
    tensors = {name: tensor.double() for name, tensor in attention.inputs(mechanism, case).items()}
    (_, ours), *peers = recurrent.peers(mechanism, 150, causal=True, with_eager=True).items()
    assert [name for name, _ in peers] == [f"chunked {mechanism}", f"loop {mechanism}"]
    for _, attend in peers:
        torch.testing.assert_close(attend(**tensors), ours(**tensors), rtol=1e-9, atol=1e-9)
    halved = {name: tensor.bfloat16() for name, tensor in tensors.items()}
    assert all(attend(**halved).dtype == torch.bfloat16 for _, attend in peers)


def fla_loop(q, k, v, g=None, g_gamma=None, beta=None, normalize=False):
    """What fla says that its functions are, token by token, of tensors [B, T, H, …]."""
    assert not normalize and all(each.is_contiguous() for each in (q, k, v))
    batch, tokens, heads, width = q.shape
    state, outputs = q.new_zeros(batch, heads, width, v.shape[-1]), []
    for t in range(tokens):
        decay = g_gamma[None, :, None] if g_gamma is not None else q.new_zeros(1, 1, 1) if g is None else g[:, t] if g.dim() == 4 else g[:, t, :, None]
        state = decay.exp()[..., None] * state
        written = v[:, t] if beta is None else beta[:, t, :, None] * (v[:, t] - torch.einsum("bhk,bhkv->bhv", k[:, t], state))
        state = state + torch.einsum("bhk,bhv->bhkv", k[:, t], written)
        outputs.append(torch.einsum("bhk,bhkv->bhv", q[:, t] * width**-0.5, state))
    return torch.stack(outputs, 1), None


@pytest.mark.parametrize("mechanism", recurrent.FLA)
def test_fla_is_given_the_same_law(mechanism, monkeypatch):
    """Of fla only its shapes and names are known here, as its kernels need a GPU."""
    module, function, _ = recurrent.FLA[mechanism]
    monkeypatch.setattr(recurrent.importlib.util, "find_spec", lambda name: name == "fla")
    monkeypatch.setattr(recurrent.importlib, "import_module", lambda name: types.SimpleNamespace(**{function: fla_loop}) if name == f"fla.ops.{module}" else None)
    case = attention.Case(length=20, batch=2, heads=2, head_dim=8)
    tensors = {name: tensor.double() for name, tensor in attention.inputs(mechanism, case).items()}
    as_layers = {name: tensor.transpose(1, 2).contiguous().transpose(1, 2) if tensor.dim() > 2 else tensor for name, tensor in tensors.items()}
    found = recurrent.peers(mechanism, 20, causal=True, with_eager=False, on_cuda=True)
    assert list(found) == [mechanism, f"fla {mechanism}"]
    limits = dict.fromkeys(("rtol", "atol"), 1e-6 if mechanism == "retnet" else 1e-9)  # whose decays are given in float32
    torch.testing.assert_close(found[f"fla {mechanism}"](**as_layers), found[mechanism](**tensors), **limits)
    whole = attention.job(found[f"fla {mechanism}"], as_layers, True)()
    assert all(each is not None for each in whole)
    monkeypatch.setattr(recurrent.importlib, "import_module", lambda name: types.SimpleNamespace(**{function: lambda q, k, v, **own: fla_loop(q, k, v, **{name: each if name == "normalize" else each.detach() for name, each in own.items()})}))
    of_some = attention.job(found[f"fla {mechanism}"], as_layers, True, every=False)()
    assert sum(each is not None for each in of_some) == 3  # of RetNet's decays fla gives none
    assert list(recurrent.peers(mechanism, 20, causal=True, with_eager=False)) == [mechanism]
    for name, tensor in recurrent.inputs(mechanism, case.sizes(), torch.bfloat16, "meta").items():
        assert tensor.dim() < 3 or (tensor.device.type == "meta" and tensor.shape == tensors[name].shape and tensor.transpose(1, 2).is_contiguous())


STATEFUL = [entry["name"] for entry in cogwheel.mechanisms() if entry["family"] == "recurrent"]


@pytest.mark.parametrize("mechanism", STATEFUL)
def test_every_mechanism_with_a_state_is_timed(mechanism, monkeypatch):
    monkeypatch.setattr(decode, "MIN_BYTES", 1)  # of caches of keys, beside which a state is timed
    case = attention.Case(length=20, heads=2, head_dim=8, backward=True)
    timings = attention.measure([mechanism], case, seconds=0.0, with_eager=False, with_flex=False)
    assert list(timings) == [attention.BASELINE, mechanism] and attention.flops(mechanism, case) == 7 * 2 * 2 * 20 * 64
    steps = decode.measure([mechanism], decode.Case(length=20, heads=2, head_dim=8), seconds=0.0)
    assert steps[mechanism].min > 0


def test_flops_count_what_is_visible():
    full = attention.Case(length=64, heads=2, head_dim=32, causal=False)
    assert full.flops() == 4 * 64 * 64 * 2 * 32
    causal = attention.Case(length=64, heads=2, head_dim=32, backward=True)
    assert causal.flops() == 14 * (64 * 65 / 2) * 2 * 32
    assert full.flops(full.value_dim("differential")) == 6 * 64 * 64 * 2 * 32


def test_decode_prints_and_writes_what_it_found(cogwheel_executable, tmp_path):
    done = run(
        cogwheel_executable, "decode", "--mechanisms", "cog", "differential", "--lengths", "40000", "--heads", "2",
        "--group", "2", "--seconds", "0.1", "--dtype", "bf16", "--out", tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    whole = json.loads((tmp_path / "bench.json").read_text())
    rows = {row["name"]: row for row in whole["results"]}
    assert list(rows) == ["reading K and V", "torch softmax", "cog", "differential"]
    assert all(name in done.stdout for name in rows) and "GB/s" in done.stdout
    for row in rows.values():
        assert row["ratio"] == pytest.approx(row["least_seconds"] / rows["reading K and V"]["least_seconds"])
        assert row["gigabytes_per_second"] == pytest.approx(2 * 2 * 40000 * 64 * 2 / row["least_seconds"] / 1e9)
        assert row["case"]["group"] == 2 and row["turns"] >= 3
    refused = run(cogwheel_executable, "decode", "--group", "0")
    assert refused.returncode == 2 and refused.stderr == "cogwheel: bench: group: expected 1 or more, got 0\n"


def test_attention_prints_and_writes_what_it_found(cogwheel_executable, tmp_path):
    mechanisms = ["differential"]
    done = run(
        cogwheel_executable, "attention", "--mechanisms", *mechanisms, "--lengths", "1024", "--seconds", "0.1",
        "--heads", "2", "--backward", "--memory", "--out", tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    whole = json.loads((tmp_path / "bench.json").read_text())
    names = ["torch softmax", *(f"{kind}{name}" for name in mechanisms for kind in ("", "eager "))]
    assert [row["name"] for row in whole["results"]] == names
    assert all(name in done.stdout for name in names) and "ratio" in done.stdout
    assert whole["machine"]["allocator"]["MALLOC_MMAP_THRESHOLD_"] == "4294967296"
    by_name = {row["name"]: row for row in whole["results"]}
    base = by_name["torch softmax"]["least_seconds"]
    for row in by_name.values():
        assert row["case"]["length"] == 1024 and row["case"]["backward"]
        assert row["ratio"] == pytest.approx(row["least_seconds"] / base)
        assert 0 < row["least_seconds"] <= row["median_seconds"] and row["gflops"] > 0
    # The eager matrix of weights, of two heads, is there several times. Large enough for the resident size, which Linux
    # counts in steps of some 100 KiB per thread.
    assert by_name["eager differential"]["peak_memory_bytes"] > 2 * 2 * 1024 * 1024 * 4
    page = (tmp_path / "bench.html").read_text()
    assert all(name in page for name in names) and "Throughput" in page and "Memory" in page
    assert 'src="http' not in page and 'href="http' not in page and CHART_JS.read_text() in page
    drawn = ElementTree.parse(tmp_path / "bench.svg")
    texts = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {name if " " in name else f"Cogwheel {name}" for name in names} <= set(texts)
    for row in json.loads((tmp_path / "bench.json").read_text())["results"]:
        assert f"{row['ratio']:.2f}" in texts, row


def test_alignment_prints_and_writes_what_it_found(capsys, tmp_path):
    words = ["alignment", "--alignments", "additive", "general_local_p", "--steps", "1", "3", "--batch", "2", "--width", "16"]
    bench_command.main([*words, "--mechanisms", "softmax", "cog", "--seconds", "0.01", "--out", str(tmp_path)])
    said = capsys.readouterr().out
    rows = json.loads((tmp_path / "bench.json").read_text())["results"]
    names = ["additive", "additive_cog", "general_local_p", "general_local_p_cog"]
    assert [row["name"] for row in rows] == [side + name for _ in range(2) for name in names for side in ("", "eager ")]
    assert all(f"  {name} " in said for name in names) and "3 steps at once, batch 2" in said
    for ours, theirs in zip(rows[::2], rows[1::2]):
        assert ours["ratio"] == pytest.approx(ours["least_seconds"] / theirs["least_seconds"]) and theirs["ratio"] == 1


def test_training_takes_turns_with_the_peer(cogwheel_executable, tmp_path):
    done = run(
        cogwheel_executable, "training", "--model", "tiny", "--mechanisms", "cog", "symmetric", "--precision", "fp32", "bf16",
        "--seconds", "0.2", "--out", tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "bench.json").read_text())["results"]
    assert [(row["precision"], row["name"]) for row in rows] == [
        (precision, name) for precision in ("fp32", "bf16") for name in ("eager GPT", "cog", "symmetric")
    ]
    assert all(row["tokens_per_second"] > 0 and row["turns"] >= 3 for row in rows)


def test_operators_of_a_step_are_told_beside_the_machine(cogwheel_executable, tmp_path):
    done = run(
        cogwheel_executable, "training", "--model", "tiny", "--mechanisms", "cog", "--precision", "fp32", "--operators",
        "--seconds", "0.2", "--out", tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "GB/s" in done.stdout and "cogwheel::pairwise_backward" in done.stdout and "all others" in done.stdout
    rows = {}
    for row in json.loads((tmp_path / "bench.json").read_text())["results"]:
        rows.setdefault(row["name"], []).append(row)
    shape = training.SHAPES["tiny"]
    (forward,), (backward,) = rows["cogwheel::pairwise"], rows["cogwheel::pairwise_backward"]
    assert forward["calls"] == backward["calls"] == shape.layers
    assert forward["sizes"][0] == [shape.batch, shape.heads, shape.context, shape.width // shape.heads]
    assert all(row["seconds"] > 0 and row["least"] >= 0 for found in rows.values() for row in found)


def test_work_of_an_operator():
    assert operators.floating_operations("cogwheel::matrix_product", [[2, 3, 4], [5, 4]]) == 2 * 6 * 4 * 5
    assert operators.floating_operations("aten::addmm", [[5], [6, 4], [4, 5]]) == 2 * 6 * 4 * 5
    heads = [[2, 3, 10, 8], [2, 1, 12, 8], [2, 1, 12, 8]]
    assert operators.floating_operations("cogwheel::pairwise", heads) == 2 * 2 * 3 * 10 * 12 * 8  # half of two products
    backward = [[2, 3, 10, 6], *heads]  # the gradient comes first
    assert operators.floating_operations("cogwheel::pairwise_backward", backward) == 5 * 2 * 3 * 10 * 12 * 8
    assert operators.floating_operations("aten::gelu", [[6, 4]]) == 0


@pytest.mark.parametrize(
    "shape, parameters, first",
    [
        (Shape(layers=2, heads=2, width=32, context=32, batch=8, vocabulary=65), 27840, math.log(65)),
        (SequenceShape(width=32, vocabulary=70, batch=4, source=5, target=6), 22758, math.log(70)),
        (PenShape(layers=3, width=32, mixtures=3, curves=2, alphabet=9, batch=4, points=12, characters=3), 27897, None),
        (WordShape(layers=2, heads=2, width=32, length=12, vocabulary=50, batch=4), 28690, math.log(50)),
        (ImageShape(layers=2, heads=2, width=32, side=12, patch=4, classes=7, batch=4), 27623, math.log(7)),
        (NoiseShape(layers=3, heads=2, width=32, side=8, patch=2, batch=4), 41408, None),
    ],
    ids=["gpt", "seq2seq", "handwriting", "encoder", "vit", "u_vit"],
)
def test_both_sides_train_the_same_model(shape, parameters, first, cogwheel_executable):
    """Equal numbers of parameters, and at the start the loss of a guess."""
    torch.manual_seed(0)
    peer = EagerTraining(shape.model(), shape.random_batch, "fp32")
    ours = CogwheelSteps(cogwheel_executable, shape.words(shape.mechanisms[0]))
    found = sum(weight.numel() for weight in peer.model.parameters())
    assert ours.parameters == found == parameters
    losses = [[side.step() for _ in range(3)] for side in (ours, peer)]
    assert all(map(math.isfinite, losses[0] + losses[1]))
    if first is not None:
        assert [each[0] for each in losses] == pytest.approx([first, first], abs=0.1 if isinstance(shape, Shape) else 0.5)
    ours.close()
    assert ours.process.returncode == 0


def test_the_eager_search_finds_the_best_sequences():
    """A beam that holds all sequences of two tokens finds the most probable one."""
    torch.manual_seed(0)
    shape = SequenceShape(width=8, vocabulary=9, batch=3, source=4, target=3)
    model = shape.model()
    torch.nn.init.normal_(model.embedding.weight)
    source, lengths, *_ = shape.random_batch()
    tokens = [each for each in range(9) if each != END]
    pairs = torch.cartesian_prod(torch.tensor(tokens), torch.tensor(tokens))
    with torch.no_grad():
        read = [each.repeat_interleave(len(pairs), 0) for each in model.read(source, lengths)]
        state, total = read[-1], 0.0
        token = torch.full((3 * len(pairs),), BEGIN)
        for target in pairs.repeat(3, 1).unbind(1):
            embedded = model.embedding(token)
            state, context = model.step(embedded, state, *read[:3])
            total = total + model.logits(state, context, embedded).log_softmax(-1).gather(1, target[:, None])[:, 0]
            token = target
    best = pairs[total.view(3, -1).argmax(1)]
    assert beam_search(model, source, lengths, 64, 2).equal(best)


def test_the_density_of_the_eager_pen_is_that_of_pytorch():
    generator = torch.Generator().manual_seed(0)
    y = torch.randn(2, 5, 1 + 6 * 3, generator=generator, dtype=torch.float64)
    points = torch.randn(2, 5, 3, generator=generator, dtype=torch.float64)
    points[..., 2] = (points[..., 2] > 0).double()
    weight, mean_x, mean_y, log_x, log_y, r = y[..., 1:].chunk(6, -1)
    x, y_, rho = log_x.exp(), log_y.exp(), r.tanh()
    covariance = torch.stack([x**2, rho * x * y_, rho * x * y_, y_**2], -1).unflatten(-1, (2, 2))
    gaussians = torch.distributions.MultivariateNormal(torch.stack([mean_x, mean_y], -1), covariance)
    mixture = torch.distributions.MixtureSameFamily(torch.distributions.Categorical(logits=weight), gaussians)
    coin = torch.distributions.Bernoulli(logits=y[..., 0])
    expected = -(mixture.log_prob(points[..., :2]) + coin.log_prob(points[..., 2])).mean()
    torch.testing.assert_close(negative_log_likelihood(y, points), expected, rtol=1e-10, atol=0)


@pytest.mark.parametrize("model", ["seq2seq", "handwriting", "encoder", "vit", "u_vit", "141m"])
def test_other_models_are_timed(model, cogwheel_executable, tmp_path, monkeypatch):
    small = {
        "seq2seq": SequenceShape(width=16, vocabulary=50, batch=2, source=3, target=3),
        "handwriting": PenShape(layers=2, width=16, mixtures=2, curves=2, alphabet=5, batch=2, points=6, characters=3),
        "encoder": WordShape(layers=2, heads=2, width=16, length=6, vocabulary=20, batch=2),
        "vit": ImageShape(layers=2, heads=2, width=16, side=4, patch=2, classes=3, batch=2),
        "u_vit": NoiseShape(layers=3, heads=2, width=16, side=4, patch=2, batch=2),
        "141m": LlamaShape(layers=2, heads=2, width=16, context=6, batch=2, vocabulary=20, hidden=32),
    }
    peer = small[model].peer
    monkeypatch.setattr(training, "SHAPES", small)
    monkeypatch.setenv("COGWHEEL_EXECUTABLE", str(cogwheel_executable))
    commands = {("training", "--model", model, "--precision", "fp32"): [peer]}
    if model == "seq2seq":
        commands["beam", "--beams", "3"] = [peer, "one source at a time"]
    for words, peers in commands.items():
        bench_command.main([*words, "--seconds", "0.05", "--out", str(tmp_path)])
        rows = json.loads((tmp_path / "bench.json").read_text())["results"]
        assert [row["name"] for row in rows] == [*peers, *small[model].mechanisms]
        assert all(row[f"{small[model].counted}_per_second"] > 0 for row in rows)


@pytest.mark.parametrize(
    "words, said",
    [
        ([], "model.vocabulary: expected at least 1, got 0"),
        (["--set=task.name=translation", "--set=model.vocabulary=4"], "model.vocabulary: expected at least 5, got 4"),
        (["--set=task.name=handwriting", "--set=model.vocabulary=60000"], "model.vocabulary: expected at most 50000, got 60000"),
        (
            ["--set=task.name=parity"],
            "task: expected one of language_modelling, translation, handwriting, masked_words, images, diffusion, got parity",
        ),
        (["--set=task.name=masked_words", "--set=model.vocabulary=15"], "model.vocabulary: expected at least 16, got 15"),
        (["--set=task.name=masked_words", "--set=model.vocabulary=16", "--length=4"], "--length: expected at least 5, got 4"),
        (["--set=task.name=images", "--set=model.vocabulary=2"], "model.image_size: expected at least 1, got 0"),
        (["--set=task.name=diffusion", "--set=model.image_size=8"], "model.channels: expected at least 1, got 0"),
        (["--set=task.name=diffusion", "--set=model.vocabulary=2"], "model.vocabulary: expected at most 0, got 2"),
        (["--beam=3", "--set=model.vocabulary=9"], "--beam: expected the task translation, got language_modelling"),
    ],
)
def test_random_items_that_are_none_are_refused(words, said, cogwheel_executable):
    done = subprocess.run([cogwheel_executable, "bench-steps", *words], capture_output=True, text=True, input="step\n")
    assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_an_unknown_alignment_is_refused_by_name(cogwheel_executable):
    done = run(cogwheel_executable, "training", "--model", "seq2seq", "--mechanisms", "luong_dott")
    assert done.returncode == 2 and "luong_dot" in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_fp16_is_timed_too(cogwheel_executable):
    """bf16 is timed by what docs/command-line.md runs."""
    words = ("--lengths", "64", "--heads", "2", "--seconds", "0.05", "--no-eager", "--mechanisms", "cog")
    done = run(cogwheel_executable, "attention", "--dtype", "fp16", *words)
    assert done.returncode == 0, done.stderr
    assert "GF/s in fp16" in done.stdout and "cog" in done.stdout


@pytest.mark.parametrize(
    "words, said",
    [
        (["attention", "--lengths", "512", "99999999999999999999"], "lengths: expected at most 16777216, got 99999999999999999999"),
        (["decode", "--batch", "65537"], "batch: expected at most 65536, got 65537"),
        (["decode", "--seconds", "-1"], "seconds: expected above 0, at most 86400, got -1.0"),
        (["training", "--seconds", "nan"], "seconds: expected above 0, at most 86400, got nan"),
        (["attention", "--heads", "many"], "argument --heads: invalid int value: 'many'"),
    ],
)
def test_numbers_have_a_range(capsys, words, said):
    with pytest.raises(SystemExit) as refused:
        options.check_numbers(options.parser().parse_args(words))
    assert refused.value.code == 2
    assert capsys.readouterr().err == f"cogwheel: bench: {said}\n"


@pytest.mark.parametrize(
    "words, said",
    [
        (["attention", "--mechanisms", "softmacks"], "got softmacks"),
        (["attention", "--mechanisms", "symmetric"], "expected names from `cogwheel list mechanisms` (operator), got symmetric"),
        (["decode", "--mechanisms", "gla", "--group", "2"], "group: expected 1 for gla, got 2"),
        (["attention", "--lengths", "0"], "lengths: expected 1 or more, got 0"),
        (["attention", "--head-dim", "4"], "head_dim: expected 8 to 1024, got 4"),
        (["attention", "--heads", "3"], "heads: expected an even number for differential, got 3"),
        (["attention", "--out", "/dev/null/bench"], "out: expected a folder, got /dev/null/bench"),
        (["attention", "--dtype", "int8"], "invalid choice: 'int8'"),
        (["attention", "--mechanisms", "gla", "--head-dim", "512"], "head_dim: expected 8 to 256, got 512"),
        (["alignment", "--alignments", "bahdanau"], "invalid choice: 'bahdanau'"),
        (["alignment", "--width", "2048"], "width: expected at most 1024, got 2048"),
        (["alignment", "--mechanisms", "consmax"], "(those of eager PyTorch), got consmax"),
        (["training", "--model", "huge"], "invalid choice: 'huge'"),
        ([], "required"),
    ],
)
def test_refuses_in_one_line(capsys, words, said):
    with pytest.raises(SystemExit) as ended:
        bench_command.main(words)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err.strip().splitlines()[-1]


def test_a_law_that_cannot_see_all_is_refused_in_one_line(capsys, monkeypatch):
    monkeypatch.setattr(kernel_tables, "product_peak", lambda dtype, device: 1.0)
    with pytest.raises(SystemExit) as ended:
        bench_command.main(["attention", "--mechanisms", "gla", "--full", "--lengths", "8", "--heads", "2", "--seconds", "0.01"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == "cogwheel: bench: recurrent: causal: expected True for gla, got False\n"


def test_transformers_has_the_same_weights_and_makes_the_same_text():
    pytest.importorskip("transformers")
    sides = generation.Sides(generation.SHAPES["tiny"])
    with torch.no_grad():
        for parameter in sides.model.parameters():
            parameter.mul_(4)
    peer = generation.peer_of(sides.model, sides.shape)
    prompts = generation.prompts_of(sides.shape, 3, 9)
    with torch.no_grad():
        torch.testing.assert_close(sides.model(prompts), peer(prompts).logits, atol=1e-4, rtol=0)
    ours = torch.stack([each.tokens for each in sides.model.generate(list(prompts), length=12, temperature=0)])
    assert torch.equal(ours, generation.greedy(peer, prompts, 12))


@pytest.mark.slow
def test_generation_is_timed_and_written(tmp_path, cogwheel_executable):
    done = run(cogwheel_executable, "generation", "--model", "tiny", "--tokens", "12", "--seconds", "0.1", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "bench.json").read_text())["results"]
    kinds = ["fp32", "bf16", "int8"] + [f"transformers {kind}" for kind in generation.THEIRS if generation.has_peer()]
    assert [each["name"] for each in results if each["case"] == "after a short prompt"] == kinds
    assert {each["case"] for each in results} == {"after a short prompt", "8 texts side by side", "a prompt of 1024 tokens", "12 tokens"}
    assert all(each["tokens_per_second"] > 0 for each in results)
    refused = run(cogwheel_executable, "generation", "--tokens", "5000")
    assert (refused.returncode, refused.stderr) == (2, "cogwheel: bench: tokens: expected at most 2030, got 5000\n")


@pytest.mark.slow
def test_ranks_are_timed_beside_their_peer(monkeypatch, tmp_path, capsys):
    tiny = Shape(layers=1, heads=2, width=32, context=32, batch=4, vocabulary=65)
    monkeypatch.setattr(scale, "SHAPES", {"6x384": tiny})
    bench_command.main(["scale", "--sizes", "6x384", "--seconds", "0.1", "--out", str(tmp_path)])
    results = json.loads((tmp_path / "bench.json").read_text())["results"]
    assert [each["name"] for each in results] == [scale.OURS_ALONE, scale.OURS, scale.OURS_DIVIDED, scale.PEER_ALONE, scale.PEER]
    assert all(each["least_seconds"] > 0 and each["share"] > 0 for each in results)
    assert scale.PEER in capsys.readouterr().out


@pytest.mark.parametrize(
    "words, line",
    [
        (["--ranks", "3"], "ranks: expected a power of two, got 3"),
        (["--ranks", "32"], "ranks: expected a divisor of the batch of 16, got 32"),
        (["--mechanisms", "cog"], "mechanisms: expected none, the model has softmax, got cog"),
    ],
)
def test_ranks_that_cannot_be_timed(words, line, capsys):
    with pytest.raises(SystemExit) as status:
        bench_command.main(["scale", *words])
    assert status.value.code == 2 and line in capsys.readouterr().err
