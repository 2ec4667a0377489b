"""`cogwheel reproduce` of experiments that train: their claims follow from the runs, which are trained once and survive being killed."""

import functools
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import time

import pytest
from test_compare import generated_text

EXPERIMENT = "s1/convergence"
SMALL = ["--seeds", 2, "--steps", 20, "--set", "model.width=16", "--set", "model.heads=2", "--set", "data.vocabulary=270"]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reproduce")
    (folder / "text.txt").write_text(generated_text())
    return folder


@pytest.fixture(scope="module")
def reproduce(work, cogwheel_in):
    return functools.partial(cogwheel_in(work), "reproduce")


# Of a user, in a file of any name: two rows at two sizes, in seconds.
OWN = """
title = "Ours"
question = "Is it?"
[source]
document = "S1"
place = "nowhere"
items = ["S1-45"]
[comparison]
preset = "tiny"
[variants.softmax]
model.mechanism = "softmax"
[variants.cog]
model.mechanism = "cog"
[[claim]]
id = "ahead"
says = "Cog is ahead"
row = "cog"
against = "softmax"
below = 0
primary = true
[desk]
seeds = 2
steps = 4
"""


@pytest.fixture(scope="module")
def own(work):
    """Writes the experiment with replaced words into a file of its own, whose name it gives."""

    def write(name, *changes):
        text = OWN
        for before, after in changes:
            assert before in text
            text = text.replace(before, after)
        (work / "mine").mkdir(exist_ok=True)
        (work / "mine" / f"{name}.toml").write_text(text)
        return f"mine/{name}.toml"

    return write


@pytest.fixture(scope="module")
def first(reproduce, work):
    done = reproduce(EXPERIMENT, *SMALL, "--text", "text.txt", "--out", "first", "--models", "models")
    assert done.returncode == 0, done.stderr
    return done


def found(folder):
    return json.loads((folder / "results.json").read_text())


def told(folder):
    """What must be equal whenever the same is reproduced."""
    results = found(folder)
    return results["claims"], results["tables"], results["answer"], results["steps"], results["seeds"]


def losses(folder, share=1.0):
    """Of each row and seed, by the comparison's own record."""
    runs = json.loads((folder / "comparison/results.json").read_text())["runs"]
    if share == 1:
        return {(run["mechanism"], run["seed"]): run["held_out_loss"] for run in runs}
    values = {}
    for run in runs:
        points = [(point["step"], point["held_out_loss"]) for point in run["curve"]]
        step = share * points[-1][0]
        (left, low), (right, high) = next(
            pair for pair in zip(points, points[1:]) if pair[0][0] <= step <= pair[1][0]
        )
        values[run["mechanism"], run["seed"]] = low + (high - low) * (step - left) / (right - left)
    return values


def test_claims_follow_from_the_runs(work, first):
    results = found(work / "first")
    claims = {claim["id"]: claim for claim in results["claims"]}
    assert list(claims) == ["ahead-at-first", "behind-at-last", "outer-layers-tie", "first-layer-behind", "crosses-softmax"]
    for name, row, share in (("ahead-at-first", "Cog in all layers", 0.1111), ("behind-at-last", "Cog in all layers", 1), ("outer-layers-tie", "softmax first and last", 1)):
        values = losses(work / "first", share)
        expected = [values[row, seed] - values["softmax", seed] for seed in (1, 2)]
        assert claims[name]["values"] == pytest.approx(expected, rel=1e-12)
        assert claims[name]["mean"] == pytest.approx(statistics.mean(expected), rel=1e-12)
        assert claims[name]["verdict"] in ("agrees", "contradicts", "cannot tell")
        assert (claims[name]["verdict"] == "cannot tell") == (claims[name]["p_adjusted"] >= 0.05)
    assert claims["first-layer-behind"]["verdict"] is None and claims["ahead-at-first"]["printed"] == -0.07
    crossing = claims["crosses-softmax"]
    assert crossing["verdict"] is None and (crossing["mean"], crossing["later_mean"]) == (claims["ahead-at-first"]["mean"], claims["behind-at-last"]["mean"])
    (table,) = results["tables"]
    cog = table["rows"][1]
    assert cog["printed"] == [6.07, 4.73, 4.03, 3.6, 3.45] and len(cog["ours"]) == 5
    values = losses(work / "first")
    assert cog["ours"][-1]["mean"] == pytest.approx(statistics.mean(values["Cog in all layers", seed] for seed in (1, 2)))
    page = (work / "first/report.html").read_text()
    for words in ("Where Cog needs softmax to converge", "At desk scale", results["answer"], "6.07", "Table 4"):
        assert words in page
    assert results["answer"] in first.stdout and first.stdout.rstrip().endswith("first/report.html")


