"""`cogwheel inspect`: the study ioi on small models, its files, and what is refused."""

import csv
import json
import math
import pathlib
import re
import shutil

import pytest
import torch
from test_report import browser, open_page  # noqa: F401  a fixture

import cogwheel as package

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIG = """
[task]
name = "ioi"
[model]
layers = 2
heads = 2
width = 32
context = 32
mechanism = "{mechanism}"
[training]
steps = 20
batch = 32
learning_rate = 3e-3
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inspect")
    for mechanism in ("softmax", "cog"):
        (folder / f"{mechanism}.toml").write_text(CONFIG.format(mechanism=mechanism))
    (folder / "gla.toml").write_text(CONFIG.format(mechanism="gla"))
    (folder / "text.toml").write_text(CONFIG.format(mechanism="softmax").replace('name = "ioi"', 'name = "copying"'))
    return folder


@pytest.fixture(scope="module")
def cogwheel(cogwheel_in, work):
    return cogwheel_in(work)


@pytest.fixture(scope="module")
def study(cogwheel, work):
    for name in ("softmax", "cog", "gla", "text"):
        done = cogwheel("train", f"{name}.toml", "--out", name)
        assert done.returncode == 0, done.stderr
    done = cogwheel("inspect", "ioi", "softmax", "cog", "--set", "prompts=40", "--out", "study")
    assert done.returncode == 0, done.stderr
    return work / "study"


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_writes_a_page_json_and_tables(study, cogwheel):
    results = json.loads((study / "results.json").read_text())
    assert [run["mechanism"] for run in results["runs"]] == ["softmax", "cog"]
    assert all(len(run["checkpoint_sha256"]) == 64 for run in results["runs"])
    page = (study / "report.html").read_text()
    assert page.count("change of the logit difference") >= 2 and "<script src" not in page and "http" not in page.split("<body")[1]
    assert "cogwheel inspect ioi softmax cog --set prompts=40" in page
    assert len(rows(study / "heads.csv")) == 8 and len(rows(study / "prompts.csv")) == 8 * 40
    assert [table["name"] for table in results["tables"]] == ["models", "source", "heads", "scores", "prompts"]
    # Programs find numbers in both files.
    models, source, heads, scores = results["tables"][:4]
    positivity = models["columns"].index("positivity")
    assert source["rows"][:2] == [["Cog of the paper", "L9H4", 0.78], ["softmax of the paper", "L9H11", -0.95]]
    assert [row[2] for row in source["rows"][2:]] == [row[positivity] for row in models["rows"]]
    # Of mechanisms programs read the names, people the titles.
    assert [row["mechanism"] for row in rows(study / "models.csv")] == ["softmax", "cog"]
    assert "<td>Softmax</td>" in page and "<td>Cog</td>" in page and "<td>cog</td>" not in page
    assert "Cog, checkpoint SHA-256" in page
    assert not re.search(r"(falls|rises) by [^,]*(, | and )\1 by", results["answer"])
    # The answer names the heads whose charts are drawn.
    assert re.findall(r"\((.*?), (.*?)\)", results["answer"]) == [(row[0], row[models["columns"].index("head")]) for row in models["rows"]]
    for table, columns in ((models, ("right, %", "logit difference", "without it, %")), (heads, ("weight on S", "positivity")), (scores, ("its |a|",))):
        for row in table["rows"]:
            assert all(isinstance(row[table["columns"].index(column)], float | int) for column in columns)
    for row in rows(study / "heads.csv"):
        for name in ("IO", "S"):
            product = float(row[f"weight on {name}"]) * float(row["positivity"])
            assert float(row[f"{name} × positivity"]) == pytest.approx(product, rel=2e-3, abs=1e-6)
    for row in rows(study / "scores.csv"):
        for signed, magnitude in (("previous token", "its |a|"), ("duplicate token", "|a| of these"), ("induction", "|a| of it")):
            assert abs(float(row[signed])) <= float(row[magnitude]) + 1e-6
    again = cogwheel("inspect", "ioi", "softmax", "cog", "--set", "prompts=40", "--out", "again")
    assert again.returncode == 0
    for name in ("models.csv", "heads.csv", "scores.csv", "prompts.csv"):
        assert (study.parent / "again" / name).read_bytes() == (study / name).read_bytes()


def test_numbers_follow_from_the_model(study, work):
    """r and its interval from the points; weights and positivity from the model's own tensors in Python."""
    for summary in rows(study / "models.csv"):
        points = [row for row in rows(study / "prompts.csv") if (row["run"], row["head"]) == (summary["run"], summary["head"])]
        x, y = (torch.tensor([float(row[key]) for row in points], dtype=torch.float64) for key in ("weight on IO", "writes IO"))
        r = torch.corrcoef(torch.stack([x, y]))[0, 1].item()
        assert float(summary["r over IO"]) == pytest.approx(r, abs=2e-3)
        half = 1.959964 / math.sqrt(len(points) - 3)
        assert float(summary["95 % from"]) == pytest.approx(math.tanh(math.atanh(r) - half), abs=2e-3)
        assert float(summary["to"]) == pytest.approx(math.tanh(math.atanh(r) + half), abs=2e-3)
        assert float(summary["weight on IO"]) == pytest.approx(x.mean().item(), rel=1e-2, abs=1e-4)

        model = package.load(work / summary["run"])
        layer, head = (int(number) for number in summary["head"][1:].split("H"))
        weights = dict(model.named_parameters())
        embedding = weights["token_embedding"].detach().double()
        block = f"layers.{layer}."
        value = weights[f"{block}attention.query_key_value.weight"].detach().double()[64:][16 * head : 16 * (head + 1)]
        output = weights[f"{block}attention.output.weight"].detach().double()[:, 16 * head : 16 * (head + 1)]
        circuit = (embedding * weights["final_norm.weight"].detach().double()) @ output
        circuit = circuit @ (value * weights[f"{block}attention_norm.weight"].detach().double()) @ embedding.T
        eigenvalues = torch.linalg.eigvals(circuit)
        assert float(summary["positivity"]) == pytest.approx((eigenvalues.real.sum() / eigenvalues.abs().sum()).item(), abs=1e-3)


