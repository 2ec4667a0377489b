"""Errors of `import cogwheel` where the operators are missing or built for another torch."""

import os
import subprocess
import sys

import pytest

import cogwheel


def import_with(operators, repository, code="import cogwheel"):
    environment = {**os.environ, "PYTHONPATH": str(repository / "python"), "COGWHEEL_OPERATORS": str(operators)}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)


def last_line(result):
    assert result.returncode != 0
    return result.stderr.strip().splitlines()[-1]


def test_operators_that_are_not_built(repository, tmp_path):
    line = last_line(import_with(tmp_path / "nothing.so", repository))
    assert line.startswith("cogwheel._library.OperatorsError: cogwheel: operators: expected the file ")
    assert issubclass(cogwheel._library.OperatorsError, ImportError) and issubclass(cogwheel._library.OperatorsError, ValueError)
    assert "nothing.so, got none" in line and "./quickstart --setup-only" in line


def test_operators_that_do_not_load(repository, tmp_path):
    (tmp_path / "broken.so").write_bytes(b"not a library")
    line = last_line(import_with(tmp_path / "broken.so", repository))
    assert "expected a library built for torch" in line and "broken.so, which does not load" in line


def test_operators_built_for_another_torch(repository):
    operators = cogwheel._library.PATH
    pretend = "import torch; torch.__version__ = '2.99.1'; import cogwheel"
    line = last_line(import_with(operators, repository, pretend))
    assert "expected a library built for torch 2.99.1" in line and "which is built for 2." in line


@pytest.mark.alone
def test_importing_is_quick(repository):
    """Beside torch itself."""
    code = "import torch, time; start = time.perf_counter(); import cogwheel; print(time.perf_counter() - start)"
    result = import_with(cogwheel._library.PATH, repository, code)
    assert float(result.stdout) < 1.0, result.stdout


COMMAND = "import sys, cogwheel_command; sys.argv = ['cogwheel', '--version']; cogwheel_command.main()"


def test_the_command_beside_a_source_tree(repository, build_folder, tmp_path):
    """The executable of the build whose operators are named; else of an installed package behind the source tree."""

    def command(*paths, operators="", options=()):
        environment = {name: value for name, value in os.environ.items() if name != "COGWHEEL_OPERATORS"}
        environment |= {"PYTHONPATH": os.pathsep.join(map(str, paths))} | ({"COGWHEEL_OPERATORS": str(operators)} if operators else {})
        return subprocess.run([sys.executable, *options, "-c", COMMAND], env=environment, capture_output=True, text=True)

    source = repository / "python"
    of_build = command(source, operators=build_folder / "cogwheel/ops/libcogwheel_ops.so")
    assert of_build.stdout.strip() == cogwheel.__version__, of_build.stderr
    installed = tmp_path / "cogwheel/bin/cogwheel"
    installed.parent.mkdir(parents=True)
    installed.write_text("#!/bin/sh\necho installed $1\n")
    installed.chmod(0o755)
    assert command(source, tmp_path).stdout == "installed --version\n"
    installed.unlink()
    line = last_line(command(source, tmp_path, options=["-S"]))  # without site-packages, where one may be installed
    assert line.startswith("cogwheel: executable: expected bin/cogwheel in an installed package, got none in ")
    assert "COGWHEEL_OPERATORS" in line
