"""`cogwheel compare --workers` and `--join`: several processes make the runs of one comparison, whose results are those of one."""

import contextlib
import functools
import json
import os
import random
import shutil
import signal
import time

import pytest
import torch
from processes import children_of, ended_with_test, is_gone, wait_for
from tensor_files import read_tensors
from test_compare import generated_text

# Two trials of each of two mechanisms and six runs, a second or less each.
SMALL = ["--preset", "tiny", "--attention", "softmax,cog", "--seeds", 3, "--steps", 60, "--tune", 2, "--text", "text.txt"]
MEASURED = ("seconds", "evaluation_seconds", "tokens_per_second", "peak_memory_bytes")


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("workers")
    (folder / "text.txt").write_text(generated_text())
    return folder


@pytest.fixture(scope="module")
def compare(work, cogwheel_in):
    return functools.partial(cogwheel_in(work), "compare")


@pytest.fixture
def begin(compare):
    """Starts a comparison, whose process ends with the test, and with it its workers."""
    with ended_with_test() as end:
        yield lambda *words: end(compare(*words, background=True))


@pytest.fixture(scope="module")
def one(compare, work):
    done = compare(*SMALL, "--out", "one")
    assert done.returncode == 0, done.stderr
    return results(work / "one")


def results(folder):
    """All that training decides, bit for bit, and nothing that a clock does."""
    found = json.loads((folder / "results.json").read_text())
    runs = [{key: value for key, value in run.items() if key not in MEASURED} for run in found["runs"]]
    return {key: found[key] for key in ("mechanisms", "tuning", "summary", "interrupted", "data")} | {"runs": runs}


def test_two_workers_find_what_one_finds(compare, work, one):
    done = compare(*SMALL, "--out", "two", "--workers", 2)
    assert done.returncode == 0, done.stderr
    assert results(work / "two") == one
    assert not (work / "two/work").exists()
    assert sorted(path.name for path in (work / "two/trained").iterdir()) == sorted(path.name for path in (work / "one/trained").iterdir())
    for name in ("cog-seed-2", "softmax-seed-3"):
        ours, theirs = (read_tensors(work / folder / "trained" / name / "checkpoint.safetensors") for folder in ("one", "two"))
        assert ours.keys() == theirs.keys() and all(torch.equal(ours[key], theirs[key]) for key in ours), name


