"""Times the modelling file of exports against the model in C++, and its greedy generation against transformers' Llama.

    COGWHEEL_EXECUTABLE=… python bench/causal_lm.py RUN [--tokens 1024] [--new 128] [--rounds 5]

RUN is a run of softmax that `LlamaForCausalLM` holds. It is exported as both. Sides take turns in one process; numbers are of the
minimum times.
"""

import argparse
import os
import pathlib
import subprocess
import tempfile

import torch
import transformers

import cogwheel
from cogwheel.bench.timing import take_turns


def least(ways, rounds):
    return {name: timing.min for name, timing in take_turns(ways, seconds=0, min_turns=rounds).items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--new", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    models = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("CogwheelForCausalLM", "LlamaForCausalLM"):
            out = pathlib.Path(folder) / name
            subprocess.run([os.environ.get("COGWHEEL_EXECUTABLE", "cogwheel"), "export", arguments.run, "--as", name, "--out", out], check=True, capture_output=True)
            models[name] = transformers.AutoModelForCausalLM.from_pretrained(out, trust_remote_code=True).eval()
    ours, theirs = models.values()
    native = cogwheel.load(arguments.run)._compiled.made
    tokens = torch.randint(0, 255, (1, arguments.tokens), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        prefill = least(
            {
                "the model in C++": lambda: native.forward({"tokens": tokens}, [], -1),
                "modeling_cogwheel.py": lambda: ours(tokens, use_cache=False),
                "LlamaForCausalLM": lambda: theirs(tokens, use_cache=False),
            },
            arguments.rounds,
        )
    for name, seconds in prefill.items():
        print(f"{arguments.tokens} tokens   {name:22} {1e3 * seconds:8.1f} ms  {seconds / prefill['the model in C++']:5.2f}")
    prompt, options = tokens[:, :16], {"max_new_tokens": arguments.new, "min_new_tokens": arguments.new, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    made = least({name: lambda model=model: model.generate(prompt, **options) for name, model in models.items()}, arguments.rounds)
    for name, seconds in made.items():
        print(f"{arguments.new} new      {name:22} {arguments.new / seconds:8.1f} tokens/s  {made['LlamaForCausalLM'] / seconds:5.2f}")


if __name__ == "__main__":
    main()
