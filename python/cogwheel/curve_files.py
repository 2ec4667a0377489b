"""Curves of runs as event files of TensorBoard, or as offline runs of Weights & Biases.

The executable runs the text of this file by itself, without the package: `python -c TEXT FILE` reads the curves as JSON.
"""

import json
import math
import os
import pathlib
import shutil
import sys


def folder_name(name):
    """Of a run, which may be told apart by its path."""
    return name.strip("/.").replace("/", "-") or "run"


def points_of(run):
    """Of each report: its step, the time when it was made, and the numbers that it has."""
    numbers = {**run["numbers"], "tokens": run["tokens"], "hours": [seconds / 3600 for seconds in run["seconds"]]}
    for index, step in enumerate(run["steps"]):
        here = {name: values[index] for name, values in numbers.items()}
        yield int(step), run["times"][index], {name: value for name, value in here.items() if value is not None and math.isfinite(value)}


def write_tensorboard(folder, runs):
    """One event file for each run, in a folder of its name, which TensorBoard shows under that name."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.record_writer import RecordWriter

    for run in runs:
        place = folder / folder_name(run["name"])
        place.mkdir(parents=True, exist_ok=True)
        path, unfinished = place / "events.out.tfevents.0.cogwheel", place / f".events.{os.getpid()}.part"
        with open(unfinished, "wb") as file:
            writer = RecordWriter(file)
            writer.write(Event(wall_time=run["times"][0] if run["times"] else 0, file_version="brain.Event:2").SerializeToString())
            for step, time, numbers in points_of(run):
                values = [Summary.Value(tag=name, simple_value=value) for name, value in numbers.items()]
                writer.write(Event(wall_time=time, step=step, summary=Summary(value=values)).SerializeToString())
            writer.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)


def write_wandb(folder, runs):
    """One offline run for each, which `wandb sync` uploads; its identity is that of the run's folder."""
    import wandb

    for run in runs:
        for earlier in folder.glob(f"wandb/offline-run-*-{run['id']}"):
            shutil.rmtree(earlier)
        settings = wandb.Settings(console="off", silent=True, save_code=False, disable_git=True, x_disable_stats=True)
        with wandb.init(project="cogwheel", name=run["name"], id=run["id"], config=run["config"], dir=str(folder), mode="offline", settings=settings) as written:
            for step, _, numbers in points_of(run):
                written.log(numbers, step=step)


if __name__ == "__main__":
    given = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    # What packages print is no answer.
    answer_to, sys.stdout = sys.stdout, sys.stderr
    try:
        {"tensorboard": write_tensorboard, "wandb": write_wandb}[given["format"]](pathlib.Path(given["folder"]), given["runs"])
        result = {}
    except ModuleNotFoundError as error:
        result = {"missing": error.name, "python": sys.executable}
    print(json.dumps(result), file=answer_to)
