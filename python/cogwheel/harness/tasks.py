"""Tasks of lm-eval with data from files: nothing is downloaded."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import datasets
import lm_eval.tasks
import pyarrow.parquet
from lm_eval.api.task import ConfigurableTask
from lm_eval.tasks._yaml_loader import load_yaml

# By name, where lm-eval describes the task below its folder of tasks, and the columns of the data that it reads.
NAMED = {
    "arc_easy": ("arc/arc_easy.yaml", ("question", "choices", "answerKey")),
    "arc_challenge": ("arc/arc_challenge.yaml", ("question", "choices", "answerKey")),
    "piqa": ("piqa/piqa.yaml", ("goal", "sol1", "sol2", "label")),
    "social_iqa": ("siqa/siqa.yaml", ("context", "question", "answerA", "answerB", "answerC", "label")),
    "mrpc": ("glue/mrpc/default.yaml", ("sentence1", "sentence2", "label")),
    "sst2": ("glue/sst2/default.yaml", ("sentence", "label")),
    "mnli": ("glue/mnli/default.yaml", ("premise", "hypothesis", "label")),
}  # fmt: skip

# What follows a held-out text, among other parts of it; the questions are the executable's.
CONTINUATION = {
    "task": "continuation",
    "output_type": "multiple_choice",
    "test_split": "test",
    "doc_to_text": "context",
    "doc_to_target": "label",
    "doc_to_choice": "choices",
    "target_delimiter": "",
    "num_fewshot": 0,
    "metric_list": [{"metric": name, "aggregation": "mean", "higher_is_better": True} for name in ("acc_norm", "acc")],  # choices differ in length
}


def _rows_of(path: pathlib.Path) -> datasets.Dataset:
    rows: list[dict[str, Any]] = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"{path}:{number}: expected a JSON object, got {error.msg}") from None
            if not isinstance(row, dict):
                raise ValueError(f"{path}:{number}: expected a JSON object, got {type(row).__name__}")
            rows.append(row)
    if not rows:
        raise ValueError(f"{path}: expected rows, got none")
    try:
        return datasets.Dataset.from_list(rows)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: expected rows of the same columns and types, got {error}") from None


def _table_of(path: pathlib.Path) -> datasets.Dataset:
    try:
        table = pyarrow.parquet.read_table(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: expected a parquet file, got {error}") from None
    if table.num_rows == 0:
        raise ValueError(f"{path}: expected rows, got none")
    return datasets.Dataset(datasets.table.InMemoryTable(table))


def read_split(folder: pathlib.Path, split: str, columns: tuple[str, ...] = ()) -> datasets.Dataset:
    """What ``folder`` has of a split, as ``split.jsonl`` or ``split.parquet``, with at least these columns.

    Raises ValueError that names the file and what is wrong with it, FileNotFoundError where there is none.
    """
    found = [path for path in (folder / f"{split}.jsonl", folder / f"{split}.parquet") if path.is_file()]
    if not found:
        raise FileNotFoundError(f"{folder}: expected {split}.jsonl or {split}.parquet, got none")
    data = _rows_of(found[0]) if found[0].suffix == ".jsonl" else _table_of(found[0])
    missing = [column for column in columns if column not in data.column_names]
    if missing:
        raise ValueError(f"{found[0]}: expected the columns {', '.join(columns)}, got none of the name {missing[0]}")
    return data


def _with_data(config: dict[str, Any], folder: pathlib.Path, shots: int | None, columns: tuple[str, ...] = ()) -> dict[str, Any]:
    """The task on files of ``folder`` in place of its own data: what it is evaluated on, and with shots what these are drawn from."""
    evaluated = config.get("test_split") or config.get("validation_split") or config.get("training_split")
    fewshot = config.get("fewshot_split") or config.get("training_split") or config.get("validation_split")
    given = shots if shots is not None and config.get("num_fewshot") != 0 else config.get("num_fewshot")
    data = {evaluated: read_split(folder, evaluated, columns)}
    if given and fewshot and fewshot not in data:
        data[fewshot] = read_split(folder, fewshot, columns)

    def from_files(**_: Any) -> dict[str, datasets.Dataset]:
        return data

    missing = {f"{name}_split": None for name in ("training", "validation", "test", "fewshot") if config.get(f"{name}_split") not in data}
    return config | missing | {"custom_dataset": from_files, "dataset_path": None, "dataset_name": None, "dataset_kwargs": None}


def _made(config: dict[str, Any], whence: str) -> ConfigurableTask:
    config = {key: value for key, value in config.items() if key not in ("tag", "group", "task_list")}
    metadata = config.get("metadata")
    config["metadata"] = metadata if isinstance(metadata, dict) else {"version": 0}
    try:
        return ConfigurableTask(config=config)
    except Exception as error:  # of whatever the description or its functions do
        raise ValueError(f"{whence}: expected a task of lm-eval with its data on this machine, got {type(error).__name__}: {error}") from error


def named_task(name: str, data: pathlib.Path, shots: int | None) -> ConfigurableTask:
    """One of ``NAMED``, as lm-eval describes it."""
    path, columns = NAMED[name]
    config = load_yaml(pathlib.Path(lm_eval.tasks.__file__).parent / path, resolve_func=True)
    return _made(_with_data(config, data / name, shots, columns), name)


def continuation_task(folder: pathlib.Path) -> ConfigurableTask:
    """Of questions in ``folder``."""
    return _made(_with_data(dict(CONTINUATION), folder, 0), "continuation")


def folder_tasks(folder: pathlib.Path, data: pathlib.Path | None, shots: int | None) -> list[ConfigurableTask]:
    """Those that YAML files below ``folder`` describe, with data of ``data/<task>`` where there is such a folder."""
    made: dict[str, ConfigurableTask] = {}
    for path in sorted(folder.glob("**/*.yaml")):
        try:
            config = load_yaml(path, resolve_func=True)
        except Exception as error:
            raise ValueError(f"{path}: expected a task of lm-eval, got {type(error).__name__}: {error}") from error
        name = config.get("task") if isinstance(config, dict) else None
        if not isinstance(name, str) or "group" in config:  # a part that others include, or a list of tasks
            continue
        if "class" in config:
            raise ValueError(f"{path}: expected a task that is all YAML, got a class")
        if name in made:
            raise ValueError(f"{path}: expected a task of its own, got {name} once more")
        own = data / name if data is not None else None
        made[name] = _made(_with_data(config, own, shots) if own is not None and own.is_dir() else config, str(path))
    if not made:
        raise ValueError(f"{folder}: expected YAML files with tasks of lm-eval, got none")
    return list(made.values())
