"""How far a comparison is: a bar of tqdm where that is installed, else a line for each run."""

import re
import sys
import warnings
from types import TracebackType
from typing import Any

# Lines of the executable (cogwheel/cli/progress.h): how many runs it will make; a step of one; one that is done.
_RUNS = re.compile(r".*: (\d+) of \d+ runs to do, ")
_STEP = re.compile(r"(.+): step (\d+)/(\d+)  (.*)")
_DONE = re.compile(r" +(\d+)/\d+ +(.*)")
# Of several workers: how many trials and runs are done, and how far those are that are being made.
_WORKERS = re.compile(r"done: \d+ of \d+(.*)")
_SHARE = re.compile(r" seed \d+ (\d+) %")


def _bar(runs: int) -> Any:
    """None without tqdm."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a notebook without widgets gets a bar of text
            from tqdm.auto import tqdm
            return tqdm(total=runs, bar_format="{percentage:3.0f} % |{bar}| {elapsed}, {remaining} left{desc}")  # fmt: skip
    except ImportError:
        return None


class Progress:
    """Shows the lines that a comparison writes."""

    def __init__(self) -> None:
        self._tqdm: Any = None
        self._done = 0

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._tqdm is not None:
            self._tqdm.close()

    def show(self, line: str) -> None:
        if begun := _RUNS.match(line):
            self._say(line)
            self._tqdm = _bar(int(begun[1]))
        elif step := _STEP.match(line):
            if self._tqdm is not None:
                # Trials of learning rates come before the runs, and are none.
                share = int(step[2]) / int(step[3]) if " seed " in step[1] else 0
                self._move(self._done + share, f"  {step[1]}  {step[4]}")
        elif workers := _WORKERS.match(line):
            if self._tqdm is not None:
                self._move(self._done + sum(map(int, _SHARE.findall(workers[1]))) / 100, f"  {workers[1].strip()}")
        elif done := _DONE.match(line):
            self._done = int(done[1])
            if self._tqdm is not None:
                self._move(self._done, f"  {' '.join(done[2].split())}")
            else:
                self._say(line)
        elif not line.startswith("cogwheel: "):  # which is raised
            self._say(line)

    def _move(self, runs: float, what: str) -> None:
        self._tqdm.n = runs
        self._tqdm.set_description_str(what, refresh=False)
        self._tqdm.refresh()

    def _say(self, line: str) -> None:
        if self._tqdm is not None:
            self._tqdm.write(line, file=sys.stderr)
        else:
            print(line, file=sys.stderr, flush=True)
