"""`cogwheel inspect`: the study ioi on small models, its files, and what is refused."""

import csv
import json
import math
import os
import pathlib
import re
import subprocess

import pytest
import torch

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
def cogwheel(cogwheel_executable, work):
    def run(*words):
        command = [str(word) for word in (cogwheel_executable, *words)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        return subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, timeout=120)

    return run


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
    assert [table["name"] for table in results["tables"]] == ["models", "heads", "prompts"]
    again = cogwheel("inspect", "ioi", "softmax", "cog", "--set", "prompts=40", "--out", "again")
    assert again.returncode == 0
    for name in ("models.csv", "heads.csv", "prompts.csv"):
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
    studies = re.findall(r"^STUDY\((\w+)\)", (ROOT / "cogwheel/studies/studies.def").read_text(), re.M)
    assert studies and all(f"\n## {study}\n" in document for study in studies)
