"""`cogwheel curves`: a page of what runs report, running ones too, and the same numbers for TensorBoard and Weights & Biases."""

import fcntl
import glob
import json
import pathlib
import re
import shutil
import struct
import sys

import pytest
from page_checks import DRIVER

HOSTILE = "<img src=x onerror=document.title='run'>\u202eright to left" + "name-without-an-end" * 6
CONFIG = """
[task]
name = "parity"
length = 8
[model]
layers = 1
heads = 2
width = 16
context = 16
[training]
steps = 12
batch = 4
report_every = 1
evaluate_every = 4
"""


def report(step, **numbers):
    return {"step": step, "tokens": 1000 * step, "seconds": 36.0 * step, "train_loss": 3 / step, "learning_rate": 1e-3, "tokens_per_second": 28.0, **numbers}


def write_run(folder, like, reports, end="", **files):
    """The folder of a run that says what it is told to."""
    folder.mkdir(parents=True)
    shutil.copy(like / "config.toml", folder)
    (folder / ".cogwheel").write_text("run\n")
    (folder / "metrics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in reports) + end)
    for name, lines in files.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


@pytest.fixture(scope="module")
def cogwheel(cogwheel_in, tmp_path_factory):
    folder = tmp_path_factory.mktemp("curves")
    (folder / "parity.toml").write_text(CONFIG)
    run = cogwheel_in(folder)
    done = run("train", "parity.toml", "--out", "run")
    assert done.returncode == 0, done.stderr
    reports = [report(step, gradient_norm=0.5 + step / 100, update_over_weight=1e-3, waiting_seconds=0.1) for step in range(1, 101)]
    for each in reports[9::10]:
        each["held_out_loss"], each["accuracy"] = 3 / each["step"], 0.5
    reports[49]["train_loss"] = reports[49]["gradient_norm"] = None  # what is not finite
    write_run(
        folder / "long", folder / "run", reports,
        changes=[{"step": 20, "changes": {"training.batch": [4, 8]}}],
        spikes=[{"step": 60, "returned_to": 50, "loss": 9.25, "gradient_norm": 77.0, "what": "loss <9>"}],
        samples=[{"step": 50, "prompt": "<b>x</b> ", "text": "y\nz</pre><script>"}, {"step": 100, "prompt": "a", "text": "b"}],
    )  # fmt: skip
    return run


def ran(done):
    assert done.returncode == 0, done.stderr
    return done


def lines_of(page):
    """By chart, its lines: how many points each has."""
    charts = {}
    for label, svg in re.findall(r'<svg role="img" aria-label="([^"]*)">(.*?)</svg></div>', page, re.S):
        charts[label] = [len(points.split()) for points in re.findall(r'<polyline points="([^"]*)"', svg)]
    return charts


def test_a_running_run_is_read_as_far_as_its_lines_are_whole_and_nothing_is_locked(cogwheel):
    running = write_run(cogwheel.folder / "running", cogwheel.folder / "run", [report(step) for step in range(1, 6)], '{"step": 6, "tok')
    before = {path.name: path.read_bytes() for path in running.iterdir()}
    with open(running / ".cogwheel") as marker:
        fcntl.flock(marker, fcntl.LOCK_EX)
        done = ran(cogwheel("curves", "running", "--out", "running.html"))
    assert {path.name: path.read_bytes() for path in running.iterdir()} == before
    assert done.stdout == "After 5 of 12 steps, running has a training loss of 0.6000, and nothing is measured yet.\nrunning.html\n"
    charts = lines_of((cogwheel.folder / "running.html").read_text())
    assert charts["Training loss: training loss, mean since the report before over steps"] == [5]


def test_every_number_has_a_chart_by_steps_tokens_and_hours(cogwheel):
    done = ran(cogwheel("curves", "long", "run", "--out", "page/of/runs.html"))
    assert "Of two runs, long has the best held-out loss so far, 0.0300" in done.stdout
    page = (cogwheel.folder / "page/of/runs.html").read_text()
    charts = lines_of(page)
    for number in ("Training loss", "Held-out loss", "Accuracy", "Learning rate", "Gradient norm", "Update over weight", "Speed", "Waiting for data"):
        axes = [label.rsplit(" over ", 1)[1] for label in charts if label.startswith(number + ":")]
        assert axes == ["steps", "tokens", "hours of training"], number
    whole = next(points for label, points in charts.items() if label.startswith("Training loss") and label.endswith("steps"))
    assert sorted(whole) == [12, 99]  # what is not finite is left out
    assert "<script" not in page and "http:" not in page and "https:" not in page and "{{" not in page
    assert "training.batch 4 → 8" in page and "returned to 50, loss 9.25, gradient norm 77, loss &lt;9&gt;" in page
    assert "&lt;b&gt;x&lt;/b&gt;" in page and "y\nz&lt;/pre&gt;&lt;script&gt;" in page
    assert "cogwheel curves long run --out page/of/runs.html" in page


def test_steps_that_are_made_again_count_once(cogwheel):
    again = [report(step) for step in (1, 2, 3)] + [report(step, train_loss=5.0) for step in (2, 3, 4)]
    write_run(cogwheel.folder / "again", cogwheel.folder / "run", again)
    done = ran(cogwheel("curves", "again", "--out", "again.html"))
    assert "After 4 of 12 steps, again has a training loss of 5.0000" in done.stdout


def test_long_curves_keep_their_peaks(cogwheel):
    reports = [report(step, train_loss=1.0 + (step == 7777)) for step in range(1, 20001)]
    write_run(cogwheel.folder / "thin", cogwheel.folder / "run", reports)
    ran(cogwheel("curves", "thin", "--out", "thin.html"))
    page = (cogwheel.folder / "thin.html").read_text()
    (line,) = re.findall(r'aria-label="Training loss[^"]* over steps">.*?<polyline points="([^"]*)"', page, re.S)
    heights = [float(point.split(",")[1]) for point in line.split()]
    assert len(heights) < 1000 and min(heights) < max(heights) - 500
    assert len(page) < 1_000_000


def test_runs_of_a_comparison_are_taken_and_each_run_once(cogwheel_in, small_comparison, tmp_path):
    first = next(path for path in sorted((small_comparison / "trained").iterdir()))
    done = ran(cogwheel_in(tmp_path)("curves", small_comparison, first))
    assert done.stdout.startswith("Of four runs, ")
    assert all(f"<th scope=\"row\">{mechanism}-seed-{seed}</th>" in (tmp_path / "curves.html").read_text() for mechanism in ("softmax", "cog") for seed in (1, 2))


def test_refusals_are_one_line(cogwheel):
    write_run(cogwheel.folder / "empty", cogwheel.folder / "run", [])
    write_run(cogwheel.folder / "damaged", cogwheel.folder / "run", [report(1)], '{"step": 2}\n')
    write_run(cogwheel.folder / "odd", cogwheel.folder / "run", [report(1)], changes=[{"step": 1}])
    for words, message in (
        (["nothing"], "nothing: expected the folder of a run or of a comparison, got no config.toml in it"),
        (["empty"], "empty: expected a report in metrics.jsonl, got none yet"),
        (["damaged"], "damaged/metrics.jsonl: expected a report on line 2, got "),
        (["odd"], "odd/changes.jsonl: expected a change on line 1, got "),
    ):
        done = cogwheel("curves", *words)
        assert done.returncode == 1 and message in done.stderr and done.stderr.count("\n") == 1, done.stderr
        assert not (cogwheel.folder / "curves.html").exists()
    done = cogwheel("curves", "run", "--out", "run/metrics.jsonl")
    assert done.returncode == 2 and "curves: --out: expected a place of its own" in done.stderr


def test_tensorboard_reads_the_values_back(cogwheel):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    for _ in range(2):  # written anew, not beside what was there
        ran(cogwheel("curves", "run", "long", "--out", "tb.html", "--tensorboard", "events/of"))
    assert sorted(path.name for path in (cogwheel.folder / "events/of").iterdir()) == ["long", "run"]
    for run in ("run", "long"):
        found = accumulator.EventAccumulator(str(cogwheel.folder / "events/of" / run), size_guidance={"scalars": 0}).Reload()
        reports = [json.loads(line) for line in (cogwheel.folder / run / "metrics.jsonl").read_text().splitlines()]
        for name in ("train_loss", "learning_rate", "held_out_loss"):
            expected = [(each["step"], each[name]) for each in reports if each.get(name) is not None]
            got = [(event.step, event.value) for event in found.Scalars(name)]
            assert [step for step, _ in got] == [step for step, _ in expected]
            assert [value for _, value in got] == pytest.approx([value for _, value in expected], rel=1e-6)
        times = [event.wall_time for event in found.Scalars("train_loss")]
        assert times == sorted(times) and abs(times[-1] - (cogwheel.folder / run / "metrics.jsonl").stat().st_mtime) < 40


@pytest.mark.slow
def test_wandb_holds_the_values(cogwheel):
    pytest.importorskip("wandb")
    from wandb.proto import wandb_internal_pb2

    for _ in range(2):
        ran(cogwheel("curves", "run", "--out", "wandb.html", "--wandb", "offline"))
    (path,) = glob.glob(str(cogwheel.folder / "offline/wandb/offline-run-*/run-*.wandb"))
    data, losses = pathlib.Path(path).read_bytes(), {}
    assert len(data) < 32768  # one block of LevelDB's log: of each record a checksum, its length, its kind
    place = 7
    while place < len(data):
        length, kind = struct.unpack("<HB", data[place + 4 : place + 7])
        assert kind == 1  # whole
        record = wandb_internal_pb2.Record.FromString(data[place + 7 : place + 7 + length])
        place += 7 + length
        if record.WhichOneof("record_type") == "history":
            items = {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            losses[record.history.step.num] = items["train_loss"]
        if record.WhichOneof("record_type") == "run" and record.run.display_name:
            assert (record.run.display_name, record.run.project) == ("run", "cogwheel")
    reports = [json.loads(line) for line in (cogwheel.folder / "run/metrics.jsonl").read_text().splitlines()]
    assert losses == pytest.approx({each["step"]: each["train_loss"] for each in reports})


@pytest.mark.parametrize("package", ["tensorboard", "wandb"])
def test_a_missing_package_is_one_line(cogwheel_in, cogwheel, tmp_path, package):
    bare = tmp_path / "bare-python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    bare.chmod(0o755)
    done = cogwheel_in(cogwheel.folder, COGWHEEL_PYTHON=str(bare))("curves", "run", "--out", tmp_path / "page.html", f"--{package}", tmp_path / "files")
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"cogwheel: --{package}: expected Python's {package}, which `") and f"-m pip install {package}` installs, got no module {package}" in done.stderr


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    pytest.importorskip("selenium.webdriver")
    from page_checks import headless_browser

    driver = headless_browser(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


@pytest.mark.skipif(DRIVER is None, reason="no chromedriver")
def test_the_page_in_a_browser(cogwheel, browser):
    from test_pages import expect_sound

    shutil.copytree(cogwheel.folder / "long", cogwheel.folder / HOSTILE)
    ran(cogwheel("curves", "long", HOSTILE, "run", "--out", "shown.html"))
    expect_sound(browser, cogwheel.folder / "shown.html")

    def shown():
        return browser.execute_script("""
          return [...document.querySelectorAll(".exhibit:has(.by-steps)")].map(figure =>
            [...figure.querySelectorAll(":scope > div")].filter(chart => chart.getClientRects().length).map(chart => chart.className).join());""")

    def choose(axis):
        browser.execute_script("document.querySelector(arguments[0]).click()", f"label[for=by-{axis}]")

    for axis in ("steps", "tokens", "hours", "steps"):
        choose(axis)
        assert len(shown()) >= 8 and set(shown()) == {f"by-{axis}"}
    marks = browser.execute_script("""return [...document.querySelector(".by-steps").querySelectorAll("text.mark")].map(mark => mark.textContent)""")
    assert marks == ["1", "2", "3", "4"]
