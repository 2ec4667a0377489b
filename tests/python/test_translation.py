"""The task `translation` on the command line: the toy language and files, resuming, comparing, and what is refused."""

import gzip
import importlib.util
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time

import pytest

from comparison_records import expect_continues

CONFIG = """
[task]
name = "translation"
[model]
width = 16
context = 20
mechanism = "bahdanau"
dropout = 0.1
[training]
steps = 30
batch = 8
evaluate_every = 20
checkpoint_every = 10
curve_tokens = 32
"""
WORDS = {"dog": "Hund", "cat": "Katze", "house": "Haus", "tree": "Baum", "red": "rot", "old": "alt", "sees": "sieht"}


@pytest.fixture(scope="module")
def cogwheel(cogwheel_executable, tmp_path_factory):
    folder = tmp_path_factory.mktemp("translation")
    (folder / "toy.toml").write_text(CONFIG)
    # sacrebleu takes seconds, and one test is enough: the others see a Python without packages.
    bare = folder / "bare-python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    bare.chmod(0o755)

    def run(*words, background=False, python=bare):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "COGWHEEL_PYTHON": str(python)}
        command = [cogwheel_executable, *map(str, words)]
        if background:
            return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)

    run.folder = folder
    return run


def ran(done):
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def toy(cogwheel):
    ran(cogwheel("train", "toy.toml", "--out", "toy"))
    return "toy"


@pytest.fixture(scope="module")
def files(cogwheel):
    """Parallel files, the target compressed; a pair has an empty side and one is too long."""
    draw = random.Random(2)
    sources = [[draw.choice(list(WORDS)) for _ in range(draw.randrange(2, 9))] for _ in range(80)]
    sources[3], sources[11] = [], ["tree"] * 60
    (cogwheel.folder / "text.en").write_text("".join(" ".join(words) + "\n" for words in sources))
    translated = "".join(" ".join(WORDS[word] for word in reversed(words)) + "\n" for words in sources)
    (cogwheel.folder / "text.de.gz").write_bytes(gzip.compress(translated.encode()))
    return ["--source", "text.en", "--target", "text.de.gz", "--set", "task.vocabulary=48"]


def tables(folder):
    return {table["title"]: table["rows"] for table in json.loads((folder / "evaluation.json").read_text())["tables"]}


def losses(folder):
    points = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return {point["step"]: [value for name, value in sorted(point.items()) if name.endswith("loss")] for point in points}


def tensors(folder):
    """Of the checkpoint: weights and the optimiser's moments. Its header has times too."""
    data = (folder / "checkpoint.safetensors").read_bytes()
    size = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:size])
    header.pop("__metadata__", None)
    return {name: (each["dtype"], data[size + each["data_offsets"][0] : size + each["data_offsets"][1]]) for name, each in header.items()}


def test_evaluation_has_alignment_error_scores_and_pictures(cogwheel, toy):
    folder = cogwheel.folder / toy
    done = ran(cogwheel("evaluate", toy, python=sys.executable))
    found = json.loads((folder / "evaluation.json").read_text())
    last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
    assert found["measures"]["held_out_loss"] == last["final_held_out_loss"]
    assert "nats per word" in done.stdout
    assert "Bahdanau</" in (folder / "evaluation.html").read_text()
    (name, rate), *others = tables(folder)["Alignment"]
    assert name == "alignment error rate" and 0 < float(rate) < 1 and not others
    scores = dict(tables(folder)["Translation"])
    if importlib.util.find_spec("sacrebleu"):
        interval = re.compile(r"\d+\.\d \(\d+\.\d to \d+\.\d\)")
        assert interval.fullmatch(scores["BLEU"]) and interval.fullmatch(scores["chrF"])
        assert len(tables(folder)["BLEU by length of the source"]) == 5
        assert "tok:13a" in dict(tables(folder)["How scores were computed"])["BLEU"]
    assert len(tables(folder)["Examples"]) == 5
    page = (folder / "evaluation.html").read_text()
    assert page.count("true links") == 4 and "<script" not in page


def test_without_sacrebleu_a_line_says_how_to_get_it(cogwheel, toy):
    ran(cogwheel("evaluate", toy, "--out", "bare"))
    ((name, reason),) = tables(cogwheel.folder / "bare")["Translation"]
    assert name == "BLEU" and reason.startswith("none: BLEU and chrF: expected sacrebleu") and "-m pip install sacrebleu" in reason


