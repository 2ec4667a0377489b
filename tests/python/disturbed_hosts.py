"""A run on four hosts that something happens to again and again.

    unshare --net --mount python tests/python/disturbed_hosts.py EVENTS SEED WORDS…

Starts a command of Cogwheel by torchrun on each of four hosts (hosts.py), and once it trains, at a random moment, has one of these in turn
happen to a host other than the first, where ranks meet: its rank is killed or frozen, its torchrun is killed, its link goes down, or
the host is lost with all that runs there. All others have to end by themselves. A frozen rank keeps the torchrun of its host waiting,
which nobody tells that the other hosts have ended: it goes on then, and has to end too. Then the same command starts again, EVENTS
times in all, and once more to its end. Prints JSON: for each event its kind, the seconds until no process was left (beside a frozen
rank and its torchrun), and how many had to be killed in the end; and the exit codes of the last start.
"""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import hosts
from processes import wait_for

KINDS = ("rank killed", "rank frozen", "torchrun killed", "link down", "host lost")
PATIENCE = 120.0


def processes_of(host=None):
    """All that was started on a host, or on any: their numbers, and whether each is a rank."""
    found = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            environment = path.read_bytes().split(b"\0")
            state = path.with_name("stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        names = dict(each.split(b"=", 1) for each in environment if b"=" in each)
        if state != "Z" and names.get(b"DISTURBED") == str(os.getpid()).encode() and host in (None, int(names[b"HOST"])):
            found[int(path.parent.name)] = b"LOCAL_RANK" in names
    return found


def start(words, port):
    launchers = []
    for host in range(hosts.HOSTS):
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", str(hosts.HOSTS), "--node-rank", str(host)]
        meeting = ["--nproc-per-node", "1", "--master-addr", hosts.address(0), "--master-port", str(port)]
        environment = {**os.environ, "GLOO_SOCKET_IFNAME": "wire", "DISTURBED": str(os.getpid()), "HOST": str(host)}
        command = ["ip", "netns", "exec", f"host{host}", *torchrun, *meeting, "-m", "cogwheel", *words]
        launchers.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    return launchers


def disturb(kind, host):
    here = processes_of(host)
    if kind in ("link down", "host lost"):
        hosts.ip("link", "set", f"to{host}", "down")
    hit = {"rank killed": True, "rank frozen": True, "torchrun killed": False}.get(kind)
    for process, is_rank in here.items():
        if kind == "host lost" or is_rank == hit:
            os.kill(process, signal.SIGSTOP if kind == "rank frozen" else signal.SIGKILL)


def last_step(metrics):
    lines = metrics.read_text().splitlines() if metrics.exists() else []
    return max((json.loads(line)["step"] for line in lines if line.endswith("}")), default=0)


def until_ended(but):
    """The seconds until no other process is left."""
    since = time.monotonic()
    while set(processes_of()) - set(but) and time.monotonic() - since < PATIENCE:
        time.sleep(0.1)
    return time.monotonic() - since


def event(draw, kind, words, port, metrics):
    before = last_step(metrics)
    launchers = start(words, port)
    wait_for(lambda: last_step(metrics) > before or all(each.poll() is not None for each in launchers))
    time.sleep(draw.uniform(0, 4))
    assert any(each.poll() is None for each in launchers), "the command has ended by itself: the run is over, or did not start"
    host = draw.randrange(1, hosts.HOSTS)
    disturb(kind, host)
    frozen = list(processes_of(host)) if kind == "rank frozen" else []
    waited = until_ended(frozen)
    for process in frozen:
        os.kill(process, signal.SIGCONT)
    until_ended([])
    left = processes_of()
    for process in left:
        os.kill(process, signal.SIGKILL)
    for each in launchers:
        each.wait()
    hosts.ip("link", "set", f"to{host}", "up")
    return {"kind": kind, "waited": waited, "left": len(left), "step": last_step(metrics)}


def main():
    events, draw, words = int(sys.argv[1]), random.Random(int(sys.argv[2])), sys.argv[3:]
    metrics = pathlib.Path(words[words.index("--out") + 1], "metrics.jsonl")
    hosts.make_hosts()
    found, kinds = [], []
    try:
        for number in range(events):
            kinds = kinds or draw.sample(KINDS, len(KINDS))
            found.append(event(draw, kinds.pop(), words, 29500 + number, metrics))
            print(found[-1], file=sys.stderr, flush=True)
        codes = [each.wait() for each in start(words, 29900)]
    finally:
        for process in processes_of():
            os.kill(process, signal.SIGKILL)
    print(json.dumps({"events": found, "codes": codes}))


if __name__ == "__main__":
    main()
