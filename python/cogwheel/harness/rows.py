"""Rows of data in files, as tasks of lm-eval are given them."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Callable
from typing import Any

import datasets
import pyarrow.parquet

Row = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Columns:
    """What every row has: these columns, and ``answer``, which raises ValueError where a row has no right answer to choose."""

    names: tuple[str, ...] = ()
    answer: Callable[[Row], None] = lambda row: None


ANY_COLUMNS = Columns()


def label_among(labels: tuple[Any, ...], *choices: str) -> Callable[[Row], None]:
    """A label that is one of these, and texts to choose from."""

    def check(row: Row) -> None:
        if type(row["label"]) is not type(labels[0]) or row["label"] not in labels:
            raise ValueError(f"label: expected {labels[0]!r} to {labels[-1]!r}, got {row['label']!r}")
        for choice in choices:
            if not str(row[choice]).strip():
                raise ValueError(f"{choice}: expected a text, got none")

    return check


def keyed_choices(row: Row) -> None:
    """The choices of ARC: texts beside their labels, one of which is the key."""
    texts, labels = row["choices"]["text"], row["choices"]["label"]
    if len(texts) != len(labels) or not all(isinstance(text, str) and text.strip() for text in texts):
        raise ValueError(f"choices: expected a text of each of {len(labels)} labels, got {texts!r}")
    if row["answerKey"] not in labels:
        raise ValueError(f"answerKey: expected {', '.join(map(str, labels))}, got {row['answerKey']!r}")


def _rows_of(path: pathlib.Path) -> datasets.Dataset:
    rows: list[Row] = []
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: expected UTF-8, got the byte {error.object[error.start]:#04x} at {error.start}") from None
    for number, line in enumerate(lines, 1):
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


def _check_rows(path: pathlib.Path, data: datasets.Dataset, columns: Columns) -> None:
    values = {name: data.data.column(name).to_pylist() for name in columns.names}
    for number in range(len(data)):
        row = {name: of_name[number] for name, of_name in values.items()}
        empty = next((name for name, value in row.items() if value is None), None)
        try:
            if empty is not None:
                raise ValueError(f"{empty}: expected a value, got none")
            columns.answer(row)
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{path}: row {number + 1}: {error}") from None


def read_split(folder: pathlib.Path, split: str, columns: Columns = ANY_COLUMNS) -> datasets.Dataset:
    """What ``folder`` has of a split, as ``split.jsonl`` or ``split.parquet``, with at least these columns in every row.

    Raises ValueError that names the file and what is wrong with it, FileNotFoundError where there is none.
    """
    found = [path for path in (folder / f"{split}.jsonl", folder / f"{split}.parquet") if path.is_file()]
    if not found:
        raise FileNotFoundError(f"{folder}: expected {split}.jsonl or {split}.parquet, got none")
    data = _rows_of(found[0]) if found[0].suffix == ".jsonl" else _table_of(found[0])
    missing = [name for name in columns.names if name not in data.column_names]
    if missing:
        raise ValueError(f"{found[0]}: expected the columns {', '.join(columns.names)}, got none of the name {missing[0]}")
    _check_rows(found[0], data, columns)
    return data