@pytest.mark.parametrize("seed", [20, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (21, 22, 23))])
def test_killed_workers_are_replaced(begin, work, one, seed):
    """At any moment: before a worker has read the text, in a trial, in a run, between two. With more kills a run could end ten workers,
    which is said to be its fault."""
    draw = random.Random(seed)
    process = begin(*SMALL, "--out", f"killed-{seed}", "--workers", 2)
    kills = 0
    while process.poll() is None and kills < 6:
        time.sleep(draw.uniform(0.1, 0.9))
        if workers := [number for number in children_of(process) if not is_gone(number)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(draw.choice(workers), signal.SIGKILL)
                kills += 1
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    assert errors.count("was ended by signal 9; another takes its place") >= 1
    assert kills and results(work / f"killed-{seed}") == one


def test_workers_that_end_at_once_are_not_started_for_ever(begin):
    long = [100_000 if word == 60 else word for word in SMALL]  # nothing is made in between
    process = begin(*long, "--out", "futile", "--workers", 2)
    while process.poll() is None:
        for number in children_of(process):
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        time.sleep(0.002)
    output, errors = process.communicate()
    assert process.returncode == 1 and "cogwheel: workers: expected one that makes something, got 41 that ended before they did" in errors, errors


def test_others_join(begin, compare, work, one):
    """The work is held until they have: the workers of the comparison itself sleep."""
    first = begin(*SMALL, "--out", "joined", "--workers", 2)
    workers = wait_for(lambda: len(found := children_of(first)) == 2 and found)
    for number in workers:
        os.kill(number, signal.SIGSTOP)
    (work / "elsewhere").mkdir()
    other = compare("--join", work / "joined", background=True)
    wait_for(lambda: any(item.stem.endswith(str(other.pid)) or str(other.pid) in item.read_text() for item in (work / "joined/work").glob("*/*/process")))
    for number in workers:
        os.kill(number, signal.SIGCONT)
    output, errors = other.communicate()
    assert other.returncode == 0 and int(output.split()[0]) >= 1 and output.endswith(f" made for {work / 'joined'}\n"), errors
    output, errors = first.communicate()
    assert first.returncode == 0, errors
    assert results(work / "joined") == one


def test_workers_end_with_their_comparison(begin, compare, work, one):
    """Killed, which leaves no time to tell them; and asked to stop, which says how to go on. They are held in between, so that they live."""
    process = begin(*SMALL, "--out", "ended", "--workers", 2)
    workers = wait_for(lambda: len(found := children_of(process)) == 2 and list((work / "ended/work").glob("*/*/process")) and found)
    for number in workers:
        os.kill(number, signal.SIGSTOP)
    process.kill()
    process.wait()
    refused = compare("--join", "ended")
    assert refused.returncode == 1
    assert refused.stderr == "cogwheel: ended: expected a comparison that is being made with --workers, got one whose process has ended; --resume goes on\n"
    # Another process goes on while they still hold what they had, and waits for that.
    process = begin("--resume", "ended", "--workers", 2)
    wait_for(lambda: len(children_of(process)) == 2)
    for number in workers:
        with contextlib.suppress(ProcessLookupError):  # a system may end what is stopped and has no parent any more
            os.kill(number, signal.SIGCONT)
    wait_for(lambda: all(map(is_gone, workers)))
    workers = wait_for(lambda: process.poll() is not None or (len(found := children_of(process)) == 2 and found))
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate()
    assert workers is True or all(map(is_gone, workers))
    if process.returncode != 0:  # else it was done before
        assert process.returncode == 130 and errors.rstrip().endswith("`cogwheel compare --resume ended` continues"), errors
    done = compare("--resume", "ended")
    assert done.returncode == 0, done.stderr
    assert results(work / "ended") == one
    assert not (work / "ended/work").exists()


def test_a_comparison_keeps_its_threads(begin, compare, work):
    """Also one that was interrupted before it had a run."""
    process = begin(*SMALL, "--out", "threads", "--workers", 1, "--threads", 2)
    wait_for((work / "threads/results.json").exists)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate()
    assert process.returncode in (0, 130), errors
    done = compare("--resume", "threads")
    assert done.returncode == 0 and "the bits may differ" not in done.stderr, done.stderr
    assert json.loads((work / "threads/results.json").read_text())["machine"]["threads"] == 2


def test_a_stored_run_is_made_anew_once(begin, compare, work, cogwheel_in):
    """By workers of `reproduce --retrain`, of which one is killed."""
    reproduce = functools.partial(cogwheel_in(work), "reproduce")
    words = ["s1/convergence", "--seeds", 1, "--steps", 40, "--set", "model.width=16", "--set", "model.heads=2", "--set", "data.vocabulary=270", "--text", "text.txt", "--models", "models"]
    answers = []
    for name, more in (("alone", []), ("shared", ["--workers", 2]), ("anew", ["--workers", 2, "--retrain"])):
        process = reproduce(*words, "--out", name, *more, background=True)
        if name == "anew":
            os.kill(wait_for(lambda: process.poll() is None and children_of(process))[0], signal.SIGKILL)
        output, errors = process.communicate()
        assert process.returncode == 0, errors
        found = json.loads((work / name / "results.json").read_text())
        answers.append((found["claims"], found["tables"], found["answer"]))
    assert answers[0] == answers[1] == answers[2]
    refused = reproduce("s2/hopfield", "--workers", 2)
    assert refused.stderr.endswith(", as it is a lab, got --workers or --threads\n") and refused.stderr.count("\n") == 1
    # Of several experiments the labs are made as they are.
    several = reproduce("s0", "--workers", 2, "--out", "several")
    assert several.returncode == 0 and (work / "several/s0/layer/results.json").exists(), several.stderr


def test_rows_are_added_by_workers(compare, work, one):
    shutil.copytree(work / "one", work / "added")
    done = compare("--add", "linear_abs", "added", "--workers", 2)
    assert done.returncode == 0, done.stderr
    found = results(work / "added")
    assert [row["name"] for row in found["mechanisms"]] == ["softmax", "cog", "linear_abs"] and len(found["runs"]) == 9
    assert [run for run in found["runs"] if run["mechanism"] != "linear_abs"] == one["runs"]
    record = json.loads((work / "added/results.json").read_text())
    assert record["machine"]["workers"] == 2 and record["machine"]["threads"] == 1
    assert "2 workers at a time, each of 1 CPU thread" in (work / "added/report.html").read_text()


def test_python_shows_what_workers_do(work, monkeypatch):
    import cogwheel

    monkeypatch.chdir(work)
    found = cogwheel.compare(attention=["softmax", "cog"], preset="tiny", seeds=1, steps=5, text="text.txt", out="python", workers=2, threads=1)
    assert found.verdict and json.loads((work / "python/results.json").read_text())["machine"]["workers"] == 2
    with pytest.raises(ValueError, match="expected no join"):
        cogwheel.compare(join="python")


def test_a_mechanism_of_ones_own_is_that_of_the_workers(compare, work):
    define = ["--define", "mine: f = s; g = abs(s)"]
    words = ["--preset", "tiny", "--attention", "softmax,mine", "--seeds", 1, "--steps", 5, "--text", "text.txt", *define]
    for name, more in (("own-one", []), ("own-two", ["--workers", 2])):
        done = compare(*words, "--out", name, *more)
        assert done.returncode == 0, done.stderr
    assert results(work / "own-one") == results(work / "own-two")


def test_a_run_that_fails_ends_no_other(compare, work):
    """Its folder holds what is not a run, which one process and several tell in the same words."""
    words = [*SMALL[:-4], "--text", "text.txt"]
    told = []
    for name, more in (("failed-one", []), ("failed-two", ["--workers", 2])):
        (work / name / "trained/cog-seed-2").mkdir(parents=True)
        (work / name / "trained/cog-seed-2/.cogwheel").write_text("comparison\n")
        (work / name / "trained/cog-seed-2/thesis.txt").write_text("")
        (work / name / ".cogwheel").write_text("comparison\n")
        done = compare(*words, "--out", name, "--overwrite", *more)
        told.append((done.returncode, done.stderr.splitlines()[-1].replace(name, "folder")))
    assert told[0] == told[1] and told[0][0] != 0


@pytest.mark.parametrize(
    ("words", "line", "status"),
    [
        (["--workers", "0"], "--workers: expected at least 1, got 0", 2),
        (["--workers", "2", "--threads", "0"], "--threads: expected at least 1, got 0", 2),
        (["--join", "nowhere"], "nowhere: expected the folder of a comparison, got no results.json in it", 1),
        (["--join", "one"], "one: expected a comparison that is being made with --workers, got one that a single process makes, or that has ended", 1),
        (["--join", "one", "--steps", "3"], "--join: expected no further options: the comparison keeps its own, got --steps", 2),
        (["--join", "one", "--workers", "3"], "--join: expected no --workers: this process is one worker more, got both", 2),
        (["--join", "one", "--threads", "3"], "--join: expected no --threads: this process is one worker more, got both", 2),
        (["--join", "one", "--resume", "one"], "--join: expected no --resume: this process is one worker more, got both", 2),
    ],
)
def test_bad_input_gets_a_line(compare, one, words, line, status):
    refused = compare(*words)
    assert (refused.returncode, refused.stderr) == (status, f"cogwheel: {line}\n")


def test_another_build_or_machine_may_not_join(begin, compare, work):
    process = begin(*SMALL, "--out", "strict", "--workers", 2)
    queue = work / "strict/work/queue.json"
    wait_for(queue.exists)
    record = json.loads(queue.read_text())
    record["terms"]["build"] = "0123"
    (work / "other/work").mkdir(parents=True)
    shutil.copy(work / "strict/results.json", work / "other/results.json")
    (work / "other/work/queue.json").write_text(json.dumps(record))
    refused = compare("--join", "other")
    assert refused.returncode == 1 and refused.stderr.startswith("cogwheel: other: the build of cogwheel: expected 0123, got "), refused.stderr
    (work / "other/work/queue.json").write_text("{")
    assert compare("--join", "other").stderr.startswith("cogwheel: other/work/queue.json: expected JSON")


def test_more_threads_than_cores_are_warned_of(compare):
    cores = os.cpu_count()
    done = compare("--preset", "tiny", "--attention", "softmax", "--seeds", 2, "--steps", 1, "--text", "text.txt", "--out", "warned", "--workers", 2, "--threads", cores)
    assert done.returncode == 0 and f"{2 * cores} threads on {cores} core" in done.stderr, done.stderr