def test_translates_a_sentence_or_the_lines_of_a_file(cogwheel, toy):
    lines = ["the cat sees a dog", "", "a old snowman follows a lighthouse", " ".join(["the old dog"] * 9)]
    (cogwheel.folder / "lines.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    done = ran(cogwheel("sample", toy, "--input", "lines.gz"))
    translated = done.stdout.split("\n")
    assert len(translated) == 5 and translated[1] == translated[4] == "" and all(translated[line] for line in (0, 2, 3))
    assert done.stderr.count("\n") == 1 and "line 4 is longer than 19 tokens and was cut" in done.stderr
    assert ran(cogwheel("sample", toy, "--prompt", lines[0])).stdout == translated[0] + "\n"
    # The links of a line of their own, one of each word of the translation; what is printed stays.
    linked = ran(cogwheel("sample", toy, "--input", "lines.gz", "--alignments", "links"))
    assert linked.stdout == done.stdout
    of_lines = (cogwheel.folder / "links").read_text().split("\n")
    assert len(of_lines) == 5 and of_lines[1] == of_lines[4] == ""
    for line in (0, 2, 3):
        pairs = [list(map(int, pair.split("-"))) for pair in of_lines[line].split()]
        assert sorted(target for _, target in pairs) == list(range(len(translated[line].split())))
        assert all(0 <= source < min(19, len(lines[line].split())) for source, _ in pairs)
    greedy = [ran(cogwheel("sample", toy, "--prompt", lines[0], "--beam", 1)).stdout for _ in range(2)]
    assert greedy[0] == greedy[1] != "\n"


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_resumes_bit_for_bit_after_a_kill(cogwheel, precision):
    for name in ("parts", "whole"):
        shutil.rmtree(cogwheel.folder / name, ignore_errors=True)
    words = ["train", "toy.toml", "--set", "training.steps=120", "--set", f"training.precision={precision}"]
    process = cogwheel(*words, "--out", "parts", background=True)
    checkpoint = cogwheel.folder / "parts/checkpoint.safetensors"
    while not checkpoint.exists() and process.poll() is None:
        time.sleep(0.005)
    process.kill()
    process.wait()
    assert max(losses(cogwheel.folder / "parts"), default=0) < 120  # it was in the middle
    ran(cogwheel("resume", "parts"))
    ran(cogwheel(*words, "--out", "whole"))
    assert losses(cogwheel.folder / "parts") == losses(cogwheel.folder / "whole")
    assert tensors(cogwheel.folder / "parts") == tensors(cogwheel.folder / "whole")


def test_learns_from_files(cogwheel, files):
    done = ran(cogwheel("train", "toy.toml", *files, "--set", "training.steps=4", "--out", "files"))
    folder = cogwheel.folder / "files"
    assert re.search(r"1 with an empty side, \d+ longer than 19 tokens", done.stderr), done.stderr
    assert {file["path"].rsplit("/", 1)[-1] for file in json.loads((folder / "text.json").read_text())["files"]} == {"text.en", "text.de.gz"}
    assert "vocabulary = 48" in (folder / "config.toml").read_text()
    ran(cogwheel("evaluate", "files"))
    assert "Alignment" not in tables(folder)  # true links are known of the toy language alone
    assert len(tables(folder)["Examples"]) == 5
    # Its own vocabulary, and not the files: they may be gone.
    moved = cogwheel.folder / "moved"
    shutil.copytree(folder, moved)
    assert ran(cogwheel("sample", "moved", "--prompt", "old dog sees tree")).stdout.strip()
    # Other text is refused.
    (cogwheel.folder / "text.en").write_text((cogwheel.folder / "text.en").read_text().replace("cat", "dog"))
    done = cogwheel("evaluate", "files")
    assert done.returncode == 1 and "data.sha256 of" in done.stderr and done.stderr.count("\n") == 1


def test_compares_alignments(cogwheel):
    words = ["compare", "--task", "translation", "--attention", "luong_general,none", "--steps", 2, "--seeds", 1]
    ran(cogwheel(*words, "--out", "compared"))
    written = json.loads((cogwheel.folder / "compared/results.json").read_text())
    assert written["task"]["name"] == "translation" and written["settings"]["dropout"] == 0.1
    assert [(run["mechanism"], run["status"]) for run in written["runs"]] == [("luong_general", "done"), ("none", "done")]
    one, other = (plan["parameters"] for plan in written["mechanisms"])
    assert abs(one - other) < 0.005 * one
    report = (cogwheel.folder / "compared/report.html").read_text()
    assert "Luong general" in report and "nats per word" in report


def test_a_small_text_has_a_small_vocabulary(cogwheel):
    for name in ("small.en", "small.de"):
        (cogwheel.folder / name).write_text("".join(f"the {word} is {word}\n" for word in "abcdefghijklmnopqrst"))
    files = ["--source", "small.en", "--target", "small.de"]
    ran(cogwheel("compare", "--task", "translation", *files, "--attention", "luong_dot,none", "--steps", 1, "--seeds", 1, "--out", "small"))
    config = (cogwheel.folder / "small/trained/none-seed-1/config.toml").read_text()
    pieces = re.findall(r"^vocabulary = (\d+)$", config, re.M)
    assert len(pieces) == 3 and pieces[0] == pieces[2] and 20 < int(pieces[0]) < 200  # of the task, of byte pairs, and of the model
    expect_continues(cogwheel, cogwheel.folder / "small", "bahdanau", "--source small.en", "--target small.de")
    (cogwheel.folder / "nothing").write_text("")
    assert ran(cogwheel("sample", "small/trained/none-seed-1", "--input", "nothing")).stdout == ""


def test_refusals_are_one_line(cogwheel, toy):
    for name, lines in (("three", 3), ("two", 2), ("forty", 40)):
        (cogwheel.folder / name).write_text("".join(("a b c\n", "c b a\n")[line % 2] for line in range(lines)))
    (cogwheel.folder / "empty").write_text("")
    train, compare = ["train", "toy.toml", "--out", "no"], ["compare", "--task", "translation", "--out", "no"]
    for words, message in (
        ([*train, "--source", "three", "--target", "two"], r"two: expected 3 lines, as \S+/three has, got 2 lines"),
        ([*train, "--source", "three"], r"training files: expected a source and a target file, got only \S+/three"),
        ([*train, "--target", "two"], r"training files: expected a source and a target file, got only \S+/two"),
        ([*train, "--source", "forty", "--target", "forty", "--set", "task.vocabulary=8000"], r"expected text for a vocabulary of 8000 pieces, got text for \d+ at most"),
        ([*train, "--source", "forty", "--target", "forty", "--set", "task.test_source=empty", "--set", "task.test_target=empty"],
         "empty, empty: expected lines to translate, got none"),
        ([*train, "--set", "task.test_source=three"], "task.source: expected a file to train on"),
        ([*train, "--set", "model.mechanism=bahdanow"], "model.mechanism: expected bahdanau "),
        ([*train, "--set", "model.width=17"], "model.width: expected an even number"),
        ([*train, "--set", "model.heads=3"], r"model.heads: expected a divisor of model.width \(16\), got 3"),
        ([*train, "--set", "task.distance=8"], "model.context: expected at least 30 for the toy language, .*, got 20"),
        ([*train, "--text", "three"], "data.text: expected none for the task translation"),
        ([*train, "--strokes", "."], "--strokes: expected the task handwriting, got translation"),
        ([*train, "--set", "task.beam=0"], "task.beam: expected at least 1, got 0"),
        ([*compare, "--form", "gpt"], "--form: expected a task that a language model learns, got translation"),
        ([*compare, "--preset", "tiny"], "--preset: expected one whose model learns translation: translation, translation-transformer, got tiny"),
        ([*compare, "--attention", "bahdanau,nope"], "--attention: expected .*, got nope"),
        (["sample", toy, "--prompt", "a", "--bias", 1], "option: expected one for the task translation: .*, got --bias"),
        (["sample", toy, "--prompt", "a", "--beam", 0], "--beam: expected at least 1"),
        (["sample", toy, "--prompt", "a", "--alignments", "links", "--alignment-layer", 0], "--alignment-layer: expected a transformer, which has several, got a recurrent model"),
        (["sample", toy], "sample: expected either --prompt or --input, not empty, got neither"),
        (["sample", toy, "--prompt", "a", "--input", "two"], "sample: expected either .*, got both"),
        (["sample", toy, "--input", "gone"], "gone: expected a text file"),
    ):
        done = cogwheel(*words)
        assert done.returncode in (1, 2) and re.search(message, done.stderr), (words, done.stderr)
        assert done.stderr.count("\n") == 1 and done.stderr.startswith("cogwheel: ")
        assert not (cogwheel.folder / "no").exists()
