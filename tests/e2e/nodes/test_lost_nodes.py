"""A machine that has joined is lost: its job starts on another one, and never runs twice at once."""

import asyncio
import json
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any

from tests.e2e.conftest import Muster

from muster.cluster.nodes.disk.leftovers import end_everything

SETTINGS = """\
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
muster: {nodes: {monitorGracePeriod: 4s, defaultTolerationSeconds: 2}}
"""
BOXES = ("box-a", "box-b")
# Says where it runs, again and again, for as long as it runs.
SCRIPT = "while :; do echo $NODE $(date +%s%N) >> {told}; sleep 0.05; done"
LIMIT = 60.0


def job(told: Path) -> str:
    where = {"key": "kubernetes.io/hostname", "operator": "In", "values": list(BOXES)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [where]}]}
    container = {
        "name": "c",
        "image": "none",
        "command": ["sh", "-c", SCRIPT.format(told=told)],
        "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
    }
    pod = {
        "restartPolicy": "Never",
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
        "tolerations": [{"key": "muster.dev/node-kind", "operator": "Exists", "effect": "NoSchedule"}],
        "containers": [container],
    }
    return json.dumps(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {"spec": pod}}}
    )


def until(condition: Callable[[], Any]) -> Any:
    end = time.monotonic() + LIMIT
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.1)
    return found


@contextmanager
def joined(muster: Muster, *names: str) -> Iterator[dict[str, "Popen[str]"]]:
    """Machines that have joined, each in a process of its own."""
    options = ("--kubeconfig", str(muster.home / "kubeconfig"), "--nodes", "process,cpu=1", "--lease-duration", "2s")
    agents = {name: muster.start("nodes", *options, "--name", name) for name in names}
    try:
        for agent in agents.values():
            assert agent.stdout is not None
            assert agent.stdout.readline() == "1 node registered\n"
        yield agents
    finally:
        for agent in agents.values():
            agent.kill()
            agent.communicate()
        for name in names:
            asyncio.run(end_everything(muster.home / "joined" / name))


def nodes_told(told: Path) -> list[tuple[str, int]]:
    lines = told.read_text().splitlines() if told.exists() else []
    return [(node, int(moment)) for node, moment in map(str.split, lines)]


def test_a_job_of_a_machine_that_is_lost_starts_on_another(muster: Muster, tmp_path: Path) -> None:
    told, settings = tmp_path / "told", tmp_path / "config.yaml"
    settings.write_text(SETTINGS)
    muster("up", "--detach", "--port", "0", "--config", str(settings), "--nodes", "process,cpu=1")
    with joined(muster, *BOXES) as agents:
        muster("apply", "-f", "-", input=job(told))
        first = until(lambda: nodes_told(told))[0][0]
        agents[first].send_signal(signal.SIGKILL)
        until(lambda: re.search(rf"^{first} +NotReady", muster("top").stdout, re.MULTILINE))
        other = next(name for name in BOXES if name != first)
        until(lambda: {node for node, _ in nodes_told(told)} == {first, other})
        last_of_first = max(moment for node, moment in nodes_told(told) if node == first)
        first_of_other = min(moment for node, moment in nodes_told(told) if node == other)
        assert last_of_first < first_of_other, "it never ran twice at once"
        taken = muster(
            "nodes",
            "--kubeconfig",
            str(muster.home / "kubeconfig"),
            "--nodes",
            "process",
            "--name",
            "node-0",
            check=False,
        )
        assert taken.returncode == 1
        assert "node-0 is a node of the server itself: join by another name" in taken.stderr
    muster("down")
