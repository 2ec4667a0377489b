"""`cogwheel evaluate --harness` and `cogwheel.harness`: scores of tasks by lm-eval, held to lm-eval's own model of transformers."""

import json
import math
import sys

import pytest

pytest.importorskip("lm_eval", reason="expected lm-eval, which ./run-tests installs")
pytestmark = pytest.mark.filterwarnings("ignore")

import lm_eval.evaluator  # noqa: E402
from harness_files import SPLITS, rows_of, write_named_tasks, write_own_tasks, write_rows  # noqa: E402

import cogwheel.harness  # noqa: E402
from cogwheel.harness.scores import scores  # noqa: E402
from cogwheel.harness.tasks import folder_tasks, named_task, read_split  # noqa: E402

CONFIG = """
[model]
layers = 2
heads = 4
width = 32
context = 96
mechanism = "{mechanism}"
{model}
[data]
tokenizer = "byte"
[training]
steps = 3
batch = 2
warm_up = 1
learning_rate = 0.05
curve_tokens = 16
"""

QUESTIONS = 8

KINDS = {
    "softmax": ("softmax", 'position = "learned"'),
    "cog": ("cog", 'position = "learned"'),
    "gla": ("gla", 'position = "none"'),
    "grouped": ("softmax", 'form = "llama"\nkey_value_heads = 2'),
    "dense": ("polynomial", 'position = "none"'),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("harness")
    # Words in an order of chance, so that continuations differ.
    (folder / "text.txt").write_text("\n".join(row["sentence"] for row in rows_of("sst2", 900, "text")))
    write_named_tasks(folder / "data", QUESTIONS)
    write_own_tasks(folder / "own", folder / "data", 4)
    return folder


@pytest.fixture(scope="module")
def run(place, cogwheel_in):
    """Of a kind, the folder of a small run, trained when it is first asked for."""
    made = {}

    def folder_of(kind):
        if kind not in made:
            mechanism, model = KINDS[kind]
            (place / f"{kind}.toml").write_text(CONFIG.format(mechanism=mechanism, model=model))
            done = cogwheel_in(place)("train", f"{kind}.toml", "--text", "text.txt", "--out", kind)
            assert done.returncode == 0, done.stderr
            made[kind] = place / kind
        return made[kind]

    return folder_of


def tasks_of(place, shots):
    named = [named_task(name, place / "data", shots) for name in SPLITS]
    tasks = {task.task_name: task for task in [*named, *folder_tasks(place / "own", place / "data", None)]}
    for name, task in tasks.items():
        task.set_config("num_fewshot", shots if name in SPLITS else 0)
    return tasks


def evaluated(model, tasks):
    for task in tasks.values():
        task.set_fewshot_seed(1234)
    return lm_eval.evaluator.evaluate(model, {"tasks": tasks}, bootstrap_iters=0, log_samples=True)


def expect_same(found, expected):
    """Metrics to 5 digits, and each log-likelihood to 1e-4 of its size."""
    assert found["results"].keys() == expected["results"].keys() and len(found["results"]) == 10
    for task, metrics in expected["results"].items():
        for name, value in metrics.items():
            if isinstance(value, float):
                assert found["results"][task][name] == pytest.approx(value, rel=1e-5), (task, name)
        for one, other in zip(found["samples"][task], expected["samples"][task], strict=True):
            assert one["arguments"] == other["arguments"]
            for (said,), (meant,) in zip(one["resps"], other["resps"], strict=True):
                if isinstance(meant, str):
                    assert said == meant
                elif isinstance(meant, tuple):
                    assert said == (pytest.approx(meant[0], rel=1e-4), meant[1]), (task, one["arguments"])
                else:
                    assert said == pytest.approx(meant, rel=1e-4), task


@pytest.fixture(scope="module")
def references():
    return {}


@pytest.mark.diagonal
@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize("shots", [0, 1])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "dense"])
def test_scores_are_those_of_lm_evals_own_model(kind, shots, batch, place, run, references):
    from harness_reference import reference_model

    folder, tasks = run(kind), tasks_of(place, shots)
    if (kind, shots) not in references:
        references[kind, shots] = evaluated(reference_model(folder), tasks)
    model = cogwheel.harness.HarnessModel(folder, batch_size=batch)
    assert model.decodes
    expect_same(evaluated(model, tasks), references[kind, shots])


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "dense"])
def test_scores_are_those_of_the_export(kind, batch, place, run, cogwheel_in):
    from lm_eval.models.huggingface import HFLM

    folder, out = run(kind), place / f"{kind}-export"
    if "LlamaForCausalLM" not in cogwheel_in(place)("list", "architectures").stdout:
        pytest.skip("no language model is exported to transformers by this build")
    done = cogwheel_in(place)("export", folder, "--out", out, "--overwrite")
    assert done.returncode == 0, done.stderr
    theirs = HFLM(pretrained=str(out), device="cpu", dtype="float32", batch_size=batch, trust_remote_code=True)
    ours = cogwheel.harness.HarnessModel(folder, batch_size=batch)
    for shots in (0, 1):
        tasks = tasks_of(place, shots)
        expect_same(evaluated(ours, tasks), evaluated(theirs, tasks))