def test_studies_are_those_of_the_trained_runs(reproduce, work, cogwheel_in):
    """Numbers and claims of an experiment's study are those that `cogwheel inspect` finds in the same runs."""
    small = ["--seeds", 2, "--steps", 6, "--set", "model.width=16", "--set", "model.heads=2", "--set", "model.context=32", "--set", "model.layers=3"]
    done = reproduce("s1/dynamics", *small, "--text", "text.txt", "--out", "dynamics", "--models", "studied")
    assert done.returncode == 0, done.stderr
    results = found(work / "dynamics")
    (study,) = results["studies"]
    rows = ["softmax", "Cog", "Cog between softmax", "scores over their sum"]
    assert study["name"] == "heads" and study["problem"] == "" and study["answer"] in (work / "dynamics/report.html").read_text()
    runs = [path for row in ("softmax", "Cog") for path in sorted((work / "dynamics/comparison/trained").glob(f"{row}-seed-*"))]
    assert len(runs) == 4
    inspected = cogwheel_in(work)("inspect", "heads", *runs, "--out", "by-hand")
    assert inspected.returncode == 0, inspected.stderr
    by_hand = {(number["name"], number["place"]): number["values"] for number in found(work / "by-hand")["numbers"]}
    of_rows = {}
    for number in study["numbers"]:
        assert [(each["row"], each["seed"]) for each in number["values"]] == [(row, seed) for row in rows for seed in (1, 2)]
        of_rows[number["name"], number["place"]] = [each["value"] for each in number["values"]]
        assert of_rows[number["name"], number["place"]][:4] == by_hand[number["name"], number["place"]]
    claims = {claim["id"]: claim for claim in results["claims"]}
    norms = of_rows["output_norm", None]
    assert claims["outputs-alike"]["values"] == pytest.approx([norms[2] - norms[0], norms[3] - norms[1]], rel=1e-12)
    assert claims["mean-value-falls"]["values"] == of_rows["value_bias_change", None][2:4]
    # The last of three layers, whichever number it has.
    assert claims["last-layer-one-sign"]["values"] == of_rows["sign_consistency_of_layer", -1][2:4] == of_rows["sign_consistency_of_layer", 2][2:4]
    assert (work / "dynamics/studies/heads/report.html").is_file() and "studies/heads/report.html" in (work / "dynamics/report.html").read_text()
    # The same question to the same models is answered once.
    (kept,) = (work / "studied/studies").iterdir()
    shown = json.loads((kept / "shown.json").read_text())
    assert shown["answer"] == study["answer"]
    (kept / "shown.json").write_text(json.dumps(shown | {"answer": "As it was kept."}))
    for out, answer in (("kept", "As it was kept."), ("mended", study["answer"])):
        again = reproduce("s1/dynamics", *small, "--text", "text.txt", "--out", out, "--models", "studied")
        assert again.returncode == 0, again.stderr
        (taken,) = found(work / out)["studies"]
        assert taken | {"seconds": 0} == study | {"answer": answer, "seconds": 0} and found(work / out)["claims"] == results["claims"]
        assert answer in (work / out / "report.html").read_text()
        files = sorted(path.name for path in (work / "dynamics/studies/heads").iterdir())
        assert sorted(path.name for path in (work / out / "studies/heads").iterdir()) == files and "report.html" in files
        charts = [(work / path / "report.html").read_text().count("<svg") for path in ("dynamics", out)]
        assert charts[0] == charts[1] > 1
        (kept / "shown.json").write_text("{")
    refused = reproduce("s1/collapse", *small, "--text", "text.txt", "--out", "too-short", "--models", "studied")
    assert refused.returncode == 1 and refused.stderr.rstrip().splitlines()[-1].startswith("cogwheel: collapse: expected an answer of every study, got ")
    assert "could not be made" in (work / "too-short/report.html").read_text() and found(work / "too-short")["studies"][0]["problem"]


