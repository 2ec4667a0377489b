"""The tasks sentences and masked_words on the command line: training, resuming, samples, comparisons, refusals."""

import json
import math
import random
import shutil

import pytest

from comparison_records import expect_continues
from resumed_runs import expect_resumes_bit_for_bit, metrics
from tensor_files import read_tensors

CONFIG = """
name = "small"
[task]
name = "{task}"
[model]
width = 16
heads = 2
layers = 2
context = {context}
[training]
steps = 6
batch = 4
warm_up = 2
curve_tokens = 16
evaluate_every = 3
report_every = 1
checkpoint_every = 3
"""
GOOD, BAD = ("fine", "lovely", "great"), ("poor", "dull", "bad")


def table(rows, header=""):
    draw = random.Random(2)
    lines = [f"the {draw.choice(['film', 'plot', 'cast'])} was {word} number {n}\t{label}"
             for n in range(rows) for label, words in (("good", GOOD), ("ill", BAD)) for word in [draw.choice(words)]]
    return header + "\n".join(lines) + "\n"  # fmt: skip


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoders")
    (folder / "sentences.toml").write_text(CONFIG.format(task="sentences", context=40))
    (folder / "masked_words.toml").write_text(CONFIG.format(task="masked_words", context=40))
    (folder / "table.tsv").write_text(table(30))
    (folder / "text.txt").write_text("\n".join(line.split("\t")[0] for line in table(30).splitlines()) + "\n")
    (folder / "unlabelled.tsv").write_text(table(3) + "no label here\n")
    return folder


@pytest.fixture(scope="module")
def cogwheel(cogwheel_in, work):
    return cogwheel_in(work)


@pytest.fixture(scope="module")
def trained(cogwheel, work):
    def train(name, config, *words):
        done = cogwheel("train", config, *words, "--out", name)
        assert done.returncode == 0, done.stderr
        return work / name

    small = ["--set", "task.vocabulary=120"]
    return {
        "reviews": train("reviews-run", "sentences.toml"),
        "table": train("table-run", "sentences.toml", "--sentences", "table.tsv", *small),
        "hidden": train("hidden-run", "masked_words.toml"),
        "text": train("text-run", "masked_words.toml", "--sentences", "text.txt", *small, "--set", "task.whole_words=true"),
    }


def test_trains_on_reviews_tables_and_text(trained):
    for run in trained.values():
        last = metrics(run)[-1]
        assert last["step"] == 6 and math.isfinite(last["held_out_loss"]) and 0 <= last["accuracy"] <= 1
    assert json.loads((trained["table"] / "classes.json").read_text()) == ["good", "ill"]
    assert "classes = 2" in (trained["table"] / "config.toml").read_text()


def test_learns_what_no_bag_of_words_can_tell(cogwheel, work):
    words = ["--set", "training.steps=1000", "--set", "training.batch=32", "--set", "training.learning_rate=5e-4"]
    words += ["--set", "model.width=64", "--set", "training.evaluate_every=0", "--set", "training.warm_up=50"]
    done = cogwheel("train", "sentences.toml", "--out", "learned", *words)
    assert done.returncode == 0, done.stderr
    assert metrics(work / "learned")[-1]["final_accuracy"] > 0.78  # 0.753 is the most without the order of words


def test_evaluation_shows_what_was_learned(cogwheel, trained):
    for name, said in (("reviews", "naive Bayes on words"), ("hidden", "their entropy")):
        done = cogwheel("evaluate", trained[name])
        assert done.returncode == 0, done.stderr
        assert said in (trained[name] / "evaluation.html").read_text()


def test_samples_are_classes_and_words(cogwheel, trained, work):
    done = cogwheel("sample", trained["table"], "--prompt", "the film was great")
    assert done.returncode == 0, done.stderr
    words = done.stdout.split()
    assert {words[0], words[2]} == {"good", "ill"} and abs(float(words[1]) + float(words[3]) - 1) < 2e-3
    (work / "lines.txt").write_text("the plot was dull\n\nthe cast was fine\n")
    done = cogwheel("sample", trained["table"], "--input", "lines.txt")
    assert done.returncode == 0 and len(done.stdout.strip("\n").split("\n")) == 3, done.stderr
    assert done.stdout.split("\n")[1] == ""  # a line without words has no class
    done = cogwheel("sample", trained["text"], "--prompt", "the [MASK] was [MASK]")
    assert done.returncode == 0 and len(done.stdout.strip().splitlines()) == 2, done.stderr


