"""Comparisons of mechanisms from Python: the executable trains, this starts it and reads what it writes."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import cogwheel_command
import torch

from cogwheel import _bindings, catalogue, trained
from cogwheel.comparison_progress import Progress
from cogwheel.shown import Shown


def _rows(rows: list[dict[str, Any]]) -> Any:
    """A frame where pandas is installed, else the rows."""
    try:
        import pandas
    except ImportError:
        return rows
    return pandas.DataFrame(rows)


class Comparison(Shown):
    """A comparison in its folder, as it was when it was read. docs/results-format.md says what its numbers are.

    A notebook shows its verdict, its table and its curves; ``print`` says the same.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        _bindings.classes()
        self.folder = pathlib.Path(folder).absolute()  # wherever the process goes
        self._written: str = torch.ops.cogwheel.comparison_results(str(self.folder))
        self.results: dict[str, Any] = json.loads(self._written)  # results.json

    @property
    def verdict(self) -> str:
        """The conclusion, in one sentence."""
        return self.results["verdict"]

    @property
    def interrupted(self) -> bool:
        """Whether runs are missing; ``compare(resume=folder)`` makes them."""
        return self.results["interrupted"]

    @property
    def report(self) -> pathlib.Path:
        """The report, one page of HTML that opens offline."""
        return self.folder / "report.html"

    @property
    def summary(self) -> Any:
        """One row for each mechanism: ``mean``, ``interval``, ``difference``, ``p_adjusted`` …; a frame of pandas where that
        is installed, else a list of dicts, as are ``runs`` and ``curves``."""
        return _rows(self.results["summary"])

    @property
    def runs(self) -> Any:
        """One row for each mechanism and seed, without its curve."""
        return _rows([{key: value for key, value in run.items() if key not in ("curve", "by_difficulty")} for run in self.results["runs"]])

    @property
    def curves(self) -> Any:
        """One row for each point of each run: ``mechanism``, ``seed``, ``step``, ``train_loss``, and the measures of the task."""
        return _rows([
            {"mechanism": run["mechanism"], "seed": run["seed"], **{key: value for key, value in point.items() if key != "heads"}}
            for run in self.results["runs"] for point in run["curve"]
        ])  # fmt: skip

    def load(self, mechanism: str, seed: int = 1) -> trained.Model:
        """The trained model of a run, as :func:`cogwheel.load` gives it.

        Raises:
            ValueError: a mechanism or seed that the comparison does not have; a run that cannot be loaded.
        """
        return trained.load(torch.ops.cogwheel.run_of_comparison(str(self.folder), self._written, str(mechanism), seed))

    @functools.cached_property
    def _made(self) -> tuple[str, str]:
        return tuple(torch.ops.cogwheel.shown_comparison(self._written, str(self.report) if self.report.is_file() else ""))

    def _shown(self) -> tuple[str, str]:
        return self._made


def results(folder: str | os.PathLike[str]) -> Comparison:
    """The comparison in a folder, of ``cogwheel compare`` or :func:`compare`; one that still runs, as far as it is.

    Raises:
        ValueError: a folder without one, or with one that is damaged.
    """
    return Comparison(folder)


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _words(keys: Mapping[str, Any]) -> Iterator[str]:
    """The options of the command line that keys stand for."""
    for key, value in keys.items():
        option = "--" + key.replace("_", "-")
        if value is True:
            yield option
        elif isinstance(value, Mapping):
            yield from (f"{option}={name}={_word(each)}" for name, each in value.items())
        elif isinstance(value, (list, tuple)):
            yield from (f"{option}={each}" for each in value or [""])
        elif value is not None and value is not False:
            yield f"{option}={value}"


def _named(keys: Mapping[str, Any]) -> Iterator[str]:
    """Names in keys, and of the mechanisms of the comparison that they continue."""
    for word in _words(keys):
        yield from re.findall(r"[a-z][a-z0-9_]*", word.partition("=")[2])
    for key in ("resume", "add"):
        value = keys.get(key)
        folder = value[-1] if isinstance(value, (list, tuple)) and value else value
        if isinstance(folder, (str, os.PathLike)):
            with contextlib.suppress(ValueError):  # of which the executable says what is wrong
                yield from (plan["name"] for plan in results(folder).results["mechanisms"])


