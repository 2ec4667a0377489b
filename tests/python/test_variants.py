"""Rows of a comparison that differ in keys of the configuration: they are paired, matched and told apart as mechanisms are."""

import functools
import json
import shutil

import cogwheel
import pytest
from test_compare import generated_text, numbers, results

TINY = ["--preset", "tiny", "--text", "text.txt", "--seeds", "2", "--steps", "40"]
OUTER = "outer: model.mechanism=cog model.first_softmax_layers=1"


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("variants")
    (folder / "text.txt").write_text(generated_text())
    return folder


@pytest.fixture(scope="module")
def compare(work, cogwheel_in):
    return functools.partial(cogwheel_in(work), "compare")


@pytest.fixture(scope="module")
def mechanisms(compare, work):
    done = compare(*TINY, "--attention", "softmax,cog", "--out", "mechanisms")
    assert done.returncode == 0, done.stderr
    return work / "mechanisms"


@pytest.fixture(scope="module")
def variants(compare, work):
    done = compare(*TINY, "--attention", "softmax", "--variant", OUTER, "near: model.window=4", "--out", "variants")
    assert done.returncode == 0, done.stderr
    return work / "variants"


def test_mechanisms_said_as_variants_are_the_same_comparison(compare, work, mechanisms):
    (work / "rows.toml").write_text('[variants.softmax]\nmodel.mechanism = "softmax"\n[variants.cog]\nmodel.mechanism = "cog"\n')
    said = compare(*TINY, "--variants", "rows.toml", "--out", "said")
    assert said.returncode == 0, said.stderr
    one, other = results(mechanisms), results(work / "said")
    assert numbers(mechanisms) == numbers(work / "said")
    for key in ("verdict", "summary", "mechanisms", "command", "configuration"):
        assert one[key] == other[key], key


def test_rows_are_matched_paired_and_trained_as_they_say(work, mechanisms, variants):
    written = results(variants)
    plans = {plan["name"]: plan for plan in written["mechanisms"]}
    assert list(plans) == ["softmax", "outer", "near"] and written["baseline"] == "softmax"
    assert "set" not in plans["softmax"]
    assert plans["outer"]["set"] == ["model.mechanism=cog", "model.first_softmax_layers=1"]
    assert plans["near"]["set"] == ["model.mechanism=softmax", "model.window=4"]
    assert len({plan["parameters"] for plan in plans.values()}) == 1
    by_row = {(run["mechanism"], run["seed"]): run["held_out_loss"] for run in written["runs"]}
    assert len(by_row) == 6 and len(set(by_row.values())) == 6
    # The row that is a mechanism is that of any comparison.
    assert {key: loss for key, loss in by_row.items() if key[0] == "softmax"} == {
        (run["mechanism"], run["seed"]): run["held_out_loss"] for run in results(mechanisms)["runs"] if run["mechanism"] == "softmax"
    }
    config = (variants / "trained/outer-seed-2/config.toml").read_text()
    assert 'mechanism = "cog"' in config and "first_softmax_layers = 1" in config and "window = 0" in config
    assert "window = 4" in (variants / "trained/near-seed-1/config.toml").read_text()


def test_the_report_says_what_is_the_rows_own(variants):
    page = (variants / "report.html").read_text()
    assert "Three variants under one budget" in page
    assert "model.first_softmax_layers=1" in page.split("<script")[0] and "model.window=4" in page.split("<script")[0]
    assert "outer" in results(variants)["verdict"] and "near" in results(variants)["verdict"]


def test_the_command_repeats_it_and_a_row_is_added(compare, work, variants):
    assert "--variant 'outer: model.mechanism=cog model.first_softmax_layers=1'" in results(variants)["command"]
    shutil.copytree(variants, work / "added")
    before = numbers(work / "added")
    # A run that is lost is made again, beside the new one.
    shutil.rmtree(work / "added/trained/outer-seed-2")
    written = results(work / "added")
    written["runs"] = [run for run in written["runs"] if (run["mechanism"], run["seed"]) != ("outer", 2)]
    (work / "added/results.json").write_text(json.dumps(written))
    added = compare("--add", "light: training.weight_decay=0 model.mechanism=cog", "added")
    assert added.returncode == 0, added.stderr
    assert "3 of 8 runs to do" in added.stderr
    assert numbers(work / "added")[: len(before)] == before
    assert results(work / "added")["mechanisms"][-1]["set"] == ["training.weight_decay=0", "model.mechanism=cog"]
    again = compare("--add", "light: model.window=3", "added")
    assert again.stderr == "cogwheel: --add: expected a name that is not in the comparison yet, got light\n"
    for folder, key, other in (("near-seed-1", "window = 4", "window = 2"), ("outer-seed-1", "first_softmax_layers = 1", "first_softmax_layers = 0")):
        config = work / "added/trained" / folder / "config.toml"
        config.write_text(config.read_text().replace(key, other))
        refused = compare("--resume", "added")
        assert refused.returncode == 1 and "model." + key.split()[0] in refused.stderr
        config.write_text(config.read_text().replace(other, key))