def test_a_table_to_classify_or_embed_gives_its_sentences(cogwheel, trained, work):
    """Labels, known or not, and headers are no sentences of a model that learned from one in a row."""
    texts = [line.split("\t")[0] for line in table(8).splitlines()]
    (work / "plain.txt").write_text("\n".join(texts) + "\n")
    (work / "labelled.tsv").write_text("".join(f"{text}\t{'good' if n % 2 else 'ill'}\n" for n, text in enumerate(texts)))
    (work / "other.tsv").write_text("".join(f"{text}\t{n}\n" for n, text in enumerate(texts)))
    (work / "named.csv").write_bytes(("\ufeffSentiment,Review\r\n" + "".join(f"x,{text}\r\n" for text in texts)).encode())
    said, vectors = {}, {}
    for name in ("plain.txt", "labelled.tsv", "other.tsv", "named.csv"):
        done = cogwheel("sample", trained["table"], "--input", name)
        assert done.returncode == 0, done.stderr
        said[name] = done.stdout
        assert ("line 1 names its columns" in done.stderr) == (name == "named.csv")
        done = cogwheel("embed", trained["text"], "--input", name, "--out", "vectors.safetensors")
        assert done.returncode == 0, done.stderr
        vectors[name] = read_tensors(work / "vectors.safetensors")["vectors"]
    assert len(set(said.values())) == 1 and said["plain.txt"].count("\n") == len(texts)
    assert all((each == vectors["plain.txt"]).all() for each in vectors.values())
    # A tab in a prompt is white space then.
    tab, space = (cogwheel("sample", trained["table"], "--prompt", f"the film{c}was great").stdout for c in "\t ")
    assert tab == space != ""
    (work / "empty.tsv").write_text("\n\n")
    done = cogwheel("sample", trained["table"], "--input", "empty.tsv")
    assert (done.returncode, done.stderr) == (1, "cogwheel: empty.tsv: expected sentences, got none\n")


def test_says_what_a_line_is_taken_as_and_refuses_data_of_another_split(cogwheel, work):
    (work / "header.csv").write_text("review,sentiment\n" + table(20).replace("\t", ","))
    words = ["sentences.toml", "--sentences", "header.csv", "--set", "task.vocabulary=120"]
    done = cogwheel("train", *words, "--out", "header-run")
    assert done.returncode == 0, done.stderr
    assert "note: header.csv: line 1 names its columns: sentences of review, labels of sentiment" in done.stderr
    config = work / "header-run/config.toml"
    text = config.read_text()
    (recorded,) = [line for line in text.splitlines() if line.startswith("sha256")]
    config.write_text(text.replace(recorded, f'sha256 = "{"0" * 64}"'))  # as of a run that held out other rows
    done = cogwheel("evaluate", "header-run")
    assert done.returncode == 1 and "other data, or another part of them held out" in done.stderr


def test_starts_from_hidden_words(cogwheel, trained, work):
    words = ["--sentences", "table.tsv", "--set", f"task.start={trained['text']}", "--set", "training.steps=3"]
    done = cogwheel("train", "sentences.toml", *words, "--out", "started")
    assert done.returncode == 0, done.stderr
    assert (work / "started/tokenizer.json").read_bytes() == (trained["text"] / "tokenizer.json").read_bytes()
    plain = cogwheel("train", "sentences.toml", "--sentences", "table.tsv", "--set", "training.steps=3", "--out", "plain")
    assert plain.returncode == 0
    assert metrics(work / "started")[0] != metrics(work / "plain")[0]
    assert cogwheel("evaluate", "started").returncode == 0
    other = cogwheel("train", "sentences.toml", *words, "--set", "model.layers=1", "--out", "refused")
    assert other.returncode == 1 and "the options of [model]" in other.stderr


@pytest.mark.parametrize("task", ["sentences", "masked_words"])
def test_resumes_bit_for_bit(cogwheel, cogwheel_executable, work, task):
    words = [f"{task}.toml", "--set", "training.steps=12", "--set", "model.dropout=0.1", "--set", "training.ema=0.5"]
    expect_resumes_bit_for_bit(cogwheel, cogwheel_executable, work, words, task)


