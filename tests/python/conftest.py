"""Shared by the tests of this folder: the build they run, and the selection of cases."""

import collections
import itertools
import os
import pathlib
import signal
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.setdefault("COGWHEEL_BUILD", str(ROOT / "build")))

# The package of this source tree over the operators of the build folder, here and in every process that a test starts.
os.environ.setdefault("COGWHEEL_OPERATORS", str(BUILD / "cogwheel/ops/libcogwheel_ops.so"))
os.environ.setdefault("COGWHEEL_PYTHON", sys.executable)
# What a script runs in the background ignores SIGINT, and so would the tests of Ctrl-C and every process that they start.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT / "python"), os.environ.get("PYTHONPATH")]))


@pytest.fixture(scope="session")
def repository() -> pathlib.Path:
    return ROOT


@pytest.fixture(scope="session")
def build_folder() -> pathlib.Path:
    assert (BUILD / "CMakeCache.txt").is_file(), f"expected a build folder, got none at {BUILD}"
    return BUILD


@pytest.fixture(scope="session")
def cogwheel_executable() -> pathlib.Path:
    path = BUILD / "cogwheel/cli/cogwheel"
    assert path.is_file(), f"expected the executable {path}, got none; build it with ./quickstart --setup-only"
    return path


@pytest.fixture(scope="session")
def cogwheel_in(cogwheel_executable):
    """Of a folder, its command line on one thread: ``cogwheel_in(folder)("train", "run.toml", "--out", "run").stdout``."""

    def runner(folder, **environment):
        def run(*words, input=None, background=False):
            command = [cogwheel_executable, *(word if isinstance(word, bytes) else str(word) for word in words)]
            options = {"cwd": folder, "text": True, "env": {**os.environ, "OMP_NUM_THREADS": "1", **environment}}
            if background:
                return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
            return subprocess.run(command, capture_output=True, timeout=280, input=input, **options)

        run.folder = folder
        return run

    return runner


@pytest.fixture(scope="session")
def small_runs(cogwheel_executable, tmp_path_factory):
    """By kind of model, the folder of a small run (``small_runs.py``)."""
    from small_runs import SmallRuns  # which loads the package, over the operators chosen above

    return SmallRuns(cogwheel_executable, tmp_path_factory.mktemp("small_runs"))


@pytest.fixture(scope="session")
def small_comparison(cogwheel_executable, tmp_path_factory):
    """The folder of a comparison of softmax and cog with two seeds, made by ``cogwheel.compare``."""
    import cogwheel
    from notebook_comparison import KEYS, write_text

    folder = tmp_path_factory.mktemp("small_comparison")
    write_text(folder)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        return folder / cogwheel.compare(["softmax", "cog"], **KEYS, out="found").folder


@pytest.fixture
def launches(monkeypatch):
    """The names of the kernels for GPUs that are interpreted (``interpreted_kernels.py``): a test whose call was composed would show nothing."""
    from cogwheel.device_kernels import interpreted

    names, run = [], interpreted.run

    def counted(kernel, programs, given):
        names.append(kernel.fn.__name__)
        run(kernel, programs, given)

    monkeypatch.setattr(interpreted, "run", counted)
    yield names
    assert names


@pytest.fixture
def fast_mode(request) -> bool:
    """gradcheck's fast mode: products of the Jacobian with random vectors instead of its every element."""
    return not request.config.getoption("--all")


@pytest.fixture
def one_thread():
    """Steps of small models are faster by one thread, of which the machine always has one free."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="every case of every table, and the tests marked slow")


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        "diagonal(*together): without --all, of the cases of this test only so many that each value of each parameter "
        "occurs, and each combination of those of the parameters named together",
    )
    config.addinivalue_line(
        "markers", "one_of_each_kind: without --all, only for the mechanisms of ONE_OF_EACH_KIND, as the code has no others"
    )
    config.addinivalue_line("markers", "slow: only with --all")
    config.addinivalue_line("markers", "alone: needs the machine for itself (threads, speed), so no test runs beside it")


# Row maps with and without an exponent, a sign, a sink, scalars that are optional or required, a cosine for a score; a
# mixture of two maps and one with the mean; each way to compute a function of the whole matrix.
ONE_OF_EACH_KIND = {
    "softmax", "cog", "softmax_off_by_one", "relu", "sigmoid", "consmax", "norm", "differential", "centered",
    "polynomial", "matrix_exponential", "matrix_exponential_by_row", "simple_norm_by_row",
}  # fmt: skip


def values_of(item, together):
    """What a case meets: (parameter, value) for every parameter, and the combination of those named together."""
    params = item.callspec.params
    met = {(name, repr(value)) for name, value in params.items()}
    if together:
        met.add((together, tuple(repr(params[name]) for name in together)))
    return met


def diagonal_of(items, together):
    """Cases that meet every value together, few of them: each time one that meets the most that is still missing.

    Among equals the one whose pairs of values were met least, so that parameters do not walk in step.
    """
    met_by = {id(item): values_of(item, together) for item in items}
    pairs_of = {key: list(itertools.combinations(sorted(met, key=repr), 2)) for key, met in met_by.items()}
    missing = set().union(*met_by.values())
    uses, kept = collections.Counter(), []
    while missing:
        best = max(items, key=lambda item: (len(met_by[id(item)] & missing), -sum(uses[pair] for pair in pairs_of[id(item)])))
        missing -= met_by[id(best)]
        uses.update(pairs_of[id(best)])
        kept.append(best)
    return kept


def pytest_collection_modifyitems(config, items):
    if config.getoption("--all"):
        return
    tables, dropped = {}, set()
    for item in items:
        if item.get_closest_marker("slow"):
            dropped.add(id(item))
        elif item.get_closest_marker("one_of_each_kind") and not ONE_OF_EACH_KIND & {
            item.callspec.params.get(name) for name in ("mechanism", "form")
        }:
            dropped.add(id(item))
        elif item.get_closest_marker("diagonal") and hasattr(item, "callspec"):
            tables.setdefault((item.path, item.originalname), []).append(item)
    for cases in tables.values():
        kept = {id(item) for item in diagonal_of(cases, cases[0].get_closest_marker("diagonal").args)}
        dropped |= {id(item) for item in cases} - kept
    config.hook.pytest_deselected(items=[item for item in items if id(item) in dropped])
    items[:] = [item for item in items if id(item) not in dropped]
