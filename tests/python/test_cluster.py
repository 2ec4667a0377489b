"""The recipes of examples/cluster: the job of Slurm on a small cluster of this machine, that of Kubernetes as it says that it runs."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from rank_runs import CONFIG, KINDS, expect_same, trained
from recorded_bits import generated_text

HERE = pathlib.Path(__file__).parent
LONGER = "steps = 480"
SLURM = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol")
ALONE = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "text.txt").write_text(generated_text())
    task, model, training = KINDS["gpt"]
    (folder / "gpt.toml").write_text(CONFIG.format(task=task, model=model, training=training).replace("steps = 24", LONGER))
    return folder


@pytest.fixture(scope="module")
def of_one(work, cogwheel_in):
    """The run by one process."""
    trained(cogwheel_in(work)("train", "gpt.toml", "--out", "one"))
    return work / "one"


@pytest.fixture
def alone():
    """What runs a program of this folder in a network of its own, all of whose processes end with it."""
    if not shutil.which("unshare") or subprocess.run([*ALONE, "ip", "link", "add", "bridge", "type", "bridge"], capture_output=True).returncode:
        pytest.skip("no right to make networks, or no `ip`")

    def run(program, *words, folder):
        command = [*ALONE, "sh", "-c", '"$@"; exit', "sh", sys.executable, HERE / program, *words]
        place = {"PATH": f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, cwd=folder, env={**os.environ, **place}, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.mark.slow
def test_a_job_of_slurm_is_killed_and_requeued(repository, work, of_one, alone):
    if missing := [program for program in SLURM if not shutil.which(program)]:
        pytest.skip(f"no {', '.join(missing)}; the Debian packages slurmctld, slurmd, slurm-client and munge have them")
    found = alone("slurm_hosts.py", work, repository / "examples/cluster/slurm.sh", "gpt.toml", "slurm", folder=work)
    said = "".join(path.read_text() for path in work.glob("cogwheel-*.out"))
    killed, stopped, taken, done = found
    assert (killed["state"], stopped["state"], taken["state"], done["state"]) == ("FAILED", "PENDING", "PENDING", "COMPLETED"), (found, said)
    assert not any(each["ranks"] for each in found), (found, said)
    assert said.count("; `cogwheel resume slurm` continues") == 2, said  # with a checkpoint of the step where it was stopped
    expect_same(work / "slurm", of_one)


@pytest.fixture(scope="module")
def manifest(repository):
    pytest.importorskip("yaml")
    return repository / "examples/cluster/kubernetes.yaml"


def test_what_the_manifest_of_kubernetes_says_twice_is_the_same(manifest):
    from pods import parts

    found = parts(manifest)
    assert found.keys() == {"Service", "Job"}
    service, job = found["Service"], found["Job"]
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    environment = {each["name"]: each["value"] for each in container["env"]}
    ranks = int(environment["WORLD_SIZE"])
    assert spec["completionMode"] == "Indexed" and spec["completions"] == spec["parallelism"] == ranks
    assert ranks > 1 and ranks & (ranks - 1) == 0
    # Kubernetes calls a pod of an Indexed Job by the job and its index, in the domain of a service that selects it and has no address.
    assert pod["subdomain"] == service["metadata"]["name"] and service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": job["metadata"]["name"]}
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert environment["MASTER_ADDR"] == f"{job['metadata']['name']}-0.{pod['subdomain']}"
    assert environment["MASTER_PORT"] in [str(each["port"]) for each in service["spec"]["ports"]]
    # A failure policy needs pods that do not begin again by themselves; all ranks fail together.
    assert pod["restartPolicy"] == "Never" and spec["backoffLimit"] >= 2 * ranks and spec["backoffLimit"] % ranks == 0
    assert {each["name"] for each in pod["volumes"]} == {each["name"] for each in container["volumeMounts"]}
    assert container["workingDir"] in [each["mountPath"] for each in container["volumeMounts"]]
    assert container["resources"]["limits"]["cpu"] == environment["OMP_NUM_THREADS"]


def test_the_manifest_of_kubernetes_follows_its_schema(manifest):
    validate = pytest.importorskip("kubernetes_validate")
    from pods import parts

    for part in parts(manifest).values():
        for version in ("1.29", "1.31", "1.34"):
            validate.validate(part, version, strict=True)


@pytest.mark.slow
def test_a_job_of_kubernetes_goes_on_without_a_pod(manifest, work, of_one, alone):
    (work / "run.toml").write_text((work / "gpt.toml").read_text())
    found = alone("pods.py", manifest, "run", folder=work)
    stopped, killed, done = (sorted(found["ended"][start : start + 4]) for start in (0, 4, 8))
    assert stopped == [[index, 130] for index in range(4)], found
    assert killed == [[0, 137], [1, 1], [2, 1], [3, 1]] and found["failures"] == 4, found
    assert done == [[index, 0] for index in range(4)] and len(found["ended"]) == 12, found
    expect_same(work / "run", of_one)
