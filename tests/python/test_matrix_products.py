"""Matrix products of layers through either of libtorch's libraries: right, chosen by the environment, and recorded."""

import os
import subprocess

import pytest
import torch


def run_products(build_folder, library):
    return subprocess.run(
        [build_folder / "tests/cpp/nn/models_test", "--gtest_filter=MatrixProduct.*"],
        capture_output=True,
        text=True,
        env=os.environ | {"COGWHEEL_MATRIX_PRODUCTS": library},
    )


def test_products_are_right_through_either_library(build_folder):
    for library in ("onednn", "mkl" if torch.backends.mkl.is_available() else "blas"):
        result = run_products(build_folder, library)
        assert result.returncode == 0 and "PASSED" in result.stdout, result.stdout


def test_an_unknown_library_is_refused(build_folder):
    result = run_products(build_folder, "abacus")
    assert result.returncode != 0
    assert "COGWHEEL_MATRIX_PRODUCTS: expected onednn or " in result.stdout and "got abacus" in result.stdout


def test_a_resumed_run_says_that_another_library_multiplies(cogwheel_executable, tmp_path):
    if not torch.backends.mkl.is_available():
        pytest.skip("libtorch has one library here")
    text = tmp_path / "text.txt"
    text.write_text("one two three four five six seven " * 200)
    config = tmp_path / "run.toml"
    config.write_text(
        f'[data]\ntext = ["{text}"]\n[model]\ncontext = 8\nlayers = 1\nheads = 1\nwidth = 8\n'
        "[training]\nsteps = 4\nbatch = 2\ncheckpoint_every = 2\n"
    )

    def cogwheel(library, *words):
        return subprocess.run(
            [cogwheel_executable, *words],
            capture_output=True,
            text=True,
            env=os.environ | {"COGWHEEL_MATRIX_PRODUCTS": library},
        )

    assert cogwheel("mkl", "train", config, "--out", tmp_path / "run").returncode == 0
    resumed = cogwheel("onednn", "resume", tmp_path / "run")
    assert resumed.returncode == 0, resumed.stderr
    assert "written with matrix_products MKL, this is oneDNN" in resumed.stderr + resumed.stdout
    refused = cogwheel("abacus", "train", config, "--out", tmp_path / "other")
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[-1].startswith("cogwheel: COGWHEEL_MATRIX_PRODUCTS: expected onednn or mkl, got")
