"""`cogwheel.compare` and `cogwheel.results`: what they give, what they refuse, Ctrl-C and progress."""

import json
import os
import signal
import subprocess
import sys
import time
import types

import pytest
import torch
from notebook_comparison import KEYS, write_text

import cogwheel
from cogwheel import catalogue, comparison, comparison_progress


@pytest.fixture(scope="module")
def found(small_comparison):
    return cogwheel.results(small_comparison)


def test_it_is_what_the_executable_wrote(found, small_comparison):
    written = json.loads((small_comparison / "results.json").read_text())
    assert found.verdict == written["verdict"] and not found.interrupted
    assert found.report == small_comparison / "report.html" and found.report.is_file()
    assert [(run["mechanism"], run["seed"]) for run in found.results["runs"]] == [
        ("softmax", 1), ("softmax", 2), ("cog", 1), ("cog", 2),
    ]  # fmt: skip
    assert found.results["runs"] == written["runs"] and found.results["summary"] == written["summary"]
    assert found.results["configuration"]["training.batch"] == 4  # of the dict `set`


def test_rows_without_pandas(found, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert [row["mechanism"] for row in found.summary] == ["softmax", "cog"]
    assert {"seed", "status", "held_out_loss"} <= found.runs[0].keys() and "curve" not in found.runs[0]
    points = [point for point in found.curves if (point["mechanism"], point["seed"]) == ("cog", 2)]
    curve = next(run["curve"] for run in found.results["runs"] if (run["mechanism"], run["seed"]) == ("cog", 2))
    assert [point["held_out_loss"] for point in points] == [point["held_out_loss"] for point in curve]
    assert "heads" not in points[0]


def test_frames_with_pandas(found):
    pandas = pytest.importorskip("pandas")
    assert isinstance(found.summary, pandas.DataFrame) and len(found.runs) == 4
    mean = found.runs[found.runs.mechanism == "cog"].held_out_loss.mean()
    assert found.summary.set_index("mechanism").loc["cog", "mean"] == pytest.approx(mean)


def test_loads_a_trained_model(found, small_comparison):
    tokens = torch.tensor([[1, 2, 3]])
    model = found.load("cog", seed=2)
    assert torch.equal(model(tokens), cogwheel.load(small_comparison / "trained/cog-seed-2")(tokens))
    assert not torch.equal(model(tokens), found.load("cog")(tokens))


@pytest.mark.parametrize(
    "call, line",
    [
        (lambda found: found.load("cogg"), "load: mechanism: expected cog (the nearest of 2 names), got cogg"),
        (lambda found: found.load("cog", 3), "load: seed: expected one of 1, 2, got 3"),
        (lambda found: cogwheel.results(found.folder / "trained"), None),
        (lambda found: cogwheel.results(""), None),
    ],
)  # fmt: skip
def test_refuses_what_is_not_there(found, call, line):
    with pytest.raises(ValueError) as error:
        call(found)
    assert str(error.value) == line or line is None and "expected the folder of a comparison" in str(error.value)


def test_refuses_a_damaged_file(small_comparison, tmp_path):
    (tmp_path / "results.json").write_text((small_comparison / "results.json").read_text()[:-40])
    with pytest.raises(ValueError, match="results.json: expected ") as error:
        cogwheel.results(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "keys",
    [{"task": "foo"}, {"attention": ["softmax", "cogg"]}, {"no_such_key": 3}, {"seeds": "x"}, {"preset": "tiny", "steps": 0},
     {"set": {"model.width": "x"}, "preset": "tiny"}, {"resume": "nowhere"}, {"text": ["missing.txt"]}, {"attention": []}],
    ids=str,
)  # fmt: skip
def test_the_executable_judges(keys, cogwheel_in, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    words = list(comparison._words(keys))
    refused = cogwheel_in(tmp_path)("compare", *words)
    assert refused.returncode != 0
    with pytest.raises(ValueError) as error:
        cogwheel.compare(**keys)
    assert refused.stderr.splitlines()[-1] == f"cogwheel: {error.value}"
    assert ": expected " in str(error.value) and capfd.readouterr() == ("", "")


def test_keys_are_options():
    keys = {"attention": ["a", "b"], "learning_rate": 0.01, "overwrite": True, "match": None, "set": {"x.y": 2, "x.z": True}, "add": ("c", "d"), "text": []}
    assert list(comparison._words(keys)) == [
        "--attention=a", "--attention=b", "--learning-rate=0.01", "--overwrite", "--set=x.y=2", "--set=x.z=true", "--add=c", "--add=d", "--text=",
    ]  # fmt: skip


def test_definitions_come_along(monkeypatch):
    entries = [{"name": "mine", "definition": "mine: f = s; g = abs(s)"}, {"name": "differential_mine", "definition": "mine: f = s; g = abs(s)"},
               {"name": "law", "definition": "/a b/law.h sha256:0123"}, {"name": "cog", "definition": None}]  # fmt: skip
    monkeypatch.setattr(catalogue, "mechanisms", lambda: entries)
    mine = "--define=mine: f = s; g = abs(s)"
    assert list(comparison._definitions({"attention": "cog", "text": "mining"})) == []
    assert list(comparison._definitions({"attention": "softmax+mine*2"})) == [mine]
    assert list(comparison._definitions({"attention": ["differential_mine"], "baseline": "mine"})) == [mine]
    assert list(comparison._definitions({"add": ("law", "folder")})) == ["--mechanism-file=/a b/law.h"]
    assert list(comparison._definitions({"resume": "folder"})) == []
    continued = types.SimpleNamespace(results={"mechanisms": [{"name": "softmax"}, {"name": "mine"}]})
    monkeypatch.setattr(comparison, "results", lambda folder: {"own": continued}[folder])
    assert list(comparison._definitions({"resume": "own"})) == list(comparison._definitions({"add": ("cog", "own")})) == [mine]


@pytest.mark.slow
def test_a_mechanism_of_ones_own(tmp_path, monkeypatch):
    mine = cogwheel.mechanism("smooth_sign", f="tanh(s)*exp(abs(s))", g="exp(abs(s))")
    write_text(tmp_path)
    monkeypatch.chdir(tmp_path)
    found = cogwheel.compare(attention=["softmax", mine], **{**KEYS, "seeds": 1, "steps": 4}, out="own")
    assert [plan["definition"] for plan in found.results["mechanisms"]] == ["", mine.description["definition"]]
    assert found.load(mine)(torch.tensor([[1, 2]])).isfinite().all()
    more = cogwheel.compare(add=("cog", found.folder))  # which needs the definition of what is there
    assert [plan["name"] for plan in more.results["mechanisms"]] == ["softmax", mine.name, "cog"] and more.folder == found.folder


class Bar:
    """A bar of tqdm, as far as it is used."""

    made = []

    def __init__(self, total, bar_format):
        self.total, self.n, self.seen, self.said, self.closed = total, 0, [], [], False
        self.made.append(self)

    def set_description_str(self, text, refresh):
        self.seen.append((self.n, text))

    def refresh(self):
        pass

    def write(self, line, file):
        self.said.append(line)

    def close(self):
        self.closed = True


def test_progress_reaches_its_end(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tqdm.auto", types.SimpleNamespace(tqdm=Bar))
    write_text(tmp_path)
    monkeypatch.chdir(tmp_path)
    Bar.made.clear()
    found = cogwheel.compare(["softmax", "cog"], **{**KEYS, "steps": 6}, out="shown")
    assert found.folder.name == "shown" and len(found.results["runs"]) == 4
    (bar,) = Bar.made
    assert bar.n == bar.total == 4 and bar.closed
    places = [place for place, _ in bar.seen]
    assert places == sorted(places) and any(0 < place < 1 for place in places)
    assert any("cog seed 2" in text and "held-out" in text for _, text in bar.seen)


def test_progress_without_tqdm(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    lines = [
        "tiny on text.txt: 1 of 1 runs to do, steps: cog 6; about 1 s in all",
        "cog seed 1: step 3/6  loss 2.8  9 k tokens/s",
        "    1/1   cog                  seed 1   held-out 2.7           1 k tokens/s",
        "a note",
        "cogwheel: failed",
    ]
    with comparison_progress.Progress() as progress:
        for line in lines:
            progress.show(line)
    assert capsys.readouterr().err.splitlines() == [lines[0], lines[2], lines[3]]  # steps are too many, a failure is raised


INTERRUPTED = """
import cogwheel, sys
found = cogwheel.compare(["softmax", "cog"], out="stopped", **{keys})
print(found.interrupted, found.verdict)
"""


def test_ctrl_c_keeps_what_is_done(tmp_path):
    write_text(tmp_path)
    code = INTERRUPTED.format(keys={**KEYS, "steps": 100000})
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"}, start_new_session=True,
    )  # fmt: skip
    metrics = tmp_path / "stopped/trained/softmax-seed-1/metrics.jsonl"
    for _ in range(2400):
        if metrics.exists() and metrics.read_text().count("\n") >= 2 or process.poll() is not None:
            break
        time.sleep(0.025)
    os.killpg(process.pid, signal.SIGINT)  # as a notebook does: every process of its group
    printed, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert printed.startswith("True Interrupted after 0 of 4 runs"), printed
    assert said.splitlines()[-1] == "stopped; cogwheel.compare(resume='stopped') continues"
    assert (tmp_path / "stopped/trained/softmax-seed-1/checkpoint.safetensors").is_file()
    assert cogwheel.results(tmp_path / "stopped").interrupted


@pytest.mark.parametrize(
    "ends, kind, line",
    [
        ("head -c 200000 /dev/zero; echo 'cogwheel: x: expected y, got z' >&2; exit 1", ValueError, "x: expected y, got z"),  # more than a pipe holds
        ("exit 3", ValueError, "compare: expected a finished comparison, got status 3: "),
        ("kill -KILL $$", RuntimeError, "compare: expected a finished comparison, got signal 9"),
        ("echo 'cogwheel: stopped twice' >&2; kill -INT $$", KeyboardInterrupt, "stopped twice"),
    ],
)  # fmt: skip
def test_however_it_ends(ends, kind, line, tmp_path, monkeypatch):
    import cogwheel_command

    script = tmp_path / "cogwheel"
    script.write_text(f"#!/bin/sh\n{ends}\n")
    script.chmod(0o755)
    monkeypatch.setattr(cogwheel_command, "executable", lambda: script)
    with pytest.raises(kind) as error:
        cogwheel.compare("cog")
    assert str(error.value) == line


def test_no_executable(monkeypatch):
    import cogwheel_command

    monkeypatch.setattr(cogwheel_command, "_candidates", lambda: iter(()))
    with pytest.raises(FileNotFoundError, match="cogwheel: executable: expected "):
        cogwheel.compare("cog")