@pytest.mark.parametrize(
    ("name", "measures", "lengths"),
    [
        ("s1/answers", ["zero_accuracy", "count_accuracy"], [8, 16, 32, 64, 128, 256]),
        ("s3/serial", ["accuracy"], [8, 16, 32, 64, 128]),
    ],
)
def test_claims_about_lengths_are_those_of_the_finished_models(reproduce, work, name, measures, lengths):
    out = name.replace("/", "-")
    done = reproduce(name, "--steps", 3, "--seeds", 2, "--set", "model.width=16", "--set", "training.batch=16", "--out", out, "--models", "asked")
    assert done.returncode == 0, done.stderr
    accuracy = {}
    for run in json.loads((work / out / "comparison/results.json").read_text())["runs"]:
        (table,) = run["by_difficulty"]
        assert [point["difficulty"] for point in table["points"]] == lengths
        for point in table["points"]:
            assert point["answers"] == 128 and set(measures) <= set(point) and "held_out_loss" not in point
            for measure in measures:
                accuracy[run["mechanism"], run["seed"], f"{measure}@{point['difficulty']}"] = point[measure]
    rows = {row for row, _, _ in accuracy}
    claims = {claim["id"]: claim for claim in found(work / out)["claims"]}
    if name == "s3/serial":
        assert rows == {"at once", "told, not read", "with steps"}
        assert claims["steps-over-none"]["values"] == [accuracy["with steps", seed, "accuracy@32"] - accuracy["at once", seed, "accuracy@32"] for seed in (1, 2)]
    else:
        assert rows == {"softmax", "Cog", "Cog between softmax"}
        assert claims["ones-farthest"]["values"] == [accuracy["Cog", seed, "count_accuracy@256"] - accuracy["softmax", seed, "count_accuracy@256"] for seed in (1, 2)]


def test_runs_are_trained_once_for_all(reproduce, work, first):
    models = sorted((work / "models").iterdir())
    assert len(models) == 8
    ages = {path: (path / "result.json").stat().st_mtime_ns for path in models}
    assert (work / "first/comparison/trained/softmax-seed-1").resolve().parent in models
    again = reproduce(EXPERIMENT, *SMALL, "--text", "text.txt", "--out", "again", "--models", "models")
    assert again.returncode == 0, again.stderr
    assert told(work / "again") == told(work / "first")
    assert " step " not in again.stderr  # nothing was trained
    assert "8 of them were there already" in (work / "again/report.html").read_text()
    # More seeds add to what is there.
    more = reproduce(EXPERIMENT, *SMALL[2:], "--seeds", 3, "--text", "text.txt", "--out", "more", "--models", "models")
    assert more.returncode == 0 and len(list((work / "models").iterdir())) == 12
    assert ages == {path: (path / "result.json").stat().st_mtime_ns for path in models}
    dry = reproduce(EXPERIMENT, *SMALL, "--text", "text.txt", "--models", "models", "--dry-run")
    assert "8 runs, 8 of them in models" in dry.stdout and "4,500 steps each" in dry.stdout
    # What another experiment of the folder overwrites are its own files and links, not the runs.
    over = reproduce(EXPERIMENT, *SMALL, "--text", "text.txt", "--out", "again", "--models", "models", "--overwrite")
    assert over.returncode == 0, over.stderr
    assert len(list((work / "models").iterdir())) == 12 and told(work / "again") == told(work / "first")


