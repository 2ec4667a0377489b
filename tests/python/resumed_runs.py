"""Whether a run that was killed goes on, bit for bit, as if it never had been."""

import json
import os
import signal
import subprocess
import time

from recorded_bits import weights_hash


def metrics(run):
    """The lines of a run's metrics.jsonl, without what a clock says."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if "second" not in key} for line in lines]


def expect_resumes_bit_for_bit(cogwheel, executable, folder, words, name):
    """`words` train for more than four reports; `cogwheel` runs a command in the folder. Two runs are left there."""
    whole, parts = folder / f"whole-{name}", folder / f"parts-{name}"
    done = cogwheel("train", *words, "--out", whole.name)
    assert done.returncode == 0, done.stderr
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [str(word) for word in (executable, "train", *words, "--out", parts.name)]
    process = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE)
    written = parts / "metrics.jsonl"
    while process.poll() is None and not (written.exists() and written.read_text().count("\n") >= 4):
        time.sleep(0.005)
    process.kill()  # what lies there is the last checkpoint
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    resumed = cogwheel("resume", parts.name)
    assert resumed.returncode == 0, resumed.stderr
    assert weights_hash(parts / "checkpoint.safetensors") == weights_hash(whole / "checkpoint.safetensors")
    assert metrics(parts)[-1] == metrics(whole)[-1]
