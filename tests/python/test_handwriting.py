"""The task handwriting on the command line: training, evaluation, samples as SVG, comparisons, and what is refused."""

import hashlib
import json
import math
import random
import shutil
import struct
import xml.etree.ElementTree as ElementTree

import pytest

from comparison_records import expect_continues
from resumed_runs import expect_resumes_bit_for_bit, metrics

CONFIG = """
name = "hand"
[task]
name = "handwriting"
held_out = 6
characters = 6
[model]
width = 12
layers = 2
mixtures = 2
curves = 2
context = 200
[training]
steps = 6
batch = 3
warm_up = 2
evaluate_every = 3
report_every = 1
checkpoint_every = 3
"""


def drawings(count):
    """Lines of QuickDraw: strokes that wander, each with its word."""
    draw = random.Random(3)
    lines = []
    for number in range(count):
        strokes = [[[draw.randint(0, 255) for _ in range(4)] for _ in range(2)] for _ in range(2)]
        lines.append(json.dumps({"word": "cat", "key_id": str(number), "drawing": strokes}))
    return "\n".join(lines) + "\n"


def write_forms(folder, count):
    """IAM-OnDB's folders, each form a line of a word and a few strokes."""
    draw = random.Random(5)
    for name in ("lineStrokes", "ascii"):
        (folder / name).mkdir(parents=True)
    for number in range(count):
        form = f"a{number:02}-000u"
        points = "".join(f'<Point x="{9 * x + draw.randint(0, 5)}" y="{draw.randint(0, 30)}"/>' for x in range(8))
        stroke = f"<WhiteboardCaptureSession><StrokeSet><Stroke>{points}</Stroke></StrokeSet></WhiteboardCaptureSession>"
        (folder / "lineStrokes" / f"{form}-01.xml").write_text(stroke)
        (folder / "ascii" / f"{form}.txt").write_text("CSR:\n" + draw.choice(["one", "two", "six"]) + "\n")


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("handwriting")
    (folder / "config.toml").write_text(CONFIG)
    (folder / "drawings").mkdir()
    (folder / "mute.ndjson").write_text(drawings(1).replace('"word"', '"said"'))
    (folder / "drawings/cat.ndjson").write_text(drawings(24))
    return folder


@pytest.fixture(scope="module")
def cogwheel(cogwheel_in, work):
    return cogwheel_in(work)


@pytest.fixture(scope="module")
def trained(cogwheel, work):
    done = cogwheel("train", "config.toml", "--out", "run")
    assert done.returncode == 0, done.stderr
    return work / "run"


@pytest.fixture(scope="module")
def drawn_from_files(cogwheel, work):
    done = cogwheel("train", "config.toml", "--strokes", "drawings", "--set", "model.mechanism=none", "--out", "drawn")
    assert done.returncode == 0, done.stderr
    return work / "drawn"


def svg_of(path):
    text = path.read_text()
    assert "<script" not in text and "javascript:" not in text
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    return text


def test_trains_on_the_built_in_handwriting(trained):
    losses = [line["held_out_loss"] for line in metrics(trained) if "held_out_loss" in line]
    assert len(losses) >= 2 and all(map(math.isfinite, losses)) and losses[-1] < losses[0]
    scale = json.loads((trained / "strokes.json").read_text())["scale"]
    assert scale["deviation_x"] > 0 and scale["deviation_y"] > 0


def test_evaluation_reads_samples_back(cogwheel, trained):
    done = cogwheel("evaluate", trained)
    assert done.returncode == 0, done.stderr
    rows = {row[0]: row[1] for row in json.loads((trained / "evaluation.json").read_text())["tables"][0]["rows"]}
    assert float(rows["the same of true strokes"].split(" %")[0]) > 90
    assert " % of " in rows["characters read as what they are"] and " of " in rows["samples that met the stop rule"]
    page = (trained / "evaluation.html").read_text()
    assert "<svg" in page and "The window over time." in page


def test_samples_are_pictures_that_a_seed_repeats(cogwheel, trained, work):
    def sample(name, *words):
        done = cogwheel("sample", trained, "--prompt", "cat", *words, "--out", name)
        assert done.returncode == 0, done.stderr
        return svg_of(work / name)

    first = sample("first.svg", "--bias", 1, "--seed", 4)
    assert sample("again.svg", "--bias", 1, "--seed", 4) == first
    assert sample("other.svg", "--bias", 1, "--seed", 5) != first
    assert sample("wider.svg", "--bias", 0, "--seed", 4) != first
    printed = cogwheel("sample", trained, "--prompt", "cat", "--bias", 1, "--seed", 4)
    assert printed.stdout.strip() == first.strip()