@pytest.mark.slow
def test_again_it_takes_a_twentieth_of_the_time(reproduce, work):
    """Of runs of some seconds each; the shorter they are the more the start of the process counts."""
    words = [EXPERIMENT, "--seeds", 2, "--steps", 100, "--text", "text.txt", "--models", "timed-again"]
    seconds = []
    for name in ("once", "twice"):
        begin = time.monotonic()
        assert reproduce(*words, "--out", name).returncode == 0
        seconds.append(time.monotonic() - begin)
    assert seconds[1] < 0.05 * seconds[0]
    assert told(work / "once") == told(work / "twice")


def test_a_damaged_run_is_trained_anew(reproduce, work, first):
    shutil.copytree(work / "models", work / "damaged")
    one, other, third, cut, uncurved, *_ = sorted((work / "damaged").iterdir())
    with (cut / "run/checkpoint.safetensors").open("r+b") as weights:
        weights.seek(-4, os.SEEK_END)
        weights.write(b"\1\2\3\4")
    kept = json.loads((uncurved / "result.json").read_text())
    (uncurved / "result.json").write_text(json.dumps(kept | {"curve": []}))
    (one / "result.json").write_text("{}")
    config = (other / "run/config.toml").read_text()
    (other / "run/config.toml").write_text(config.replace("width = 16", "width = 18"))
    (third / "result.json").unlink()
    done = reproduce(EXPERIMENT, *SMALL[2:], "--seeds", 3, "--text", "text.txt", "--out", "anew", "--models", "damaged")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("trained anew: ") == 4
    assert [claim["values"][:2] for claim in found(work / "anew")["claims"]] == [claim["values"] for claim in found(work / "first")["claims"]]


def test_killed_at_five_moments_it_goes_on_to_the_same_numbers(reproduce, work, own):
    """When it has written what was asked for, between runs, and after the last, when a study is left."""
    studied = ('[[claim]]\nid = "ahead"', '[[study]]\nname = "heads"\n[[claim]]\nid = "sharper"\nsays = "Cog is sharper"\nrow = "cog"\nagainst = "softmax"\nmeasure = "heads.kurtosis"\nabove = 0\nprimary = true\n[[claim]]\nid = "ahead"')
    file = own("killed", studied, ('preset = "tiny"', 'preset = "tiny"\ntokenizer = "byte"'), ("seeds = 2", "seeds = 3"), ("steps = 4", "steps = 20"))
    words = [file, "--text", "text.txt"]
    assert reproduce(*words, "--out", "whole", "--models", "whole-models").returncode == 0
    moments = [lambda: (work / "killed/request.json").exists(), *(lambda runs=runs: len(list(work.glob("own/*/result.json"))) >= runs for runs in (1, 3, 5, 6))]
    process = reproduce(*words, "--out", "killed", "--models", "own", background=True)
    killed = 0
    for moment in moments:
        while process.poll() is None and not moment():
            time.sleep(0.001)
        killed += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.communicate()
        process = reproduce("--resume", "killed", "--models", "own", background=True)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    assert killed >= 4  # the study of the last may have been faster
    assert told(work / "killed") == told(work / "whole")
    assert found(work / "killed")["studies"][0]["numbers"] == found(work / "whole")["studies"][0]["numbers"]


def test_a_file_of_ones_own_is_reproduced_and_resumed(reproduce, work, own):
    done = reproduce(own("plain"), "--text", "text.txt", "--out", "plain", "--models", "plain-models")
    assert done.returncode == 0, done.stderr
    assert found(work / "plain")["experiment"] == "mine/plain" and found(work / "plain")["command"].startswith("cogwheel reproduce mine/plain.toml --text")
    before = told(work / "plain")
    for name in ([], ["mine/plain.toml"]):
        assert reproduce(*name, "--resume", "plain", "--models", "plain-models").returncode == 0
        assert told(work / "plain") == before
    dry = reproduce("mine/plain.toml", "--text", "text.txt", "--models", "plain-models", "--dry-run")
    assert "4 runs, 4 of them in plain-models" in dry.stdout
    anew = reproduce("mine/plain.toml", "--text", "text.txt", "--models", "plain-models", "--dry-run", "--retrain")
    assert "4 runs, all trained anew" in anew.stdout
    assert not (work / "plain-models-2").exists() and reproduce("mine/none.toml").stderr.count("\n") == 1