def test_a_mechanism_that_cannot_decode_is_asked_by_whole_passes(place, run):
    found = []
    for batch in (1, 8):
        model = cogwheel.harness.HarnessModel(run("dense"), batch_size=batch)
        assert not model.decodes
        found.append(evaluated(model, {"sst2": named_task("sst2", place / "data", 0)}))
    for one, other in zip(*(each["samples"]["sst2"] for each in found), strict=True):
        assert one["resps"][0][0][0] == pytest.approx(other["resps"][0][0][0], rel=1e-5)


def test_choices_after_one_context_share_its_pass(run):
    model, seen = cogwheel.harness.HarnessModel(run("softmax")), []
    normed = model.model._normed
    model.model._normed = lambda tokens, **keywords: seen.append(tokens.numel()) or normed(tokens, **keywords)
    context, choices = list(b"the quick brown fox jumps over"), [list(b" the lazy dog"), list(b" a cat"), list(b" old men"), list(b" o")]
    together = model._loglikelihood_tokens([(("", ""), context, choice) for choice in choices])
    # The context but for its last token, then that token with each choice but for its last; " o" begins " old men".
    assert seen == [len(context) - 1, 3 * len(choices[0])]
    for choice, answer in zip(choices, together, strict=True):
        assert answer == (pytest.approx(model._loglikelihood_tokens([(("", ""), context, choice)])[0][0], rel=1e-5), answer[1])


def wants(place, **given):
    defaults = dict(runs=[], names=[], folder=None, data=str(place / "data"), continuation=None, shots=[0], limit=None, batch=8, seed=1234)
    return defaults | given


def test_guessing_and_the_commonest_answer(place, run):
    found = scores(wants(place, runs=[str(run("softmax"))], names=["arc_easy", "social_iqa"]))
    arc = list(rows_of("arc_easy", QUESTIONS, "test"))
    answers = [row["choices"]["label"].index(row["answerKey"]) for row in arc]
    assert found["tasks"][0]["chance"] == pytest.approx(sum(1 / len(row["choices"]["label"]) for row in arc) / QUESTIONS)
    assert found["tasks"][0]["commonest"] == max(map(answers.count, answers)) / QUESTIONS
    siqa = [row["label"] for row in rows_of("social_iqa", QUESTIONS, "validation")]
    assert found["tasks"][1]["commonest"] == max(map(siqa.count, siqa)) / QUESTIONS and found["tasks"][1]["chance"] == pytest.approx(1 / 3)
    right = [likelihoods.index(max(likelihoods)) == answer for likelihoods, answer in zip(found["runs"][0][0]["samples"]["log_likelihoods"], answers, strict=True)]
    assert found["runs"][0][0]["metrics"][0] | {"error": None} == {"name": "acc", "value": sum(right) / QUESTIONS, "error": None, "higher_is_better": True}


def test_film_reviews(repository, place, run):
    """Desk scale: the sentences of SST-2 that lie beside the repository."""
    reviews = repository.parent / "shared/data/sst2"
    if not (reviews / "dev.tsv").is_file():
        pytest.skip("expected ../shared/data/sst2, got none")
    for name, split, count in (("train", "train", 50), ("dev", "validation", 40)):
        lines = (line.rsplit("\t", 1) for line in (reviews / f"{name}.tsv").read_text().splitlines()[:count])
        write_rows(place / "reviews/sst2" / f"{split}.jsonl", [{"sentence": sentence, "label": int(label)} for sentence, label in lines])
    found = scores(wants(place, runs=[str(run("softmax"))], names=["sst2"], data=str(place / "reviews"), shots=[0, 1], limit=30))
    assert [(task["name"], task["shots"], task["chance"]) for task in found["tasks"]] == [("sst2", 0, 0.5), ("sst2", 1, 0.5)]
    assert all(len(score["samples"]["log_likelihoods"]) == 30 for score in found["runs"][0])
    assert found["runs"][0][0]["samples"]["log_likelihoods"] != found["runs"][0][1]["samples"]["log_likelihoods"]


