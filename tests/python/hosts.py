"""Hosts on one machine: network namespaces on a bridge, of which any link can be cut or slowed.

    unshare --net --mount python tests/python/hosts.py FOLDER STEP WORDS…

In a network of its own, which ends with this process, runs a command of Cogwheel as four ranks on four hosts, cuts the link of
the third once the run in FOLDER has made STEP, waits for all to end, mends the link and runs the command again. Prints JSON: the
exit codes and errors of both, and the seconds from the cut to the end.
"""

import json
import os
import pathlib
import subprocess
import sys
import time

HOSTS = 4


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def address(host):
    return f"10.9.0.{10 + host}"


def make_hosts(hosts=HOSTS):
    pathlib.Path("/run/netns").mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run/netns"], check=True)
    ip("link", "add", "bridge", "type", "bridge")
    ip("link", "set", "bridge", "up")
    for host in range(hosts):
        ip("netns", "add", f"host{host}")
        ip("link", "add", f"to{host}", "type", "veth", "peer", "name", "wire", "netns", f"host{host}")
        ip("link", "set", f"to{host}", "master", "bridge", "up")
        for words in (["set", "lo", "up"], ["set", "wire", "up"]):
            ip("-n", f"host{host}", "link", *words)
        ip("-n", f"host{host}", "address", "add", f"{address(host)}/24", "dev", "wire")


def slow(rate, hosts=HOSTS):
    """Both directions of every link, by a token bucket: "200mbit"."""
    links = [["tc"], *(["ip", "netns", "exec", f"host{host}", "tc"] for host in range(hosts))]
    for number, tc in enumerate(links):
        for device in [f"to{host}" for host in range(hosts)] if number == 0 else ["wire"]:
            bucket = ["tbf", "rate", rate, "burst", "1mb", "latency", "100ms"]
            subprocess.run([*tc, "qdisc", "replace", "dev", device, "root", *bucket], check=True)


def start(words, port, hosts=HOSTS):
    ranks = []
    for host in range(hosts):
        place = {"RANK": str(host), "WORLD_SIZE": str(hosts), "MASTER_ADDR": address(0), "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "wire"}
        command = ["ip", "netns", "exec", f"host{host}", sys.executable, "-m", "cogwheel", *words]
        ranks.append(subprocess.Popen(command, env={**os.environ, **place}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    return ranks


def ended(ranks):
    said = [rank.communicate(timeout=200) for rank in ranks]
    return [{"code": rank.returncode, "errors": errors} for rank, (_, errors) in zip(ranks, said, strict=True)]


def main():
    metrics, step, words = pathlib.Path(sys.argv[1], "metrics.jsonl"), sys.argv[2], sys.argv[3:]
    make_hosts()
    ranks = start(words, 29500)
    until = time.monotonic() + 120
    while not (metrics.exists() and f'"step":{step},' in metrics.read_text()) and time.monotonic() < until:
        time.sleep(0.01)
    ip("link", "set", "to2", "down")
    cut = time.monotonic()
    first = ended(ranks)
    waited = time.monotonic() - cut
    ip("link", "set", "to2", "up")
    print(json.dumps({"first": first, "waited": waited, "again": ended(start(words, 29501))}))


if __name__ == "__main__":
    main()
