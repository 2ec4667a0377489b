"""A model trains where no kernel exists for its device: attention composed of PyTorch's operators gives its losses."""

import json
import os
import subprocess

import pytest

from recorded_bits import TRAINING, generated_text


def losses(executable, folder, name, engine):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    if engine:
        environment["COGWHEEL_ENGINE"] = engine
    subprocess.run([executable, "train", "config.toml", "--out", name], cwd=folder, env=environment, check=True,
                   capture_output=True, text=True, timeout=300)
    lines = (folder / name / "metrics.jsonl").read_text().splitlines()
    reports = [json.loads(line) for line in lines]
    heads = [report["heads"] for report in reports if "heads" in report]
    return [report["train_loss"] for report in reports], reports[-1]["held_out_loss"], heads


@pytest.mark.parametrize("mechanism", ["cog", "differential"])
def test_training_on_the_composed_engine_gives_the_losses_of_the_kernels(cogwheel_executable, tmp_path, mechanism):
    (tmp_path / "text.txt").write_text(generated_text())
    (tmp_path / "config.toml").write_text(
        TRAINING.format(form="llama", mechanism=mechanism, dropout=0.1, precision="fp32")
    )
    fused, composed = losses(cogwheel_executable, tmp_path, "fused", None), losses(
        cogwheel_executable, tmp_path, "composed", "composed"
    )
    assert composed[0] == pytest.approx(fused[0], rel=2e-3)  # dropout draws the same elements
    assert composed[1] == pytest.approx(fused[1], rel=2e-3)
    resumed = subprocess.run([cogwheel_executable, "resume", "composed"], cwd=tmp_path, capture_output=True, text=True)
    assert resumed.stderr == (
        "warning: the checkpoint was written with engine composed, this is fused: the bits may differ from here on\n"
    )
    assert composed[2][-1]["entropy"][0] == pytest.approx(fused[2][-1]["entropy"][0], rel=2e-2)


def test_an_engine_that_is_none_is_refused_before_a_folder_is_made(cogwheel_executable, tmp_path):
    done = subprocess.run(
        [cogwheel_executable, "compare", "--task", "copying", "--preset", "tiny", "--steps", "2", "--out", "folder"],
        cwd=tmp_path, env={**os.environ, "COGWHEEL_ENGINE": "bogus"}, capture_output=True, text=True,
    )
    assert (done.returncode, done.stderr) == (
        2, "cogwheel: COGWHEEL_ENGINE: expected composed, interpreted or nothing, got bogus\n"
    )
    assert not list(tmp_path.iterdir())
