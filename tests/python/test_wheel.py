"""The wheel that `pip wheel .` makes works in a separate environment, away from the source tree."""

import os
import pathlib
import re
import site
import subprocess
import sys
import venv
import zipfile

import pytest

ATTEND = """
import torch, cogwheel
query, key, value = (torch.randn(1, 2, 9, 8, requires_grad=True) for _ in range(3))
cogwheel.attention(query, key, value, "cog", causal=True).sum().backward()
print(cogwheel.__file__, query.grad.isfinite().all().item())
"""


def run(*command, **options):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=1500, **options)
    assert result.returncode == 0, f"{command}: {result.stdout[-3000:]}{result.stderr[-3000:]}"
    return result.stdout


def foreign_environment(**variables):
    """Nothing that points into the source tree or the build folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("COGWHEEL_", "PYTHON"))}
    return kept | variables


def cached(build_folder, name):
    return re.search(rf"^{name}:\w+=(.*)$", (build_folder / "CMakeCache.txt").read_text(), re.MULTILINE)[1]


@pytest.fixture(scope="module")
def wheel(repository, build_folder, tmp_path_factory):
    """A wheel made from the build folder, as ./quickstart installs it."""
    folder = tmp_path_factory.mktemp("wheel")
    kept = [
        f"-Ccmake.define.{name}={cached(build_folder, name)}" for name in ("COGWHEEL_ALL_ISAS", "COGWHEEL_TESTS")
    ]
    run(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", f"-Cbuild-dir={build_folder}", *kept,
        "--wheel-dir", folder, repository)  # fmt: skip
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """A fresh one with the torch of this one, linked, and the wheel installed."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    for entry in pathlib.Path(site.getsitepackages()[0]).iterdir():
        if not entry.name.lower().startswith(("cogwheel", "_cogwheel", "__pycache__", "distutils-precedence")):
            (packages / entry.name).symlink_to(entry)
    run(sys.executable, "-m", "pip", "--python", folder / "bin/python", "install", "--no-index", wheel)
    return folder


def test_it_names_the_torch_that_it_was_built_with(wheel):
    import torch

    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        requirements = re.findall(r"^Requires-Dist: (.*)$", archive.read(metadata).decode(), re.MULTILINE)
    assert [each for each in requirements if "extra ==" not in each] == [f"torch=={torch.__version__.split('+')[0]}"]


def test_it_carries_its_licence_and_those_of_what_it_holds(repository, wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        fields = archive.read(metadata).decode()
        (licence,) = (name for name in names if name.endswith(".dist-info/licenses/LICENSE"))
        assert archive.read(licence) == (repository / "LICENSE").read_bytes()
    assert "\nLicense-Expression: Apache-2.0\n" in fields and "\nLicense-File: LICENSE\n" in fields
    for package in ("libhwy1", "libsentencepiece0", "libssl3", "libfmt-dev", "libjs-chart.js", "nlohmann-json3-dev"):
        assert f"cogwheel/licenses/{package}.txt" in names, package


def test_it_carries_what_its_libraries_need(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for name in ("libcogwheel_ops.so", "libcogwheel_bindings.so", "libcogwheel_command.so", "bin/cogwheel", "lib/libhwy.so.1", "lib/libcpp-httplib.so.0.11", "lib/libbrotlienc.so.1", "lib/libcogwheel_sentencepiece.so", "lib/libsentencepiece.so.0",
                 "include/cogwheel/attention/authoring/module_body.h",
                 "include/cogwheel/attention/kernels/pairwise/cpu/pairwise_cpu.h", "experiments/nanogpt-shakespeare.toml",
                 "experiments/s2/hopfield.toml"):  # fmt: skip
        assert f"cogwheel/{name}" in names, name


def test_it_attends(environment, tmp_path):
    printed = run(environment / "bin/python", "-c", ATTEND, cwd=tmp_path, env=foreign_environment())
    where, finite = printed.split()
    assert pathlib.Path(where).is_relative_to(environment) and finite == "True"


def test_its_command_runs(environment, tmp_path):
    command = environment / "bin/cogwheel"
    assert "differential" in run(command, "list", "mechanisms", cwd=tmp_path, env=foreign_environment())
    assert "nanogpt-shakespeare" in run(command, "list", "experiments", cwd=tmp_path, env=foreign_environment())
    refused = subprocess.run([command, "lst"], capture_output=True, text=True, cwd=tmp_path, env=foreign_environment())
    assert refused.returncode == 2 and "cogwheel: " in refused.stderr


def test_its_headers_compile_a_mechanism(environment, tmp_path):
    card = run(environment / "bin/cogwheel", "mechanism", "card", "mine", "--define", "mine: f = exp(s); g = exp(s)",
               cwd=tmp_path, env=foreign_environment(XDG_CACHE_HOME=str(tmp_path / "cache")))  # fmt: skip
    assert "mine" in card


def test_it_finds_the_python_of_its_environment(environment, tmp_path):
    shown = run(environment / "bin/cogwheel", "bench", "--help", cwd=tmp_path, env=foreign_environment())
    assert "attention" in shown and "training" in shown


@pytest.mark.slow
def test_pip_install_builds_everything(repository, tmp_path):
    """In a clean environment with torch, and with pip's own isolation: kernels for every instruction set."""
    import torch

    venv.create(tmp_path / "environment", with_pip=True)
    python = tmp_path / "environment/bin/python"
    compiler = {"CMAKE_CXX_COMPILER_LAUNCHER": "ccache"} if os.access("/usr/bin/ccache", os.X_OK) else {}
    run(python, "-m", "pip", "install", f"torch=={torch.__version__.split('+')[0]}", "numpy")
    run(python, "-m", "pip", "install", repository, cwd=tmp_path, env=foreign_environment(**compiler))
    printed = run(python, "-c", ATTEND, cwd=tmp_path, env=foreign_environment())
    assert printed.split()[1] == "True"
    kernels = run(tmp_path / "environment/bin/cogwheel", "list", "kernels", cwd=tmp_path, env=foreign_environment())
    instruction_sets = {line.split()[2] for line in kernels.splitlines() if line.startswith("cubic ")}
    assert "portable" in instruction_sets or "neon" in instruction_sets
