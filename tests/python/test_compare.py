"""`cogwheel compare`: the same numbers twice, interruption and resuming, adding, and what it refuses."""

import functools
import json
import random
import shlex
import shutil
import signal
import time

import pytest

import cogwheel

WORDS = "the cat sat on a mat and the dog ran to the big red house while birds sing of the sea".split()
TINY = ["--preset", "tiny", "--text", "text.txt", "--attention", "softmax,cog", "--seeds", "2"]


def generated_text(lines=300):
    draw = random.Random(1)
    return "\n".join(" ".join(draw.choice(WORDS) for _ in range(8)) for _ in range(lines))


def results(folder):
    return json.loads((folder / "results.json").read_text())


def numbers(folder):
    """The numbers that must be equal whenever the same comparison is repeated."""
    return [
        (run["mechanism"], run["seed"], run["tokens"], run["held_out_loss"], run["curve"])
        for run in results(folder)["runs"]
    ]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    (folder / "text.txt").write_text(generated_text())
    return folder


@pytest.fixture(scope="module")
def compare(work, cogwheel_in):
    """Runs it in the folder of this module, on one thread: these models are too small for more."""
    return functools.partial(cogwheel_in(work), "compare")


@pytest.fixture(scope="module")
def finished(compare):
    done = compare(*TINY, "--steps", 120, "--out", "finished")
    assert done.returncode == 0, done.stderr
    return done


def test_writes_its_files_and_says_the_verdict(work, finished):
    folder = work / "finished"
    for name in ("results.json", "results.csv", "report.html"):
        assert (folder / name).stat().st_size > 0
    written = results(folder)
    assert finished.stdout.splitlines() == [written["verdict"], "finished/report.html"]
    assert written["schema"] == 1 and not written["interrupted"]
    assert [(run["mechanism"], run["seed"]) for run in written["runs"]] == [
        ("softmax", 1), ("softmax", 2), ("cog", 1), ("cog", 2),
    ]
    for run in written["runs"]:
        assert run["status"] == "done"
        assert run["curve"][0]["held_out_loss"] > run["curve"][-1]["held_out_loss"] == run["held_out_loss"]
    assert len((folder / "results.csv").read_text().splitlines()) == 3
    assert "--steps 120" in written["command"]


def test_same_numbers_twice(compare, work, finished):
    again = compare(*TINY, "--steps", 120, "--out", "again")
    assert again.returncode == 0, again.stderr
    assert numbers(work / "again") == numbers(work / "finished")


def test_resumes_after_ctrl_c_as_if_nothing_had_happened(compare, work):
    words = [*TINY, "--steps", 300]
    whole = compare(*words, "--out", "whole")
    assert whole.returncode == 0, whole.stderr

    process = compare(*words, "--out", "parts", background=True)
    # In the middle of the second run: one is done, one has begun.
    metrics = work / "parts/trained/cog-seed-1/metrics.jsonl"
    for _ in range(2400):
        if metrics.exists() and metrics.read_text().count("\n") >= 3 or process.poll() is not None:
            break
        time.sleep(0.025)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "--resume parts" in errors.splitlines()[-1]

    partial = results(work / "parts")
    assert partial["interrupted"]
    assert partial["verdict"].startswith("Interrupted after 1 of 4 runs")
    assert [run["status"] for run in partial["runs"]] == ["done", "interrupted"]
    assert "Interrupted after 1 of 4 runs" in (work / "parts/report.html").read_text()

    resumed = compare("--resume", "parts")
    assert resumed.returncode == 0, resumed.stderr
    assert numbers(work / "parts") == numbers(work / "whole")
    assert not results(work / "parts")["interrupted"]


