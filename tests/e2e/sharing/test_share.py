"""A box that teams share, as docs/share.md has it: Unix users, their parts, their limits, and what is refused."""

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import Muster
from tests.e2e.unixpeople import CAN_MAKE_USERS, WHY_NOT, Person, new_people, until

from muster.cluster.nodes.disk.leftovers import find_shared

pytestmark = pytest.mark.skipif(not CAN_MAKE_USERS, reason=WHY_NOT)

QUEUE = "kueue.x-k8s.io/queue-name"
GPU = "nvidia.com/gpu"


@dataclass(frozen=True)
class Box:
    """A machine of 8 GPUs that root serves to three people."""

    ada: Person
    bob: Person
    eve: Person
    muster: Muster

    def root(self, command: str) -> str:
        done = self.muster(*command.split())
        return done.stdout + done.stderr

    def submit(self, person: Person, name: str, gpus: int = 0, queue: str = "") -> tuple[int, Any]:
        """Submit a job of one pod; return the status and the answer."""
        resources = {"limits": {GPU: gpus}} if gpus else {}
        container = {"name": "c", "image": "none", "command": ["sleep", "600"], "resources": resources}
        pod = {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}}
        meta = {"name": name, "labels": {QUEUE: queue} if queue else {}}
        path = f"/apis/batch/v1/namespaces/{person.namespace}/jobs"
        status, text = person.ask("POST", path, {"metadata": meta, "spec": {"template": pod}})
        return status, json.loads(text)

    def lands(self, person: Person, name: str, gpus: int = 0, queue: str = "") -> str:
        status, answer = self.submit(person, name, gpus, queue)
        assert status == 201, answer
        return str(answer["metadata"]["labels"][QUEUE])

    def state(self, person: Person, name: str) -> str:
        """Return `Running`, or why the job waits once that is known."""
        rows = json.loads(self.muster("ps", "-n", person.namespace, "-o", "json").stdout)
        row = next(one for one in rows if one["name"] == name)
        return str(row["reason"] or row["state"])

    def clear(self, *people: Person) -> None:
        for person in people:
            self.muster("cancel", "--all", "--delete", "--yes", "-n", person.namespace, check=False)


@pytest.fixture(scope="module")
def box(shared_muster: Muster) -> Iterator[Box]:
    place = Path(tempfile.mkdtemp(prefix="muster-test-", dir="/run"))
    place.chmod(0o755)
    path = place / "socket" / "muster.sock"
    nodes = "process,cpu=64,memory=64Gi,gpus=8:fake"
    try:
        with new_people(path, "share-ada", "share-bob", "share-eve") as (ada, bob, eve):
            shared_muster("up", "--detach", "--port", "0", "--socket", str(path), "--nodes", nodes)
            yield Box(ada, bob, eve, shared_muster)
            shared_muster("down", "--yes")
    finally:
        shutil.rmtree(place)
        shutil.rmtree(find_shared(shared_muster.home), ignore_errors=True)


def test_a_day_of_a_shared_box(box: Box) -> None:
    ada, bob, eve = box.ada, box.bob, box.eve
    assert box.lands(eve, "before") == "default"

    # Root divides the machine. Who has been here before gets the queue, too.
    said = box.root(f"queue create vision --share 2 --gpus 4 --users {ada.name},{eve.name}")
    assert f"jobs of {ada.name}, {eve.name} that name no queue go to vision" in said
    assert "only teams run jobs now" in said
    said = box.root(f"queue create speech --share 1 --gpus 2 --users {bob.name},{eve.name}")
    assert f"{eve.name} is in vision, too: jobs that name no queue go to vision" in said
    assert "only teams run jobs now" not in said, "they did before"
    refused = box.muster("queue", "create", "more", "--gpus", "3", "--users", bob.name, check=False)
    assert refused.stderr.startswith(f"Error: more cannot get 3 {GPU}, and 2 is left (speech has 2, vision has 4);")

    # Users land in their team's queue, and nobody else starts there.
    assert box.lands(ada, "mine", 1) == "vision"
    assert box.lands(bob, "his", 1) == "speech"
    until(lambda: {box.state(ada, "mine"), box.state(bob, "his")} == {"Running"})
    status, answer = box.submit(ada, "elsewhere", queue="default")
    assert (status, "use queue vision" in answer["message"]) == (403, True)
    box.root(f"queue edit speech --add-users {ada.name}")
    box.root(f"queue edit speech --remove-users {ada.name}")  # the way to the queue stays
    status, answer = box.submit(ada, "intruder", 1, "speech")
    whose = (
        f"queue speech is for {bob.name}, {eve.name}, and not for {ada.name}; an administrator may run: muster queue"
    )
    assert (status, whose in answer["message"]) == (403, True)

    # Another default queue.
    box.root(f"user queue {eve.name} speech")
    assert box.lands(eve, "spoken") == "speech"

    # Limits at once and in line, and why.
    box.root("queue edit vision --per-user jobs=1,waiting-jobs=1")
    assert box.lands(ada, "second") == "vision"
    reason = f"{ada.name} has 1 job with quota in ClusterQueue vision, and each user may have 1 at once"
    until(lambda: reason in box.state(ada, "second"))
    assert reason in box.root(f"why second -n {ada.namespace}")
    status, answer = box.submit(ada, "third")
    assert (status, "each user may have 1 in line" in answer["message"]) == (403, True)

    # The part of a team that is deleted goes back.
    box.clear(ada, bob, eve)
    until(lambda: "vision" in box.root("queue delete vision --yes"))
    until(lambda: "vision" not in box.root("queue list"))
    until(lambda: re.search(r"muster-default.* 0/6\b", box.root("queue list")))


def test_idle_gpus_are_borrowed_and_taken_back(box: Box) -> None:
    ada, bob = box.ada, box.bob
    box.root(f"queue create images --share 1 --gpus 4 --users {ada.name}")
    box.root(f"queue create audio --share 1 --gpus 2 --users {bob.name}")
    assert box.lands(ada, "wide", 6) == "images"
    until(lambda: box.state(ada, "wide") == "Running")
    assert box.lands(bob, "own", 2, "audio") == "audio"
    until(lambda: box.state(bob, "own") == "Running")
    assert box.lands(bob, "more", 2, "audio") == "audio"
    until(lambda: "insufficient" in box.state(bob, "more"))
    box.clear(ada)
    until(lambda: box.state(bob, "more") == "Running")
    assert box.lands(bob, "most", 4, "audio") == "audio"
    until(lambda: box.state(bob, "most") == "Running")
    assert box.lands(ada, "back", 4) == "images"
    until(lambda: box.state(ada, "back") == "Running")
    until(lambda: box.state(bob, "most") != "Running")
    box.clear(ada, bob)
