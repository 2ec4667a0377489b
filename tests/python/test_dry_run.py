"""`cogwheel train --dry-run`: what a run would take, said without making one."""

import json

import pytest

CONFIG = """
name = "small"
[model]
form = "llama"
mechanism = "cog"
vocabulary = 4000
context = 256
layers = 4
heads = 4
width = 256
feed_forward = 768
[training]
steps = 1000
batch = 8
"""
WIDTH, LAYERS, HIDDEN, VOCABULARY, CONTEXT = 256, 4, 768, 4000, 256
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


def test_memory_is_near_what_steps_take(cogwheel):
    for words in ([], ["--set", "training.precision=bf16"], ["--set", "model.mechanism=differential"]):
        found = said(cogwheel, "small.toml", "--set", "training.batch=16", *words)["measured"]
        assert found["peak_bytes"] == pytest.approx(found["said_bytes"], rel=0.15), words


def test_activations_grow_with_the_batch_and_the_average_is_counted(cogwheel):
    one, two = (said(cogwheel, "small.toml", "--set", f"training.batch={batch}", "--set", "training.ema=0.99") for batch in (4, 8))
    for name in ("activations of a slice", "logits of a slice"):
        assert parts(two)[name] == pytest.approx(2 * parts(one)[name], rel=0.05)
    assert parts(one)["average of the weights"] == parts(one)["weights"]


def test_what_has_no_room_is_said_and_not_tried(cogwheel):
    found = said(cogwheel, "cogformer-1b", "--set", "training.batch=65536")
    assert found["parameters"] == 1_033_190_144 and found["measured"] is None and found["seconds"] is None
    assert "are free" in found["not_measured"] and found["memory"]["bytes"] > 1 << 44


def test_text_says_how_often_it_is_seen(cogwheel):
    done = cogwheel("train", "small.toml", "--text", "text.txt", "--set", "model.vocabulary=0", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "small: cog, 2," not in done.stdout and "the data are seen 2" in done.stdout and "memory of a step" in done.stdout


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
