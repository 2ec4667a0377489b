"""Scores of several runs on the same questions."""

from __future__ import annotations

import collections
import math
import pathlib
import sys
from typing import Any

import lm_eval
import lm_eval.evaluator
from lm_eval.api.task import ConfigurableTask

from cogwheel.harness.model import HarnessModel
from cogwheel.harness.tasks import continuation_task, folder_tasks, named_task

# Of a metric that is no mean, whose error lm-eval takes from a bootstrap, as many as it takes itself of slow ones.
RESAMPLES = 100


def _tasks(given: dict[str, Any], shots: int | None) -> list[ConfigurableTask]:
    data = pathlib.Path(given["data"]) if given["data"] else None
    if given["folder"]:
        return folder_tasks(pathlib.Path(given["folder"]), data, shots)
    return [continuation_task(pathlib.Path(given["continuation"])) if name == "continuation" else named_task(name, data, shots) for name in given["names"]]


def _decided(task: ConfigurableTask, shots: int | None) -> int:
    """Of how many examples: a description that says 0 means it, as for lm-eval itself."""
    own = task.get_config("num_fewshot")
    return own or 0 if shots is None or own == 0 else shots


def _guesses(task: ConfigurableTask, limit: int | None) -> dict[str, Any]:
    """Of a multiple choice, the shares that are right by chance and of the commonest answer. ValueError for a target that is none."""
    if task.OUTPUT_TYPE != "multiple_choice":
        return {"chance": None, "commonest": None}
    targets: collections.Counter[int] = collections.Counter()
    chance = []
    for number, doc in task.doc_iterator(rank=0, limit=limit, world_size=1):
        choices, target = task.doc_to_choice(doc), task.doc_to_target(doc)
        if isinstance(target, str):
            target = choices.index(target) if target in choices else -1
        if isinstance(target, list):  # several are right
            return {"chance": None, "commonest": None}
        if not isinstance(target, int) or not 0 <= target < len(choices):
            raise ValueError(f"{task.task_name}: row {number + 1}: expected the number of a right answer, 0 to {len(choices) - 1}, got {target}")
        targets[target] += 1
        chance.append(1 / len(choices))
    return {"chance": math.fsum(chance) / len(chance), "commonest": max(targets.values()) / len(chance)}


def _number(value: Any) -> float | None:
    """None for what is no number, which lm-eval says as a text."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        return None
    return found if math.isfinite(found) else None


def _samples(task: ConfigurableTask, samples: list[dict[str, Any]], metrics: list[str]) -> dict[str, Any]:
    """In the order of the questions: what the model said, and each metric that is one number of one question."""
    samples = sorted(samples, key=lambda sample: sample["doc_id"])
    said = [[response[0] for response in sample["resps"]] for sample in samples]
    found: dict[str, Any] = {"hashes": [sample["doc_hash"][:16] for sample in samples]}
    if task.OUTPUT_TYPE == "generate_until":
        found["texts"] = [each[0] for each in said]
    else:
        found["log_likelihoods"] = [[_number(each[0] if isinstance(each, (tuple, list)) else each) for each in of_one] for of_one in said]
    for metric in metrics:
        values = [sample.get(metric) for sample in samples]
        if all(isinstance(value, (bool, int, float)) or hasattr(value, "item") for value in values):
            found.setdefault("metrics", {})[metric] = [_number(value) for value in values]
    return found


def _score(model: HarnessModel, task: ConfigurableTask, shots: int, given: dict[str, Any]) -> dict[str, Any]:
    name = task.task_name
    task.set_config("num_fewshot", shots)
    task.set_fewshot_seed(given["seed"])  # the same examples for every run
    found = lm_eval.evaluator.evaluate(model, {"tasks": {name: task}}, limit=given["limit"], bootstrap_iters=RESAMPLES, log_samples=True)
    results, samples = found["results"][name], found["samples"][name]
    filters = list(dict.fromkeys(sample["filter"] for sample in samples))
    metrics, better = [], found["higher_is_better"].get(name, {})
    order = [metric["metric"] for metric in task.config.metric_list or ()]
    for key, value in results.items():
        metric, _, of_filter = key.partition(",")
        if of_filter != filters[0] or metric.endswith("_stderr"):
            continue
        metrics.append({"name": metric, "value": _number(value), "error": _number(results.get(f"{metric}_stderr,{of_filter}")), "higher_is_better": bool(better.get(metric, True))})
    metrics.sort(key=lambda metric: order.index(metric["name"]) if metric["name"] in order else len(order))
    first = [sample for sample in samples if sample["filter"] == filters[0]]
    return {"metrics": metrics, "samples": _samples(task, first, [metric["name"] for metric in metrics])}


def scores(given: dict[str, Any]) -> dict[str, Any]:
    """Of each run on each task with each number of examples.

    ``given`` has ``runs``, folders; ``names`` or ``folder``; ``data``, ``continuation``, folders or None; ``shots``, a list in
    which None is the task's own number; ``limit``, ``batch``, ``seed``. Raises ValueError and OSError, in one line.
    """
    wanted: dict[tuple[str, int], ConfigurableTask] = {}
    for shots in given["shots"]:
        for task in _tasks(given, shots):
            wanted.setdefault((task.task_name, _decided(task, shots)), task)
    tasks = []
    for (name, shots), task in wanted.items():
        tasks.append({"name": name, "shots": shots, "kind": task.OUTPUT_TYPE} | _guesses(task, given["limit"]))
    runs = []
    for run in given["runs"]:
        model = HarnessModel(run, batch_size=given["batch"])
        of_run = []
        for (name, shots), task in wanted.items():
            print(f"{run}: {name}, {shots}-shot", file=sys.stderr, flush=True)
            try:
                of_run.append(_score(model, task, shots, given))
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error
        runs.append(of_run)
    return {"lm_eval": lm_eval.__version__, "tasks": tasks, "runs": runs}
