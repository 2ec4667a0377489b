"""The demos of examples/demos run, show what they promise, and say the same in C++ and in Python."""

import os
import re
import shutil
import subprocess
import sys

import pytest
from test_installed_library import build_against, prefix, run  # noqa: F401  prefix is a fixture

DEMOS = ("cog_layer", "dense_layer", "soft_dictionary", "induction")


def python_output(repository, demo):
    environment = {**os.environ, "PYTHONPATH": str(repository / "python")}
    return run(sys.executable, "-W", "error", repository / f"examples/demos/{demo}.py", env=environment)


@pytest.fixture(scope="module")
def programs(repository, prefix, tmp_path_factory):  # noqa: F811
    folder = tmp_path_factory.mktemp("demos")
    shutil.copytree(repository / "examples/demos", folder / "demos")
    build_against(prefix, folder / "demos", folder / "build")
    return folder / "build"


@pytest.mark.parametrize("demo", ["cog_layer", "dense_layer", "soft_dictionary"])
def test_both_languages_say_the_same(repository, programs, demo):
    assert run(programs / demo) == python_output(repository, demo)


def test_cog_layer(repository):
    printed = python_output(repository, "cog_layer")
    assert printed.startswith("output: 4 x 8")
    earlier, last = re.search(r"earlier rows by ([\d.]+), the last by ([\d.]+)", printed).groups()
    assert float(earlier) == 0 and float(last) > 0.1
    negative, smallest, largest = re.search(r"(\d+) of 10 weights.*: ([\d.]+) to ([\d.]+)", printed).groups()
    assert 0 < int(negative) < 10 and float(smallest) == float(largest) == 1
    assert "largest difference from sign(p) softmax|p|: 0.0000" in printed
    # The einsum trap: a diagonal is no product.
    assert float(re.search(r"differs from x W by up to ([\d.]+)", printed)[1]) > 0.5


def test_dense_layer(repository):
    printed = python_output(repository, "dense_layer")
    assert "output: 50 x 128" in printed
    assert "rows of weights sum to 1.0000 at least and 1.0000 at most" in printed
    unscaled = float(re.search(r"row, on average: ([\d.]+)", printed)[1])
    scaled = float(re.search(r"scaled by 1/√128: ([\d.]+)", printed)[1])
    assert unscaled > 0.9 and scaled < 0.5
    assert printed.rstrip().endswith("to within 0.0000")


def test_soft_dictionary(repository):
    rows = [list(map(float, line.split())) for line in python_output(repository, "soft_dictionary").splitlines()[1:-1]]
    found = [row[1] for row in rows]
    assert abs(found[0] - 3.5) < 0.1 and found[-1] == 5.0
    assert [row[2] for row in rows] == sorted(row[2] for row in rows)


def test_an_induction_head_foretells_only_what_repeats(repository, programs):
    assert run(programs / "induction").startswith("foretold 0 of 12")
    assert "11 of 11 in its repetition" in run(programs / "induction")
    guess, *learned = python_output(repository, "induction").splitlines()
    cost = float(guess.split()[-1])
    assert len(learned) == 2
    for line in learned:
        first, second = map(float, re.search(r": ([\d.]+) on the first half, ([\d.]+) on its repetition", line).groups())
        assert first > 0.7 * cost and second < 0.1 * cost, line
