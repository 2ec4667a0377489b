"""`bench scale`: what ranks add to a step, beside the same model in DistributedDataParallel with ZeroRedundancyOptimizer.

Each side is one process a rank, which makes a few steps for each line that it reads, so that what goes on from one step to the next is in them; the sides take
turns, and those that wait are idle. Without exchange each process makes steps of its share of the batch for itself. As a program this module is a rank of the peer.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import torch

from cogwheel.bench.eager_training import EagerTraining
from cogwheel.bench.gpt import Shape
from cogwheel.bench.timing import Timing, take_turns

# Layers × width.
SHAPES = {
    "6x384": Shape(layers=6, heads=6, width=384, context=256, batch=16, vocabulary=65),
    "12x768": Shape(layers=12, heads=12, width=768, context=256, batch=4, vocabulary=65),
}
OURS, OURS_DIVIDED, OURS_ALONE = "Cogwheel", "Cogwheel, moments divided", "Cogwheel without exchange"
PEER, PEER_ALONE = "DDP with ZeRO-1", "DDP without exchange"
STEPS = 3  # of a turn
# Those that exchange, by the one that does not.
SIDES = {OURS_ALONE: (OURS, OURS_DIVIDED), PEER_ALONE: (PEER,)}


class RankSteps:
    """Processes, one a rank, that make steps together or each for itself."""

    def __init__(self, ranks: int, threads: int, meeting: str | None, words: list[str]) -> None:
        self.processes = []
        for rank in range(ranks):
            place = {} if meeting is None else {"RANK": str(rank), "WORLD_SIZE": str(ranks), "COGWHEEL_RENDEZVOUS": f"file://{meeting}"}
            self.processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                    env={**os.environ, "OMP_NUM_THREADS": str(threads), **place},
                )
            )  # fmt: skip
        self.answers()

    def answers(self) -> list[dict]:
        answers = []
        for process in self.processes:
            line = process.stdout.readline()
            if not line:  # it has said why
                status = process.wait()
                self.close()
                sys.exit(status or 1)
            answers.append(json.loads(line))
        return answers

    def steps(self) -> list[dict]:
        for process in self.processes:
            process.stdin.write(f"{STEPS} steps\n")
            process.stdin.flush()
        return self.answers()

    def close(self) -> None:
        for process in self.processes:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        for process in self.processes:
            process.wait()


def of_each(shape: Shape, ranks: int) -> Shape:
    return Shape(**{**shape.__dict__, "batch": shape.batch // ranks})


def measure(shape: Shape, ranks: int, threads: int, *, seconds: float) -> dict[str, Timing]:
    """Seconds of a step of all ranks, by side."""
    own = of_each(shape, ranks)
    ours = ["cogwheel", "bench-steps", f"--threads={threads}"]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as started:
        meeting = pathlib.Path(folder)

        def side(where: str | None, words: list[str]) -> RankSteps:
            steps = RankSteps(ranks, threads, None if where is None else str(meeting / where), words)
            started.callback(steps.close)
            return steps

        peer = ["cogwheel.bench.scale", json.dumps(own.__dict__)]
        together = [*ours, *shape.words("softmax"), f"--set=training.micro_batches={ranks}"]
        sides = {
            OURS: side("ours", together),
            OURS_DIVIDED: side("divided", [*together, "--set=parallel.divide_moments=true"]),
            OURS_ALONE: side(None, [*ours, *own.words("softmax")]),
            PEER: side("peer", peer),
            PEER_ALONE: side(None, peer),
        }
        jobs = {name: each.steps for name, each in sides.items()}
        for steps in jobs.values():  # the first steps allocate
            steps()
        turns = take_turns(jobs, seconds=seconds, min_turns=3)
        return {name: Timing(each.min / STEPS, each.median / STEPS, each.turns) for name, each in turns.items()}


def main() -> None:
    """A rank of the peer, or a process that trains for itself."""
    shape = Shape(**json.loads(sys.argv[1]))
    torch.manual_seed(int(os.environ.get("RANK", 0)))
    training = EagerTraining(shape.model(), shape.random_batch, "fp32")
    if "RANK" in os.environ:
        import torch.distributed as dist
        from torch.distributed.optim import ZeroRedundancyOptimizer
        from torch.nn.parallel import DistributedDataParallel

        dist.init_process_group(
            "gloo", os.environ["COGWHEEL_RENDEZVOUS"], rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"])
        )
        training.forward = DistributedDataParallel(training.model, gradient_as_bucket_view=True)
        (matrices, vectors) = training.optimizer.param_groups
        given = {"lr": matrices["lr"], "betas": matrices["betas"], "fused": True}
        training.optimizer = ZeroRedundancyOptimizer(
            [{"params": group["params"], "weight_decay": group["weight_decay"]} for group in (matrices, vectors)],
            optimizer_class=torch.optim.AdamW, **given,
        )  # fmt: skip
    print(json.dumps({"parameters": sum(each.numel() for each in training.model.parameters())}), flush=True)
    for line in sys.stdin:
        losses = [training.step() for _ in range(int(line.split()[0]))]
        print(json.dumps({"loss": losses[-1]}), flush=True)


if __name__ == "__main__":
    main()
