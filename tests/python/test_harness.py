"""`cogwheel evaluate --harness` and `cogwheel.harness`: scores of tasks by lm-eval, held to lm-eval's own model of transformers."""

import importlib.metadata
import json
import math
import os
import signal
import subprocess
import sys

import pytest

pytest.importorskip("lm_eval", reason="expected lm-eval, which ./run-tests installs")
pytestmark = pytest.mark.filterwarnings("ignore")

import lm_eval.evaluator  # noqa: E402
from harness_files import SPLITS, rows_of, write_named_tasks, write_own_tasks, write_rows  # noqa: E402

import cogwheel.harness  # noqa: E402
from cogwheel.harness.passages import rows_of as passage_rows  # noqa: E402
from cogwheel.harness.rows import read_split  # noqa: E402
from cogwheel.harness.scores import scores  # noqa: E402
from cogwheel.harness.tasks import NAMED, folder_tasks, named_task  # noqa: E402

CONFIG = """
[model]
layers = 2
heads = 4
width = 32
context = 96
mechanism = "{mechanism}"
{model}
[data]
{tokenizer}
[training]
steps = 3
batch = 2
warm_up = 1
learning_rate = 0.05
curve_tokens = 16
"""

QUESTIONS = 5

BYTE = 'tokenizer = "byte"'
KINDS = {
    "softmax": ("softmax", 'position = "learned"', BYTE),
    "cog": ("cog", 'position = "learned"', BYTE),
    "gla": ("gla", 'position = "none"', BYTE),
    "grouped": ("softmax", 'form = "llama"\nkey_value_heads = 2', BYTE),
    "character": ("softmax", 'form = "llama"', 'tokenizer = "character"'),
    "character-tied": ("softmax", 'position = "learned"\ntied_head = true', 'tokenizer = "character"'),
    "pairs": ("softmax", 'form = "llama"', 'tokenizer = "bpe"\nvocabulary = 300'),
    "dense": ("polynomial", 'position = "none"', BYTE),
    "matrix": ("simple_norm_by_matrix", 'position = "none"', BYTE),
}
OF_BYTES = ["softmax", "cog", "gla", "grouped"]
EXPORTED = [*OF_BYTES, "character", "character-tied", "pairs"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("harness")
    # Words in a random order, so that continuations differ, and every character that a prompt may have.
    every = "".join(map(chr, range(32, 127)))
    (folder / "text.txt").write_text("\n".join(row["sentence"] for row in rows_of("sst2", 900, "text")) + f"\n{every}\n{every}\n")
    write_named_tasks(folder / "data", QUESTIONS)
    write_own_tasks(folder / "own", folder / "data", 4)
    return folder


@pytest.fixture(scope="module")
def run(place, cogwheel_in):
    """Of a kind, the folder of a small run, trained when it is first asked for."""
    made = {}

    def folder_of(kind):
        if kind not in made:
            mechanism, model, tokenizer = KINDS[kind]
            (place / f"{kind}.toml").write_text(CONFIG.format(mechanism=mechanism, model=model, tokenizer=tokenizer))
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
    assert found["results"].keys() == expected["results"].keys()
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
@pytest.mark.parametrize("kind", OF_BYTES)
def test_scores_are_those_of_lm_evals_own_model(kind, shots, batch, place, run, references):
    from harness_reference import reference_model

    folder, tasks = run(kind), tasks_of(place, shots)
    if (kind, shots) not in references:
        references[kind, shots] = evaluated(reference_model(folder), tasks)
    model = cogwheel.harness.HarnessModel(folder, batch_size=batch)
    assert model.decodes
    expect_same(evaluated(model, tasks), references[kind, shots])


def exported(kind, place, run, cogwheel_in):
    """The export of a run; skips where no architecture of transformers is one of the kind."""
    out = place / f"{kind}-export"
    if not out.exists():
        done = cogwheel_in(place)("export", run(kind), "--out", out)
        if done.returncode != 0 and kind in ("cog", "gla"):
            pytest.skip(f"expected CogwheelForCausalLM, as which {kind} is exported, got {done.stderr.strip()}")
        assert done.returncode == 0, done.stderr
    return out


def expect_the_scores_of_the_export(kind, batch, tasks, place, run, cogwheel_in):
    from lm_eval.models.huggingface import HFLM

    out = exported(kind, place, run, cogwheel_in)
    theirs = HFLM(pretrained=str(out), device="cpu", dtype="float32", batch_size=batch, trust_remote_code=True)
    expect_same(evaluated(cogwheel.harness.HarnessModel(run(kind), batch_size=batch), tasks), evaluated(theirs, tasks))


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize("shots", [0, 1])
@pytest.mark.parametrize("kind", EXPORTED)
def test_scores_are_those_of_the_export(kind, shots, batch, place, run, cogwheel_in):
    expect_the_scores_of_the_export(kind, batch, tasks_of(place, shots), place, run, cogwheel_in)


@pytest.mark.parametrize("kind", ["grouped", "character"])
def test_scores_of_few_tasks_are_those_of_the_export(kind, place, run, cogwheel_in):
    """Choices, texts beyond the context, and generated ones; of characters the export has one row more, which is asked here too."""
    tasks = {name: task for name, task in tasks_of(place, 1).items() if name in ("sst2", "rolling", "generated")}
    expect_the_scores_of_the_export(kind, 8, tasks, place, run, cogwheel_in)


def test_the_row_for_what_stands_before_a_text_is_there_only_while_it_asks(run):
    model = cogwheel.harness.HarnessModel(run("character"))
    rows = model.model.token_embedding
    assert model.prefix_token_id == len(rows) and model.model.token_before_texts is None
    ends = [*model._loglikelihood_tokens([(("", ""), [], [3, 4])]), *model._loglikelihood_tokens([(("", ""), [model.prefix_token_id], [3, 4])])]
    assert ends[0] == ends[1] and model.model.token_embedding is rows
    # A newline before a text is a character of it.
    newline = int(model.model.tokens("\n")[0])
    assert model._question(instance("", "\na"))[1:] == ([model.prefix_token_id], [newline, int(model.model.tokens("a")[0])])
    with pytest.raises(ValueError, match="generate_until: expected a text that goes on"):
        model._prompt("")


def instance(context, continuation):
    return lm_eval.api.instance.Instance(request_type="loglikelihood", doc={}, arguments=(context, continuation), idx=0, metadata=("mine", 0, 1))


def test_dropout_is_off_while_it_asks(run):
    model = cogwheel.harness.HarnessModel(run("softmax"))
    asked = [(("", ""), [1, 2, 3], [4, 5])]
    without = model._loglikelihood_tokens(asked)
    model.model.train()
    model.model.dropout = 0.5
    assert model._loglikelihood_tokens(asked) == without and model.model.training


def test_continuations_share_rows_as_far_as_they_begin_alike():
    asked = list(enumerate([[1, 2, 3, 4], [1, 2], [5], [1, 2, 9], [1, 7], [1, 2, 3, 4], []]))[:-1]
    rows = passage_rows(asked, causal=True)
    assert sorted(place for row in rows for place, _ in row.asked) == list(range(6))
    assert all(row.tokens[: len(each) - 1] == each[:-1] for row in rows for _, each in row.asked)
    assert [row.tokens for row in rows] == [[1, 2, 3]]  # the last token is never fed in
    # As many texts as a corpus has, each of which beside every other would take long.
    texts = [(number, [number % 250, number // 250, *range(200)]) for number in range(10_000)]
    assert len(passage_rows(texts, causal=True)) == len(texts)


def test_choices_of_a_function_of_the_whole_matrix_do_not_see_each_other(run):
    model = cogwheel.harness.HarnessModel(run("matrix"))
    assert not model.decodes
    context, choices = list(b"the quick"), [[1, 2], [1, 2, 3, 4, 5, 6, 7]]
    together = model._loglikelihood_tokens([(("", ""), context, choice) for choice in choices])
    alone = [model._loglikelihood_tokens([(("", ""), context, choice)])[0] for choice in choices]
    assert [each[0] for each in together] == pytest.approx([each[0] for each in alone], rel=1e-6)


def test_a_mechanism_that_cannot_decode_is_asked_by_whole_passes(place, run):
    found = []
    for batch in (1, 8):
        model = cogwheel.harness.HarnessModel(run("dense"), batch_size=batch)
        found.append(evaluated(model, {"sst2": named_task("sst2", place / "data", 0)}))
    for one, other in zip(*(each["samples"]["sst2"] for each in found), strict=True):
        assert one["resps"][0][0][0] == pytest.approx(other["resps"][0][0][0], rel=1e-5)


def test_choices_after_one_context_share_its_pass(run):
    model, seen = cogwheel.harness.HarnessModel(run("softmax")), []
    normed = model.model._normed
    model.model._normed = lambda tokens, *others: seen.append(tokens.numel()) or normed(tokens, *others)
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
        ('{"sentence": "a", "label": 1}\n{"label": 1}\n', "validation.jsonl: row 2: sentence: expected a value, got none"),
        ('{"sentence": "a", "label": 1}\n{"sentence": "a", "label": -1}\n', "validation.jsonl: row 2: label: expected 0 to 1, got -1"),
        ('{"sentence": "a", "label": "1"}\n', "validation.jsonl: row 1: label: expected 0 to 1, got '1'"),
        (b'{"sentence": "a\xff", "label": 1}\n', "validation.jsonl: expected UTF-8, got the byte 0xff at 15"),
    ):
        write_rows(tmp_path / "sst2/validation.jsonl", [])
        (tmp_path / "sst2/validation.jsonl").write_bytes(rows if isinstance(rows, bytes) else rows.encode())
        with pytest.raises(ValueError) as refused:
            read_split(tmp_path / "sst2", "validation", NAMED["sst2"][1])
        assert message in str(refused.value)
    for task, bad, message in (
        ("arc_easy", {"answerKey": "E"}, "row 1: answerKey: expected [A-E1-5, ]+, got 'E'"),
        ("arc_easy", {"choices": {"text": ["a", " "], "label": ["A", "E"]}}, "row 1: choices: expected a text of each of 2 labels"),
        ("piqa", {"sol2": " "}, "row 1: sol2: expected a text, got none"),
        ("social_iqa", {"label": "4"}, "row 1: label: expected '1' to '3', got '4'"),
    ):
        row = next(iter(rows_of(task, 1, "bad")))
        row["choices"] = {"text": row["choices"]["text"][:3], "label": list("ABC")} if task == "arc_easy" else None
        write_rows(tmp_path / task / "test.jsonl", [{name: value for name, value in {**row, **bad}.items() if value is not None}])
        with pytest.raises(ValueError, match=message):
            read_split(tmp_path / task, "test", NAMED[task][1])
    # Examples are drawn from one row more than there are, and have right answers too: the hub's test splits do not say them.
    write_rows(tmp_path / "sst2/validation.jsonl", good)
    for examples, message in ((good[:1], "sst2: train: expected more than 1 rows to draw examples from, got 1"), ([*good, {**good[0], "label": -1}], "train.jsonl: row 4: label")):
        write_rows(tmp_path / "sst2/train.jsonl", examples)
        with pytest.raises(ValueError, match=message):
            named_task("sst2", tmp_path, 1)
    (tmp_path / "sst2/train.jsonl").unlink()
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
    with pytest.raises(ValueError, match="batch_size: expected 1 or more, got 0"):
        cogwheel.harness.HarnessModel(run("softmax"), batch_size=0)
    for given, message in (({"max_gen_toks": 96}, "max_gen_toks: expected 1 to 95"), ({"num_beams": 3}, "generation_kwargs: expected until, .*, got num_beams")):
        with pytest.raises(ValueError, match=message):
            model._generation_options(given)
    assert model._generation_options({})["length"] == 48  # of a short context not lm-eval's 256
    assert model._generation_options({"num_beams": 1, "temperature": None})["temperature"] == 0


def own_task(folder, name, yaml, rows, functions=""):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.yaml").write_text(f"task: {name}\ndataset_path: json\ntest_split: test\n{yaml}")
    if functions:
        (folder / "functions.py").write_text(functions)
    write_rows(folder / "data" / name / "test.jsonl", rows)
    return wants(folder, folder=str(folder))


CLOZE_TEXTS = 'output_type: loglikelihood\ndoc_to_text: "{{text}}"\ndoc_to_target: "{{last}}"\n'


def test_what_runs_cannot_be_asked_is_said_before_the_first_pass(place, run, tmp_path, capsys):
    runs = [str(run("softmax")), str(run("character"))]
    rows = [{"text": "the", "last": " cat"}, {"text": "the", "last": " " + "cat" * 40}]
    metric = "metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]\n"
    own_task(tmp_path / "long", "first", CLOZE_TEXTS + metric, rows[:1])
    with pytest.raises(ValueError, match=f"{runs[0]}: mine: row 2: continuation: expected 1 to 96 tokens, .*, got 121: ' catcat"):
        scores(own_task(tmp_path / "long", "mine", CLOZE_TEXTS + metric, rows) | {"runs": runs})
    with pytest.raises(ValueError, match=f"{runs[1]}: mine: row 1: text: expected one of the .* characters"):
        scores(own_task(tmp_path / "unknown", "mine", CLOZE_TEXTS + metric, [{"text": "é", "last": " a"}]) | {"runs": runs})
    with pytest.raises(ValueError, match="mine: metric_list: expected a metric of lm-eval, got none"):
        scores(own_task(tmp_path / "bypass", "mine", CLOZE_TEXTS + "metric_list: [{metric: bypass}]\n", rows[:1]) | {"runs": runs})
    with pytest.raises(ValueError, match="list.yaml: expected a task in a file of its own, got a task_list"):
        (tmp_path / "bypass/list.yaml").write_text("task_list: [{task: one}]\n")
        scores(wants(tmp_path, folder=str(tmp_path / "bypass"), runs=runs))
    assert "-shot" not in capsys.readouterr().err


FAILING = """
def process_results(doc, results):
    return {"acc": doc["none"]}
"""


def test_a_task_that_fails_takes_no_other_with_it(run, tmp_path):
    metric = "metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]\n"
    rows = [{"text": "the", "last": " cat"}, {"text": "the", "last": " mat"}]
    perplexity = metric[:-2] + ", {metric: perplexity, aggregation: perplexity, higher_is_better: false}]\n"
    own_task(tmp_path, "good", CLOZE_TEXTS + perplexity, rows)
    given = own_task(tmp_path, "failing", CLOZE_TEXTS + "process_results: !function functions.process_results\n" + metric, rows, FAILING)
    failing, good = scores(given | {"runs": [str(run("softmax"))]})["runs"][0]
    assert failing["problem"] == "failing: KeyError: 'none'" and "problem" not in good
    assert [metric["value"] for metric in failing["metrics"]] == [None]
    assert [metric["value"] is not None and metric["error"] is not None for metric in good["metrics"]] == [True, True]
    assert failing["samples"] == {name: good["samples"][name] for name in ("hashes", "log_likelihoods")}


def test_a_perplexity_beyond_all_numbers_is_null(run, tmp_path):
    rolling = 'output_type: loglikelihood_rolling\ndoc_to_text: ""\ndoc_to_target: "{{text}}"\n'
    given = own_task(tmp_path, "word", rolling, [{"text": "cold" * 400}])
    own_task(tmp_path, "empty", rolling, [{"text": ""}])
    empty, word = scores(given | {"runs": [str(run("softmax"))]})["runs"][0]
    values = {metric["name"]: metric["value"] for metric in word["metrics"]}
    assert values["word_perplexity"] is None and 0 < values["bits_per_byte"] < 20
    assert "problem" not in word and "problem" not in empty and empty["samples"]["log_likelihoods"] == [[0.0]]


def test_filters_have_metrics_of_their_own(run, tmp_path):
    yaml = '''output_type: generate_until
doc_to_text: "{{text}}"
doc_to_target: "{{last}}"
generation_kwargs: {max_gen_toks: 4, do_sample: true, temperature: 0.9}
filter_list:
  - {name: strict, filter: [{function: take_first}]}
  - {name: lower, filter: [{function: lowercase}, {function: take_first}]}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
'''
    given = own_task(tmp_path, "mine", yaml, [{"text": "the", "last": " cat"}] * 2) | {"runs": [str(run("softmax"))]}
    found = scores(given)["runs"][0][0]
    assert [metric["name"] for metric in found["metrics"]] == ["exact_match", "exact_match,lower"] == list(found["samples"]["metrics"])
    one, other = found["samples"]["texts"]
    assert one != other  # each prompt has random numbers of its own, which follow from the seed
    again = scores(given | {"batch": 1})["runs"][0][0]["samples"]["texts"]
    assert again == [one, other] != scores(given | {"seed": 5})["runs"][0][0]["samples"]["texts"]


def test_an_old_lm_eval_is_named(monkeypatch):
    for version, wanted in (("0.4.9", "got 0.4.9"), (None, "got none")):
        def found(_, version=version):
            if version is None:
                raise importlib.metadata.PackageNotFoundError
            return version

        monkeypatch.setattr(importlib.metadata, "version", found)
        with pytest.raises(ImportError, match=f"expected lm-eval 0.4.13 or newer, .*, {wanted}"):
            cogwheel.harness._expect_lm_eval()
    for version in ("0.4.13", "0.4.13.dev1", "0.5", "1.0.0rc1"):
        monkeypatch.setattr(importlib.metadata, "version", lambda _, version=version: version)
        cogwheel.harness._expect_lm_eval()


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
    assert "two standard errors above always giving the commonest answer" in page
    for words in ("Differences to softmax", "McNemar", "commonest answer", "51.72 (141M), 54.09 (600M), 58.49 (1B)", "Cogformer, 1B", "are exchanged here", f"--num-fewshot 1 --limit {QUESTIONS}"):
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
    refused(command, ["softmax", "--harness", "sst2", "--harness-data", "data", "--weights", "int8"], 2, "evaluate: --weights: expected none beside --harness, got one")
    refused(command, ["softmax", "--harness", ""], 2, "evaluate: --harness: expected one of arc_easy, arc_challenge, piqa, social_iqa, mrpc, sst2, mnli, continuation, or a folder, got nothing")
    refused(command, ["softmax", "softmax/", "--harness", "continuation"], 2, "evaluate: expected each run once, got softmax/ again")
    # A folder of a task's name holds its data; names may stand apart.
    refused(cogwheel_in(place / "data"), ["../softmax", "--harness", "sst2, mrpc"], 2, "evaluate: --harness-data: expected a folder with data of sst2, got nothing")
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


def python_that(tmp_path, line):
    """In the place of Python: what it is given is `-c`, a program, the request and the answer."""
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\n{line}\n")
    script.chmod(0o755)
    (tmp_path / "scratch").mkdir()
    return {"COGWHEEL_PYTHON": str(script), "TMPDIR": str(tmp_path / "scratch")}


def test_scores_of_which_one_failed_are_written_and_it_is_said(place, run, cogwheel_in, tmp_path):
    run("softmax"), run("gla")
    metric = {"name": "acc", "value": 0.5, "error": None, "higher_is_better": True}
    task = {"name": "mine", "shots": 0, "kind": "loglikelihood", "chance": None, "commonest": None}
    kept = {"metrics": [metric], "samples": {"hashes": ["a", "b"], "metrics": {"acc": [0, 1]}}}
    failed = {"metrics": [metric | {"value": None}], "samples": {"hashes": []}, "problem": "mine: KeyError: 'x'"}
    (tmp_path / "found.json").write_text(json.dumps({"lm_eval": "0.4.13", "tasks": [task], "runs": [[failed], [kept]]}))
    done = cogwheel_in(place, **python_that(tmp_path, f'cp {tmp_path}/found.json "$4"'))("evaluate", "softmax", "gla", "--harness", "own", "--out", "failed")
    assert done.returncode == 1 and done.stderr == "cogwheel: softmax: mine: KeyError: 'x'\n" and "50.00" in done.stdout
    found = json.loads((place / "failed/harness.json").read_text())
    assert [each["scores"][0].get("problem") for each in found["runs"]] == ["mine: KeyError: 'x'", None] and found["differences"] == []
    assert "mine: KeyError" in (place / "failed/harness.html").read_text()


@pytest.mark.parametrize("name", ["INT", "TERM"])
def test_a_signal_ends_python_too_and_leaves_nothing(name, place, run, cogwheel_executable, tmp_path):
    run("softmax")
    # Ctrl-C reaches both. Python ignores it, and is ended by the executable.
    both = python_that(tmp_path, f"echo $$ > {tmp_path}/id\nwhile kill -{name} {'$$' if name == 'INT' else ''} $PPID; do sleep 0.1; done")
    done = subprocess.run(
        [cogwheel_executable, "evaluate", "softmax", "--harness", "continuation"], cwd=place, capture_output=True, text=True, timeout=60,
        env={**os.environ, **both}, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (130, "cogwheel: evaluate: interrupted\n")
    assert list((tmp_path / "scratch").iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "id").read_text()), 0)


def test_runs_of_one_name_and_tokenizers_of_their_own(place, run, cogwheel_in, tmp_path):
    """Held-out text of characters and of bytes is cut at other places; questions are of what both hold out, in any order."""
    run("softmax"), run("pairs")
    (place / "other").mkdir(exist_ok=True)
    if not (place / "other/softmax").exists():
        (place / "other/softmax").symlink_to(place / "pairs")
    asked = []
    for order in (["softmax", "other/softmax"], ["other/softmax", "softmax"]):
        folder = tmp_path / order[0].replace("/", "-")
        folder.mkdir()
        line = f'cp "$(dirname "$3")/continuation/test.jsonl" {folder}; cat {place}/none > /dev/null'
        done = cogwheel_in(place, **python_that(folder, line))("evaluate", *order, "--harness", "continuation", "--out", folder)
        assert done.returncode == 1 and done.stderr.splitlines()[-1] == "cogwheel: evaluate: --harness: expected an answer of Python's lm-eval, got status 1 and no answer"
        asked.append((folder / "test.jsonl").read_text())
    assert asked[0] == asked[1] and asked[0].count("\n") == 500


@pytest.mark.slow
def test_missing_data_are_one_line(place, run, cogwheel_in):
    run("softmax")
    (place / "empty").mkdir()
    refused(cogwheel_in(place), ["softmax", "--harness", "sst2", "--harness-data", "empty"], 1,
            f"{place}/empty/sst2: expected validation.jsonl or validation.parquet, got none")  # fmt: skip
