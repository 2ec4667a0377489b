"""What `cogwheel train --dry-run --ranks N` says of ranks that share slices, a text or heads, beside what they take.

    unshare --net --mount python bench/layout_cost.py FOLDER [--models small,medium] [--ranks 2,4] [--links loopback,200mbit] [--layouts data,moments,context,tensor] [--slices 8] [--again]

Ranks of one thread on this machine, over the loopback interface and between hosts, which are network namespaces whose links a token
bucket slows (tests/python/hosts.py; needs root). For each link and number of ranks `cogwheel bench network` measures the network;
then for each model come a forecast, of that network and of slices on as many ranks at once as there are cores, and a run of each
layout; ranks of all of them keep to one core each. A step is the least of a run's, the forecast is of the least of its steps too;
memory is the peak of the largest rank. Prints a table and writes FOLDER/found.json; with --again forecasts alone are made, beside
the runs of that file, in FOLDER/again.json.
"""

import argparse
import contextlib
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "python")]
import hosts  # noqa: E402

EXECUTABLE = ROOT / "build" / "cogwheel" / "cli" / "cogwheel"
CONFIG = """
name = "{name}"
[model]
form = "gpt"
mechanism = "softmax"
context = 256
layers = {layers}
heads = {heads}
width = {width}
[training]
steps = 1000
batch = {batch}
micro_batches = {slices}
report_every = 1
evaluate_every = 0
"""
# 0.8, 10.7 and 85 million parameters.
MODELS = {
    "small": {"layers": 4, "heads": 4, "width": 128, "batch": 32, "steps": 12},
    "medium": {"layers": 6, "heads": 6, "width": 384, "batch": 16, "steps": 5},
    "large": {"layers": 12, "heads": 12, "width": 768, "batch": 8, "steps": 4},
}
PORT = iter(range(29600, 29900))


def environment():
    """As `--ranks` gives it to each rank (cli/rank_processes.cpp), for ranks that are started here."""
    allocator = re.search(r"\S*libmimalloc\S* => (\S+)", subprocess.run(["ldd", EXECUTABLE], capture_output=True, text=True, check=True).stdout)[1]
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    return {
        "OMP_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "passive",
        "COGWHEEL_OPERATORS": str(ROOT / "build/cogwheel/ops/libcogwheel_ops.so"),
        "COGWHEEL_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT / "python"),
        "LD_PRELOAD": allocator,
        "MIMALLOC_RESERVE_OS_MEMORY": f"{memory // 8}MiB",
    }


def plain():
    """Without what only ranks need that are started here."""
    return {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "MIMALLOC_RESERVE_OS_MEMORY")}


def command(*words):
    """Of the executable, in this process's network, with one thread; its ranks have their places."""
    process = subprocess.Popen([EXECUTABLE, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=plain())
    placing = threading.Thread(target=keep_places, args=([process], lambda: children(process.pid)))
    placing.start()
    said, problem = process.communicate()
    placing.join()
    assert process.returncode == 0, problem
    return said


def children(process):
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == process:
            found.append(int(path.parent.name))
    return found


def peak(process):
    try:
        return 1024 * int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{process}/status").read_text())[1])
    except (OSError, TypeError):
        return 0


def steps_of(folder):
    metrics = folder / "metrics.jsonl"
    lines = metrics.read_text().splitlines() if metrics.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def place(processes):
    """Each on a core of its own, or on one that as few as possible share, which the system does by itself where nothing else runs."""
    for number, process in enumerate(processes):
        for task in pathlib.Path(f"/proc/{process}/task").glob("*"):
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(task.name), {number % os.cpu_count()})


def keep_places(processes, ranks, done=lambda: False):
    """Until one has ended, or all is done; gives the largest peak of a rank."""
    most, placed = 0, []
    while not done() and all(process.poll() is None for process in processes):
        if len(found := ranks()) > len(placed):
            place(placed := found)
        most = max([most, *map(peak, found)])
        time.sleep(0.02)
    return most


def watched(processes, ranks, folder, steps):
    """Ends them after so many steps; gives the largest peak of a rank."""
    most = keep_places(processes, ranks, lambda: len(steps_of(folder)) >= steps)
    assert len(steps_of(folder)) >= steps, processes[0].communicate()[1]
    for process in processes:
        process.send_signal(signal.SIGTERM)
    for process in processes:
        process.communicate()
    return most