def _definitions(keys: Mapping[str, Any]) -> Iterator[str]:
    """Options that define what a user defined in this process and keys need."""
    own = {entry["name"]: entry for entry in catalogue.mechanisms() if entry["definition"] is not None}
    for definition in dict.fromkeys(own[name]["definition"] for name in sorted(own.keys() & set(_named(keys)))):
        header, is_header, _ = definition.partition(" sha256:")
        yield f"--mechanism-file={header}" if is_header else f"--define={definition}"


def _run(words: list[str]) -> tuple[int, list[str], list[str]]:
    """The exit status of the executable, and the lines of both of its outputs.

    Ctrl-C has it save and stop; a second one ends it at once. It has a session of its own, because a notebook's Ctrl-C goes
    to all processes of the kernel, and would count twice.
    """
    # A file, unlike a pipe that is not read meanwhile, is never full.
    with Progress() as progress, tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as printed, subprocess.Popen(
        [str(cogwheel_command.executable()), *words], stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.PIPE,
        text=True, encoding="utf-8", errors="replace", env=cogwheel_command.environment(), start_new_session=True,
    ) as process:  # fmt: skip
        said: list[str] = []
        try:
            while True:
                try:
                    if not (line := process.stderr.readline()):
                        break
                    said.append(line.rstrip("\n"))
                    progress.show(said[-1])
                except KeyboardInterrupt:
                    process.send_signal(signal.SIGINT)
            status = process.wait()
            printed.seek(0)
            return status, printed.read().splitlines(), said
        except BaseException:
            process.kill()
            raise


def compare(attention: Any = None, task: str | None = None, **keys: Any) -> Comparison:
    """Trains several mechanisms under one matched budget, as ``cogwheel compare`` does, and gives what it found.

        found = cogwheel.compare(attention=["softmax", "cog"], preset="tiny", seeds=3, out="first")
        found.verdict, found.summary, found.load("cog", seed=1)

    Keys are the options of the command line without dashes (``cogwheel compare --help``), which also says what they are by
    default: ``preset``, ``seeds``, ``steps``, ``text``, ``baseline``, ``match``, ``learning_rate``, ``set={"model.width": 64}``,
    ``out``, ``overwrite=True`` … ``resume=folder`` continues one that was interrupted, ``add=("gla", folder)`` adds to it.

    Ctrl-C stops it and keeps what is done: the comparison so far is given, whose ``interrupted`` is true. Progress is a bar
    of tqdm where that is installed, else a line for each run.

    Args:
        attention: names of mechanisms, or of hybrids such as ``"gla+softmax"``, and mechanisms of one's own.
        task: what is learned.
        **keys: a list is an option given several times, a dict ``KEY=VALUE`` for each, True an option without a value.

    Raises:
        ValueError: what the executable refuses, or why a run failed, in its one line.
        KeyboardInterrupt: Ctrl-C before a run began.
        FileNotFoundError: no executable.
        RuntimeError: one that was killed.
    """
    if "join" in keys:
        raise ValueError("compare: expected no join: `cogwheel compare --join DIR` works on a comparison that another process makes, got one")
    keys = {"attention": attention, "task": task, **keys}
    status, printed, said = _run(["compare", *_words(keys), *_definitions(keys)])
    if status in (130, -signal.SIGINT):
        # The line that says where it stopped, as cogwheel/compare/comparison_job.cpp writes it.
        partial = re.search(r"the partial report is (.*/report\.html), and ", said[-1]) if said else None
        if partial is None:
            raise KeyboardInterrupt(said[-1].removeprefix("cogwheel: ") if said else "")
        folder = pathlib.Path(partial[1]).parent
        print(f"stopped; cogwheel.compare(resume={str(folder)!r}) continues", file=sys.stderr)
        return Comparison(folder)
    report = pathlib.Path(printed[-1]) if printed and printed[-1].endswith("report.html") else None
    if status < 0:
        raise RuntimeError(f"compare: expected a finished comparison, got signal {-status}")
    if status != 0 or report is None:
        lines = [line.removeprefix("cogwheel: ") for line in said if line.startswith("cogwheel: ")]
        raise ValueError(lines[-1] if lines else f"compare: expected a finished comparison, got status {status}: {' '.join((said or printed)[-1:])}")
    return Comparison(report.parent)
