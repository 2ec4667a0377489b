"""`bench training`: training steps of one of Cogwheel's models and of the same model in eager PyTorch, taking turns.

Cogwheel's steps run in a process of the command line, as in `cogwheel train`; the peer's in this one. The waiting
process is idle. `bench beam` does the same with searches of translations.
"""

import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

import torch

from cogwheel.bench.eager_training import EagerTraining
from cogwheel.bench.encoder import WordShape
from cogwheel.bench.gpt import Shape
from cogwheel.bench.handwriting import PenShape
from cogwheel.bench.llama import LlamaShape
from cogwheel.bench.seq2seq import SequenceShape, beam_search
from cogwheel.bench.timing import Timing, take_turns
from cogwheel.bench.u_vit import NoiseShape
from cogwheel.bench.vision_transformer import ImageShape

# Each shape has a module with its peer.
SHAPES = {
    "tiny": Shape(layers=2, heads=2, width=32, context=32, batch=8, vocabulary=65),
    "small": Shape(layers=6, heads=6, width=384, context=256, batch=16, vocabulary=65),
    "medium": Shape(layers=12, heads=12, width=768, context=1024, batch=1, vocabulary=50304),
    # One window of a step of experiments/cogformer-141m.toml.
    "141m": LlamaShape(layers=12, heads=12, width=768, context=2048, batch=1, vocabulary=32000, hidden=2304),
    # Sentences as long as those of Multi30k are on average, with their ends.
    "seq2seq": SequenceShape(width=512, vocabulary=8000, batch=64, source=15, target=16),
    # Graves' network on lines of some words.
    "handwriting": PenShape(
        layers=3, width=400, mixtures=20, curves=10, alphabet=60, batch=32, points=200, characters=16
    ),
    # Images as large as those of CIFAR-10.
    "vit": ImageShape(layers=6, heads=3, width=192, side=32, patch=4, classes=10, batch=64),
    "u_vit": NoiseShape(layers=7, heads=4, width=256, side=32, patch=2, batch=32),
    "encoder": WordShape(layers=6, heads=6, width=384, length=128, vocabulary=8000, batch=32),
}
AnyShape = Shape | SequenceShape | PenShape | ImageShape | NoiseShape | WordShape


class CogwheelSteps:
    """`cogwheel bench-steps`: makes a step for each line that it reads, and prints the loss."""

    def __init__(self, executable: pathlib.Path, words: Sequence[str]) -> None:
        # The default of libgomp, which the peer uses; set explicitly, it keeps the executable from choosing sleeping
        # threads if the machine is busy when it starts.
        environment = {"GOMP_SPINCOUNT": "300000", **os.environ}
        self.process = subprocess.Popen(
            [executable, "bench-steps", f"--threads={torch.get_num_threads()}", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.parameters = self.answer()["parameters"]

    def step(self) -> float:
        return self.whole_step()["loss"]

    def whole_step(self) -> dict:
        self.process.stdin.write("step\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self) -> dict:
        line = self.process.stdout.readline()
        if not line:  # it has said why
            sys.exit(self.process.wait())
        return json.loads(line)

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def timed(
    peers: dict[str, Callable[[], object]], ours: dict[str, CogwheelSteps], *, seconds: float
) -> dict[str, Timing]:
    """Seconds of a step, by implementation, peers first."""
    try:
        jobs = peers | {name: side.step for name, side in ours.items()}
        for step in jobs.values():  # the first steps allocate
            step()
        return take_turns(jobs, seconds=seconds, min_turns=3)
    finally:
        for side in ours.values():
            side.close()


def measure(
    executable: pathlib.Path,
    shape: AnyShape,
    mechanisms: list[str],
    precision: str,
    *,
    seconds: float,
    with_compile: bool,
    definitions: Sequence[str] = (),
    device: str = "cpu",
) -> dict[str, Timing]:
    """Seconds of a step, which ends with its loss on the host, by implementation: the eager peer, the compiled one, then mechanisms.

    `definitions`: the options that define the user's own mechanisms.
    """
    torch.manual_seed(0)
    peers = {shape.peer: EagerTraining(shape.model(), shape.random_batch, precision, device=device).step}
    if with_compile:
        name = shape.peer.replace("eager", "compiled")
        peers[name] = EagerTraining(shape.model(), shape.random_batch, precision, compiled=True, device=device).step
    ours = {
        name: CogwheelSteps(
            executable, [*shape.words(name), f"--set=training.precision={precision}", f"--set=training.device={device}", *definitions]
        )
        for name in mechanisms
    }
    return timed(peers, ours, seconds=seconds)


def operators_of_steps(
    executable: pathlib.Path,
    shape: AnyShape,
    mechanism: str,
    precision: str,
    *,
    seconds: float,
    definitions: Sequence[str] = (),
) -> list[list[dict]]:
    """What each operator took, step by step; see `bench/operators.py`."""
    words = [*shape.words(mechanism), f"--set=training.precision={precision}", "--operators", *definitions]
    side = CogwheelSteps(executable, words)
    try:
        side.step()  # allocates
        steps, start = [], time.perf_counter()
        while len(steps) < 3 or time.perf_counter() - start < seconds:
            steps.append(side.whole_step()["operators"])
        return steps
    finally:
        side.close()


def most_steps(shape: SequenceShape) -> int:
    """Tokens of a hypothesis that never ends."""
    return 2 * shape.source + 10


def measure_beam(executable: pathlib.Path, shape: SequenceShape, beam: int, *, seconds: float) -> dict[str, Timing]:
    """Seconds of a search for a batch of sources, in which no hypothesis ends; the peer also source by source."""
    torch.manual_seed(0)
    model = shape.model()
    source, lengths, *_ = shape.random_batch()

    def search(sources: Sequence[slice]) -> None:
        for some in sources:
            beam_search(model, source[some], lengths[some], beam, most_steps(shape))

    peers = {
        shape.peer: lambda: search([slice(None)]),
        "one source at a time": lambda: search([slice(each, each + 1) for each in range(shape.batch)]),
    }
    (name,) = shape.mechanisms
    ours = {name: CogwheelSteps(executable, [*shape.words(name), f"--beam={beam}"])}
    return timed(peers, ours, seconds=seconds)
