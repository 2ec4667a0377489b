"""`bench training`: training steps of Cogwheel's language model and of the same GPT in eager PyTorch, taking turns.

Cogwheel's steps run in the command line's own process, as in `cogwheel train`; the peer's in this one. Whichever waits
does nothing.
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
    """`cogwheel bench-steps`: makes a step for each line that it reads, and answers with the loss."""

    def __init__(
        self, executable: pathlib.Path, shape: Shape, mechanism: str, precision: str, brought: Sequence[str] = ()
    ) -> None:
        words = [f"--{name}={value}" for name, value in asdict(shape).items()]
        words += [f"--mechanism={mechanism}", f"--precision={precision}", f"--threads={torch.get_num_threads()}"]
        # Libgomp's own default, as on the peer's side; said aloud, it keeps the executable from choosing threads that
        # sleep because others are at work while it starts.
        environment = {"GOMP_SPINCOUNT": "300000", **os.environ}
        self.process = subprocess.Popen(
            [executable, "bench-steps", *words, *brought],
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
    brought: Sequence[str] = (),
) -> dict[str, Timing]:
    """Seconds of a step, by the name of the side: "eager GPT", "compiled GPT", then mechanisms.

    `brought`: the options that bring mechanisms of the user's own.
    """
    peers = {"eager GPT": EagerTraining(shape, precision)}
    if with_compile:
        peers["compiled GPT"] = EagerTraining(shape, precision, compiled=True)
    ours = {name: CogwheelTraining(executable, shape, name, precision, brought) for name in mechanisms}
    try:
        jobs = {name: side.step for name, side in (peers | ours).items()}
        for step in jobs.values():  # the first steps allocate
            step()
        return take_turns(jobs, seconds=seconds, least_turns=3)
    finally:
        for side in ours.values():
            side.close()
