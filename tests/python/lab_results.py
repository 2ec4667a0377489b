"""Labs as tests run them: which there are, parameters that take a fraction of a second, and what their results hold."""

import json
import os
import pathlib
import subprocess
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Of experiments that name a lab, by name: s2/hopfield, s0/layer.
EXPERIMENTS = {
    path.relative_to(ROOT / "experiments").with_suffix("").as_posix(): read
    for path in sorted((ROOT / "experiments").glob("s*/*.toml"))
    if "lab" in (read := tomllib.loads(path.read_text()))
}
NAMES = list(EXPERIMENTS)

SMALL = {
    "s2/capacity": ["text_bytes=65536"],
    "s2/projection": ["points=200", "dimensions=64", "draws=40", "dimensions_tried=48,64", "draws_tried=5"],
    "s2/superposition": ["width=64", "lengths=2,4,16,64,128,256", "draws=200"],
    "s2/hopfield": ["sizes=64,128", "loads=0.12,0.14,0.16", "networks=12", "patterns_tried=8", "error_size=500",
                 "error_loads=0.1,0.138", "error_networks=4", "end_size=200", "end_loads=0.05,0.3", "end_networks=2",
                    "ends_tried=10", "real_networks=2"],
    "s2/local-noise": ["width=64", "lengths=32,64,128,256", "draws=30"],
    "s2/score-cost": ["batch=2", "source=5", "target=4", "width=16", "repeats=2"],
    "s2/jacobian": ["width=6", "tokens=5", "texts=2", "batch=2", "steps=3", "text_bytes=65536", "seeds=2"],
    "s2/key-value": ["width=8", "items=3", "batch=8", "steps=5", "draws=50", "seeds=3"],
    "s2/copy": ["widths=8,24", "symbols=3,5", "longest=3", "strings=40", "batch=16", "steps=60", "learning_rate=0.02", "seeds=1"],
    "s2/length": ["widths=16", "distance=0", "sentences=60", "batch=4", "steps=3", "seeds=2"],
    "s2/alignment": ["width=16", "sentences=12", "batch=4", "steps=3", "seeds=1"],
    "s2/handwriting": ["width=16", "characters=4", "words=1", "lines=3", "batch=3", "steps=3", "seeds=2"],
    "s0/layer": [],
    "s1/rows": ["rows=2000", "keys=16"],
    "s1/throughput": ["lengths=32,64,128", "naive_longest=128", "repeats=1", "seconds=0"],
    "s2/linear-attention": ["lengths=16,32,64", "checked=64", "rank_tokens=64", "width=8", "repeats=2", "seconds=0"],
    "s3/layer": ["tokens=20", "width=32", "hidden=64"],
    "s3/dictionary": ["items=16", "width=16", "look_ups=300", "temperatures=10,1,0.1,0.01"],
    "s3/induction": ["vocabulary=6", "half=4", "width=16", "steps=60", "batch=32", "examples=6", "inputs=3", "layers=5", "tasks=4000",
                     "regression_steps=40"],
    "s4/failures": ["width=8", "lengths=8,64", "leak_tokens=9", "draws=3"],
    "s4/cost": ["tokens=16", "batch=1", "repeats=1", "seconds=0"],
    "s4/features": ["width=8", "tokens=32", "deviations=0.1,0.5", "features=16,64,256", "draws=24", "degrees=8"],
    "s4/noise": ["width=16", "lengths=16,512", "shared=0,1", "draws=40"],
}  # fmt: skip

_KEPT = {}


def run_lab(executable, folder, name, *assignments, threads=2):
    """Results, page and what was printed of a lab, which a name without a source names in s2."""
    command = [executable, "reproduce", name if "/" in name else "s2/" + name, "--out", "out"]
    for assignment in assignments:
        command += ["--set", assignment]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "out/results.json").read_text()), (folder / "out/report.html").read_text(), done.stdout


def small_lab(executable, folders, name):
    """The same with parameters of SMALL, once in all files."""
    name = name if "/" in name else "s2/" + name
    if name not in _KEPT:
        _KEPT[name] = run_lab(executable, folders.mktemp("lab"), name, *SMALL[name])
    return _KEPT[name]


def ours(result, beginning):
    (found,) = [each["ours"] for each in result["findings"] if each["what"].startswith(beginning)]
    return found


def with_interval(result):
    """What the findings that have an interval are of."""
    return {each["what"] for each in result["findings"] if "interval" in each}


def table(result, beginning):
    (found,) = [each for each in result["tables"] if each["title"].startswith(beginning)]
    return found["rows"]


def series(result, chart, name):
    (found,) = [each for shown in result["charts"] if shown["title"].startswith(chart) for each in shown["series"] if each["name"] == name]
    return found["x"], found["y"]