def run(words, count, link, folder, steps):
    shutil.rmtree(folder, ignore_errors=True)
    if link == "loopback":
        process = subprocess.Popen([EXECUTABLE, *words, "--ranks", str(count)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=plain())
        most = watched([process], lambda: children(process.pid), folder, steps)
    else:
        processes = hosts.start(words, next(PORT), count)
        most = watched(processes, lambda: [process.pid for process in processes], folder, steps)
    lines = steps_of(folder)[:steps]
    seconds = [line["seconds"] for line in lines]
    times = [after - before for before, after in itertools.pairwise(seconds)]
    exchange = [line["exposed_communication_seconds"] for line in lines[1:]]
    return {"step": min(times), "all_steps": times, "exchange": min(exchange), "memory": most}


def measured_network(folder, count, link):
    path = folder / f"network-{link}-{count}.toml"
    words = ["bench", "network", "--seconds", "1", "--out", str(path)]
    if link == "loopback":
        command(*words, "--ranks", count)
    else:
        processes = hosts.start(words, next(PORT), count)
        keep_places(processes, lambda: [process.pid for process in processes])
        assert not any(found["code"] for found in hosts.ended(processes))
    return path


def forecast(config, count, network):
    """Of all layouts."""
    return json.loads(command("train", config, "--dry-run", "--json", "--ranks", count, "--machine", network))["layouts"]


def of_layout(layouts, layout, count):
    """Of all ranks in that layout alone; None where they cannot share a step so."""
    divides, shared = layout == "moments", "data" if layout == "moments" else layout
    found = [each for each in layouts if each["runs"] and each[shared] == count and each["divides_moments"] == divides]
    if not found:
        return None
    [layout] = found
    return {"step": layout["step_seconds"], "exchange": layout["communication_seconds"], "memory": layout["bytes"], "parts": layout["memory"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--again", action="store_true", help="forecasts of the runs that FOLDER/found.json has, and no runs")
    for name, given in (("models", ",".join(MODELS)), ("ranks", "2,4"), ("links", "loopback,1gbit,200mbit"), ("layouts", "data"), ("slices", "8")):
        parser.add_argument(f"--{name}", default=given)
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.update(environment())
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    most = max(map(int, arguments.ranks.split(",")))
    hosts.make_hosts(most)
    before = json.loads((folder / "found.json").read_text()) if arguments.again else []
    took_before = {(each["link"], each["ranks"], each["layout"], each["model"]): each["took"] for each in before}

    def took_of(words, count, link, out, name, layout):
        if arguments.again:
            return took_before.get((link, count, layout, name))
        return run(words, count, link, out, MODELS[name]["steps"])

    found = []
    print(f"{'link':10}{'ranks':>6} {'layout':8}{'model':8}{'step':>9}{'said':>9}{'ratio':>7}{'exchange':>10}{'said':>9}{'MiB':>7}{'said':>7}{'ratio':>7}{'load':>6}")
    for link in arguments.links.split(","):
        if link != "loopback":
            hosts.slow(link, most)
        for count in map(int, arguments.ranks.split(",")):
            network = measured_network(folder, count, link)
            for name, layout in itertools.product(arguments.models.split(","), arguments.layouts.split(",")):
                config, out = folder / f"{name}.toml", folder / f"{name}-{layout}-{link}-{count}"
                if layout == arguments.layouts.split(",")[0]:
                    config.write_text(CONFIG.format(name=name, slices=arguments.slices, **MODELS[name]))
                    layouts = forecast(config, count, network)
                said = of_layout(layouts, layout, count)
                if said is None:
                    continue
                shared = {"data": [], "moments": ["--set", "parallel.divide_moments=true"]}.get(layout, ["--set", f"parallel.{layout}={count}"])
                took = took_of(["train", str(config), "--out", str(out), *shared], count, link, out, name, layout)
                if took is None:
                    continue
                load = os.getloadavg()[0]
                found.append({"link": link, "ranks": count, "layout": layout, "model": name, "said": said, "took": took, "load": load})
                print(
                    f"{link:10}{count:6} {layout:8}{name:8}{took['step']:9.3f}{said['step']:9.3f}{said['step'] / took['step']:7.2f}"
                    f"{took['exchange']:10.3f}{said['exchange']:9.3f}{took['memory'] / 2**20:7.0f}{said['memory'] / 2**20:7.0f}"
                    f"{said['memory'] / took['memory']:7.2f}{load:6.1f}",
                    flush=True,
                )
                (folder / ("again.json" if arguments.again else "found.json")).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
