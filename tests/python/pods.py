"""An Indexed Job of Kubernetes without Kubernetes: what its manifest says, done by a few lines, on the hosts of hosts.py.

    unshare --net --mount --pid --fork --kill-child --mount-proc sh -c '"$@"; exit' sh python tests/python/pods.py MANIFEST RUN

In a network of its own, which ends with this process, runs the container's command once for each index, as a host of the name that a pod has, in
this folder in the place of the one that the manifest mounts, and begins again each that did not end well, as the manifest's failure policy
allows. Meanwhile one pod is asked to end, and the first one is killed. Prints JSON: what each pod ended with, in order, and the failures that count.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import yaml
from hosts import HOSTS, address, make_hosts


def parts(manifest):
    return {part["kind"]: part for part in yaml.safe_load_all(pathlib.Path(manifest).read_text())}


class Pods:
    def __init__(self, manifest):
        self.job = parts(manifest)["Job"]
        self.spec = self.job["spec"]["template"]["spec"]
        self.count = self.job["spec"]["completions"]
        self.running, self.complete, self.ended, self.failures = {}, set(), [], 0
        self.names = pathlib.Path("names")
        self.names.write_text(pathlib.Path("/etc/hosts").read_text())
        subprocess.run(["mount", "--bind", self.names, "/etc/hosts"], check=True)

    def start(self, index):
        host = f"{self.job['metadata']['name']}-{index}"
        name = f"{host}.{self.spec['subdomain']}"
        if name not in self.names.read_text():
            with self.names.open("a") as names:
                names.write(f"{address(index)} {name} {host}\n")
        (container,) = self.spec["containers"]
        environment = {each["name"]: each["value"] for each in container["env"]}
        # One thread, for this machine has not the cores that the manifest asks for.
        environment |= {"JOB_COMPLETION_INDEX": str(index), "OMP_NUM_THREADS": "1"}
        on_host = ["nsenter", f"--net=/run/netns/host{index}", "unshare", "--uts", "sh", "-c", f'hostname {host} && exec "$@"', "sh"]
        self.running[index] = subprocess.Popen([*on_host, *container["command"]], env={**os.environ, **environment}, stdout=sys.stderr)

    def see_to(self):
        """Takes note of what has ended, and begins again what has to be; false once nothing is left to do."""
        for index, process in list(self.running.items()):
            if process.poll() is None:
                continue
            del self.running[index]
            status = process.returncode if process.returncode >= 0 else 128 - process.returncode
            self.ended.append([index, status])
            if status == 0:
                self.complete.add(index)
                continue
            rules = [rule for rule in self.job["spec"]["podFailurePolicy"]["rules"] if status in rule.get("onExitCodes", {}).get("values", [])]
            action = rules[0]["action"] if rules else "Count"
            self.failures += action == "Count"
            if action == "FailJob" or self.failures > self.job["spec"]["backoffLimit"]:
                sys.exit(f"the job failed: {self.ended}")
            self.start(index)
        return len(self.complete) < self.count

    def go_on_until(self, condition):
        until = time.monotonic() + 240
        while not condition() and self.see_to():
            time.sleep(0.02)
            if time.monotonic() > until:
                sys.exit(f"nothing happened: {self.ended}")


def main():
    manifest, run = sys.argv[1:]
    metrics = pathlib.Path(run, "metrics.jsonl")

    def at_step(step):
        return lambda: metrics.exists() and f'"step":{step},' in metrics.read_text()

    make_hosts()
    pods = Pods(manifest)
    assert pods.count <= HOSTS
    for index in reversed(range(pods.count)):  # the first, whom all look for, has no name yet
        pods.start(index)
        time.sleep(1)
    pods.go_on_until(at_step(40))
    pods.running[2].send_signal(signal.SIGTERM)
    pods.go_on_until(at_step(120))
    pods.running[0].kill()
    pods.go_on_until(lambda: False)
    print(json.dumps({"ended": pods.ended, "failures": pods.failures}))


if __name__ == "__main__":
    main()