def test_what_files_may_not_hold(place, run, tmp_path):
    good = list(rows_of("sst2", 3, "x"))
    for rows, message in (
        ("{}\n[1]\n", "validation.jsonl:2: expected a JSON object, got list"),
        ("{\n", "validation.jsonl:1: expected a JSON object, got Expecting"),
        ("\n", "validation.jsonl: expected rows, got none"),
        ('{"sentence": "a"}\n', "validation.jsonl: expected the columns sentence, label, got none of the name label"),
        ('{"sentence": "a", "label": 1}\n{"sentence": 2, "label": 1}\n', "validation.jsonl: expected rows of the same columns and types"),
    ):
        write_rows(tmp_path / "sst2/validation.jsonl", [])
        (tmp_path / "sst2/validation.jsonl").write_text(rows)
        with pytest.raises(ValueError) as refused:
            read_split(tmp_path / "sst2", "validation", ("sentence", "label"))
        assert message in str(refused.value)
    # Of the hub's test splits, whose answers are not told.
    write_rows(tmp_path / "sst2/validation.jsonl", [*good, {**good[0], "label": -1}])
    with pytest.raises(ValueError, match="sst2: row 4: expected the number of a right answer, 0 to 1, got -1"):
        scores(wants(place, runs=[str(run("softmax"))], names=["sst2"], data=str(tmp_path)))
    (tmp_path / "sst2/validation.parquet").write_bytes(b"PAR1")
    (tmp_path / "sst2/validation.jsonl").unlink()
    with pytest.raises(ValueError, match="validation.parquet: expected a parquet file"):
        read_split(tmp_path / "sst2", "validation")
    with pytest.raises(FileNotFoundError, match="expected train.jsonl or train.parquet, got none"):
        read_split(tmp_path / "sst2", "train")


def test_what_a_model_cannot_be_asked(run):
    model = cogwheel.harness.HarnessModel(run("softmax"))
    with pytest.raises(ValueError, match="continuation: expected 1 to 96 tokens, the context of the model, got 97"):
        model._loglikelihood_tokens([(("", "x" * 97), [1], [2] * 97)])
    for given, message in (({"max_gen_toks": 96}, "max_gen_toks: expected 1 to 95"), ({"num_beams": 3}, "generation_kwargs: expected until, .*, got num_beams")):
        with pytest.raises(ValueError, match=message):
            model._generation_options(given)
    assert model._generation_options({})["length"] == 48  # of a short context not lm-eval's 256


def holm(p_values):
    order, adjusted, largest = sorted(range(len(p_values)), key=p_values.__getitem__), [0.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, p_values[place] * (len(p_values) - rank)))
        adjusted[place] = largest
    return adjusted