def test_widths_are_shown_as_the_comparison_shows_them(reproduce, work, own):
    file = own("wide", ('preset = "tiny"', 'preset = "tiny"\nwidths = [16, 32, 48]'), ('row = "cog"', 'row = "cog at 48"'), ('against = "softmax"', 'against = "softmax at 48"'))
    done = reproduce(file, "--text", "text.txt", "--out", "wide", "--models", "wide-models")
    assert done.returncode == 0, done.stderr
    page = (work / "wide/report.html").read_text()
    assert "What size does" in page and "its gap to the baseline" in page and "<svg" in page
    written = json.loads((work / "wide/comparison/results.json").read_text())
    law = written["scaling"]["series"][1]["law"]
    assert f"{law['exponent']['value']:.3f}" in page


def test_minutes_and_a_dry_run_count_studies(reproduce, work, own):
    # There is no layer 9: nobody can tell, and nothing fails.
    beyond = '[[claim]]\nid = "beyond"\nsays = "none"\nrow = "cog"\nmeasure = "heads.sink_of_layer@9"\nbelow = 0\nprimary = true\n'
    file = own("studied", ('preset = "tiny"', 'preset = "tiny"\ntokenizer = "byte"'), ("[desk]", f'[[study]]\nname = "heads"\nset = ["tokens=64"]\n{beyond}[desk]'))
    dry = reproduce(file, "--text", "text.txt", "--models", "none-yet", "--dry-run")
    assert dry.returncode == 0 and "of it " in dry.stdout and "for its study" in dry.stdout, dry.stdout + dry.stderr
    assert "could not be tried" not in dry.stdout and not (work / "none-yet").exists()
    # `layers` reads what the comparison wrote of the run.
    other = own("layered", ('preset = "tiny"', 'preset = "tiny"\ntokenizer = "byte"'), ("[desk]", '[[study]]\nname = "layers"\nset = ["tokens=64"]\n[desk]'))
    dry = reproduce(other, "--text", "text.txt", "--models", "none-yet", "--dry-run")
    assert dry.returncode == 0 and "for its study" in dry.stdout and "could not be tried" not in dry.stdout, dry.stdout
    done = reproduce(file, "--text", "text.txt", "--out", "studied-own", "--models", "studied-models")
    assert done.returncode == 0, done.stderr
    assert found(work / "studied-own")["studies"][0]["seconds"] > 0
    (claim,) = [each for each in found(work / "studied-own")["claims"] if each["id"] == "beyond"]
    assert claim["values"] == [] and claim["verdict"] == "cannot tell"
    dry = reproduce(file, "--text", "text.txt", "--models", "studied-models", "--dry-run")
    assert "4 of them in studied-models; about 0 s here" in dry.stdout and "study" not in dry.stdout, dry.stdout
    other = own("unstudied", ("[desk]", '[[study]]\nname = "pictures"\n[desk]'))
    dry = reproduce(other, "--text", "text.txt", "--models", "none-yet", "--dry-run")
    assert dry.returncode == 0 and "could not be tried: " in dry.stdout


def test_a_dry_run_counts_workers_and_what_is_left_for_them(reproduce, work, own):
    file, words = own("shared"), ["--text", "text.txt", "--models", "shared-models", "--dry-run"]
    dry = reproduce(file, *words, "--workers", 3)
    assert dry.returncode == 0 and re.search(r"4 runs, 0 of them in shared-models; about .+ here, by 3 workers of \d+ threads? each$", dry.stdout, re.MULTILINE), dry.stdout + dry.stderr
    assert not (work / "shared-models").exists()
    alone = reproduce(file, *words, "--threads", 1)
    assert alone.returncode == 0 and "worker" not in alone.stdout, alone.stdout + alone.stderr
    assert reproduce(file, "--text", "text.txt", "--seeds", 1, "--out", "shared", "--models", "shared-models").returncode == 0
    # Two runs of four are left, so that a third worker would have nothing.
    dry = reproduce(file, *words, "--workers", 3)
    assert "4 runs, 2 of them in shared-models; about " in dry.stdout and " by 2 workers of " in dry.stdout, dry.stdout
    refused = reproduce(EXPERIMENT, "--scale", "paper", "--dry-run", "--workers", 2)
    assert refused.stderr == "cogwheel: --scale paper: expected no --workers and no --threads with --dry-run, which counts each row alone, got them\n"


