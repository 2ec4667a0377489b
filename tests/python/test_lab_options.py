"""Options of `cogwheel reproduce` beside --set, of experiments that are labs."""

import json
import re

import pytest

# Some minutes of training, by steps of a millisecond.
LONG = """# A lab of a user's
lab = "copy"
section = "none"
items = []
[parameters]
widths = [8]
symbols = [3]
longest = 3
strings = 5
batch = 4
steps = 60000
seeds = 1
"""
SMALL = ["--set", "widths=8", "--set", "symbols=3", "--set", "longest=3", "--set", "strings=5", "--set", "batch=4"]


@pytest.fixture
def work(tmp_path):
    (tmp_path / "s2").mkdir()
    (tmp_path / "s2/long.toml").write_text(LONG)
    (tmp_path / "s2/short.toml").write_text(LONG.replace("60000", "3"))
    return tmp_path


def found(folder):
    return json.loads((folder / "results.json").read_text())


def test_seeds_and_steps_are_parameters(cogwheel_in, work):
    cogwheel = cogwheel_in(work)
    by_options = cogwheel("reproduce", "s2/copy", "--seeds", 2, "--steps", 3, *SMALL, "--out", "options")
    by_set = cogwheel("reproduce", "s2/copy", "--set", "seeds=2", "--set", "steps=3", *SMALL, "--out", "set")
    assert by_options.returncode == by_set.returncode == 0, by_options.stderr + by_set.stderr
    assert found(work / "options")["findings"] == found(work / "set")["findings"]
    assert found(work / "options")["parameters"] == found(work / "set")["parameters"]
    assert "cogwheel reproduce s2/copy --seeds 2 --steps 3 --set widths=8" in found(work / "options")["command"]


def test_minutes_decide_the_steps_once(cogwheel_in, work):
    cogwheel = cogwheel_in(work)
    done = cogwheel("reproduce", "s2/long.toml", "--minutes", 0.1, "--out", "timed")
    assert done.returncode == 0, done.stderr
    steps = found(work / "timed")["parameters"]["steps"]
    assert 1 < steps < 60000 and f"s2/long: steps={steps}, for the time given\n" in done.stderr
    assert found(work / "timed")["command"] == f"cogwheel reproduce s2/long.toml --set steps={steps}"
    request = json.loads((work / "timed/request.json").read_text())
    assert request["minutes"] == 0.1 and request["set"] == [] and request["fitted"] == [f"steps={steps}"]
    again = cogwheel("reproduce", "--resume", "timed")
    assert again.returncode == 0 and "for the time given" not in again.stderr, again.stderr
    assert found(work / "timed")["parameters"]["steps"] == steps
    # Steps that are asked for stay; those of a lab that ends in time are recorded all the same, for another machine's speed.
    for name, words, fitted in (("asked", ["s2/long.toml", "--set", "steps=2"], None), ("short", ["s2/short.toml"], ["steps=3"])):
        done = cogwheel("reproduce", *words, "--minutes", 5, "--out", name)
        assert done.returncode == 0 and "for the time given" not in done.stderr, done.stderr
        assert json.loads((work / name / "request.json").read_text()).get("fitted") == fitted


def test_dry_run_says_how_long(cogwheel_in, work):
    cogwheel = cogwheel_in(work)
    before = sorted(work.rglob("*"))
    done = cogwheel("reproduce", "s2/capacity", "--dry-run")
    assert done.returncode == 0 and done.stdout.endswith("\nat most 1 min 0 s, as its file declares\n"), done.stdout
    done = cogwheel("reproduce", "s2/long.toml", "--dry-run")
    assert done.returncode == 0 and re.search(r"\nabout .* here\n$", done.stdout), done.stdout
    done = cogwheel("reproduce", "s2/long.toml", "--dry-run", "--minutes", 0.1)
    assert done.returncode == 0 and re.search(r"\nabout .* here, with steps=\d+ to fit(, more than the time given)?\n$", done.stdout), done.stdout
    assert sorted(work.rglob("*")) == before


def test_several_of_a_kind_say_it_too(cogwheel_in, work):
    """Of S0, one lab: its time, and none of it where its result is there."""
    cogwheel = cogwheel_in(work)
    done = cogwheel("reproduce", "s0", "--dry-run", "--out", "all")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("In all 0 runs to train, about 0 s here; labs about 1 min 0 s\n"), done.stdout
    assert not (work / "all").exists()
    assert cogwheel("reproduce", "s0", "--seeds", 2, "--out", "all").returncode == 0
    done = cogwheel("reproduce", "s0", "--dry-run", "--out", "all")
    assert "s0/layer: is there" in done.stdout and done.stdout.endswith("labs about 0 s\n"), done.stdout
    # Another request is another result; so is one that nobody can read, which an index takes all the same.
    before = found(work / "all/s0/layer")["created"]
    (work / "all/s0/layer/request.json").write_text("{")
    assert cogwheel("reproduce", "s0", "--index", "--out", "all").returncode == 0 and found(work / "all/s0/layer")["created"] == before
    assert "is there" not in cogwheel("reproduce", "s0", "--dry-run", "--out", "all").stdout
    assert cogwheel("reproduce", "s0/layer", "--set", "seed=7", "--minutes", 5, "--out", "all/s0/layer", "--overwrite").returncode == 0
    assert cogwheel("reproduce", "s0", "--minutes", 5, "--out", "all").returncode == 0
    assert found(work / "all/s0/layer")["parameters"]["seed"] == 0
