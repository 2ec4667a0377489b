"""`cogwheel evaluate`: what a finished run has learned, measured again, as numbers and as a page; and what `sample` takes."""

import json

import pytest

CONFIG = """
[task]
name = "parity"
length = 8
[model]
layers = 1
heads = 2
width = 16
context = 16
mechanism = "gla"
[training]
steps = 12
batch = 4
"""


@pytest.fixture(scope="module")
def cogwheel(cogwheel_in, tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluate")
    (folder / "parity.toml").write_text(CONFIG)
    run = cogwheel_in(folder)
    assert run("train", "parity.toml", "--out", "run").returncode == 0
    return run


def test_measures_are_those_at_the_end_of_training(cogwheel):
    done = cogwheel("evaluate", "run")
    assert done.returncode == 0, done.stderr
    found = json.loads((cogwheel.folder / "run/evaluation.json").read_text())
    last = json.loads((cogwheel.folder / "run/metrics.jsonl").read_text().splitlines()[-1])
    for measure in ("held_out_loss", "accuracy"):
        assert found["measures"][measure] == last.get(f"final_{measure}", last.get(measure))
    assert (found["task"], found["mechanism"], found["steps"]) == ("parity", "gla", 12)
    assert [point["difficulty"] for point in found["by_difficulty"][0]["points"]] == [2, 4, 8, 16]
    assert all(0 <= point["accuracy"] <= 1 for point in found["by_difficulty"][0]["points"])  # as in results.json
    assert f"Held-out loss {found['measures']['held_out_loss']:.4f} nats per bit" in done.stdout


def test_the_page_needs_no_network_and_no_script(cogwheel):
    assert cogwheel("evaluate", "run", "--out", "elsewhere/page").returncode == 0
    page = (cogwheel.folder / "elsewhere/page/evaluation.html").read_text()
    assert "<script" not in page and "http:" not in page and "https:" not in page and "{{" not in page
    assert "By length" in page and "beyond training" in page and "Gated linear attention on parity" in page and "cogwheel evaluate run" in page


def test_writes_no_page_among_another_result_and_tells_at_once_where_it_cannot(cogwheel):
    comparison = cogwheel.folder / "compared"
    comparison.mkdir()
    (comparison / ".cogwheel").write_text("comparison\n")
    (cogwheel.folder / "file").write_text("mine")
    for out, code, message in (
        ("compared", 2, "evaluate: --out: expected a place of its own, not the files of the comparison, got compared"),
        ("file/below", 1, "file/below: expected a folder that can be made, got a file of that name"),
    ):
        done = cogwheel("evaluate", "run", "--out", out)
        assert (done.returncode, done.stdout, done.stderr) == (code, "", f"cogwheel: {message}\n")
    assert [path.name for path in comparison.iterdir()] == [".cogwheel"]


def test_refusals_are_one_line(cogwheel):
    for words, message in (
        (["evaluate", "nothing"], "nothing: expected the folder of a run, got no config.toml in it"),
        (["sample", "run"], "run: expected a run of a task that can be sampled: language_modelling"),
    ):
        done = cogwheel(*words)
        assert done.returncode == 1 and message in done.stderr and done.stderr.count("\n") == 1


def test_another_models_weights_are_refused(cogwheel):
    config = cogwheel.folder / "run/config.toml"
    before = config.read_text()
    try:
        config.write_text(before.replace('mechanism = "gla"', 'mechanism = "softmax"'))
        done = cogwheel("evaluate", "run")
        assert done.returncode == 1 and "model.mechanism: expected" in done.stderr and done.stderr.count("\n") == 1
    finally:
        config.write_text(before)


def test_samples_a_text_and_trains_the_task_that_an_option_names(cogwheel):
    (cogwheel.folder / "text.txt").write_text("the cat sat on the mat. " * 60)
    (cogwheel.folder / "text.toml").write_text("[model]\nlayers = 1\nheads = 1\nwidth = 8\ncontext = 8\n[training]\nsteps = 2\nbatch = 2\n")
    assert cogwheel("train", "text.toml", "--text", "text.txt", "--out", "text").returncode == 0
    assert cogwheel("sample", "text", "--length", 3, "--seed", 1).returncode == 0
    chosen = cogwheel("train", "text.toml", "--set", "task.name=recall", "--set", "model.context=64", "--set", "task.pairs=4", "--out", "set")
    assert chosen.returncode == 0, chosen.stderr
