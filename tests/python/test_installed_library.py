"""The kernels as a CMake package: installed into an empty prefix, found and used by a C++ program without libtorch."""

import math
import os
import pathlib
import re
import shutil
import subprocess

import pytest
import reference
import torch


def run(*command, **options):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=600, **options)
    assert result.returncode == 0, f"{command}: {result.stdout[-3000:]}{result.stderr[-3000:]}"
    return result.stdout


@pytest.fixture(scope="session")
def prefix(repository, tmp_path_factory):
    """A prefix into which the build folder is installed; COGWHEEL_BUILD names another build folder."""
    build = pathlib.Path(os.environ.get("COGWHEEL_BUILD", repository / "build"))
    assert (build / "CMakeCache.txt").is_file(), f"expected a build folder, got none at {build}"
    prefix = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", build, "--prefix", prefix, "--component", "kernels")
    return prefix


def build_against(prefix, source, folder):
    # -Wpedantic and -Werror: the installed headers must not trouble those who use them.
    run("cmake", "-G", "Ninja", "-S", source, "-B", folder, f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release",
        "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Wpedantic -Werror", "-DCMAKE_NO_SYSTEM_FROM_IMPORTED=ON")  # fmt: skip
    run("ninja", "-C", folder)


def wave(step, *shape):
    """The numbers that the example makes: sin(1 + step·i)."""
    return torch.sin(1 + step * torch.arange(math.prod(shape), dtype=torch.float64)).reshape(1, 1, *shape)


def test_example_prints_the_right_numbers(repository, prefix, tmp_path):
    example = tmp_path / "example"
    shutil.copytree(repository / "examples/installed_library", example)
    build_against(prefix, example, tmp_path / "build")
    printed = run(tmp_path / "build/cog_attention").splitlines()

    leaves = [wave(0.7, 5, 8), wave(1.3, 7, 8), wave(2.1, 7, 3)]
    for leaf in leaves:
        leaf.requires_grad_()
    output = reference.attention(
        "cog", *leaves, scale=1 / math.sqrt(8), visible=reference.visible_keys(5, 7, causal=True), parameters={}
    )
    expected = [output, *torch.autograd.grad(output, leaves, wave(0.9, 5, 3))]
    assert len(printed) == len(expected)
    for line, tensor in zip(printed, expected):
        actual = torch.tensor([float(number) for number in line.split()], dtype=torch.float64)
        torch.testing.assert_close(actual, tensor.detach().flatten(), rtol=0, atol=1e-13)


def test_installed_headers_stand_alone(prefix, tmp_path, request):
    """Every installed header compiles by itself (without --all: every fourth), and none leads to libtorch or to Highway."""
    headers = sorted((prefix / "include").rglob("*.h"))
    assert len(headers) > 50
    for header in headers:
        assert not re.search(r'#include ["<](ATen|torch|c10|hwy)/', header.read_text()), header
    unit = tmp_path / "headers.cpp"
    flags = ["-std=c++20", "-fopenmp", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    for header in headers if request.config.getoption("--all") else headers[::4]:
        unit.write_text(f'#include "{header.relative_to(prefix / "include")}"\n')
        run("g++", *flags, "-I", prefix / "include", unit)


def test_the_licence_is_installed_too(repository, prefix):
    assert (prefix / "share/licenses/cogwheel/LICENSE").read_bytes() == (repository / "LICENSE").read_bytes()


def test_nothing_of_the_build_leaks_into_the_package(repository, prefix):
    for file in (prefix / "lib").rglob("*.cmake"):
        text = file.read_text()
        assert str(repository) not in text and "torch" not in text.lower(), file