def test_runs_are_compared_on_the_same_questions(place, run, cogwheel_in):
    run("softmax"), run("gla")
    command = cogwheel_in(place)
    done = command("evaluate", "softmax", "gla", "--harness", "sst2,continuation", "--harness-data", "data", "--num-fewshot", 1, "--limit", QUESTIONS, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [f"{name}: {task}" for name in ("softmax", "gla") for task in ("sst2, 1-shot", "continuation, 0-shot")]
    found = json.loads(done.stdout)
    assert [(task["task"], task["shots"]) for task in found["tasks"]] == [("sst2", 1), ("continuation", 0)]
    assert found["tasks"][1]["chance"] == 0.25 and found["runs"][0]["scores"][1]["questions"] == QUESTIONS
    expected = []
    for task, metric in enumerate(("acc", "acc_norm")):
        first, second = (each["scores"][task]["samples"]["metrics"][metric] for each in found["runs"])
        only_first, only_second = ([*zip(first, second, strict=True)].count(pair) for pair in ((1, 0), (0, 1)))
        told = only_first + only_second
        p = min(1, 2 * sum(math.comb(told, count) for count in range(min(only_first, only_second) + 1)) / 2**told)
        expected.append((sum(second) / QUESTIONS - sum(first) / QUESTIONS, only_first, only_second, p))
    for difference, (shift, only_first, only_second, p), adjusted in zip(found["differences"], expected, holm([each[-1] for each in expected]), strict=True):
        assert difference["run"] == "gla" and difference["difference"] == pytest.approx(shift)
        assert (difference["only_first_right"], difference["only_this_right"]) == (only_first, only_second)
        assert difference["p"] == pytest.approx(p) and difference["p_adjusted"] == pytest.approx(adjusted)
    for place_of_run, name in enumerate(("softmax", "gla")):
        kept = json.loads((place / name / "harness.json").read_text())
        assert kept["runs"] == [found["runs"][place_of_run]] and "differences" not in kept
    page = (place / "harness.html").read_text()
    for words in ("Differences to softmax", "McNemar", "always the commonest", "51.72 (141M), 54.09 (600M), 58.49 (1B)", "Cogformer, 1B", "are exchanged here", f"--num-fewshot 1 --limit {QUESTIONS}"):
        assert words in page
    assert "<script" not in page and "http:" not in page and "https:" not in page and "{{" not in page


@pytest.mark.slow
def test_tasks_of_a_folder_and_a_page_elsewhere(place, run, cogwheel_in):
    run("cog")
    for words, out in (([], "cog"), (["--out", "elsewhere"], "elsewhere")):
        done = cogwheel_in(place)("evaluate", "cog", "--harness", "own", "--harness-data", "data", "--limit", 3, *words)
        assert done.returncode == 0, done.stderr
        assert "cloze (0-shot)" in done.stdout and done.stdout.endswith(f"3 tasks scored.\n{out}/harness.html\n")
        kept = json.loads((place / out / "harness.json").read_text())
        assert kept["limit"] == 3 and kept["runs"][0]["mechanism"] == "cog"
        assert [metric["name"] for metric in kept["runs"][0]["scores"][0]["metrics"]] == ["acc", "perplexity"]
        assert len(kept["runs"][0]["scores"][0]["samples"]["log_likelihoods"]) == 3


def refused(command, words, code, message):
    done = command("evaluate", *words)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", f"cogwheel: {message}\n")


def test_refusals_are_one_line(place, run, cogwheel_in, tmp_path):
    run("softmax")
    command = cogwheel_in(place)
    (place / "parity.toml").write_text('[task]\nname = "parity"\nlength = 8\n[model]\nlayers = 1\nheads = 2\nwidth = 16\ncontext = 16\n[training]\nsteps = 1\nbatch = 2\n')
    assert command("train", "parity.toml", "--out", "parity").returncode == 0
    refused(command, ["softmax", "--harness", "arc_esy", "--harness-data", "data"], 2,
            "evaluate: --harness: expected arc_easy (the nearest of 8 names), or a folder, got arc_esy")  # fmt: skip
    refused(command, ["softmax", "--harness", "sst2"], 2, "evaluate: --harness-data: expected a folder with data of sst2, got nothing")
    refused(command, ["softmax", "--harness", "sst2", "--harness-data", "none"], 2, "evaluate: --harness-data: expected a folder, got none")
    refused(command, ["softmax", "--harness", "mrpc,mrpc", "--harness-data", "data"], 2, "evaluate: --harness: expected each task once, got mrpc again")
    refused(command, ["softmax", "--harness", "sst2", "--harness-data", "data", "--weights", "int8"], 2, "evaluate: --weights: expected none beside --harness, got it")
    refused(command, ["softmax", "--num-fewshot", 1], 2, "evaluate: --num-fewshot: expected --harness with it, got none")
    refused(command, ["softmax", "parity"], 2, "evaluate: expected one run, or --harness with several, got 2 runs")
    refused(command, ["parity", "--harness", "continuation"], 2, "parity: expected a run that reads text, got one without a tokenizer")
    refused(command, ["parity/config.toml", "--harness", "continuation"], 1, "parity/config.toml: expected the folder of a run, got no config.toml in it")


def test_what_is_missing_is_named(place, run, cogwheel_in, tmp_path):
    run("softmax")
    # A Python whose environment has no packages.
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    refused(cogwheel_in(place, COGWHEEL_PYTHON=str(bare)), ["softmax", "--harness", "continuation"], 1,
            f"evaluate: --harness: expected Python's lm-eval, which `{sys.executable} -m pip install lm-eval` installs, got no module lm_eval")  # fmt: skip


@pytest.mark.slow
def test_missing_data_are_one_line(place, run, cogwheel_in):
    run("softmax")
    (place / "empty").mkdir()
    refused(cogwheel_in(place), ["softmax", "--harness", "sst2", "--harness-data", "empty"], 1,
            f"{place}/empty/sst2: expected validation.jsonl or validation.parquet, got none")  # fmt: skip
