"""Scores of several runs on the same questions."""

from __future__ import annotations

import collections
import json
import math
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import lm_eval
import lm_eval.evaluator
from lm_eval.api.task import ConfigurableTask
from lm_eval.utils import handle_non_serializable, hash_string

from cogwheel.harness.model import HarnessModel
from cogwheel.harness.problems import said
from cogwheel.harness.tasks import continuation_task, folder_tasks, named_task

# Of a metric that is no mean, whose error lm-eval takes from a bootstrap, as many as it takes itself of slow ones.
RESAMPLES = 100

Wanted = dict[tuple[str, int], ConfigurableTask]  # by name and number of examples


def _tasks(given: dict[str, Any], shots: int | None) -> list[ConfigurableTask]:
    data = pathlib.Path(given["data"]) if given["data"] else None
    if given["folder"]:
        return folder_tasks(pathlib.Path(given["folder"]), data, shots)
    continuation = pathlib.Path(given["continuation"] or "")
    return [continuation_task(continuation) if name == "continuation" else named_task(name, data, shots) for name in given["names"]]


def _shots_of(task: ConfigurableTask, shots: int | None) -> int:
    """How many examples it gets: a description that says 0 means it, as for lm-eval itself."""
    own = task.get_config("num_fewshot")
    return own or 0 if shots is None or own == 0 else shots


def _right_answer(task: ConfigurableTask, doc: dict[str, Any]) -> tuple[int | None, int]:
    """Which of how many choices is right; None where several are."""
    choices = task.doc_to_choice(doc)
    target = given = task.doc_to_text(doc) if task.multiple_input else task.doc_to_target(doc)
    if isinstance(target, list):
        return None, len(choices)
    if isinstance(target, str):
        target = choices.index(target) if target in choices else -1
    if not isinstance(target, int) or not 0 <= target < len(choices):
        raise ValueError(f"expected the number of a right answer, 0 to {len(choices) - 1}, got {given!r}")
    return target, len(choices)


def _baselines(task: ConfigurableTask, limit: int | None) -> dict[str, Any]:
    """Of a multiple choice, the shares that are right by chance and of the commonest answer. ValueError for a target that is none."""
    unknown = {"chance": None, "commonest": None}
    if task.OUTPUT_TYPE != "multiple_choice":
        return unknown
    targets: collections.Counter[int | None] = collections.Counter()
    chance = []
    for number, doc in task.doc_iterator(rank=0, limit=limit, world_size=1):
        try:
            target, choices = _right_answer(task, doc)
        except Exception as error:  # of the task's own templates and functions too
            raise ValueError(f"{task.task_name}: row {number + 1}: {said(error)}") from error
        targets[target] += 1
        chance.append(1 / choices)
    return unknown if None in targets else {"chance": math.fsum(chance) / len(chance), "commonest": max(targets.values()) / len(chance)}


def _build(task: ConfigurableTask, given: dict[str, Any]) -> None:
    """The requests of a task, the same at each call and for every run."""
    task.set_fewshot_seed(given["seed"])
    try:
        task.build_all_requests(limit=given["limit"])
    except Exception as error:
        raise ValueError(f"{task.task_name}: {said(error)}") from error


def _expect_answerable(given: dict[str, Any], wanted: Wanted) -> None:
    """Raises ValueError for a question that a run cannot be asked, before the first pass: an evaluation may take hours."""
    for task in wanted.values():
        _build(task, given)
    for run in given["runs"]:
        model = HarnessModel(run)
        for (name, _), task in wanted.items():
            try:
                model.check(task.instances)
            except ValueError as error:
                raise ValueError(f"{run}: {name}: {error}") from None


