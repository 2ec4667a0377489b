"""Mechanisms of a user's own on the command line: new, check, compare, resume, sample and bench."""

import json

import pytest
from own_mechanisms import MINE_LINE, make_workshop
from test_compare import generated_text


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    made = make_workshop(tmp_path_factory.mktemp("workshop"))
    (made.folder / "text.txt").write_text(generated_text())
    return made


@pytest.fixture(scope="module")
def cogwheel(workshop, cogwheel_in):
    return cogwheel_in(workshop.folder, **workshop.environment)


def refusal(done, status):
    assert done.returncode == status, (done.stdout, done.stderr)
    return done.stderr


def test_new_writes_a_header_that_checks(cogwheel, workshop):
    assert cogwheel("mechanism", "new", "drawn_up", "--out", "made").stdout == "made/drawn_up.h\n"
    assert "got made/drawn_up.h" in refusal(cogwheel("mechanism", "new", "drawn_up", "--out", "made"), 2)
    assert "got cog, which is built in" in refusal(cogwheel("mechanism", "new", "cog"), 2)
    assert "got Upper" in refusal(cogwheel("mechanism", "new", "Upper"), 2)
    assert refusal(cogwheel("mechanism", "new", "mühle\n" + 1000 * "x"), 2).count("\n") == 1
    assert "got row: cogwheel/attention/mechanisms/contract.h has a Row" in refusal(cogwheel("mechanism", "new", "row"), 2)
    done = cogwheel("mechanism", "check", "--mechanism-file", "made/drawn_up.h")
    assert done.returncode == 0, done.stderr
    assert "f jumps at s = 0, from -1 to 1" in done.stdout and "none at scores of ±1e4" in done.stdout
    assert done.stderr == ""  # not a terminal: no progress


def test_check_of_what_is_wrong(cogwheel):
    message = refusal(cogwheel("mechanism", "check", "--define", "bad: f = sgn(s)*2; g = 1"), 2)
    assert message == (
        "cogwheel: bad: f: expected sin, sign, min (the nearest of 16 names), got sgn (column 1)\n  sgn(s)*2\n  ^\n"
    )
    assert "expected NAME: f = FORMULA; g = FORMULA, got exp(s)" in refusal(cogwheel("mechanism", "check", "--define", "exp(s)"), 2)
    assert "expected a name, --define or --mechanism-file, got none of them" in refusal(cogwheel("mechanism", "check"), 2)
    assert "expected check" in refusal(cogwheel("mechanism", "chek", "cog"), 2)
    assert "expected softmax" in refusal(cogwheel("mechanism", "check", "sofmax"), 2)
    assert refusal(cogwheel("compare", "--attention", "mine"), 2).startswith("cogwheel: --attention: expected ")


def test_card_of_a_built_in_one(cogwheel):
    done = cogwheel("mechanism", "card", "softmax")
    assert done.returncode == 0 and done.stdout.splitlines()[0] == "softmax"
    assert "Σa 1, Σ|a| 1" in done.stdout and "the same bits with 1, 2, 3 and 5 threads" in done.stdout


def test_a_card_with_a_problem_ends_with_status_1(cogwheel):
    definition = "naive: f = s; g = abs(s)"
    problem = "naive: weights of a row of one score of 0: expected finite numbers, got NaN: N is 0"
    for action in ("card", "check"):
        done = cogwheel("mechanism", action, "--define", definition)
        assert refusal(done, 1).startswith(f"cogwheel: {problem}") and done.stderr.count("\n") == 1
        assert f"  problem: {problem}" in done.stdout


@pytest.fixture(scope="module")
def compared(cogwheel):
    return cogwheel(
        "compare", "--define", MINE_LINE, "--attention", "softmax,cog,mine", "--preset", "tiny", "--text", "text.txt",
        "--seeds", 1, "--steps", 40, "--out", "compared",
    )  # fmt: skip


def test_trains_beside_the_built_in_ones(compared, workshop):
    assert compared.returncode == 0, compared.stderr
    results = json.loads((workshop.folder / "compared/results.json").read_text())
    runs = {run["mechanism"]: run for run in results["runs"]}
    # The same numbers in every step: only the name is another.
    assert runs["mine"]["curve"] == runs["cog"]["curve"] and runs["mine"]["held_out_loss"] == runs["cog"]["held_out_loss"]
    plans = {plan["name"]: plan for plan in results["mechanisms"]}
    assert plans["mine"]["formula"] == "sign(s)*exp(abs(s)) / Σ exp(abs(s))"
    assert plans["mine"]["definition"] == MINE_LINE and plans["cog"]["definition"] == ""
    assert f"--define '{MINE_LINE}'" in results["command"]
    assert "sign(s)*exp(abs(s)) / Σ exp(abs(s))" in (workshop.folder / "compared/report.html").read_text()


def test_what_was_recorded_is_asked_for_and_never_loaded(compared, cogwheel, workshop):
    run = "compared/trained/mine-seed-1"
    option = f"expected mine, which needs --define '{MINE_LINE}', got no such option: nothing is loaded unasked"
    for words in (["sample", run], ["resume", run], ["compare", "--resume", "compared"]):
        assert option in refusal(cogwheel(*words), 2)
    other = refusal(cogwheel("sample", run, "--define", "mine: f = exp(s; g = 1"), 2)
    assert "(column 4)" in other
    done = cogwheel("sample", run, "--length", 8, "--define", MINE_LINE)
    assert done.returncode == 0, done.stderr
    assert cogwheel("resume", run, "--define", MINE_LINE).stdout == f"{run} has made all of its 40 steps\n"
    done = cogwheel("compare", "--resume", "compared", "--define", MINE_LINE)
    assert done.returncode == 0, done.stderr


def test_bench_takes_it(cogwheel):
    done = cogwheel(
        "bench", "attention", "--define", MINE_LINE, "--mechanisms", "cog", "mine", "--lengths", "64", "--heads", 2,
        "--seconds", 0.05, "--no-eager",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "  mine " in done.stdout
    assert refusal(cogwheel("bench", "attention", "--define", "mine: f = s"), 2).startswith("cogwheel: mine: g: expected")
