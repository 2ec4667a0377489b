"""`bench training`: training steps of Cogwheel's language model and of the same GPT in eager PyTorch, taking turns.

Cogwheel's steps run in a process of the command line, as in `cogwheel train`; the peer's in this one. The waiting
process is idle.
"""

import json
import os
import pathlib
import subprocess
from collections.abc import Sequence
from dataclasses import asdict

import torch

from cogwheel.bench.gpt import EagerTraining, Shape
from cogwheel.bench.timing import Timing, take_turns

SHAPES = {
    "tiny": Shape(layers=2, heads=2, width=32, context=32, batch=8, vocabulary=65),
    "small": Shape(layers=6, heads=6, width=384, context=256, batch=16, vocabulary=65),
    "medium": Shape(layers=12, heads=12, width=768, context=1024, batch=1, vocabulary=50304),
}


class CogwheelTraining:
    """`cogwheel bench-steps`: makes a step for each line that it reads, and prints the loss."""

    def __init__(
        self, executable: pathlib.Path, shape: Shape, mechanism: str, precision: str, definitions: Sequence[str] = ()
    ) -> None:
        words = [f"--{name}={value}" for name, value in asdict(shape).items()]
        words += [f"--mechanism={mechanism}", f"--precision={precision}", f"--threads={torch.get_num_threads()}"]
        # The default of libgomp, which the peer uses; set explicitly, it keeps the executable from choosing sleeping
        # threads if the machine is busy when it starts.
        environment = {"GOMP_SPINCOUNT": "300000", **os.environ}
        self.process = subprocess.Popen(
            [executable, "bench-steps", *words, *definitions],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.parameters = self.answer()["parameters"]

    def step(self) -> float:
        self.process.stdin.write("step\n")
        self.process.stdin.flush()
        return self.answer()["loss"]

    def answer(self) -> dict:
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"cogwheel bench-steps: expected an answer, got an end with status {self.process.wait()}")
        return json.loads(line)

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def measure(
    executable: pathlib.Path,
    shape: Shape,
    mechanisms: list[str],
    precision: str,
    *,
    seconds: float,
    with_compile: bool,
    definitions: Sequence[str] = (),
) -> dict[str, Timing]:
    """Seconds of a step, by implementation: "eager GPT", "compiled GPT", then mechanisms.

    `definitions`: the options that define the user's own mechanisms.
    """
    peers = {"eager GPT": EagerTraining(shape, precision)}
    if with_compile:
        peers["compiled GPT"] = EagerTraining(shape, precision, compiled=True)
    ours = {name: CogwheelTraining(executable, shape, name, precision, definitions) for name in mechanisms}
    try:
        jobs = {name: side.step for name, side in (peers | ours).items()}
        for step in jobs.values():  # the first steps allocate
            step()
        return take_turns(jobs, seconds=seconds, min_turns=3)
    finally:
        for side in ours.values():
            side.close()
