"""Surgeries of one trained language model beside each other: what each mechanism has of its weights, after so many steps.

    python bench/surgery.py START --out FOLDER [--text PATH ...] [--steps 10 100 1000] [--batch 4] [--seeds 3] [--tune 5]
                            [--kinds plain teacher transfer scratch] [--attention NAMES ...]

START is a run of softmax, as of experiments/surgery.toml. For each number of steps there are comparisons of four kinds: `plain`
(task.start), `teacher` (START also teaches), `transfer` (a fifth of the steps is transfer first), and `scratch` (no start). All have
equal batches, seeds and searches of the learning rate, and softmax, continued, as the baseline. A comparison that is there is
continued. The tables are printed and kept in FOLDER/surgery.md: held-out loss at step 0 and after each number, with the difference
from softmax continued in the same seeds and its Holm-adjusted p, and what the swap of each layer costs.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tomllib

# Keys of [model] that `compare` has options for, or decides itself.
ELSEWHERE = {"mechanism", "definition", "vocabulary", "feed_forward", "position", "dropout", "recurrent_layer"}
TEACHER = ["task.teacher_share=0.5"]
KINDS = ("plain", "teacher", "transfer", "scratch")


def cogwheel(*words: object) -> str:
    done = subprocess.run(["cogwheel", *map(str, words)], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(done.returncode)
    return done.stdout


def sets(keys: list[str]) -> list[str]:
    return [word for key in keys for word in ("--set", key)]


def words_of(kind: str, steps: int, start: pathlib.Path, config: dict) -> list[str]:
    model = config["model"]
    if kind == "scratch":
        keys = [f"model.{key}={json.dumps(value)}" for key, value in model.items() if key not in ELSEWHERE]
        return ["--position", model["position"], "--tokenizer", config["data"]["tokenizer"], *sets(keys)]
    taught = [f"task.teacher={start}", *TEACHER]
    more = {"plain": [], "teacher": taught, "transfer": [*taught, f"task.transfer_steps={max(1, steps // 5)}"]}
    return sets([f"task.start={start}", *more[kind]])


def compared(kind: str, steps: int, arguments: argparse.Namespace, config: dict) -> dict:
    folder = arguments.out / f"{kind}-{steps}"
    if (folder / "results.json").exists():
        cogwheel("compare", "--resume", folder)
    else:
        shared = sets([f"training.batch={arguments.batch or config['training']['batch']}"])
        cogwheel(
            "compare", "--attention", ",".join(arguments.attention), "--baseline", "softmax", "--seeds", arguments.seeds,
            "--steps", steps, "--tune", arguments.tune, "--learning-rate", arguments.learning_rate,
            *(["--text", *arguments.text] if arguments.text else []),
            *words_of(kind, steps, arguments.start, config), *shared, "--out", folder,
        )  # fmt: skip
    return json.loads((folder / "results.json").read_text())


def cell(summary: dict) -> str:
    if summary["mean"] is None:
        return "diverged"
    text = f"{summary['mean']:.4f}"
    if summary.get("difference") is not None and summary.get("pairs"):
        text += f" ({summary['difference']:+.4f}"
        text += f", p {summary['p_adjusted']:.2g})" if summary.get("p_adjusted") is not None else ")"
    return text


def table(rows: list[list[str]]) -> str:
    head, *body = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([head, "|" + "---|" * len(rows[0]), *body]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("start", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--text", nargs="+", default=[])
    parser.add_argument("--steps", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--batch", type=int, default=0, help="by default that of START")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tune", type=int, default=5)
    parser.add_argument("--learning-rate", type=float, default=1e-3, help="in the middle of those that are tried")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--attention", nargs="+", default=[])
    arguments = parser.parse_args()
    arguments.start = arguments.start.resolve()
    config = tomllib.loads((arguments.start / "config.toml").read_text())
    layers = config["model"]["layers"]
    if not arguments.attention:
        between = f"softmax+cog*{layers - 2}+softmax"
        arguments.attention = ["softmax", "cog", between, "differential", "linear_abs", "gla", "gla*3+softmax"]
    arguments.out.mkdir(parents=True, exist_ok=True)
    text = ["--text", *arguments.text] if arguments.text else []
    pages = []
    converted = {
        name: json.loads(
            cogwheel("convert", arguments.start, "--set", f"model.mechanism={name}", *text, "--one-by-one", "--json")
        )
        for name in arguments.attention
    }
    for kind in arguments.kinds:
        results = {steps: compared(kind, steps, arguments, config) for steps in arguments.steps}
        rows = [[kind, "0 steps", *(f"{steps} steps" for steps in arguments.steps)]]
        for name in arguments.attention:
            before = "" if kind == "scratch" else f"{converted[name]['after']:.4f}"
            of_name = [next(row for row in found["summary"] if row["mechanism"] == name) for found in results.values()]
            rows.append([f"`{name}`", before, *map(cell, of_name)])
        pages.append(table(rows))
    rows = [["one layer alone", *(f"layer {layer}" for layer in range(layers)), "all"]]
    for name in arguments.attention:
        swaps = converted[name]["one_by_one"]
        rows.append([f"`{name}`", *(f"{each['loss'] - swaps['loss']:+.4f}" for each in [*swaps["layers"], swaps["all"]])])
    pages.append(table(rows))
    (arguments.out / "surgery.md").write_text("\n".join(pages))
    print("\n".join(pages))


if __name__ == "__main__":
    main()
