"""`cogwheel compare --widths`: rows at several widths, each beside the baseline of its width, and what size does."""

import functools
import json
import re
import shutil

import pytest
from test_compare import generated_text, numbers, results

TINY = ["--preset", "tiny", "--text", "text.txt", "--attention", "softmax,cog", "--widths", "16,32,48", "--seeds", "2", "--steps", "20"]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("widths")
    (folder / "text.txt").write_text(generated_text())
    return folder


@pytest.fixture(scope="module")
def compare(work, cogwheel_in):
    return functools.partial(cogwheel_in(work), "compare")


@pytest.fixture(scope="module")
def finished(compare, work):
    done = compare(*TINY, "--tune", 2, "--set", "training.base_width=16", "--out", "finished")
    assert done.returncode == 0, done.stderr
    return work / "finished"


def test_rows_are_matched_and_compared_at_their_width(finished):
    written = results(finished)
    plans = {plan["name"]: plan for plan in written["mechanisms"]}
    assert written["settings"]["widths"] == [16, 32, 48] and written["baseline"] == "softmax at 16"
    losses = {(run["mechanism"], run["seed"]): run["held_out_loss"] for run in written["runs"]}
    for row in written["summary"]:
        name, width = row["mechanism"].split(" at ")
        assert plans[row["mechanism"]]["series"] == name and plans[row["mechanism"]]["width"] == int(width)
        base = f"softmax at {width}"
        assert abs(plans[row["mechanism"]]["parameters"] / plans[base]["parameters"] - 1) <= 0.01
        if name == "cog":
            expected = sum(losses[row["mechanism"], seed] - losses[base, seed] for seed in (1, 2)) / 2
            assert row["difference"] == pytest.approx(expected)


def test_what_size_does_is_recorded(finished):
    scaling = results(finished)["scaling"]
    assert scaling["bootstrap_draws"] == 2000 and scaling["bootstrap_seed"] == 33
    softmax, cog = scaling["series"]
    assert softmax["series"] == "softmax" and "gap" not in softmax
    assert cog["gap"]["with_size"] in ("grows", "shrinks", "changes sign", "cannot tell")
    sizes = [point["parameters_without_embeddings"] for point in softmax["points"]]
    # Without biases: queries, keys, values and the output, and a feed-forward of four widths; two gains of norms.
    assert sizes == [2 * (12 * width**2 + 2 * width) for width in (16, 32, 48)]
    for series in (softmax, cog):
        law = series["law"]
        for number in law.values():
            assert number["low"] <= number["high"]
        for point in series["points"]:
            fitted = law["limit"]["value"] + law["factor"]["value"] * point["parameters_without_embeddings"] ** -law["exponent"]["value"]
            assert fitted == pytest.approx(point["mean"], abs=0.1)
        # Each rate is searched at each width, and that of the first is among those of the others.
        assert series["points"][0]["first_rate_costs"] == 0
        assert all(point["first_rate_costs"] >= 0 for point in series["points"])


def test_the_page_shows_sizes_and_rates(finished):
    page = (finished / "report.html").read_text()
    assert "Two attention mechanisms at three widths under one budget" in page
    assert "What size does" in page and "The best learning rate of each width" in page
    assert "Rates are those of width 16 (training.base_width)." in page
    assert "widths 16, 32, 48" in page and "softmax of the same width" in page
    chart = re.search(r"parameters without embeddings.*?</figure>", page, re.S)
    assert chart and "polyline" in chart[0] or "path" in chart[0]


def test_it_is_continued_and_added_to(compare, work, finished):
    shutil.copytree(finished, work / "added")
    before = numbers(work / "added")
    written = results(work / "added")
    lost = written["runs"].pop()
    shutil.rmtree(next((work / "added/trained").glob("cog*48*seed-2")))
    (work / "added/results.json").write_text(json.dumps(written))
    added = compare("--add", "linear_abs", "added")
    assert added.returncode == 0, added.stderr
    assert lost["mechanism"] == "cog at 48" and "7 of 18 runs to do" in added.stderr
    assert numbers(work / "added")[: len(before)] == before
    after = results(work / "added")
    assert [series["series"] for series in after["scaling"]["series"]] == ["softmax", "cog", "linear_abs"]
    assert "--attention softmax,cog,linear_abs --widths 16,32,48" in after["command"]
    assert "--baseline softmax" in after["command"]
    again = compare("--resume", "added")
    assert again.returncode == 0 and numbers(work / "added") == [*numbers(work / "added")]


def test_two_widths_have_no_law(compare, work):
    done = compare(*TINY[:-5], "16,32", "--seeds", 1, "--steps", 4, "--out", "two")
    assert done.returncode == 0, done.stderr
    (series, _) = results(work / "two")["scaling"]["series"]
    assert series["law"] is None and "three widths" in series["why_no_law"]
    assert "No law is fitted" in (work / "two/report.html").read_text()
    assert done.stdout.splitlines()[0].endswith("one seed cannot tell a difference from chance.")


@pytest.mark.parametrize(
    "options, line",
    [
        (["--widths", "32,32"], "--widths: expected each width once, got 32 twice"),
        (["--widths", "32,wide"], "--widths: expected a whole number from 1 to 1048576, got wide"),
        (["--widths", "32,33"], "--widths 33: heads: expected a divisor of the width (33), got 2"),
        (["--widths", "8"], "--widths 8: head_dim (width / heads): expected 8 to 1024, got 4"),
        (["--widths", "32,64", "--set", "model.width=32"], "--set: expected --widths for model.width, got model.width=32"),
        (["--set", "training.base_width=64", "--attention", "gla"], "training.base_width: expected 0 with gla, a mechanism with a state, got 64"),
        (["--set", "training.base_width=64", "--set", "training.optimizer=muon"], "training.base_width: expected 0 with training.optimizer = muon, got 64"),
    ],
)
def test_refuses(compare, options, line):
    done = compare("--preset", "tiny", "--text", "text.txt", "--steps", 1, *options)
    assert (done.returncode, done.stderr) == (2, f"cogwheel: {line}\n") or (done.returncode, done.stderr) == (1, f"cogwheel: {line}\n")