def test_a_preset_of_a_task_measures_beyond_what_it_trains_on(compare, work):
    done = compare("--preset", "parity", "--steps", 4, "--seeds", 1, "--attention", "sigmoid", "--out", "parity")
    assert done.returncode == 0, done.stderr
    written = results(work / "parity")
    assert written["task"]["name"] == "parity" and written["data"]["window"] == 32 < written["settings"]["context"]
    for run in written["runs"]:
        assert run["tokens"] == 4 * written["settings"]["batch"] * 32
        (table,) = run["by_difficulty"]
        assert (table["difficulty"], table["trained"]) == ("length", 32)
        assert [point["difficulty"] for point in table["points"]] == [8, 16, 32, 64, 128]
        assert all(0.3 < point["accuracy"] < 0.7 and point["answers"] > 0 for point in table["points"])
    report = (work / "parity/report.html").read_text()
    assert report.count("Accuracy by length</h2>") == 1 and "128<small>beyond training</small>" in report
    # Made again, it is the same to the last bit.
    before = numbers(work / "parity"), written["runs"][0]["by_difficulty"]
    shutil.rmtree(work / "parity/trained/sigmoid-seed-1")
    (work / "parity/results.json").write_text(json.dumps({**written, "runs": []}))
    assert compare("--resume", "parity").returncode == 0
    assert before == (numbers(work / "parity"), results(work / "parity")["runs"][0]["by_difficulty"])


def test_resuming_what_is_finished_changes_nothing(compare, work, finished):
    before = numbers(work / "finished")
    assert compare("--resume", "finished").returncode == 0
    assert numbers(work / "finished") == before


def test_adds_a_mechanism_on_the_same_terms(compare, work, finished):
    shutil.copytree(work / "finished", work / "added")
    before = numbers(work / "added")
    added = compare("--add", "symmetric", "added")
    assert added.returncode == 0, added.stderr
    after = results(work / "added")
    assert numbers(work / "added")[: len(before)] == before
    assert [plan["name"] for plan in after["mechanisms"]] == ["softmax", "cog", "symmetric"]
    parameters = {plan["name"]: plan["parameters"] for plan in after["mechanisms"]}
    assert abs(parameters["symmetric"] / parameters["softmax"] - 1) <= 0.01
    assert after["mechanisms"][2]["parameters_unmatched"] < 0.95 * parameters["softmax"]
    assert {run["seed"] for run in after["runs"] if run["mechanism"] == "symmetric"} == {1, 2}
    assert "softmax,cog,symmetric" in after["command"]
    # It counts what is to do, not what was done before.
    assert "2 of 6 runs to do" in added.stderr
    counted = [line.split()[0] for line in added.stderr.splitlines() if " seed " in line and "/s" in line and ":" not in line]
    assert counted == ["1/2", "2/2"], added.stderr