TEXT = "After Mary and John went to the park , John gave a ring to"


def test_heads_are_those_that_the_run_measured(cogwheel, study, work):
    done = cogwheel("inspect", "heads", "softmax", "cog", "--text", TEXT, "--out", "over-training")
    assert done.returncode == 0, done.stderr
    report = [json.loads(line) for line in (work / "cog/metrics.jsonl").read_text().splitlines() if '"heads"' in line][-1]
    layers = rows(work / "over-training/layers.csv")
    assert [(row["runs"], row["layer"]) for row in layers] == [(run, layer) for run in ("softmax", "cog") for layer in ("L0", "L1")]
    for row in layers[2:]:
        for column, name in (("kurtosis", "kurtosis"), ("positive share", "positive_share"), ("one sign", "sign_consistency")):
            heads = report["heads"][name][int(row["layer"][1:])]
            assert float(row[column]) == pytest.approx(sum(heads) / len(heads), rel=1e-3)
    assert all(float(row["positive share"]) == 1 and float(row["one sign"]) == 1 for row in layers[:2])
    points = rows(work / "over-training/over_training.csv")
    assert {row["statistic"] for row in points} >= {"kurtosis", "value_bias", "normalized_entropy"}
    model = package.load(work / "cog")
    vocabulary = json.loads((work / "cog/tokenizer.json").read_text())
    words = next(value for value in vocabulary.values() if isinstance(value, list) and "Mary" in value)
    tokens = torch.tensor([[2, *(4 + words.index(word) for word in TEXT.split())]])
    _, cache = model.run_with_cache(tokens, names=lambda name: name.endswith("hook_pattern"))
    for row in layers[2:]:
        maps = cache[f"blocks.{row['layer'][1:]}.attn.hook_pattern"][0].double()
        distance = (maps[0, 1:] - maps[1, 1:]).abs().sum(-1).mean() / 2
        assert float(row["head distance"]) == pytest.approx(distance.item(), rel=1e-3)
        of_magnitudes = (maps[0, 1:].abs() - maps[1, 1:].abs()).abs().sum(-1).mean() / 2
        assert float(row["of |a|"]) == pytest.approx(of_magnitudes.item(), rel=1e-3)
        assert float(row["of |a|"]) < float(row["head distance"])
    assert all(row["of |a|"] == row["head distance"] for row in layers[:2])  # softmax has no signs


