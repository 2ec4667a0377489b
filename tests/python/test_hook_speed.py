"""What reading activations costs, as a ratio of times that take turns in one process."""

import subprocess

import pytest
import torch
from test_speed import LESS, pytestmark  # noqa: F401  by itself, on a machine with vectors
from torch.nn import functional as F

import cogwheel
from cogwheel import interpret
from cogwheel.bench import eager
from cogwheel.bench.timing import take_turns


class HookedGPT(torch.nn.Module):
    """A Cog model whose values pass through modules that do nothing, as TransformerLens's do, with forward hooks."""

    def __init__(self, model, names):
        super().__init__()
        self.weights = dict(model.named_parameters())
        self.options = model.options
        self.points = torch.nn.ModuleDict({name.replace(".", "/"): torch.nn.Identity() for name in names})

    def at(self, name, value):
        return self.points[name.replace(".", "/")](value)

    def norm(self, x, weight, place):
        x = x - x.mean(-1, keepdim=True)
        scale = self.at(f"{place}.hook_scale", (x.square().mean(-1, keepdim=True) + 1e-5).sqrt())
        return self.at(f"{place}.hook_normalized", x / scale) * weight

    def layer(self, index, x):
        block, heads = f"blocks.{index}.", self.options["heads"]
        weight = lambda name: self.weights[f"layers.{index}.{name}.weight"]  # noqa: E731
        x = self.at(block + "hook_resid_pre", x)
        parts = F.linear(self.norm(x, weight("attention_norm"), block + "ln1"), weight("attention.query_key_value")).chunk(3, -1)
        parts = [self.at(f"{block}attn.hook_{name}", part.unflatten(-1, (heads, -1))) for name, part in zip("qkv", parts)]
        query, key, value = (part.transpose(1, 2) for part in parts)
        attend = eager.attention("cog")
        z = self.at(block + "attn.hook_z", attend(query, key, value, causal=True).transpose(1, 2))
        x = self.at(block + "hook_resid_mid", x + self.at(block + "hook_attn_out", F.linear(z.flatten(2), weight("attention.output"))))
        units = F.linear(self.norm(x, weight("feed_forward_norm"), block + "ln2"), weight("feed_forward.up"))
        units = self.at(block + "mlp.hook_post", F.gelu(self.at(block + "mlp.hook_pre", units)))
        return self.at(block + "hook_resid_post", x + self.at(block + "hook_mlp_out", F.linear(units, weight("feed_forward.out"))))

    def forward(self, tokens):
        length, weights = tokens.shape[1], self.weights
        positions = weights["position_embedding"][:length].expand(len(tokens), -1, -1)
        x = self.at("hook_embed", weights["token_embedding"][tokens]) + self.at("hook_pos_embed", positions)
        x = self.at("hook_full_embed", x)
        for index in range(self.options["layers"]):
            x = self.layer(index, x)
        x = self.norm(x, weights["final_norm.weight"], "ln_final")
        return self.at("hook_logits", F.linear(x, weights["token_embedding"]))

    def run_with_cache(self, tokens):
        seen = {}
        keep = lambda name: lambda module, given, value: seen.__setitem__(name, value)  # noqa: E731
        handles = [point.register_forward_hook(keep(name)) for name, point in self.points.items()]
        logits = self(tokens)
        for handle in handles:
            handle.remove()
        return logits, {name.replace("/", "."): value for name, value in seen.items()}


def test_reading_activations(cogwheel_executable, tmp_path):
    """All but those of N² numbers, of a Cog model of width 768 on 1,024 tokens: 0.6 of eager PyTorch with hooks at most."""
    (tmp_path / "wide.toml").write_text(
        'data.tokenizer = "byte"\nmodel = {layers = 1, heads = 12, width = 768, context = 1024, mechanism = "cog"}\n'
        "training = {steps = 1, batch = 1, warm_up = 1}\n"
    )
    (tmp_path / "text.txt").write_text("to be or not to be " * 1200)
    words = ["train", "wide.toml", "--text", "text.txt", "--out", "wide"]
    subprocess.run([cogwheel_executable, *words], cwd=tmp_path, check=True, capture_output=True)
    model = cogwheel.load(tmp_path / "wide")
    tokens = torch.randint(9, (1, 1024), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        dense = ("hook_pattern", "hook_attn_scores")
        names = [name for name in model.run_with_cache(tokens[:, :8])[1] if not name.endswith(dense)]
        peer = HookedGPT(model, names)
        ours, theirs = model.run_with_cache(tokens, names=names)[1], peer.run_with_cache(tokens)[1]
        assert len(names) > 15 and ours.keys() == theirs.keys()
        for name in ("blocks.0.attn.hook_z", "blocks.0.mlp.hook_pre", "hook_logits"):
            torch.testing.assert_close(ours[name], theirs[name], rtol=1e-2, atol=1e-2)
        jobs = {"ours": lambda: model.run_with_cache(tokens, names=names), "eager": lambda: peer.run_with_cache(tokens),
                "without": lambda: model(tokens)}  # fmt: skip
        times = take_turns(jobs, seconds=0.5, min_turns=3)
    print(f"reading activations: {times['ours'].min / times['eager'].min:.2f} of eager, "
          f"{times['ours'].min / times['without'].min:.2f} of a pass without hooks")  # fmt: skip
    assert times["ours"].min < 0.6 * LESS * times["eager"].min


@pytest.mark.slow
def test_path_patching(cogwheel_executable, tmp_path):
    """Every head of 12 layers of 12 as sender: 20 times as fast as a pass each, in which all other heads are held."""
    model = "model = {layers = 12, heads = 12, width = 768, context = 32}"
    (tmp_path / "ioi.toml").write_text(f'task = {{name = "ioi"}}\n{model}\ntraining = {{steps = 1, batch = 1, warm_up = 1}}\n')
    words = [cogwheel_executable, "train", "ioi.toml", "--out", "wide"]
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    model, drawn = cogwheel.load(tmp_path / "wide"), interpret.ioi_prompts(100)
    names = [f"blocks.{layer}.attn.hook_z" for layer in range(12)]
    with torch.no_grad():
        _, held = model.run_with_cache(drawn.clean.tokens, names=names)

        def one_sender():
            model.run_with_hooks(drawn.clean.tokens, fwd_hooks=[(names, lambda value, hook: held[hook.name].clone())])

        jobs = {"all": lambda: interpret.patch_paths(model, drawn.clean, drawn.corrupted), "one": one_sender}
        times = take_turns(jobs, seconds=1, min_turns=3)
    ratio = 144 * times["one"].min / times["all"].min
    print(f"path patching: {ratio:.1f} times as fast")
    assert ratio >= 20 / LESS