def sha256_of(header, content):
    """The hash that a checkpoint records: of its metadata without it, and of each tensor."""
    metadata = {key: value for key, value in header["__metadata__"].items() if key != "sha256"}
    tensors = []
    for name in sorted(header.keys() - {"__metadata__"}):
        begin, end = header[name]["data_offsets"]
        digest = hashlib.sha256(content[begin:end]).hexdigest()
        tensors.append([name, header[name]["dtype"], header[name]["shape"], digest])
    record = {"metadata": metadata, "tensors": tensors}
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_sample_whose_stop_rule_is_never_met_is_kept_and_says_so(cogwheel, trained, work):
    shutil.copytree(trained, work / "still")
    checkpoint = work / "still/checkpoint.safetensors"
    data = bytearray(checkpoint.read_bytes())
    first = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:first])
    begin, end = header["model.window_bias"]["data_offsets"]
    data[first + begin : first + end] = struct.pack("<6f", 0, 0, 0, 0, -30, -30)  # α, β, κ̂: the window stays at 0
    checkpoint.write_bytes(data.replace(header["__metadata__"]["sha256"].encode(), sha256_of(header, data[first:]).encode()))
    done = cogwheel("sample", "still", "--prompt", "cat", "--out", "still.svg")
    assert (done.returncode, done.stdout) == (0, "120 points in still.svg\n"), done.stderr
    assert done.stderr == "warning: the stop rule was not met within 120 points; the strokes are kept\n"
    assert svg_of(work / "still.svg")


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_resumes_bit_for_bit(cogwheel, cogwheel_executable, work, precision):
    words = ["config.toml", "--set", "training.steps=12", "--set", f"training.precision={precision}"]
    expect_resumes_bit_for_bit(cogwheel, cogwheel_executable, work, words, f"hand-{precision}")


def test_says_which_lines_are_left_out(cogwheel, work):
    write_forms(work / "damaged", 24)
    line = sorted((work / "damaged").rglob("*.xml"))[3]
    line.write_text(line.read_text()[:50])
    done = cogwheel("train", "config.toml", "--strokes", "damaged", "--set", "training.steps=1", "--out", "undamaged")
    assert done.returncode == 0, done.stderr
    assert "left out of the text: lines: 1 broken (" in done.stderr and line.name in done.stderr


def test_compares_with_and_without_the_window(cogwheel, work):
    write_forms(work / "forms", 24)
    done = cogwheel(
        "compare", "--task", "handwriting", "--preset", "handwriting", "--attention", "graves_window",
        "--strokes", "forms", "--seeds", 1, "--steps", 2, "--out", "compared",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    expect_continues(cogwheel, work / "compared", "none", "--strokes forms")
    results = json.loads((work / "compared/results.json").read_text())
    assert [run["mechanism"] for run in results["runs"]] == ["graves_window", "none"]
    assert all(math.isfinite(run["held_out_loss"]) for run in results["runs"])
    assert "<html" in (work / "compared/report.html").read_text()
    # Its runs are runs as others are.
    done = cogwheel("sample", "compared/trained/none-seed-1", "--out", "compared.svg")
    assert done.returncode == 0, done.stderr


def test_strokes_without_text_have_no_window(cogwheel, drawn_from_files, work):
    refused = cogwheel("train", "config.toml", "--strokes", "drawings", "--out", "windowed")
    assert refused.returncode == 2 and not (work / "windowed").exists()
    assert "model.mechanism: expected none for strokes without texts, got graves_window" in refused.stderr
    assert "vocabulary = 0" in (drawn_from_files / "config.toml").read_text()
    assert all(math.isfinite(line["held_out_loss"]) for line in metrics(drawn_from_files) if "held_out_loss" in line)
    assert cogwheel("evaluate", drawn_from_files).returncode == 0
    done = cogwheel("sample", drawn_from_files, "--out", "drawing.svg", "--prime", "drawings/cat.ndjson")
    assert done.returncode == 0 and svg_of(work / "drawing.svg"), done.stderr


def test_goes_on_from_strokes_and_their_text(cogwheel, trained, work):
    def sample(name, *words):
        done = cogwheel("sample", trained, "--prompt", "at", "--seed", 4, *words, "--out", name)
        assert done.returncode == 0, done.stderr
        return svg_of(work / name)

    # Which is read: the same strokes with another word give another sample.
    (work / "dog.ndjson").write_text(drawings(1).replace('"cat"', '"a dog"'))
    samples = {sample("plain.svg"), sample("cat.svg", "--prime", "drawings/cat.ndjson"), sample("dog.svg", "--prime", "dog.ndjson")}
    assert len(samples) == 3


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--prompt", "caté"], 1, "é"),
        (["--prompt", ""], 2, "expected at least one character"),
        (["--prompt", "cat", "--bias", "-1"], 2, "--bias"),
        (["--prompt", "cat", "--prime", "config.toml"], 1, "config.toml"),
        (["--prompt", "cat", "--prime", "nowhere"], 1, "nowhere"),
        (["--prompt", "cat", "--prime", "mute.ndjson"], 1, '"word"'),
        (["--prompt", "cat", "--beam", "2"], 2, "--beam"),
        (["--prompt", "cat", "--temperature", "2"], 2, "--temperature"),
    ],
)
def test_sample_refuses_in_one_line(cogwheel, trained, words, code, said):
    done = cogwheel("sample", trained, *words)
    assert (done.returncode, done.stdout) == (code, "")
    (line,) = done.stderr.splitlines()
    assert said in line and "expected" in line, line


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--strokes", "nowhere"], 1, "nowhere"),
        (["--strokes", "drawings", "--text", "config.toml"], 2, "data.text"),
        (["--set", "task.source=config.toml"], 2, "source"),
        (["--source", "config.toml"], 2, "source"),
        (["--set", "model.mechanism=softmax"], 2, "graves_window"),
        (["--set", "model.vocabulary=7"], 2, "model.vocabulary"),
        (["--set", "model.mixtures=0"], 2, "model.mixtures"),
        (["--set", "task.characters=3"], 2, "task.characters"),
    ],
)
def test_train_refuses_in_one_line(cogwheel, work, words, code, said):
    done = cogwheel("train", "config.toml", "--out", "refused", *words)
    assert (done.returncode, done.stdout) == (code, "")
    (line,) = done.stderr.splitlines()
    assert said in line and "expected" in line, line
    assert not (work / "refused").exists()
