"""The mechanism headers compile for the device, where nvcc is installed. Where there is
a device, its numbers are compared with the host's."""

import re
import shutil
import subprocess

import pytest

NVCC = shutil.which("nvcc")
pytestmark = pytest.mark.skipif(NVCC is None, reason="nvcc is not installed: the headers are not compiled for the device")

# Every CUDA of the last years compiles for it.
FLAGS = ["-std=c++20", "--expt-relaxed-constexpr", "-arch=sm_80", "-Werror", "all-warnings"]


def row_maps(repository):
    """(name, struct) of every line ROW_MAP(name, struct)."""
    text = (repository / "cogwheel/attention/mechanisms/mechanisms.def").read_text()
    return re.findall(r"^ROW_MAP\((\w+), (\w+)\)", text, re.MULTILINE)


def compiled(source, *options):
    result = subprocess.run([NVCC, *FLAGS, *map(str, options), str(source)], capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]


def host_calls(source, folder, *includes):
    """How many calls the device code makes to functions that only the host has.

    A constexpr function may call one without a diagnostic. nvcc then calls address 0, by a bare prototype; optimised
    code drops what follows from it, debug code keeps the call.
    """
    target = folder / "debug.ptx"
    compiled(source, "-G", "-ptx", "-o", target, *includes)
    return target.read_text().count(".callprototype")


@pytest.fixture
def unit(repository, tmp_path):
    """(the source, its include options)."""
    maps = row_maps(repository)
    assert len(maps) > 10
    includes = "".join(f'#include "cogwheel/attention/mechanisms/pairwise/{name}.h"\n' for name, _ in maps)
    apply = " ".join(f"apply({struct})" for _, struct in maps)
    (tmp_path / "row_maps.h").write_text(f"#pragma once\n{includes}#define COGWHEEL_ROW_MAPS(apply) {apply}\n")
    return repository / "tests/cpp/attention/mechanisms/row_maps_on_device.cu", ["-I", repository, "-I", tmp_path]


def test_every_row_map_compiles_for_the_device(repository, unit, tmp_path):
    source, includes = unit
    compiled(source, "-cubin", "-o", tmp_path / "row_maps.cubin", *includes)
    compiled(source, "-ptx", "-o", tmp_path / "row_maps.ptx", *includes)
    kernels = re.findall(r"^\.visible \.entry \w*exercise\w*", (tmp_path / "row_maps.ptx").read_text(), re.MULTILINE)
    assert len(kernels) == 2 * len(row_maps(repository))


@pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="no NVIDIA GPU: device code is compiled and not run")
def test_row_maps_have_the_numbers_of_the_host(unit, tmp_path):
    source, includes = unit
    compiled(source, "-o", tmp_path / "row_maps", *includes)
    run = subprocess.run([tmp_path / "row_maps"], capture_output=True, text=True)
    assert run.returncode == 0 and "agrees" in run.stdout, run.stdout + run.stderr


def test_no_row_map_calls_what_only_the_host_has(unit, tmp_path):
    source, includes = unit
    assert host_calls(source, tmp_path, *includes) == 0


def test_a_call_to_the_host_would_be_found(tmp_path):
    source = tmp_path / "host_call.cu"
    source.write_text(
        "#include <cstdlib>\n"
        "constexpr float lucky(float x) { return x > 0 ? x + static_cast<float>(std::rand()) : x; }\n"
        "__global__ void kernel(float* x) { *x = lucky(*x); }\n"
    )
    assert host_calls(source, tmp_path) == 1
