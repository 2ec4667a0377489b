"""`cogwheel train --dry-run`: what a run would take, said without making one."""

import json

import pytest

CONFIG = """
name = "small"
[model]
form = "llama"
mechanism = "cog"
vocabulary = 500
context = 64
layers = 4
heads = 4
width = 64
feed_forward = 192
[training]
steps = 1000
batch = 8
"""
WIDTH, LAYERS, HIDDEN, VOCABULARY, CONTEXT = 64, 4, 192, 500, 64
MATRICES = LAYERS * (4 * WIDTH**2 + 3 * WIDTH * HIDDEN) + VOCABULARY * WIDTH  # that multiply


@pytest.fixture(scope="module")
def cogwheel(cogwheel_in, tmp_path_factory):
    folder = tmp_path_factory.mktemp("dry_run")
    (folder / "small.toml").write_text(CONFIG)
    (folder / "text.txt").write_text("the cat sat on a mat. " * 400)
    return cogwheel_in(folder)


def said(cogwheel, *words):
    done = cogwheel("train", *words, "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def parts(found):
    return {part["name"]: part["bytes"] for part in found["memory"]["parts"]}


def test_says_what_a_run_would_take_and_writes_nothing(cogwheel):
    before = sorted(cogwheel.folder.rglob("*"))
    found = said(cogwheel, "small.toml")
    parameters = MATRICES + VOCABULARY * WIDTH + (2 * LAYERS + 1) * WIDTH
    assert found["parameters"] == parameters and found["tokens_per_step"] == 8 * CONTEXT
    assert parts(found)["weights"] == 4 * parameters and parts(found)["moments"] == 8 * parameters
    assert found["flops_per_token"]["products"] == 6 * MATRICES
    assert found["flops_per_token"]["attention"] == 12 * LAYERS * WIDTH * (CONTEXT + 1) / 2
    measured = found["measured"]
    assert found["seconds"] == pytest.approx(1000 * 8 * CONTEXT / measured["tokens_per_second"])
    assert sorted(cogwheel.folder.rglob("*")) == before


@pytest.mark.parametrize(
    "words",
    [[], *(pytest.param([mechanism], marks=pytest.mark.slow) for mechanism in ("model.mechanism=softmax", "model.mechanism=differential"))],
)
def test_memory_is_near_what_steps_take(cogwheel, words):
    sets = [word for each in ("model.context=256", "training.batch=64", *words) for word in ("--set", each)]
    found = said(cogwheel, "small.toml", *sets)["measured"]
    assert found["peak_bytes"] > 300e6  # most of it is what is counted
    assert found["peak_bytes"] == pytest.approx(found["said_bytes"], rel=0.15)


@pytest.mark.parametrize("task", ["diffusion", "images", "handwriting", "translation", "masked_words", "copying"])
def test_memory_of_other_tasks_is_known(cogwheel, task):
    (cogwheel.folder / "other.toml").write_text("[training]\nsteps = 10\nbatch = 8\n")
    small = ["model.layers=3", "model.width=64", "model.heads=2"] if task == "diffusion" else []
    found = said(cogwheel, "other.toml", *(word for each in (f"task.name={task}", *small) for word in ("--set", each)))
    assert "unknown" not in found["memory"] and parts(found)["activations of a slice"] > 1e6
    assert found["measured"]["peak_bytes"] == pytest.approx(found["measured"]["said_bytes"], rel=0.4)


def test_activations_grow_with_the_batch_and_the_average_is_counted(cogwheel):
    one, two = (said(cogwheel, "small.toml", "--set", f"training.batch={batch}", "--set", "training.ema=0.99") for batch in (4, 8))
    assert 1.7 < parts(two)["activations of a slice"] / parts(one)["activations of a slice"] < 2.1
    assert parts(one)["average of the weights"] == parts(one)["weights"]


def test_slices_share_their_activations_and_hold_sums_of_gradients(cogwheel):
    found = {slices: parts(said(cogwheel, "small.toml", "--set", f"training.micro_batches={slices}")) for slices in (1, 8)}
    assert found[8]["gradients"] == 3 * found[8]["weights"]
    assert found[1]["activations of a slice"] > 4 * found[8]["activations of a slice"]
    one_window = parts(said(cogwheel, "small.toml", "--set", "training.batch=1"))  # the gradients that are held are none of it
    assert found[8]["activations of a slice"] == pytest.approx(one_window["activations of a slice"], rel=0.1)
    again = parts(said(cogwheel, "small.toml", "--set", "training.recompute=1"))
    assert again["activations of a slice"] < 0.6 * found[1]["activations of a slice"]
    muon = parts(said(cogwheel, "small.toml", "--set", "training.optimizer=muon"))
    matrices = LAYERS * (4 * WIDTH**2 + 3 * WIDTH * HIDDEN)
    assert muon["moments"] == 2 * muon["weights"] - 4 * matrices


def test_what_has_no_room_is_said_and_not_tried(cogwheel):
    found = said(cogwheel, "cogformer-1b", "--set", "training.batch=2048", "--set", "training.micro_batches=2", "--set", "training.recompute=0")
    assert found["parameters"] == 1_033_190_144 and found["measured"] is None and found["seconds"] is None
    assert "are free" in found["not_measured"] and found["memory"]["bytes"] > 1 << 40


def test_text_says_how_often_it_is_seen(cogwheel):
    done = cogwheel("train", "small.toml", "--text", "text.txt", "--set", "model.vocabulary=0", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "the data are seen 64.6 times" in done.stdout and "memory of a step" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--json"], "--json: expected --dry-run with it, got none"),
        (["--dry-run", "--out", "run"], "--out: expected no --dry-run, which writes nothing, got run"),
        (["--dry-run", "--overwrite"], "--overwrite: expected no --dry-run, which writes nothing, got both"),
    ],
)
def test_refusals_are_one_line(cogwheel, words, message):
    done = cogwheel("train", "small.toml", *words)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"cogwheel: {message}\n")