def test_a_study_fits_into_the_minutes(reproduce, work, own):
    changes = [
        ('preset = "tiny"', 'task = "diffusion"\npreset = "diffusion"\nset = ["model.width=16", "model.heads=2", "model.layers=3", "task.size=16", "model.patch=4"]'),
        ("[desk]", '[[study]]\nname = "pictures"\nset = ["samples=20000", "classifier_steps=1", "sampler_steps=4"]\n[desk]'),
    ]
    file = own("pictured", *changes)
    done = reproduce(file, "--seeds", 1, "--minutes", 0.1, "--out", "pictured", "--models", "pictured-models")
    assert done.returncode == 0, done.stderr
    (assignment,) = json.loads((work / "pictured/request.json").read_text())["set"]
    name, samples = assignment.split("=")
    assert name == "pictures.samples" and 2 <= int(samples) < 20000 and f"--set {assignment}" in found(work / "pictured")["command"]
    assert f"The distance of {samples} drawn images" in found(work / "pictured")["studies"][0]["answer"]
    resumed = reproduce("--resume", "pictured", "--models", "pictured-models")
    assert resumed.returncode == 0 and f"The distance of {samples} drawn images" in found(work / "pictured")["studies"][0]["answer"]
    asked = reproduce(file, "--set", "pictures.samples=3", "--seeds", 1, "--steps", 1, "--out", "pictured-asked", "--models", "pictured-models")
    assert asked.returncode == 0 and "The distance of 3 drawn images" in asked.stderr, asked.stderr
    refused = reproduce(file, "--set", "pictures.sample=3")
    assert refused.stderr == "cogwheel: --set pictures: parameter: expected samples, sampler_steps (the nearest of 4 names), got sample\n"


def test_keys_with_an_option_of_compare_are_set(reproduce, work, own):
    keys = ["training.learning_rate=0.002", "model.dropout=0.25", "training.precision=fp32"]
    done = reproduce(own("keyed"), "--text", "text.txt", "--out", "keyed", "--models", "keyed-models", "--set", *keys)
    assert done.returncode == 0, done.stderr
    config = (work / "keyed/comparison/trained/cog-seed-1/config.toml").read_text()
    assert "learning_rate = 0.002" in config and "dropout = 0.25" in config
    assert "--set model.dropout=0.25" in found(work / "keyed")["command"]
    refused = reproduce("mine/keyed.toml", "--text", "text.txt", "--set", "model.dropout=2")
    assert refused.stderr == "cogwheel: --set model.dropout: expected at least 0 and below 1, got 2\n"


@pytest.mark.parametrize("name", ["s1/collapse", "s1/convergence", "s1/dynamics", "s1/language-model", "s1/patterns", "s1/squashing", "s4/layers"])
def test_paper_scales_are_planned(reproduce, work, name):
    """What refuses is the data, of which there are too few, and nothing before them."""
    (work / "short.txt").write_text(generated_text(20))
    refused = reproduce(name, "--scale", "paper", "--text", "short.txt", "--out", "never")
    assert refused.returncode == 1 and "short.txt: expected " in refused.stderr, refused.stderr