def test_a_run_is_measured_again_on_what_its_comparison_measured(compare, work, cogwheel_in):
    (work / "long.txt").write_text(generated_text(4000))
    words = ["--preset", "tiny", "--text", "long.txt", "--attention", "softmax", "--seeds", 1, "--steps", 4]
    made = compare(*words, "--out", "part")
    assert made.returncode == 0, made.stderr
    written = results(work / "part")
    held_out = written["data"]["held_out_tokens"]
    assert written["data"]["evaluated_tokens"] == 8192 < 0.9 * held_out
    cogwheel, run = cogwheel_in(work), "part/trained/softmax-seed-1"
    for option, tokens in (([], 8192), (["--all-held-out"], held_out // 32 * 32)):
        done = cogwheel("evaluate", run, *option)
        assert done.returncode == 0, done.stderr
        found = json.loads((work / run / "evaluation.json").read_text())
        assert (found["evaluated_tokens"], found["held_out_tokens"]) == (tokens, held_out)
        same = found["measures"]["held_out_loss"] == written["runs"][0]["held_out_loss"]
        assert same == (tokens == 8192)
        assert (f", on 8,192 of {held_out:,} held-out characters." in done.stdout) == same, done.stdout
    # What runs/latest is after a comparison.
    for verb in (["sample"], ["evaluate"], ["resume"], ["inspect", "gallery"], ["view"], ["export", "--out", "new"]):
        refused = cogwheel(*verb, "part")
        assert refused.returncode == 1 and refused.stderr.splitlines() == [
            "cogwheel: part: expected the folder of a run, got a comparison, whose runs are part/trained/softmax-seed-1"
        ], (verb, refused.stderr)
    refused = compare("--resume", run)
    assert refused.returncode == 1 and "got a run, which `cogwheel resume` continues" in refused.stderr


def test_what_is_measured_below_0_can_be_resumed_and_added_to(compare, work):
    """As the loss of a density is, in nats per point."""
    sizes = ["--set", "model.width=24", "--set", "model.layers=1", "--set", "training.batch=2", "--set", "task.held_out=4"]
    made = compare("--task", "handwriting", "--match", "tokens", "--attention", "none", "--seeds", 2, "--steps", 2, *sizes, "--out", "hand")
    assert made.returncode == 0, made.stderr
    written = results(work / "hand")
    assert written["task"]["measures"][0]["min"] is None
    del written["runs"][1]
    written["runs"][0]["held_out_loss"] = -0.5521
    (work / "hand/results.json").write_text(json.dumps(written))
    for words in (["--resume", "hand"], ["--add", "graves_window", "hand"]):
        done = compare(*words)
        assert done.returncode == 0, done.stderr
    found = results(work / "hand")
    assert [run["held_out_loss"] for run in found["runs"]][0] == -0.5521 and len(found["runs"]) == 4
    assert "early in training" not in found["verdict"]  # lines are no tokens
    assert "Bits per<br>point" in (work / "hand/report.html").read_text()


def test_adding_checks_the_text(compare, work, finished):
    shutil.copytree(work / "finished", work / "other")
    text = (work / "text.txt").read_text()
    (work / "text.txt").write_text(text.replace("cat", "cow"))
    try:
        refused = compare("--add", "symmetric", "other")
    finally:
        (work / "text.txt").write_text(text)
    assert refused.returncode == 1
    assert results(work / "finished")["data"]["sha256"] in refused.stderr
    assert numbers(work / "other") == numbers(work / "finished")


def test_tunes_with_equal_trials(compare, work):
    tuned = compare(*TINY[:-1], 1, "--steps", 40, "--tune", 3, "--out", "tuned")
    assert tuned.returncode == 0, tuned.stderr
    written = results(work / "tuned")
    for plan in written["mechanisms"]:
        trials = [trial for trial in written["tuning"] if trial["mechanism"] == plan["name"]]
        assert [trial["learning_rate"] for trial in trials] == [0.0015, 0.003, 0.006]
        assert {trial["steps"] for trial in trials} == {20}
        chosen = min(trials, key=lambda trial: trial["validation_loss"])
        assert [trial["chosen"] for trial in trials] == [trial is chosen for trial in trials]
        assert plan["learning_rate"] == chosen["learning_rate"]
    assert "Learning rates tried" in (work / "tuned/report.html").read_text()


def test_matches_time_and_tokens(compare, work):
    by_tokens = compare(*TINY[:4], "--attention", "softmax,symmetric", "--seeds", 1, "--match", "tokens",
                        "--steps", 20, "--out", "tokens")
    assert by_tokens.returncode == 0, by_tokens.stderr
    written = results(work / "tokens")
    assert {run["tokens"] for run in written["runs"]} == {20 * 8 * 32}
    assert written["mechanisms"][1]["parameters"] < 0.95 * written["mechanisms"][0]["parameters"]

    by_time = compare(*TINY[:4], "--attention", "softmax,symmetric", "--seeds", 1, "--match", "time",
                      "--steps", 40, "--out", "time")
    assert by_time.returncode == 0, by_time.stderr
    softmax, symmetric = results(work / "time")["mechanisms"]
    assert softmax["steps"] == 40 and symmetric["steps"] >= 1


def test_compares_in_the_llama_form_with_dropout_and_bf16(compare, work):
    words = [*TINY[:4], "--attention", "softmax,cog,differential,symmetric", "--seeds", 1, "--steps", 40]
    options = ["--form", "llama", "--dropout", 0.1, "--precision", "bf16"]
    done = compare(*words, *options, "--out", "llama")
    assert done.returncode == 0, done.stderr
    written = results(work / "llama")
    settings = written["settings"]
    assert (settings["form"], settings["dropout"], settings["precision"]) == ("llama", 0.1, "bf16")
    assert "--form llama --dropout 0.1 --precision bf16" in written["command"]
    report = (work / "llama/report.html").read_text()
    products = ", ".join(f"{each['product']} in {each['where']}" for each in cogwheel.bfloat16_products())
    assert written["machine"]["bfloat16_products"] == products and products in report
    assert "llama form, dropout 0.1, bf16" in report
    parameters = [plan["parameters"] for plan in written["mechanisms"]]
    assert all(abs(count / parameters[0] - 1) <= 0.01 for count in parameters)
    for run in written["runs"]:
        assert run["curve"][-1]["held_out_loss"] < 0.9 * run["curve"][0]["held_out_loss"], run["mechanism"]
    config = (work / "llama/trained/cog-seed-1/config.toml").read_text().splitlines()
    for line in ('precision = "bf16"', 'position = "rotary"', 'norm = "rms"', 'activation = "swiglu"',
                 "tied_head = false", "bias = false", "dropout = 0.1"):
        assert line in config

    added = compare("--add", "relu", "llama")
    assert added.returncode == 0, added.stderr
    assert results(work / "llama")["runs"][-1]["mechanism"] == "relu"
    assert "swiglu" in (work / "llama/trained/relu-seed-1/config.toml").read_text()


def test_compares_states_and_hybrids_without_positions(compare, work):
    words = ["--preset", "tiny", "--text", "text.txt", "--attention", "softmax,gla+softmax", "--seeds", "1", "--steps", "12"]
    done = compare(*words, "--position", "none", "--recurrent-layer", "plain",
                   "--set", "model.negative_eigenvalues=true", "--out", "hybrid")
    assert done.returncode == 0, done.stderr
    added = compare("--add", "retnet*2", "hybrid")
    assert added.returncode == 0, added.stderr
    found = results(work / "hybrid")
    assert [plan["name"] for plan in found["mechanisms"]] == ["softmax", "gla+softmax", "retnet*2"]
    assert found["mechanisms"][1]["title"] == "Gated linear attention + Softmax"
    assert [found["configuration"][f"model.{key}"] for key in ("position", "recurrent_layer", "negative_eigenvalues")] == [
        "none", "plain", True]
    heads = found["runs"][1]["curve"][-1]["heads"]
    assert [len(layer) for layer in heads["sink"]] == [found["settings"]["heads"]] * found["settings"]["layers"]
    # Folders have names without the pattern's special characters, and the command that repeats it is safe in a shell.
    assert {path.name for path in (work / "hybrid/trained").iterdir()} == {
        f"{name}-seed-1" for name in ("softmax", "gla-softmax", "retnet.2")
    }
    assert "--attention 'softmax,gla+softmax,retnet*2' " in found["command"]
    assert "--position none --recurrent-layer plain --set model.negative_eigenvalues=true" in found["command"]
    assert "retnet*2" in (work / "hybrid/report.html").read_text()
    config = (work / "hybrid/trained/gla-softmax-seed-1/config.toml").read_text()
    assert 'position = "none"' in config and 'mechanism = "gla+softmax"' in config
    assert "negative_eigenvalues = true" in config


@pytest.mark.slow
@pytest.mark.parametrize("layer", ["plain", "paper"])
def test_compares_every_mechanism_with_a_state(compare, work, repository, layer):
    names = sorted(path.stem for path in (repository / "cogwheel/attention/mechanisms/recurrent").glob("*.h"))
    mechanisms = [*names, *(f"{name}+softmax" for name in names)]
    words = ["--preset", "tiny", "--text", "text.txt", "--attention", ",".join(mechanisms), "--seeds", "1", "--steps", "40"]
    done = compare(*words, "--position", "none", "--recurrent-layer", layer, "--out", f"every-{layer}")
    assert done.returncode == 0, done.stderr
    found = results(work / f"every-{layer}")
    assert [run["mechanism"] for run in found["runs"]] == mechanisms
    assert found["configuration"]["model.recurrent_layer"] == layer
    for run in found["runs"]:
        first, *_, last = run["curve"]
        assert run["status"] == "done" and last["held_out_loss"] < first["held_out_loss"], run["mechanism"]
        assert len(last["heads"]["sink"]) == found["settings"]["layers"], run["mechanism"]


def test_compares_at_another_size_than_the_preset(compare, work):
    words = ["--preset", "tiny", "--text", "text.txt", "--attention", "softmax,symmetric", "--seeds", 1, "--steps", 10]
    sizes = ["--set", "model.width=48", "--set", "training.batch=4", "--set", "training.weight_decay=0.3"]
    done = compare(*words, *sizes, "--out", "sizes")
    assert done.returncode == 0, done.stderr
    found = results(work / "sizes")
    assert (found["settings"]["width"], found["settings"]["batch"]) == (48, 4)
    assert found["settings"]["set"] == sizes[1::2]
    for name in ("softmax", "symmetric"):
        config = (work / f"sizes/trained/{name}-seed-1/config.toml").read_text().splitlines()
        assert {"width = 48", "batch = 4", "weight_decay = 0.3"} <= set(config)
    assert "tiny, with model.width=48, training.batch=4" in (work / "sizes/report.html").read_text()
    # The command that it records repeats it, and what is added later is of the same size.
    again = compare(*shlex.split(found["command"])[2:], "--out", "sizes-again")
    assert again.returncode == 0, again.stderr
    for key in ("settings", "configuration"):
        first, second = found[key], results(work / "sizes-again")[key]
        assert {**first, "wall_seconds": 0} == {**second, "wall_seconds": 0}
    losses = [[run["held_out_loss"] for run in results(work / folder)["runs"]] for folder in ("sizes", "sizes-again")]
    assert losses[0] == losses[1]
    assert compare("--add", "cog", "sizes").returncode == 0
    assert "width = 48" in (work / "sizes/trained/cog-seed-1/config.toml").read_text()


def test_a_run_that_diverges_is_said_and_kept(compare, work):
    diverged = compare(*TINY, "--steps", 30, "--learning-rate", "1e30", "--out", "diverged")
    assert diverged.returncode == 1
    written = results(work / "diverged")
    assert [run["status"] for run in written["runs"]] == ["diverged"] * 4
    assert all(run["held_out_loss"] is None for run in written["runs"])
    assert "diverged in every seed" in written["verdict"]
    assert "last good checkpoint is kept" in (work / "diverged/report.html").read_text()
    assert (work / "diverged/trained/cog-seed-1/checkpoint.safetensors").stat().st_size > 0


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--attention", "softmax,kog"], 2, "cog"),
        (["--attention", "cog,cog"], 2, "cog twice"),
        (["--attention", "softmax,cog", "--baseline", "symmetric"], 2, "--baseline: expected"),
        (["--preset", "tinny"], 2, "tiny"),
        (["--match", "everything"], 2, "--match: expected"),
        (["--seeds", "0"], 2, "--seeds: expected"),
        (["--steps", "-5"], 2, "--steps: expected"),
        (["--tune", "-1"], 2, "--tune: expected"),
        (["--learning-rate", "nan"], 2, "--learning-rate: expected"),
        (["--form", "lama"], 2, "--form: expected llama"),
        (["--attention", "gla*0+softmax"], 2, "--attention: expected a name, or names and numbers of layers"),
        (["--position", "nones"], 2, "--position: expected none"),
        (["--recurrent-layer", "papr"], 2, "--recurrent-layer: expected paper"),
        (["--dropout", "1"], 2, "--dropout: expected"),
        (["--dropout", "nan"], 2, "--dropout: expected"),
        (["--precision", "fp8"], 2, "--precision: expected"),
        (["--tokenizer", "word"], 2, "--tokenizer: expected"),
        (["--set", "model.widht=64"], 2, "model.width"),
        (["--set", "model.width=63"], 2, "heads: expected a divisor of the width (63), got 2"),
        (["--set", "model.width"], 2, "--set: expected key=value"),
        (["--set", "model.dropout=0.1"], 2, "--set: expected --dropout for model.dropout"),
        (["--set", "task.name=images"], 2, "--set: expected --task for task.name"),
        (["--set", "training.seed=4"], 2, "--set: expected --seeds for training.seed"),
        (["--set", "training.warm_up=4"], 2, "--set: expected a key of a configuration that all runs share"),
        (["--resume", "finished", "--set", "model.width=64"], 2, "--resume"),
        (["--stepps", "5"], 2, "--steps"),
        (["--resume", "finished", "--steps", "5"], 2, "--resume"),
        (["--resume", "nowhere"], 1, "nowhere: expected the folder of a comparison"),
        (["--add", "cog", "finished"], 2, "--add: expected"),
        (["--add", "kog", "finished"], 2, "cog"),
        (["--text", "missing.txt"], 1, "missing.txt"),
        (["--text", "empty.txt"], 1, "empty.txt"),
        (["--text", "short.txt"], 1, "short.txt"),
        (["--text", "binary.bin"], 1, "binary.bin"),
        (["--out", "finished"], 2, "--overwrite"),
        (["--out", "text.txt"], 1, "text.txt"),
    ],
)
def test_refuses_in_one_line_and_loses_nothing(compare, work, finished, words, code, says):
    (work / "empty.txt").write_text("")
    (work / "short.txt").write_text("too short")
    (work / "binary.bin").write_bytes(bytes(range(256)) * 40)
    before = (work / "finished/results.json").read_bytes()
    defaults = [] if words[0] in ("--resume", "--add") else ["--preset", "tiny", "--text", "text.txt", "--steps", "5"]
    if words[0] in ("--preset", "--text", "--steps"):
        place = defaults.index(words[0])
        del defaults[place : place + 2]
    refused = compare(*defaults, *words)
    assert refused.returncode == code, refused.stderr
    lines = [line for line in refused.stderr.splitlines() if line]
    assert len(lines) == 1 and lines[0].startswith("cogwheel: ") and says in lines[0], refused.stderr
    assert (work / "finished/results.json").read_bytes() == before


