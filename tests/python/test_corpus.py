"""`cogwheel data` and training on what it prepares, from end to end."""

import json
import os
import random
import signal
import subprocess
import time

import pytest
from recorded_bits import weights_hash
from resumed_runs import expect_resumes_bit_for_bit

CONFIG = """
name = "tiny"
[model]
context = 24
layers = 1
heads = 2
width = 32
[training]
steps = 24
batch = 4
warm_up = 2
report_every = 2
evaluate_every = 4
checkpoint_every = 4
"""


def lines(count, seed):
    draw = random.Random(seed)
    words = ["".join(draw.choices("abcdefgh", k=draw.randint(1, 7))) for _ in range(300)]
    return "".join(json.dumps({"id": each, "text": " ".join(draw.choices(words, k=draw.randint(1, 60)))}) + "\n" for each in range(count))


def files(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "texts").mkdir()
    for seed in (1, 2):
        (folder / "texts" / f"{seed}.jsonl").write_text(lines(400, seed))
    (folder / "more.jsonl").write_text(lines(100, 3))
    (folder / "config.toml").write_text(CONFIG)
    return folder


@pytest.fixture(scope="module")
def corpora(folder, cogwheel_in):
    """The command line in the folder of two corpora."""
    run = cogwheel_in(folder)
    for paths, name in ((["texts"], "corpus"), (["more.jsonl"], "other")):
        done = run("data", "prepare", *paths, "--tokenizer", "byte", "--out", name, "--held-out", "0.2", "--shard-tokens", "20000")
        assert done.returncode == 0, done.stderr
    return run


def test_what_is_prepared_is_inspected(corpora):
    done = corpora("data", "inspect", "corpus", "--verify", "--samples", "2")
    assert done.returncode == 0, done.stderr
    assert "texts/1.jsonl and 1 more from 2 sources" in done.stdout and "verified:" in done.stdout
    facts = json.loads(corpora("data", "inspect", "corpus", "--json", "--samples", "3").stdout)
    index = json.loads((corpora.folder / "corpus/index.json").read_text())
    counts = facts["counts"]
    assert counts == index["counts"] and counts["training"]["documents"] + counts["held_out"]["documents"] + counts["duplicates"] == 800
    texts = {json.loads(line)["text"] for seed in (1, 2) for line in (corpora.folder / f"texts/{seed}.jsonl").read_text().splitlines()}
    samples = facts["training"]["samples"] + facts["held_out"]["samples"]
    assert len(samples) == 6 and all(any(text.startswith(each["text"]) for text in texts) for each in samples)
    assert sum(facts["training"]["lengths"]["by_power_of_two"]) == counts["training"]["documents"]


def test_a_run_on_a_corpus_resumes_bit_for_bit(corpora, cogwheel_executable):
    for packing in ("windows", "documents"):
        words = ["config.toml", "--corpus", "corpus", "other", "--set", f"data.packing={packing}", "data.weights=[1, 3.5]", "training.steps=60"]
        expect_resumes_bit_for_bit(corpora, cogwheel_executable, corpora.folder, words, packing)
    recorded = (corpora.folder / "whole-windows/config.toml").read_text()
    assert "weights = [1.0,3.5]" in recorded and 'packing = "windows"' in recorded and 'tokenizer = "byte"' in recorded
    assert weights_hash(corpora.folder / "whole-windows/checkpoint.safetensors") != weights_hash(
        corpora.folder / "whole-documents/checkpoint.safetensors"
    )
    # Its bytes need not be UTF-8.
    sampled = subprocess.run([cogwheel_executable, "sample", "whole-windows", "--prompt", "ab", "--length", "5"], cwd=corpora.folder, capture_output=True)
    assert sampled.returncode == 0 and sampled.stdout.startswith(b"ab"), sampled.stderr
    evaluated = corpora("evaluate", "whole-windows")
    assert evaluated.returncode == 0, evaluated.stderr


def test_mechanisms_are_compared_on_a_corpus(corpora):
    words = ["compare", "--corpus", "corpus", "--attention", "softmax,cog", "--preset", "tiny", "--steps", "4", "--seeds", "1", "--tune", "2"]
    done = corpora(*words, "--set", "model.context=16", "model.width=32", "model.layers=1", "model.heads=2", "data.packing=documents", "--out", "compared")
    assert done.returncode == 0, done.stderr
    results = json.loads((corpora.folder / "compared/results.json").read_text())
    assert results["data"]["corpus"] == [str(corpora.folder / "corpus")] and results["data"]["tokenizer"] == "byte"
    done = corpora("compare", "--add", "sigmoid", "compared")
    assert done.returncode == 0, done.stderr