def test_a_scale_that_memory_does_not_hold_is_refused(reproduce, work, own):
    file = own("vast", ("[desk]", '[paper]\nsteps = 4\nset = ["model.feed_forward=200000", "training.batch=32768"]\n[desk]'))
    refused = reproduce(file, "--scale", "paper", "--text", "text.txt", "--out", "vast", "--models", "vast-models")
    line = r"cogwheel: memory for a step of softmax-seed-1: expected \d\.\d TiB, \d\.\d TiB of them activations of a slice \(training\.micro_batches and training\.recompute need less\), got [\d.]+ GiB\n"
    assert refused.returncode == 1 and re.fullmatch(line, refused.stderr), refused.stderr
    assert not (work / "vast").exists() and not (work / "vast-models").exists()
    planned = reproduce(file, "--scale", "paper", "--text", "text.txt", "--dry-run")
    assert planned.returncode == 0 and "not measured: a step of one slice takes" in planned.stdout, planned.stderr


def test_a_scale_sets_its_studies(reproduce, own):
    changes = [("[desk]", '[[study]]\nname = "pictures"\n[paper]\nsteps = 4\nset = ["pictures.sample=9"]\n[desk]')]
    refused = reproduce(own("astray", *changes), "--dry-run")
    assert refused.stderr.endswith("paper: set pictures: parameter: expected samples, sampler_steps (the nearest of 4 names), got sample\n"), refused.stderr


@pytest.mark.parametrize("workers", [[], ["--workers", 2]])
def test_a_full_disk_ends_it_and_it_goes_on(reproduce, work, own, cogwheel_executable, workers):
    """No file may be longer than 64 KiB, as if the disk were full when the first checkpoint is written."""
    file, name = own("disk"), f"disk-{len(workers)}"
    words = ["reproduce", file, "--text", "text.txt", "--out", name, "--models", f"{name}-models", *map(str, workers)]
    full = subprocess.run(["bash", "-c", 'ulimit -f 64; exec "$0" "$@"', cogwheel_executable, *words], cwd=work, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=280)
    assert full.returncode == 1, full.stderr
    told_once = [line for line in full.stderr.splitlines() if "File too large" in line]
    assert re.search(r"\.safetensors: expected a file that can be written, got File too large$", told_once[-1]), full.stderr
    assert len(told_once) <= 1 + (2 if workers else 0)
    assert not [*(work / name).rglob("*.part"), *(work / f"{name}-models").rglob("*.part"), *(work / f"{name}-models").rglob("result.json")]
    assert "failed" not in (work / name / "comparison/results.json").read_text()
    resumed = reproduce("--resume", name, "--models", f"{name}-models")
    assert resumed.returncode == 0, resumed.stderr
    if not (work / "disk-whole").exists():
        assert reproduce(file, "--text", "text.txt", "--out", "disk-whole", "--models", "disk-models").returncode == 0
    assert told(work / name) == told(work / "disk-whole")


def test_ctrl_c_names_the_command_that_goes_on(reproduce, work, own):
    file = own("stopped")
    process = reproduce(file, "--text", "text.txt", "--steps", 100000, "--out", "stopped", "--models", "stopped-models", background=True)
    while process.poll() is None and not list((work / "stopped-models").glob("*/run/metrics.jsonl")):
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130 and error.splitlines()[-1].endswith("`cogwheel reproduce --resume stopped --models stopped-models` continues")


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ([("below = 0", 'below = 0\nmeasure = "held_out_los"')], "mine/refused: claim ahead: measure: expected held_out_loss (the nearest of 2 names), got held_out_los"),
        ([("below = 0", 'below = 0\nmeasure = "held_out_loss@64"')], "mine/refused: claim ahead: measure: expected a measure without @, got held_out_loss@64"),
        (
            [("below = 0", 'below = 0\nmeasure = "accuracy@63"'), ('preset = "tiny"', 'task = "parity"')],
            "mine/refused: claim ahead: measure: expected accuracy@64, ",
        ),
        ([("[comparison]", '[[source.table]]\ncaption = "c"\ncolumns = ["a"]\nmeasures = ["los"]\nrows = [{ name = "x", variant = "cog", values = [1] }]\n[comparison]')],
         "mine/refused: source: table: measures: expected "),
    ],
)  # fmt: skip
def test_a_number_that_no_run_gives_is_refused_before_any_is_trained(reproduce, work, own, changes, line):
    text = [] if "parity" in str(changes) else ["--text", "text.txt"]
    refused = reproduce(own("refused", *changes), *text, "--out", "refused", "--models", "refused-models")
    assert refused.returncode == 2 and refused.stderr.startswith("cogwheel: " + line) and refused.stderr.count("\n") == 1, refused.stderr
    assert not (work / "refused").exists() and not (work / "refused-models").exists()