def test_heads_have_tables_of_weights_and_of_distances(cogwheel, study, work):
    assert cogwheel("inspect", "heads", "cog", "--text", TEXT, "--set", "bins=5", "--out", "tables").returncode == 0
    shares = rows(work / "tables/histogram.csv")
    assert [(row["layer"], float(row["from"])) for row in shares] == [
        (layer, pytest.approx(-1 + 0.4 * bin)) for layer in ("L0", "L1") for bin in range(5)
    ]
    assert sum(float(row["share"]) for row in shares) == pytest.approx(2, abs=2e-3)
    pairs = rows(work / "tables/distances.csv")
    assert [(row["head"], row["other head"]) for row in pairs] == [("L0H0", "L0H1"), ("L1H0", "L1H1")]
    of_layers = rows(work / "tables/layers.csv")
    assert [row["distance"] for row in pairs] == [row["head distance"] for row in of_layers]
    assert [row["distance of |a|"] for row in pairs] == [row["of |a|"] for row in of_layers]


def test_overwriting_removes_the_tables_of_another_study(cogwheel, study, work):
    words = ["--text", TEXT, "--out", "overwritten"]
    assert cogwheel("inspect", "ranks", "cog", *words).returncode == 0
    (work / "overwritten/notes.csv").write_text("mine")
    assert cogwheel("inspect", "gallery", "cog", *words, "--overwrite").returncode == 0
    assert {path.name for path in (work / "overwritten").glob("*.csv")} == {"rows.csv", "strongest.csv", "notes.csv"}


def test_inspects_another_checkpoint_of_a_run(cogwheel, study, work):
    words = ["--set", "training.steps=3", "--out", "earlier"]
    assert cogwheel("train", "cog.toml", *words).returncode == 0
    shutil.copy(work / "earlier/checkpoint.safetensors", work / "cog/earlier.safetensors")
    done = cogwheel("inspect", "ranks", "cog", "cog/earlier.safetensors", "--text", TEXT, "--out", "checkpoints")
    assert done.returncode == 0, done.stderr
    named = json.loads((work / "checkpoints/results.json").read_text())["runs"]
    assert [run["run"] for run in named] == ["cog", "cog/earlier.safetensors"]
    assert named[0]["checkpoint_sha256"] != named[1]["checkpoint_sha256"]


def test_ranks_of_trained_and_of_random_heads(cogwheel, study, work):
    done = cogwheel("inspect", "ranks", "cog", "--text", TEXT, "--out", "ranks")
    assert done.returncode == 0, done.stderr
    found = {(row["heads of"], row["matrix"]): row for row in rows(work / "ranks/ranks.csv")}
    assert {run for run, _ in found} == {"random", "cog"} and len(found) == 30
    assert all(int(row["most"]) <= 15 for row in found.values())
    assert found["random", "softmax"]["negative entries"] == "0"
    assert len(rows(work / "ranks/heads.csv")) == 2 * 4 * 15
    spectra = rows(work / "ranks/spectra.csv")
    assert len(spectra) == 2 * 4 * 15 * 15
    assert all((row["index"] == "1") <= (row["σ / σ₁"] == "1") for row in spectra)
    assert (work / "ranks/report.html").read_text().count("<h3>random: singular values") == 1
    heads = [row for row in rows(work / "ranks/heads.csv") if (row["heads of"], row["matrix"]) == ("cog", "softmax, causal")]
    by_layer = rows(work / "ranks/layers.csv")
    for layer in (0, 1):
        of = [float(row["effective rank"]) for row in heads if row["head"].startswith(f"L{layer}")]
        assert float(by_layer[layer]["softmax, causal"]) == pytest.approx(sum(of) / len(of), rel=1e-3)
    assert [row["heads of"] for row in rows(work / "ranks/source.csv")] == ["the notes", "cog"]


