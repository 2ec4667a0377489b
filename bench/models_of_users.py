"""Times models that people have, with mechanisms in them, against the same with PyTorch's attention, in one process, in turn.

    python bench/models_of_users.py [llama] [module]      default: both

`llama`: transformers' Llama of 6 layers and width 384 under `sdpa` and with mechanisms of cogwheel.huggingface: prefill and a training
step of 1,024 tokens, fp32 and bf16 (autocast), and 64 steps of a cache after 1,024 tokens. `module`: cogwheel.nn.LanguageModel of 6
layers, width 384, context 256, trained in plain PyTorch, against the eager GPT of `cogwheel bench training`, whose attention is
torch.nn.functional.scaled_dot_product_attention. Numbers are times over those of PyTorch's attention; minima of several turns.
"""

import contextlib
import functools
import sys
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import cogwheel
from cogwheel.bench.gpt import GPT, Shape
from cogwheel.bench.machine import start_with_kept_pages
from cogwheel.bench.timing import take_turns

MECHANISMS = ["softmax", "cog"]
LAYERS, HEADS, WIDTH, VOCABULARY = 6, 6, 384, 65
TOKENS, STEPS = 1024, 64


def precision(name: str) -> contextlib.AbstractContextManager:
    return torch.autocast("cpu", torch.bfloat16) if name == "bf16" else contextlib.nullcontext()


def told(what: str, jobs: dict[str, Callable[[], object]], base: str, seconds: float = 12.0) -> None:
    times = take_turns(jobs, seconds=seconds)
    ratios = ", ".join(f"{name} {each.min / times[base].min:.3f}" for name, each in times.items() if name != base)
    print(f"{what}: {base} {1e3 * times[base].min:.1f} ms; {ratios} ({times[base].turns} turns)", flush=True)


def llama() -> None:
    import transformers

    import cogwheel.huggingface

    cogwheel.huggingface.register()
    models: dict[str, nn.Module] = {}
    for name in ["sdpa", *(f"cogwheel_{each}" for each in MECHANISMS)]:
        torch.manual_seed(0)
        config = transformers.LlamaConfig(
            vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=1024, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
            max_position_embeddings=2 * TOKENS,
        )  # fmt: skip
        models[name] = transformers.LlamaForCausalLM._from_config(config, attn_implementation=name)
    tokens = torch.randint(VOCABULARY, (1, TOKENS))

    def prefill(model: nn.Module) -> None:
        with torch.no_grad():
            model(input_ids=tokens, use_cache=False)

    def step(model: nn.Module) -> None:
        model.zero_grad()
        model(input_ids=tokens, labels=tokens, use_cache=False).loss.backward()

    def decode(model: nn.Module) -> None:
        """From a prefill that is not made again: the cache is cut to it."""
        with torch.no_grad():
            if not hasattr(model, "kept_for_bench"):
                model.kept_for_bench = model(input_ids=tokens, use_cache=True).past_key_values
            cache = model.kept_for_bench
            if more := cache.get_seq_length() - TOKENS:
                cache.crop(-more)
            for _ in range(STEPS):
                model(input_ids=tokens[:, :1], past_key_values=cache, use_cache=True)

    for job in (prefill, step, decode):
        for kind in ("fp32", "bf16") if job is not decode else ("fp32",):
            jobs = {name: functools.partial(job, model) for name, model in models.items()}
            with precision(kind):
                told(f"llama {job.__name__} {kind}", jobs, "sdpa")


def module() -> None:
    shape = Shape(LAYERS, HEADS, WIDTH, 256, 16, VOCABULARY)
    models: dict[str, nn.Module] = {"eager": GPT(shape)}
    for name in MECHANISMS:
        models[name] = cogwheel.nn.LanguageModel(LAYERS, HEADS, WIDTH, VOCABULARY, name, context=shape.context)
    tokens, targets = shape.random_batch()
    optimizers = {name: torch.optim.AdamW(model.parameters(), fused=True) for name, model in models.items()}

    def step(name: str) -> None:
        model = models[name]
        loss: Tensor = model(tokens, targets) if name == "eager" else F.cross_entropy(model(tokens).flatten(0, 1).float(), targets.flatten())
        loss.backward()
        optimizers[name].step()
        optimizers[name].zero_grad()

    for kind in ("fp32", "bf16"):
        with precision(kind):
            told(f"module step {kind}", {name: functools.partial(step, name) for name in models}, "eager", 30.0)


def main() -> None:
    start_with_kept_pages()
    for name in sys.argv[1:] or ["llama", "module"]:
        {"llama": llama, "module": module}[name]()


if __name__ == "__main__":
    main()
