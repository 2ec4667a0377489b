"""Runs of small models of every kind of layer, trained for two steps, for tests of what Python loads."""

import os
import resource
import subprocess

import torch

import cogwheel

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


STATES = ("linear_attention+retnet+mamba2+gla+rwkv6", "hgrn2+gated_rfa+mlstm+s4+dfw", "mamba+deltanet+gated_deltanet+abc+cosformer")

# By name: the task, what is said of its data, the mechanisms of its layers, and of the model.
KINDS = {
    "learned": ("language_modelling", "", "cog+differential+symmetric+consmax", 'context = 12\nposition = "learned"'),
    "grouped": ("language_modelling", "", "differential_cog+sigmoid+differential", 'context = 12\nform = "llama"\nkey_value_heads = 2'),
    "turned": ("language_modelling", "", "differential_symmetric+symmetric_sigmoid+norm", 'context = 12\nposition = "rotary_halves"'),
    "dense": ("language_modelling", "", "polynomial+centered+matrix_exponential_by_row", 'context = 12\nposition = "none"'),
    "mixed": ("language_modelling", "", "cog+differential+gla+rwkv6+polynomial", "context = 12"),
    **{f"states-{place}": ("language_modelling", "", names, 'context = 12\nposition = "none"') for place, names in enumerate(STATES)},
    **{f"plain-{place}": ("language_modelling", "", names, 'context = 12\nposition = "none"\nrecurrent_layer = "plain"') for place, names in enumerate(STATES)},
    "encoder": ("sentences", "", "cog+differential+symmetric", "context = 32"),
    "vision": ("images", "size = 16", "cog+centered", "patch = 4"),
    "u-vit": ("diffusion", 'size = 16\ncondition = "class"', "cog+differential+symmetric", "patch = 4"),
}  # fmt: skip


class Program:
    """The command line in a folder with a text."""

    def __init__(self, executable, folder):
        self.executable, self.work = executable, folder
        (folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 60)

    def __call__(self, *words, fails=False, file_bytes=None):
        """No file may grow beyond `file_bytes`."""
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        command = [str(word) for word in (self.executable, *words)]
        limit = (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))) if file_bytes else None
        done = subprocess.run(command, cwd=self.work, env=environment, capture_output=True, text=True, preexec_fn=limit)
        assert (done.returncode != 0) == fails, done.stderr
        return done

    def train(self, name, config, *words):
        (self.work / f"{name}.toml").write_text(config)
        self("train", f"{name}.toml", *words, "--out", name)
        return self.work / name


class SmallRuns:
    """By kind, the folder of a run, trained when it is first asked for."""

    def __init__(self, executable, folder):
        self.program, self.folder, self.made = Program(executable, folder), folder, {}

    def __call__(self, kind):
        if kind not in self.made:
            task, data, mechanism, model = KINDS[kind]
            config = TRAIN.format(task=task, data=data, mechanism=mechanism, layers=len(mechanism.split("+")), model=model, width=32)
            words = ["--text", "text.txt"] if task == "language_modelling" else []
            self.made[kind] = self.program.train(kind, config, *words)
        return self.made[kind]


def normal(*sizes):
    return torch.randn(sizes, generator=torch.Generator().manual_seed(2))


def whole(limit, *sizes):
    return torch.randint(0, limit, sizes, generator=torch.Generator().manual_seed(3))


def expect_close(got, expected):
    """To 2e-5 of the largest element: products are added in another order."""
    assert got.shape == expected.shape and expected.std() > 1e-3
    torch.testing.assert_close(got.detach(), expected, rtol=0, atol=2e-5 * float(expected.abs().max()))


def inputs_of(model, batch=2):
    """What a pass of such a model takes."""
    draw = torch.Generator().manual_seed(5)
    if isinstance(model, cogwheel.UVit):
        return (torch.randn(batch, 3, 16, 16, generator=draw), torch.tensor([3.5, 900.0])[:batch], torch.tensor([1, 4])[:batch])
    if isinstance(model, cogwheel.VisionTransformer):
        return (torch.randn(batch, 3, 16, 16, generator=draw),)
    tokens = torch.randint(model.options["vocabulary"], (batch, 9), generator=draw)
    if isinstance(model, cogwheel.Encoder):
        return (tokens, torch.zeros_like(tokens), torch.tensor([4, 9])[-batch:])
    return (tokens,)