def _number(value: Any) -> float | None:
    """None for what is no number, which lm-eval says as a text."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        return None
    return found if math.isfinite(found) else None


def _answers(task: ConfigurableTask, responses: Sequence[Sequence[Any]], hashes: list[str]) -> dict[str, Any]:
    """What the model said of each question."""
    if task.OUTPUT_TYPE == "generate_until":
        return {"hashes": hashes, "texts": [each[0] for each in responses]}
    logarithms = [[_number(each[0] if isinstance(each, (tuple, list)) else each) for each in of_one] for of_one in responses]
    return {"hashes": hashes, "log_likelihoods": logarithms}


def _samples(task: ConfigurableTask, samples: list[dict[str, Any]]) -> dict[str, Any]:
    """In the order of the questions: what the model said, and each metric that is one number of one question."""
    by_filter: dict[str, list[dict[str, Any]]] = collections.defaultdict(list)
    for sample in sorted(samples, key=lambda sample: sample["doc_id"]):
        by_filter[sample["filter"]].append(sample)
    first = next(iter(by_filter.values()))
    said_of = [[response[0] for response in sample["resps"]] for sample in first]
    found = _answers(task, said_of, [sample["doc_hash"][:16] for sample in first])
    for place, of_filter in enumerate(by_filter.values()):
        for metric in of_filter[0]["metrics"]:
            values = [sample.get(metric) for sample in of_filter]
            if all(isinstance(value, (bool, int, float)) or hasattr(value, "item") for value in values):
                name = metric if place == 0 else f"{metric},{of_filter[0]['filter']}"
                found.setdefault("metrics", {})[name] = [_number(value) for value in values]
    return found


def _unscored(task: ConfigurableTask, problem: str) -> dict[str, Any]:
    """A task whose metrics could not be made: what the model said of its questions is kept."""
    by_question: dict[int, list[Any]] = collections.defaultdict(list)
    for instance in sorted(task.instances, key=lambda each: each.idx):
        if instance.resps:
            by_question[instance.doc_id].append(instance)
    questions = [by_question[number] for number in sorted(by_question)]
    hashes = [_hash(of_one[0].doc) for of_one in questions]
    metric = {"name": next(iter(task.aggregation()), "none"), "value": None, "error": None, "higher_is_better": True}
    answers = _answers(task, [[instance.resps[0] for instance in of_one] for of_one in questions], hashes)
    return {"metrics": [metric], "samples": answers, "problem": problem}


def _hash(doc: Any) -> str:
    """As lm-eval has it in its samples."""
    return str(hash_string(json.dumps(doc, indent=2, default=handle_non_serializable, ensure_ascii=False)))[:16]


def _score(model: HarnessModel, task: ConfigurableTask, given: dict[str, Any]) -> dict[str, Any]:
    name = task.task_name
    task.set_fewshot_seed(given["seed"])  # the same examples for every run
    try:
        found = lm_eval.evaluator.evaluate(
            model, {"tasks": {name: task}}, limit=given["limit"], bootstrap_iters=RESAMPLES, log_samples=True
        )
    except Exception as error:  # of the functions of a task: what others scored is not lost
        return _unscored(task, f"{name}: {said(error)}")
    results, samples = found["results"][name], found["samples"][name]
    filters = list(dict.fromkeys(sample["filter"] for sample in samples))
    better = found["higher_is_better"].get(name, {})
    order = [metric["metric"] for metric in task.config.metric_list or ()]
    metrics = []
    for key, value in results.items():
        metric, _, of_filter = key.partition(",")
        if of_filter not in filters or metric.endswith("_stderr"):
            continue
        error = _number(results.get(f"{metric}_stderr,{of_filter}"))
        place = (filters.index(of_filter), order.index(metric) if metric in order else len(order))
        shown = metric if of_filter == filters[0] else key
        metrics.append((place, {"name": shown, "value": _number(value), "error": error, "higher_is_better": bool(better.get(metric, True))}))
    if not metrics:
        return _unscored(task, f"{name}: expected a metric of every question, got none")
    return {"metrics": [metric for _, metric in sorted(metrics, key=lambda each: each[0])], "samples": _samples(task, samples)}


def scores(given: dict[str, Any]) -> dict[str, Any]:
    """Of each run on each task with each number of examples.

    ``given`` has ``runs``, folders; ``names`` or ``folder``; ``data``, ``continuation``, folders or None; ``shots``, a list in
    which None is the task's own number; ``limit``, ``batch``, ``seed``. Data, requests and what each run can be asked are checked
    first. Raises ValueError and OSError, in one line; a score that a task's own functions fail to make has a ``problem`` instead.
    """
    wanted: Wanted = {}
    for shots in given["shots"]:
        for task in _tasks(given, shots):
            wanted.setdefault((task.task_name, _shots_of(task, shots)), task)
    tasks = []
    for (name, examples), task in wanted.items():
        task.set_config("num_fewshot", examples)
        if not set(task.aggregation()) - {"bypass"}:
            raise ValueError(f"{name}: metric_list: expected a metric of lm-eval, got none")
        tasks.append({"name": name, "shots": examples, "kind": task.OUTPUT_TYPE} | _baselines(task, given["limit"]))
    _expect_answerable(given, wanted)
    runs = []
    for run in given["runs"]:
        model = HarnessModel(run, batch_size=given["batch"], seed=given["seed"])
        of_run = []
        for (name, examples), task in wanted.items():
            print(f"{run}: {name}, {examples}-shot", file=sys.stderr, flush=True)
            of_run.append(_score(model, task, given))
        runs.append(of_run)
    return {"lm_eval": lm_eval.__version__, "tasks": tasks, "runs": runs}
