"""`cogwheel.distributed`: what ranks make of a cut text is what one rank makes of the whole."""

import json
import os
import pathlib
import re
import subprocess
import sys

import cut_texts
import pytest
from test_options import options_of

HERE = pathlib.Path(__file__).parent


def run(ranks, folder):
    """By case, what any rank found wrong."""
    processes = [
        subprocess.Popen(
            [sys.executable, HERE / "cut_texts.py", str(rank), str(ranks), folder],
            env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for rank in range(ranks)
    ]  # fmt: skip
    try:
        said = [process.communicate(timeout=280)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    problems = {}
    for rank, (process, text) in enumerate(zip(processes, said)):
        assert process.returncode == 0, text
        for case, lines in json.loads((folder / f"{rank}.json").read_text()).items():
            problems.setdefault(case, []).extend(f"rank {rank}: {line}" for line in lines)
    return problems


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_ranks_make_what_one_makes(ranks, tmp_path):
    problems = run(ranks, tmp_path)
    assert len(problems) > 300
    wrong = [f"{case}: {line}" for case, lines in problems.items() for line in lines]
    assert not wrong, "\n".join(wrong)


def test_every_option_has_a_case():
    options = {name for case in cut_texts.OPTIONS.values() for name in case}
    assert options == set(options_of("attention"))


def test_documented_layouts_and_methods_exist(repository):
    text = (repository / "docs/distributed.md").read_text()
    for name in ("zigzag", "contiguous", "gather", "heads", "chain"):
        assert re.search(rf"`{name}`", text), name
