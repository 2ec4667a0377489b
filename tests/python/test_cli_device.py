"""`--device` of what reads a trained model, on a device that the tests emulate: the same results as on the CPU, to rounding."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
from resumed_runs import metrics

RUN = """
[task]
name = "language_modelling"
[model]
mechanism = "cog+differential+{last}"
width = 32
heads = 4
layers = 3
context = 64
[training]
steps = 2
batch = 2
warm_up = 1
learning_rate = 0.05
curve_tokens = 128
"""
# The command line in this process, which has registered the device.
PROGRAM = """
import sys
import emulated_device
from cogwheel.__main__ import main
sys.argv[0] = "cogwheel"
main()
"""
CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))


@pytest.fixture(scope="module")
def runs(cogwheel_in, tmp_path_factory):
    folder = tmp_path_factory.mktemp("device")
    (folder / "text.txt").write_text((CHARACTERS + "the quick brown fox jumps over the lazy dog. ") * 120)
    cogwheel = cogwheel_in(folder)
    for name, last in (("pairs", "softmax"), ("states", "gla")):
        (folder / f"{name}.toml").write_text(RUN.format(last=last))
        done = cogwheel("train", f"{name}.toml", "--text", "text.txt", "--out", name)
        assert done.returncode == 0, done.stderr
    return folder


def on_device(folder: pathlib.Path, *words: str, place: tuple[str, ...] = ("--device", "emulated")) -> subprocess.CompletedProcess:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(pathlib.Path(__file__).parent), *sys.path])}
    return subprocess.run([sys.executable, "-c", PROGRAM, *words, *place], cwd=folder, env=environment, capture_output=True, text=True)


def both(cogwheel_in, folder: pathlib.Path, *words: str, out: str | None = None) -> tuple[str, str]:
    """What is printed here and there, or written to a file of what `out` names."""
    found = []
    for place in ("here", "there"):
        extra = ["--out" if words[0] != "view" else "--export", f"{out}-{place}"] if out else []
        done = cogwheel_in(folder)(*words, *extra) if place == "here" else on_device(folder, *words, *extra)
        assert done.returncode == 0, done.stderr
        if place == "there":
            assert "attention on emulated: composed" in done.stderr
        found.append(done.stdout)
    return tuple(found)


def numbers_of(found) -> list[float]:
    """All that was measured, in order: not how long it took."""
    if isinstance(found, dict):
        return [number for name, each in found.items() if name != "seconds" for number in numbers_of(each)]
    if isinstance(found, list):
        return [number for each in found for number in numbers_of(each)]
    return [found] if isinstance(found, float) else []


@pytest.mark.parametrize("name", ["pairs", "states"])
def test_train(runs, name):
    """Batches are made ahead there."""
    done = on_device(runs, "train", f"{name}.toml", "--text", "text.txt", "--out", f"{name}-there", place=("--set", "training.device=emulated"))
    assert done.returncode == 0 and "attention on emulated: composed" in done.stderr, done.stderr
    here, there = (metrics(runs / each)[-1] for each in (name, f"{name}-there"))
    assert here["step"] == there["step"] == 2
    for number in ("train_loss", "held_out_loss", "gradient_norm"):
        assert here[number] == pytest.approx(there[number], rel=1e-4), number


@pytest.mark.parametrize("options", [(), ("--beam", "2"), ("--cache", "bf16")], ids=["greedy", "beam", "cache"])
def test_sample(cogwheel_in, runs, options):
    here, there = both(cogwheel_in, runs, "sample", "pairs" if options else "states", "--prompt", "the quick", "--length", "20", "--temperature", "0", *options)
    assert here == there and len(here) > 20


def test_evaluate(cogwheel_in, runs):
    both(cogwheel_in, runs, "evaluate", "pairs", "--cache", "bf16", out="measured")
    here, there = (json.loads((runs / f"measured-{place}" / "evaluation.json").read_text()) for place in ("here", "there"))
    assert here["measures"]["held_out_loss"] == pytest.approx(there["measures"]["held_out_loss"], rel=1e-5)
    page = (runs / "measured-there" / "evaluation.html").read_text()
    assert "cogwheel evaluate pairs --cache bf16 --device emulated" in page


IOI = """
[task]
name = "ioi"
[model]
mechanism = "cog"
width = 32
heads = 4
layers = 2
[training]
steps = 2
batch = 4
warm_up = 1
curve_tokens = 128
"""


def test_names_that_are_told(cogwheel_in, runs):
    (runs / "ioi.toml").write_text(IOI)
    done = cogwheel_in(runs)("train", "ioi.toml", "--out", "names")
    assert done.returncode == 0, done.stderr
    both(cogwheel_in, runs, "inspect", "ioi", "names", out="ioi")
    here, there = (numbers_of(json.loads((runs / f"ioi-{place}" / "results.json").read_text())) for place in ("here", "there"))
    assert here == pytest.approx(there, rel=2e-3, abs=2e-4)


STUDIES = ["heads", "length", "kept_keys", "squashing", "symmetry"]
MORE_STUDIES = ["collapse", "ranks", "pruning", "layers", "values", "spectrum", "gallery"]


@pytest.mark.parametrize("study", STUDIES + [pytest.param(study, marks=pytest.mark.slow) for study in MORE_STUDIES])
def test_inspect(cogwheel_in, runs, study):
    both(cogwheel_in, runs, "inspect", study, "pairs", out=study)
    here, there = (numbers_of(json.loads((runs / f"{study}-{place}" / "results.json").read_text())) for place in ("here", "there"))
    assert len(here) == len(there) > 0
    # Ranks count singular values, and asymmetries divide by small sums.
    assert here == pytest.approx(there, rel=2e-3, abs=2e-4)


def test_view(cogwheel_in, runs):
    both(cogwheel_in, runs, "view", "pairs", "--text", "the quick brown", out="page.html")
    assert (runs / "page.html-there").stat().st_size > 10_000


def test_bad_input(cogwheel_in, runs):
    cogwheel = cogwheel_in(runs)
    for words in (["sample", "pairs"], ["evaluate", "pairs"], ["inspect", "heads", "pairs"], ["view", "pairs"]):
        said = f"cogwheel: {words[0]}: --device: expected"
        assert cogwheel(*words, "--device", "gpu").stderr.startswith(f"{said} cpu, xpu, mps (the nearest of 4 names), with a number as in cuda:1 or without, got gpu")
        assert cogwheel(*words, "--device", "xpu").stderr == f"{said} a device that this machine and its PyTorch have, such as cpu, got xpu\n"
    said = "cogwheel: evaluate: --device: expected none beside --harness, got one\n"
    assert cogwheel("evaluate", "pairs", "--harness", "copa", "--device", "cuda").stderr == said
