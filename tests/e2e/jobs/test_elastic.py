"""A job that changes its size while it trains, on real processes."""

import asyncio
import json
import re
import subprocess

import pytest
import yaml
from tests.e2e.conftest import ROOT

from muster.api.batch import JOB_NAME_LABEL
from muster.api.core import POD
from muster.api.pods import is_active, rank_of, restart_count
from muster.runtime.client import Client
from muster.runtime.clock import RealClock
from muster.runtime.ids import Random
from muster.runtime.kube.https import HttpsTransport
from muster.runtime.kube.kubeconfig_files import load

LINE = re.compile(r"\[0\] epoch (\d+): (\d+) workers, loss \S+, accuracy (\S+), samples (\d+)\n")


class Training:
    """`muster run` of the example: the epochs that it has shown so far."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.epochs: list[tuple[int, int]] = []  # number, workers
        self.accuracy = 0.0

    def read(self) -> bool:
        """One more line; False at the end."""
        line = self.process.stdout.readline()
        if found := LINE.fullmatch(line):
            assert found[4] == "1437", "all samples, none of them twice"
            self.epochs.append((int(found[1]), int(found[2])))
            self.accuracy = float(found[3])
        return bool(line)

    def until(self, workers: int) -> None:
        """Wait for an epoch that so many have made."""
        while not self.epochs or self.epochs[-1][1] != workers:
            assert self.read(), f"it ended: {self.process.stderr.read()}"


@pytest.fixture
def train(up):
    """Starts the example; what is left of it is ended."""
    started = []

    def start(*arguments):
        example = ["python", "examples/elastic_digits.py", "--worlds", "3", "--pause", "0.02"]
        started.append(up.start("run", "--name", "digits", *arguments, "--", *example))
        return Training(started[-1])

    yield start
    for process in started:
        process.kill()
        process.communicate()


def workers(muster):
    """The UID, node, address and number of restarts of the job's pods that are to stay, by rank."""

    async def look():
        client = Client(HttpsTransport(load({}, path=muster.home / "kubeconfig"), RealClock(), Random()))
        try:
            return (await client.list(POD, "default", labels=f"{JOB_NAME_LABEL}=digits")).items
        finally:
            await client.transport.close()

    return {
        rank_of(pod): (pod.metadata.uid, pod.spec.node_name, pod.spec.hostname, pod.status.pod_ip, restart_count(pod))
        for pod in asyncio.run(look())
        if is_active(pod)
    }


@pytest.mark.timeout(180)
def test_training_survives_changes_of_its_size(up, train):
    training = train("--elastic", "4:4")
    training.until(4)
    four = workers(up)
    assert "scaled from 4 to 2" in up("scale", "digits", "2", "--force").stdout
    training.until(2)
    two = workers(up)
    up("scale", "digits", "6")
    training.until(6)
    six = workers(up)
    while training.read():
        pass
    _, told = training.process.communicate(timeout=30)
    assert training.process.returncode == 0, told
    assert sorted(four) == list("0123")
    assert two == {rank: four[rank] for rank in "01"}
    assert six.keys() == set("012345")
    assert {rank: six[rank] for rank in "01"} == two
    numbers = [number for number, _ in training.epochs]
    assert numbers == list(range(1, len(numbers) + 1)), "none is missing, none was made twice"
    assert training.epochs[0][1] == 4
    assert training.accuracy > 0.9
    assert re.findall(r"digits: (.*) workers", told)[:2] == ["all 4", "now 2"], told


# Shows every world that it reads, with the WORLD_SIZE of its environment, and ends in the third.
SCRIPT = """
while :; do
  now=$(cat $MUSTER_WORLD)
  if [ "$now" != "$before" ]; then echo "$now $WORLD_SIZE"; before=$now; fi
  case $now in *'"epoch":'[3-9]*) exit 0;; esac
  sleep 0.05
done
"""


@pytest.mark.kubectl
def test_the_manifest_on_the_page_is_told_of_what_kubectl_does(up):
    page = (ROOT / "docs/elastic.md").read_text()
    [text] = [block for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "muster.dev/elastic" in block]
    job = yaml.safe_load(text)
    job["metadata"]["annotations"]["muster.dev/elastic"] = "4:4"  # nothing but what is done here changes its size
    job["spec"]["template"]["spec"]["containers"][0]["command"] = ["sh", "-c", SCRIPT]
    up("apply", "-f", "-", input=yaml.safe_dump(job))
    logs = up.start("logs", "-f", "train")
    smaller = json.dumps({"spec": {"completions": 2, "parallelism": 2}})
    changes = [(4, []), (2, ["patch", "job", "train", "-p", smaller]), (6, ["scale", "--replicas=6", "job/train"])]
    try:
        for epoch, (size, change) in enumerate(changes, 1):
            if change:
                subprocess.run(["kubectl", "--kubeconfig", str(up.home / "kubeconfig"), *change], check=True)
            world = json.dumps({"size": size, "epoch": epoch}, separators=(",", ":"))
            first_sizes = {rank: 4 if rank < 2 or epoch == 1 else size for rank in range(size)}
            missing = {f"[{rank}] {world} {first}\n" for rank, first in first_sizes.items()}
            while missing:
                line = logs.stdout.readline()
                assert line, f"{missing} was never said"
                missing.discard(line)
    finally:
        logs.kill()
        logs.communicate()
    assert up("wait", "train").returncode == 0


def test_it_makes_room_for_others_and_grows_back(muster, tmp_path):
    muster("up", "--detach", "--port", "0", "--nodes", "process,cpu=4")
    shrunk = tmp_path / "shrunk"
    script = SCRIPT.replace("  sleep", f"""  case $now in *'"epoch":2'*) touch {shrunk};; esac\n  sleep""")
    process = muster.start("run", "--elastic", "1:4", "--cpus", "1", "--", "sh", "-c", script)
    try:
        started = [process.stdout.readline() for _ in range(4)]
        assert sorted(started) == [f'[{rank}] {{"size":4,"epoch":1}} 4\n' for rank in range(4)]
        wait = f"while [ ! -e {shrunk} ]; do sleep 0.02; done"
        muster("run", "--workers", "2", "--cpus", "1", "--", "sh", "-c", wait)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0, err
    first = [json.loads(line.split()[1]) for line in out.splitlines() if line.startswith("[0]")]
    assert first[0] == {"size": 2, "epoch": 2}
    assert first[1]["size"] in (3, 4), "as many as had ended when it was seen"