def test_rows_may_learn_differently_from_the_same_items(compare, work, mechanisms):
    """A teacher of its own, whose hash the row records, and a rate of its own, from which the search starts."""
    done = compare(
        *TINY[:-3], "1", "--steps", 6, "--tune", 1, "--match", "tokens", "--attention", "softmax", "--out", "taught", "--variant",
        "taught: task.teacher=mechanisms/trained/cog-seed-1 task.teacher_share=0.75", "slow: training.learning_rate=0.0003",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    written = results(work / "taught")
    taught, slow = written["mechanisms"][1:]
    assert taught["set"][0] == "model.mechanism=softmax"
    assert f"task.teacher={work / 'mechanisms/trained/cog-seed-1'}" in taught["set"] and "task.teacher_share=0.75" in taught["set"]
    assert any(each.startswith("task.teacher_sha256=") for each in taught["set"])
    assert "task.teacher" not in written["configuration"] or not written["configuration"]["task.teacher"]
    assert [trial["learning_rate"] for trial in written["tuning"]][2] == 0.0003 == slow["learning_rate"]
    losses = [run["held_out_loss"] for run in written["runs"]]
    assert len(set(losses)) == 3
    assert compare("--resume", "taught").returncode == 0
    assert [run["held_out_loss"] for run in results(work / "taught")["runs"]] == losses


def test_a_comparison_without_its_teacher_stays_as_it_was(compare, work, mechanisms):
    shutil.copytree(mechanisms / "trained/cog-seed-1", work / "left")
    pupil = [*TINY[:-3], "1", "--steps", 4, "--match", "tokens", "--attention", "softmax", "--variant", "pupil: task.teacher=left"]
    assert compare(*pupil, "--out", "pupils").returncode == 0
    shutil.rmtree(work / "left")
    whole = compare("--resume", "pupils")
    assert whole.returncode == 0, whole.stderr  # nothing is left to be learned
    written = results(work / "pupils")
    written["runs"] = [run for run in written["runs"] if run["mechanism"] != "pupil"]
    (work / "pupils/results.json").write_text(json.dumps(written))
    shutil.rmtree(work / "pupils/trained/pupil-seed-1")
    before = (work / "pupils/results.json").read_bytes()
    refused = compare("--resume", "pupils")
    assert refused.returncode == 1 and refused.stderr.count("\n") == 1 and "task.teacher: " in refused.stderr, refused.stderr
    assert (work / "pupils/results.json").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--variant", "a: data.byte_limit=5"], "--variant: expected keys that leave the data and the budget of paired runs as they are, got data.byte_limit=5"),
        (["--variant", "a: model.context=16"], "--variant a: expected keys that leave the window of 32 characters as it is, got one of 16"),
        (["--variant", "a: model.window=3 model.window=4"], "--variant: expected each key of a row once, got model.window twice in a"),
        (["--variants", "none.toml"], "none.toml: expected a file that can be read, got No such file or directory"),
        (["--variant", "a: model.mechanism=cogg"], "model.mechanism: expected cog (the nearest of 78 names), got cogg"),
    ],
)
def test_one_line_says_what_is_wrong_and_nothing_is_written(compare, work, words, line):
    refused = compare(*TINY, *words, "--out", "refused")
    assert refused.stderr == f"cogwheel: {line}\n"
    assert not (work / "refused").exists()


def test_from_python(work, tmp_path):
    found = cogwheel.compare(
        ["softmax"], variant=["near: model.window=4"], preset="tiny", text=work / "text.txt", seeds=1, steps=3, out=tmp_path / "out"
    )
    assert [plan["name"] for plan in found.results["mechanisms"]] == ["softmax", "near"]
    assert found.load("near").options["window"] == 4