def test_gallery_shows_every_head(cogwheel, study, work, browser):  # noqa: F811
    done = cogwheel("inspect", "gallery", "softmax", "cog", "--text", TEXT, "--out", "gallery")
    assert done.returncode == 0, done.stderr
    weights = rows(work / "gallery/rows.csv")
    assert len(weights) == 2 * 2 * 2 * 15
    for (run, head), row in {(row["run"], row["head"]): row for row in rows(work / "gallery/strongest.csv")}.items():
        own = [float(each["weight"]) for each in weights if (each["run"], each["head"]) == (run, head)]
        assert sum(map(abs, own)) == pytest.approx(1, abs=1e-2)
        assert int(re.search(r"\((\d+)\)$", row["strongest"]).group(1)) == max(range(15), key=lambda key: abs(own[key]))
    for width in (1440, 375):
        open_page(browser, work / "gallery/report.html", width)
        painted = browser.execute_script("""
          return [...document.querySelectorAll("canvas[data-map]")].map(canvas => {
            const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
            return [canvas.width, canvas.height, new Set(pixels).size, canvas.nextElementSibling.width];
          });""")
        assert len(painted) == 8 and all(each[:2] == [15, 15] and each[2] > 5 and each[3] == 45 for each in painted)
        assert browser.execute_script("return document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        assert browser.get_log("browser") == []


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["iio", "softmax"], 2, "expected ioi"),
        (["ioi", "text"], 2, "a run of the task ioi"),
        (["ioi", "gla"], 2, "heads of attention"),
        (["ioi", "nowhere"], 1, "nowhere"),
        (["ioi", "softmax", "--set", "prompts=1"], 2, "prompts"),
        (["ioi", "softmax", "--set", "promts=10"], 2, "prompts"),
        (["ioi", "softmax", "--set", "prompts"], 2, "name=value"),
        (["ioi", "softmax", "--out", "softmax"], 2, "softmax"),
        (["ioi"], 2, "runs"),
        (["ioi", "softmax", "--text", "John"], 2, "a study that reads one"),
        (["ranks", "softmax"], 2, "the text of the study"),
        (["ranks", "softmax", "--text", "Johannes and"], 2, "--text: expected words that the run knows, got Johannes"),
        (["gallery", "softmax", "--text", b"Mary \xff"], 2, "--text: expected UTF-8"),
        (["squashing", "softmax"], 2, "input=2 draws tokens"),
        (["ranks", "softmax", "cog", "softmax", "--text", "Mary and"], 2, "runs: expected each once"),
        (["gallery", "softmax", "--text", ""], 2, "--text: expected"),
    ],
)
def test_refuses_in_one_line(cogwheel, study, work, words, code, said):
    done = cogwheel("inspect", *words, *([] if "--out" in words else ["--out", "refused"]))
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert said in done.stderr.splitlines()[0] and not (work / "refused").exists(), done.stderr


def test_samples_the_answer(cogwheel, study):
    done = cogwheel("sample", "softmax", "--prompt", "After Mary and John went to the park , John gave a ring to", "--length", 1)
    assert done.returncode == 0 and len(done.stdout.split()) == 15, done.stdout
    refused = cogwheel("sample", "softmax", "--prompt", "After Mary and Johannes")
    assert refused.returncode == 2 and "--prompt" in refused.stderr


def test_every_study_is_documented():
    document = (ROOT / "docs/inspect.md").read_text()
    studies = re.findall(r"^STUDY\((\w+)\)", (ROOT / "cogwheel/research/inspect/studies.def").read_text(), re.M)
    assert studies and all(f"\n## {study}\n" in document for study in studies)