def test_a_folder_inside_its_text_resumes_and_a_run_that_fails_is_reported(compare, work):
    """One comparison for both: it is made, resumed, and resumed with a damaged checkpoint."""
    (work / "inside").mkdir()
    shutil.copy(work / "text.txt", work / "inside")
    (work / "inside/picture.png").write_bytes(b"\x89PNG\0")
    made = compare("--preset", "tiny", "--text", "inside", "--attention", "softmax,cog", "--seeds", 1, "--steps", 10,
                   "--out", "inside/out")
    assert made.returncode == 0, made.stderr
    assert "left out of the text: 1 binary file (" in made.stderr
    folder = work / "inside/out"
    text = json.loads((folder / "text.json").read_text())
    assert [file["path"] for file in text["files"]] == [str(work / "inside/text.txt")]
    assert text["sha256"] == results(folder)["data"]["sha256"]

    written = results(folder)
    written["runs"] = [run for run in written["runs"] if run["mechanism"] == "softmax"]
    (folder / "results.json").write_text(json.dumps(written))
    checkpoint = folder / "trained/cog-seed-1/checkpoint.safetensors"
    whole = checkpoint.read_bytes()
    shutil.rmtree(checkpoint.parent / "checkpoints")  # an older one would be taken
    checkpoint.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    failed = compare("--resume", "inside/out")
    assert failed.returncode == 1, failed.stderr
    last = failed.stderr.splitlines()[-1]
    assert last.startswith("cogwheel: comparison: expected no run that fails, got 1 of 2, as inside/out/report.html says")
    run = results(folder)["runs"][1]
    assert run["status"] == "failed" and run["message"].startswith("inside/out/trained/cog-seed-1/checkpoint.safetensors:")
    assert failed.stdout.splitlines() == [results(folder)["verdict"], "inside/out/report.html"]

    # The record of another size than its runs have.
    written["configuration"]["model.width"] = 64
    (folder / "results.json").write_text(json.dumps(written))
    refused = compare("--add", "relu", "inside/out")
    assert refused.returncode == 1
    assert refused.stderr.splitlines()[-1] == (
        "cogwheel: inside/out/trained/softmax-seed-1/config.toml: model.width: expected 64, got 32")


def test_evaluation_is_recorded_and_early_runs_are_called_so(work, finished):
    written = results(work / "finished")
    assert written["data"]["curve_tokens"] <= written["data"]["evaluated_tokens"]
    assert all(0 < run["evaluation_seconds"] < 60 for run in written["runs"])
    baseline, settings = written["mechanisms"][0], written["settings"]
    early = settings["steps"] * settings["batch"] * settings["context"] < baseline["parameters"]
    assert ("early in training" in written["verdict"]) == early


def test_overwrite_replaces_only_what_is_its_own(compare, work, finished):
    shutil.copytree(work / "finished", work / "replaced")
    (work / "replaced/notes.txt").write_text("mine")
    assert compare(*TINY[:-1], 1, "--steps", 10, "--out", "replaced", "--overwrite").returncode == 0
    assert (work / "replaced/notes.txt").read_text() == "mine"
    assert not (work / "replaced/trained/softmax-seed-2").exists()
    assert len(results(work / "replaced")["runs"]) == 2