def expect_refused(done, code, part):
    assert done.returncode == code and part in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_what_does_not_fit_is_refused_in_one_line(corpora, tmp_path):
    train = ["train", "config.toml", "--out", tmp_path / "run"]
    expect_refused(corpora(*train, "--corpus", "corpus", "--text", "more.jsonl"), 2, "--corpus: expected no --text")
    expect_refused(corpora(*train, "--corpus", "corpus", "other", "--set", "data.weights=[1]"), 2, "data.weights: expected 2, one for each")
    for words in ([], ["--corpus", "corpus"]):
        message = "data.weights: expected none without several of data.corpus, got 1"
        expect_refused(corpora(*train, *words, "--set", "data.weights=[1]"), 2, message)
    expect_refused(corpora(*train, "--corpus", "corpus", "--set", "data.weights=[0]"), 2, "data.weights: expected numbers above 0")
    for weights, got in (("[-1]", "-1"), ("[1e31]", "1e+31"), ("[nan]", "nan")):
        message = f"data.weights: expected numbers above 0 to 1e+30, got {got}\n"
        expect_refused(corpora(*train, "--corpus", "corpus", "--set", f"data.weights={weights}"), 2, message)
    expect_refused(corpora(*train, "--corpus", "corpus", "--set", "data.packing=rows"), 2, "data.packing: expected one of windows, documents")
    folder = "expected the folder of a corpus, as `cogwheel data prepare` makes it, got "
    expect_refused(corpora(*train, "--corpus", "texts"), 1, f"texts: {folder}one without index.json")
    expect_refused(corpora(*train, "--corpus", "texts/1.jsonl"), 1, f"1.jsonl: {folder}a file")
    expect_refused(corpora(*train, "--corpus", "none"), 1, f"none: {folder}no folder")
    run = tmp_path / "a run"  # which has a tokenizer too
    run.mkdir()
    (run / ".cogwheel").write_text("run\n")
    (run / "tokenizer.json").write_text("{}")
    expect_refused(corpora(*train, "--corpus", run), 1, f"a run: {folder}the folder of a run")
    expect_refused(corpora(*train, "--corpus", "corpus", "--set", "data.sha256=0123"), 1, "data.sha256 of")
    expect_refused(corpora(*train, "--corpus", "corpus", "--set", "task.name=copying"), 2, "data.corpus: expected none for the task copying")
    expect_refused(corpora(*train, "--corpus", "corpus", "--set", "model.context=100000"), 1, "corpus: expected a window of 100000 tokens")
    expect_refused(corpora("data", "prepare", "texts", "--out", "more"), 2, "data prepare: expected --tokenizer")
    expect_refused(corpora("data", "prepare", "texts", "--tokenizer", "byte", "--out", "corpus", "--field", "id"), 2, "prepared with other options")
    expect_refused(corpora("data", "prepare", "texts", "--tokenizer", "byte", "--out", tmp_path / "new", "--field", "id"), 1, "1.jsonl, line 1: expected")
    expect_refused(corpora("data", "prepare", "texts", "--tokenizer", "byte", "--out", tmp_path / "new", "--held-out", "1"), 2, "--held-out")
    expect_refused(corpora("data", "look", "corpus"), 2, "data")


def test_a_run_refuses_another_corpus(corpora, tmp_path):
    """Its own was replaced by one of other texts, or of another tokenizer."""
    prepare = ["data", "prepare", "--tokenizer", "byte", "--held-out", "0.3", "--out"]
    run = tmp_path / "run"
    assert corpora(*prepare, tmp_path / "mine", "more.jsonl").returncode == 0
    done = corpora("train", "config.toml", "--corpus", tmp_path / "mine", "--out", run)
    assert done.returncode == 0, done.stderr
    (tmp_path / "mine").rename(tmp_path / "moved")
    assert corpora(*prepare, tmp_path / "mine", "texts").returncode == 0
    expect_refused(corpora("evaluate", run), 1, "data.sha256 of")


def killed_at(command, folder, seconds):
    process = subprocess.Popen(command, cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    process.kill()
    process.wait(timeout=60)
    return process.returncode == -signal.SIGKILL


@pytest.mark.slow
def test_a_preparation_survives_twenty_kills(folder, cogwheel_executable, tmp_path):
    source = tmp_path / "texts.jsonl"
    source.write_text("".join(lines(3000, seed) for seed in range(12)))
    command = [str(cogwheel_executable), "data", "prepare", str(source), "--tokenizer", "byte", "--shard-tokens", "100000", "--threads", "2", "--out"]
    start = time.monotonic()
    subprocess.run([*command, str(tmp_path / "whole")], check=True, capture_output=True)
    taken = time.monotonic() - start
    draw, killed = random.Random(0), 0
    for moment in range(20):
        out = tmp_path / f"parts-{moment}"
        while killed_at([*command, str(out)], tmp_path, draw.uniform(0, taken)):
            killed += 1
        subprocess.run([*command, str(out)], check=True, capture_output=True)
        assert files(out) == files(tmp_path / "whole")
    assert killed >= 10
