"""Tasks of lm-eval with data from files: nothing is downloaded."""

from __future__ import annotations

import functools
import math
import pathlib
from collections.abc import Callable
from typing import Any

import datasets
import lm_eval.tasks
from lm_eval.api.task import ConfigurableTask
from lm_eval.tasks._yaml_loader import load_yaml

from cogwheel.harness.problems import said
from cogwheel.harness.rows import ANY_COLUMNS, Columns, keyed_choices, label_among, read_split

# By name, where lm-eval describes the task below its folder of tasks, and what it reads of its data.
NAMED = {
    "arc_easy": ("arc/arc_easy.yaml", Columns(("question", "choices", "answerKey"), keyed_choices)),
    "arc_challenge": ("arc/arc_challenge.yaml", Columns(("question", "choices", "answerKey"), keyed_choices)),
    "piqa": ("piqa/piqa.yaml", Columns(("goal", "sol1", "sol2", "label"), label_among((0, 1), "sol1", "sol2"))),
    "social_iqa": (
        "siqa/siqa.yaml",
        Columns(
            ("context", "question", "answerA", "answerB", "answerC", "label"),
            label_among(("1", "2", "3"), "answerA", "answerB", "answerC"),
        ),
    ),
    "mrpc": ("glue/mrpc/default.yaml", Columns(("sentence1", "sentence2", "label"), label_among((0, 1)))),
    "sst2": ("glue/sst2/default.yaml", Columns(("sentence", "label"), label_among((0, 1)))),
    "mnli": ("glue/mnli/default.yaml", Columns(("premise", "hypothesis", "label"), label_among((0, 1, 2)))),
}  # fmt: skip

# Which words follow in held-out text, among words from elsewhere in it; the questions are the executable's.
CONTINUATION = {
    "task": "continuation",
    "output_type": "multiple_choice",
    "test_split": "test",
    "doc_to_text": "context",
    "doc_to_target": "label",
    "doc_to_choice": "choices",
    "target_delimiter": "",
    "num_fewshot": 0,
    # Choices differ in length.
    "metric_list": [{"metric": name, "aggregation": "mean", "higher_is_better": True} for name in ("acc_norm", "acc")],
}


class _Aggregation:
    """Another aggregation, and NaN where the metric of all questions is no number: the perplexity of hopeless guesses overflows.

    Equal to the other, by which lm-eval finds the standard error of an aggregation.
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function
        functools.update_wrapper(self, function)  # lm-eval prints its name

    def __call__(self, items: Any) -> Any:
        try:
            return self.function(items)
        except ArithmeticError:
            return math.nan

    def __eq__(self, other: object) -> bool:
        return self.function == (other.function if isinstance(other, _Aggregation) else other)

    def __hash__(self) -> int:
        return hash(self.function)


def _with_data(config: dict[str, Any], folder: pathlib.Path, shots: int | None, columns: Columns = ANY_COLUMNS) -> dict[str, Any]:
    """The task on files of ``folder`` in place of its own data: what it is evaluated on, and with shots what these are drawn from."""
    evaluated = config.get("test_split") or config.get("validation_split") or config.get("training_split")
    fewshot = config.get("fewshot_split") or config.get("training_split") or config.get("validation_split")
    given = shots if shots is not None and config.get("num_fewshot") != 0 else config.get("num_fewshot")
    data = {evaluated: read_split(folder, evaluated, columns)}
    if given and fewshot:
        if fewshot not in data:
            data[fewshot] = read_split(folder, fewshot, columns)
        # lm-eval draws one more, in case the question itself is among them.
        if len(data[fewshot]) <= given:
            raise ValueError(f"{folder}: {fewshot}: expected more than {given} rows to draw examples from, got {len(data[fewshot])}")

    def from_files(**_: Any) -> dict[str, datasets.Dataset]:
        return data

    splits = [f"{name}_split" for name in ("training", "validation", "test", "fewshot")]
    missing = {split: None for split in splits if config.get(split) not in data}
    return config | missing | {"custom_dataset": from_files, "dataset_path": None, "dataset_name": None, "dataset_kwargs": None}


def _made(config: dict[str, Any], where: str) -> ConfigurableTask:
    config = {key: value for key, value in config.items() if key not in ("tag", "group")}
    metadata = config.get("metadata")
    config["metadata"] = metadata if isinstance(metadata, dict) else {"version": 0}
    try:
        made = ConfigurableTask(config=config)
    except Exception as error:  # of whatever the description or its functions do
        raise ValueError(f"{where}: expected a task of lm-eval with its data on this machine, got {said(error)}") from error
    made._aggregation_list = {name: _Aggregation(function) for name, function in made._aggregation_list.items()}
    return made


def named_task(name: str, data: pathlib.Path, shots: int | None) -> ConfigurableTask:
    """One of ``NAMED``, as lm-eval describes it."""
    path, columns = NAMED[name]
    config = load_yaml(pathlib.Path(lm_eval.tasks.__file__).parent / path, resolve_func=True)
    return _made(_with_data(config, data / name, shots, columns), name)


def continuation_task(folder: pathlib.Path) -> ConfigurableTask:
    """Of questions in ``folder``."""
    return _made(_with_data(dict(CONTINUATION), folder, 0), "continuation")


def _expect_one_task(path: pathlib.Path, config: dict[str, Any]) -> None:
    """What a file may not be, since nothing would be scored of it, or half."""
    if "class" in config:
        raise ValueError(f"{path}: expected a task that is all YAML, got a class")
    if "task_list" in config:
        raise ValueError(f"{path}: expected a task in a file of its own, got a task_list")
    if isinstance(config.get("task"), list) and any(isinstance(each, dict) for each in config["task"]):
        raise ValueError(f"{path}: expected a group of tasks by their names, got one that describes a task")


def folder_tasks(folder: pathlib.Path, data: pathlib.Path | None, shots: int | None) -> list[ConfigurableTask]:
    """Those that YAML files below ``folder`` describe, with data of ``data/<task>`` where there is such a folder."""
    made: dict[str, ConfigurableTask] = {}
    for path in sorted(folder.glob("**/*.yaml")):
        try:
            config = load_yaml(path, resolve_func=True)
        except Exception as error:
            raise ValueError(f"{path}: expected a task of lm-eval, got {said(error)}") from error
        if isinstance(config, dict):
            _expect_one_task(path, config)
        name = config.get("task") if isinstance(config, dict) else None
        if not isinstance(name, str) or "group" in config:  # a part that others include, or names of tasks
            continue
        if name in made:
            raise ValueError(f"{path}: expected a task of its own, got {name} once more")
        own = data / name if data is not None else None
        made[name] = _made(_with_data(config, own, shots) if own is not None and own.is_dir() else config, str(path))
    if not made:
        raise ValueError(f"{folder}: expected YAML files with tasks of lm-eval, got none")
    return list(made.values())