def test_two_at_once_both_end_whole(reproduce, work, first):
    words = [EXPERIMENT, *SMALL, "--text", "text.txt", "--models", "shared"]
    both = [reproduce(*words, "--out", name, background=True) for name in ("one", "other")]
    errors = [process.communicate(timeout=180)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], errors
    assert told(work / "one") == told(work / "other") == told(work / "first")


def test_minutes_decide_the_steps_once(reproduce, work):
    done = reproduce(EXPERIMENT, "--seeds", 1, *SMALL[4:], "--minutes", 0.1, "--text", "text.txt", "--out", "timed", "--models", "timed-models")
    assert done.returncode == 0, done.stderr
    steps = found(work / "timed")["steps"]
    assert steps >= 10 and json.loads((work / "timed/request.json").read_text())["steps"] == steps
    assert f"--steps {steps}" in found(work / "timed")["command"]
    before = told(work / "timed")
    assert reproduce("--resume", "timed", "--models", "timed-models").returncode == 0
    assert told(work / "timed") == before


@pytest.mark.parametrize(
    ("words", "line", "status"),
    [
        (["s1/convergance"], "experiment: expected s1/convergence (the nearest of ", 2),
        ([], "experiment: expected a name, as `cogwheel list experiments` shows them, or --resume DIR, got neither", 2),
        ([EXPERIMENT, "--scale", "wall"], "--scale: expected desk or paper, got wall", 2),
        ([EXPERIMENT, "--set", "model.windw=3"], "--set: key: expected model.window, ", 2),
        (["--resume", "text.txt"], "text.txt: expected the folder of an experiment, got no request.json in it", 1),
        (["s2/capacity", "--seeds", "2"], "s2/capacity: expected no --seeds, as its lab has no seeds, got --seeds", 2),
        (["s2/capacity", "--steps", "2"], "s2/capacity: expected no --steps, as its lab has no steps, got --steps", 2),
        (["s2/copy", "--seeds", "101"], "--seeds: seeds: expected at most 100, got 101", 2),
        (["s2/capacity", "--text", "text.txt"], "s2/capacity: expected no --scale, --text, --corpus, --retrain, --workers and --threads, as it is a lab, got --text", 2),
        (["s2/capacity", "--retrain"], "as it is a lab, got --retrain", 2),
        ([EXPERIMENT, "--resume", "x", "--seeds", "2"], "", 2),
        ([EXPERIMENT, "--steps", "2", "--minutes", "1"], "--steps excludes --minutes", 2),
        (["--resume", "first", "--retrain"], "--retrain excludes --resume", 2),
        (["--resume", "first", "--overwrite"], "--overwrite excludes --resume", 2),
        (["s1", "--index"], "--index: expected --out DIR with the result of an experiment of s1, got no --out", 1),
        (["s1", "--index", "--out", "nowhere"], "--index: expected --out DIR with the result of an experiment of s1, got none in nowhere", 1),
        (["s1", "--index", "--out", "nowhere", "--seeds", "2"], "excludes", 2),
        ([EXPERIMENT, "--models", "text.txt", "--text", "text.txt", "--out", "never"], "text.txt: expected a folder that can be made, got ", 1),
    ],
)
def test_refusals_are_one_line(reproduce, work, first, words, line, status):
    before = sorted(path.name for path in work.iterdir())
    refused = reproduce(*words)
    assert refused.returncode == status, refused.stderr
    assert refused.stderr.count("\n") == 1 and line in refused.stderr
    assert sorted(path.name for path in work.iterdir()) == before
