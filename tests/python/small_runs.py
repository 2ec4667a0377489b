"""Runs of small models, trained for two steps, for tests of what Python loads."""

import os
import subprocess

TRAIN = """
[task]
name = "{task}"
{data}
[model]
mechanism = "{mechanism}"
width = {width}
heads = 4
layers = {layers}
{model}
[training]
steps = 2
batch = 2
warm_up = 1
learning_rate = 0.05
curve_tokens = 16
"""


class SmallRuns:
    """By kind, the folder of a run, trained when it is first asked for.

    ``kinds`` says of each its task, its data, the mechanisms of its layers, and what else of its model.
    """

    def __init__(self, executable, folder, kinds, width=32):
        self.executable, self.folder, self.kinds, self.width, self.made = executable, folder, kinds, width, {}
        (folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 60)

    def __call__(self, kind):
        if kind not in self.made:
            task, data, mechanism, model = self.kinds[kind]
            run = self.folder / kind.replace(" ", "-")
            config = TRAIN.format(task=task, data=data, mechanism=mechanism, layers=len(mechanism.split("+")), model=model, width=self.width)
            run.with_suffix(".toml").write_text(config)
            words = [self.executable, "train", run.with_suffix(".toml"), "--out", run]
            words += ["--text", self.folder / "text.txt"] if task == "language_modelling" else []
            subprocess.run(words, cwd=self.folder, check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
            self.made[kind] = run
        return self.made[kind]
