"""A cluster of Slurm on one machine: its controller and two nodes are hosts of hosts.py.

    unshare --net --mount --pid --fork --kill-child --mount-proc sh -c '"$@"; exit' sh python tests/python/slurm_hosts.py FOLDER SCRIPT CONFIG RUN

In a network of its own, which ends with this process as all that it started does, submits SCRIPT, a job of the run RUN, from FOLDER, and
interrupts it three times: kills a rank, which ends the job, and has it begin again; sends the ranks SIGTERM, as when the time is nearly over; takes
the nodes from it, as for a job that matters more. Prints JSON: after each, and in the end, the state of the job and the ranks that are left.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys

from hosts import HOSTS, address, make_hosts
from processes import wait_for

CONFIGURATION = """
ClusterName=tests
SlurmctldHost=host0
SlurmUser=root
AuthType=auth/munge
AuthInfo=cred_expire=5
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
SchedulerParameters=sched_interval=1
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
NodeName=host[1-2] CPUs=2
PartitionName=all Nodes=ALL Default=YES
"""


def on(host, *words, **options):
    """Runs a command on a host, which knows its own name."""
    named = ["unshare", "--uts", "sh", "-c", f'hostname host{host} && exec "$@"', "sh"]
    return subprocess.run(["nsenter", f"--net=/run/netns/host{host}", *named, *words], check=True, text=True, timeout=60, **options)


def start_cluster(folder):
    """The daemons, which find their files where they always are: folders in memory, that nobody else sees."""
    for place in ("/run", "/etc/slurm"):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "none", place], check=True)
    pathlib.Path("/run/munge").mkdir()
    make_hosts()
    names = folder / "hosts"
    names.write_text(pathlib.Path("/etc/hosts").read_text() + "".join(f"{address(host)} host{host}\n" for host in range(HOSTS)))
    subprocess.run(["mount", "--bind", str(names), "/etc/hosts"], check=True)
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    files = [f"--{name}-file={folder}/munged.{name}" for name in ("log", "pid", "seed")]
    subprocess.run(["munged", f"--key-file={key}", *files], check=True)
    pathlib.Path("/etc/slurm/slurm.conf").write_text(CONFIGURATION.format(folder=folder))
    # Nothing above needs cgroups, but slurmd looks for them, and for systemd's, unless their plugin is that of version 1.
    pathlib.Path("/etc/slurm/cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    for place in ("state", "host1", "host2"):
        (folder / place).mkdir()
    on(0, "slurmctld")
    on(1, "slurmd")
    on(2, "slurmd")
    wait_for(lambda: on(0, "sinfo", "--noheader", "--format=%D %T", capture_output=True).stdout.split() == ["2", "idle"], seconds=60)


def ranks():
    """By its number, the process of each rank."""
    found = {}
    for place in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words, environment = ((place / name).read_bytes().split(b"\0") for name in ("cmdline", "environ"))
        except OSError:  # it has ended
            continue
        if words[1:3] == [b"-m", b"cogwheel"]:
            found[next(int(each[5:]) for each in environment if each.startswith(b"RANK="))] = int(place.name)
    return found


class Job:
    def __init__(self, script, config, run, folder):
        self.metrics = folder / run / "metrics.jsonl"
        self.number = on(0, "sbatch", "--parsable", script, config, run, cwd=folder, capture_output=True).stdout.strip()

    def found(self):
        shown = on(0, "scontrol", "--oneliner", "show", "job", self.number, capture_output=True).stdout
        state = dict(word.split("=", 1) for word in shown.split() if "=" in word)
        return {"state": state["JobState"], "restarts": int(state["Restarts"]), "ranks": ranks()}

    def wait_for_step(self, step):
        wait_for(lambda: self.metrics.exists() and f'"step":{step},' in self.metrics.read_text())

    def wait_for_end(self, *states, restarts):
        """Of the job, or of its ranks where it begins again."""

        def ended():
            found = self.found()
            return found["state"] in states and found["restarts"] == restarts and found

        return wait_for(ended, seconds=120)


def main():
    folder, script, config, run = pathlib.Path(sys.argv[1]).resolve(), *sys.argv[2:]
    cluster = folder / "cluster"
    cluster.mkdir()
    start_cluster(cluster)
    job, found = Job(script, config, run, folder), []

    job.wait_for_step(40)
    os.kill(ranks()[3], signal.SIGKILL)
    found.append(job.wait_for_end("FAILED", "NODE_FAIL", "COMPLETED", restarts=0))
    on(0, "scontrol", "requeue", job.number)

    job.wait_for_step(120)
    on(0, "scancel", "--signal=TERM", job.number)
    found.append(job.wait_for_end("PENDING", "FAILED", "COMPLETED", restarts=2))

    job.wait_for_step(200)
    on(0, "scontrol", "requeue", job.number)
    found.append(job.wait_for_end("PENDING", "FAILED", "COMPLETED", restarts=3))

    found.append(job.wait_for_end("COMPLETED", "FAILED", restarts=3))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