@pytest.mark.parametrize("task", ["sentences", "masked_words"])
def test_compares_mechanisms(cogwheel, work, task):
    done = cogwheel(
        "compare", "--task", task, "--preset", task, "--attention", "softmax,cog,symmetric,polynomial", "--seeds", 1,
        "--steps", 2, "--set", "model.layers=1", "--set", "model.width=16", "--set", "model.heads=2",
        "--out", f"compared-{task}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = json.loads((work / f"compared-{task}/results.json").read_text())
    assert results["task"]["measures"][0]["name"] == ("accuracy" if task == "sentences" else "held_out_loss")
    assert len(results["runs"]) == 4
    assert '"whole":true' in (work / f"compared-{task}/report.html").read_text()


@pytest.mark.parametrize(("task", "table"), [("sentences", "table.tsv"), ("masked_words", "text.txt")])
def test_continues_a_comparison_on_files(cogwheel, work, task, table):
    done = cogwheel(
        "compare", "--task", task, "--sentences", table, "--held-out-sentences", table, "--attention", "softmax",
        "--seeds", 1, "--steps", 1, "--out", f"files-{task}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    expect_continues(cogwheel, work / f"files-{task}", "cog", f"--sentences {table}", f"--held-out-sentences {table}")


def test_a_pair_is_read_as_one(cogwheel, work):
    rows = [f"{'the film was great' if n % 2 else 'a dull cast'}\tit was number {n}\t{n % 2}" for n in range(40)]
    (work / "pairs.tsv").write_text("sentence1\tsentence2\tlabel\n" + "\n".join(rows) + "\n")
    words = ["sentences.toml", "--sentences", "pairs.tsv", "--set", "task.vocabulary=100", "--out", "pairs"]
    done = cogwheel("train", *words)
    assert done.returncode == 0, done.stderr
    lengths = {}
    for name, text in (("pair", "a dull cast\tit was"), ("one", "a dull cast it was")):
        done = cogwheel("embed", "pairs", "--prompt", text, "--out", f"{name}.safetensors")
        assert done.returncode == 0, done.stderr
        lengths[name] = read_tensors(work / f"{name}.safetensors")["lengths"].item()
        done = cogwheel("sample", "pairs", "--prompt", text)
        assert done.returncode == 0, done.stderr
    assert lengths["pair"] == lengths["one"] + 1
    for command in (["embed", "pairs", "--out", "long.safetensors"], ["sample", "pairs"]):
        done = cogwheel(*command, "--prompt", "a dull cast " * 200)
        assert done.returncode == 0 and "the text is too long and was cut" in done.stderr, done.stderr
    done = cogwheel("train", *words[:-1], "unpaired", "--set", "model.segments=1")
    assert done.returncode == 2 and "model.segments: expected 2 or more for the pairs of pairs.tsv, got 1" in done.stderr


def test_embed_writes_over_nothing_else(cogwheel, trained, work):
    before = (trained["table"] / "checkpoint.safetensors").read_bytes()
    for out, said in (("table.tsv", "a .safetensors file"), ("table-run/checkpoint.safetensors", "a place of its own")):
        done = cogwheel("embed", "table-run", "--prompt", "a film", "--out", out)
        assert done.returncode == 2 and said in done.stderr, done.stderr
    assert (trained["table"] / "checkpoint.safetensors").read_bytes() == before


def test_class_names_are_those_of_the_model(cogwheel, trained, work):
    shutil.copytree(trained["table"], work / "renamed")
    (work / "renamed/classes.json").write_text('["good"]')
    done = cogwheel("sample", "renamed", "--prompt", "a film")
    assert done.returncode == 1 and "expected 2 names, as the model has classes, got 1" in done.stderr


@pytest.mark.parametrize(
    ("task", "words", "code", "said"),
    [
        ("sentences", ["--sentences", "nowhere.tsv"], 1, "nowhere.tsv"),
        ("sentences", ["--sentences", b"table\xff.tsv"], 2, "task.sentences: expected a path in UTF-8"),
        ("sentences", ["--sentences", "unlabelled.tsv"], 1, "7"),
        ("sentences", ["--set", "task.start=nowhere"], 1, "nowhere"),
        ("sentences", ["--set", "task.start=text-run"], 2, "the word pieces of"),
        ("sentences", ["--set", "task.held_out_sentences=table.tsv"], 2, "task.sentences"),
        ("sentences", ["--held-out-sentences", "table.tsv"], 2, "task.sentences"),
        ("sentences", ["--set", "model.classes=5"], 2, "model.classes"),
        ("sentences", ["--set", "model.mechanism=mamba2"], 2, "has a state"),
        ("sentences", ["--set", "task.masked=0.2"], 2, "masked"),
        ("masked_words", ["--set", "task.masked=0"], 2, "task.masked"),
        ("masked_words", ["--set", "model.classes=2"], 2, "model.classes"),
        ("masked_words", ["--set", "model.context=4"], 2, "model.context"),
        ("masked_words", ["--set", "task.start=hidden-run"], 2, "start"),
    ],
)
def test_train_refuses_in_one_line(cogwheel, work, trained, task, words, code, said):
    done = cogwheel("train", f"{task}.toml", "--out", "refused", *words)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    (line,) = done.stderr.splitlines()
    assert said in line and "expected" in line, line
    assert not (work / "refused").exists()


@pytest.mark.parametrize(
    ("run", "words", "said"),
    [
        ("table", [], "--prompt"),
        ("table", ["--prompt", "a", "--input", "text.txt"], "both"),
        ("table", ["--prompt", "  "], "without words"),
        ("text", ["--prompt", "the film was great"], "[MASK]"),
        ("text", ["--prompt", "the [MASK]", "--count", "2"], "--count"),
    ],
)
def test_sample_refuses_in_one_line(cogwheel, trained, run, words, said):
    done = cogwheel("sample", trained[run], *words)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    (line,) = done.stderr.splitlines()
    assert said in line and "expected" in line, line
