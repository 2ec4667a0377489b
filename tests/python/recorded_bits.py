"""The bits of short training runs, and the record of what they were: training must give the same ones after a change.

    python tests/python/recorded_bits.py            # compares this machine with the record
    python tests/python/recorded_bits.py --record   # adds this machine to recorded_bits.json, or replaces its entry

Bits depend on the processor, its instruction sets, the threads, torch and the library of matrix products, so the record
has an entry for each such machine, and a machine without one has nothing to compare.
"""

import hashlib
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

import torch

RECORD = pathlib.Path(__file__).with_suffix(".json")
THREADS = 2

TRAINING = """
[data]
text = ["text.txt"]
[model]
form = "{form}"
mechanism = "{mechanism}"
context = 48
layers = 2
heads = 2
width = 64
dropout = {dropout}
[training]
seed = 7
precision = "{precision}"
steps = 24
batch = 6
learning_rate = 3e-3
report_every = 1
evaluate_every = 12
checkpoint_every = 6
"""
RUNS = {
    "softmax, gpt, fp32": {"mechanism": "softmax", "form": "gpt", "dropout": 0.0, "precision": "fp32"},
    "cog, llama, fp32, dropout": {"mechanism": "cog", "form": "llama", "dropout": 0.1, "precision": "fp32"},
    "differential_cog, llama, bf16": {
        "mechanism": "differential_cog", "form": "llama", "dropout": 0.0, "precision": "bf16",
    },
    "symmetric, gpt, bf16, dropout": {"mechanism": "symmetric", "form": "gpt", "dropout": 0.1, "precision": "bf16"},
}
COMPARISON = "a comparison of sigmoid and centered, tiny"


def generated_text() -> str:
    draw = random.Random(3)
    words = "attention weighs what a query sees and signs may subtract while sums of rows stay bounded".split()
    return "\n".join(" ".join(draw.choice(words) for _ in range(9)) for _ in range(600))


def weights_hash(checkpoint: pathlib.Path) -> str:
    """Of the model's tensors, by name and bytes: not of the file, which also says when and where it was made."""
    data = checkpoint.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header, numbers = json.loads(data[8 : 8 + length]), data[8 + length :]
    digest = hashlib.sha256()
    for name in sorted(name for name in header if name.startswith("model.")):
        begin, end = header[name]["data_offsets"]
        digest.update(name.encode() + numbers[begin:end])
    return digest.hexdigest()


def losses(run: pathlib.Path) -> list[float]:
    return [json.loads(line)["train_loss"] for line in (run / "metrics.jsonl").read_text().splitlines()]


def product_library() -> str:
    return os.environ.get("COGWHEEL_MATRIX_PRODUCTS", "onednn")


def command(executable: pathlib.Path, folder: pathlib.Path, *words: object) -> subprocess.Popen:
    environment = {**os.environ, "OMP_NUM_THREADS": str(THREADS), "COGWHEEL_MATRIX_PRODUCTS": product_library()}
    return subprocess.Popen(
        [executable, *map(str, words)], cwd=folder, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )


def finish(process: subprocess.Popen) -> str:
    output, _ = process.communicate(timeout=300)
    if process.returncode != 0:
        raise RuntimeError(f"{process.args}: exit status {process.returncode}: {output}")
    return output


def interrupt_and_resume(executable: pathlib.Path, folder: pathlib.Path, config: str, run: str) -> None:
    process = command(executable, folder, "train", config, "--out", run)
    metrics = folder / run / "metrics.jsonl"
    while process.poll() is None and not (metrics.exists() and metrics.read_text().count("\n") >= 7):
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=300)
    finish(command(executable, folder, "resume", run))


def measure(executable: pathlib.Path, folder: pathlib.Path) -> dict[str, str]:
    """A hash for every run, of its losses and final weights; an interrupted one must equal the one that was not."""
    (folder / "text.txt").write_text(generated_text())
    found = {}
    for number, (name, options) in enumerate(RUNS.items()):
        (folder / f"{number}.toml").write_text(TRAINING.format(**options))
        finish(command(executable, folder, "train", f"{number}.toml", "--out", f"run-{number}"))
        run = folder / f"run-{number}"
        found[name] = f"{weights_hash(run / 'checkpoint.safetensors')} {losses(run)[-1]!r}"
    interrupt_and_resume(executable, folder, "1.toml", "resumed")
    resumed = folder / "resumed"
    found["resumed: " + list(RUNS)[1]] = f"{weights_hash(resumed / 'checkpoint.safetensors')} {losses(resumed)[-1]!r}"
    words = "--preset tiny --text text.txt --attention sigmoid,centered --seeds 1 --steps 10 --out compared"
    finish(command(executable, folder, "compare", *words.split()))
    runs = json.loads((folder / "compared/results.json").read_text())["runs"]
    found[COMPARISON] = " ".join(
        f"{weights_hash(folder / f'compared/trained/{name}-seed-1/checkpoint.safetensors')} {run['held_out_loss']!r}"
        for name, run in zip(("sigmoid", "centered"), runs)
    )
    return found


def machine(executable: pathlib.Path) -> str:
    """What bits depend on."""
    processor = {
        name.strip(): value.strip()
        for name, value in re.findall(r"^(model name|model)(\s*:.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    }
    kernels = subprocess.run([executable, "list", "kernels"], capture_output=True, text=True, check=True).stdout
    instruction_set = re.search(r"^softmax +cpu +(\w+) +float32 +yes", kernels, re.M)[1]
    products = " and ".join(re.findall(r"^  in \w+: (\w+)", kernels, re.M))  # of bfloat16, in attention and in layers
    return "; ".join([
        f"{processor.get('model name', 'unknown')} {processor.get('model', '')}".replace(": ", "").strip(),
        f"torch {torch.__version__.split('+')[0]} with {torch.backends.cpu.get_cpu_capability()}",
        f"kernels for {instruction_set}, bfloat16 by {products}",
        f"{THREADS} threads",
        f"products by {product_library()}",
        *(f"{name}={os.environ[name]}" for name in ("ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS") if name in os.environ),
    ])


def main() -> int:
    build = pathlib.Path(os.environ.get("COGWHEEL_BUILD", RECORD.parents[2] / "build"))
    executable = build / "cogwheel/cli/cogwheel"
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        found = measure(executable, pathlib.Path(folder))
    name = machine(executable)
    if "--record" in sys.argv[1:]:
        record[name] = found
        RECORD.write_text(json.dumps(record, indent=2) + "\n")
        return 0
    if name not in record:
        print(f"no record of this machine: {name}")
        return 1
    compared = {run: record[name][run] == bits if run in record[name] else None for run, bits in found.items()}
    for run, same in compared.items():
        print({True: "same", False: "OTHER", None: "no record of"}[same], run)
    return 0 if all(compared.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
