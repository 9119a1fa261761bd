"""The pod's row: every word for what a pod is doing, as `kubectl get pods` has it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from muster.api.core import POD
from muster.cluster.apiserver.tables import pods

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)


def ago(**since: float) -> str:
    return (NOW - timedelta(**since)).strftime("%Y-%m-%dT%H:%M:%SZ")


def cells(document: dict[str, Any]) -> list[Any]:
    return pods.make_cells(POD.decode(msgspec.json.encode(document)), NOW)


def container(name: str, state: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "state": state, "image": "", "imageID": "", "ready": False, "restartCount": 0} | more


def running(name: str = "c", **more: Any) -> dict[str, Any]:
    return container(name, {"running": {"startedAt": ago(minutes=5)}}, **{"ready": True, "started": True} | more)


def waiting(reason: str, name: str = "c", **more: Any) -> dict[str, Any]:
    return container(name, {"waiting": {"reason": reason}}, **more)


def ended(code: int, reason: str = "", name: str = "c", signal: int = 0, **more: Any) -> dict[str, Any]:
    return container(name, {"terminated": {"exitCode": code, "reason": reason, "signal": signal}}, **more)


def status(phase: str = "Running", *containers: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"phase": phase, "containerStatuses": list(containers)} | more


def true(*types: str) -> list[dict[str, str]]:
    return [{"type": type_, "status": "True"} for type_ in types]


READY = true("Initialized", "Ready")
DELETED = {"deletionTimestamp": ago(seconds=1)}

# containers, init containers (a name with + is a sidecar), status, metadata -> ready, word
CASES: list[tuple[str, str, dict[str, Any], dict[str, Any], str, str]] = [
    ("c", "", status("Pending"), {}, "0/1", "Pending"),
    ("c", "", status("Pending", waiting("ContainerCreating")), {}, "0/1", "ContainerCreating"),
    ("c", "", status("Pending", waiting("")), {}, "0/1", "Pending"),
    ("c", "", status("Running", running()), {}, "1/1", "Running"),
    ("c", "", status("Running", running(ready=False)), {}, "0/1", "Running"),
    ("a b", "", status("Running", running("a"), waiting("CrashLoopBackOff", "b")), {}, "1/2", "CrashLoopBackOff"),
    ("a b", "", status("Running", waiting("ErrImagePull", "a"), ended(1, "Error", "b")), {}, "0/2", "ErrImagePull"),
    ("c", "", status("Succeeded", ended(0, "Completed")), {}, "0/1", "Completed"),
    ("c", "", status("Failed", ended(1, "Error")), {}, "0/1", "Error"),
    ("c", "", status("Failed", ended(137, "OOMKilled")), {}, "0/1", "OOMKilled"),
    ("c", "", status("Failed", ended(3)), {}, "0/1", "ExitCode:3"),
    ("c", "", status("Failed", ended(0, signal=9)), {}, "0/1", "Signal:9"),
    ("c", "", status("Failed", reason="Evicted"), {}, "0/1", "Evicted"),
    ("c", "", status("Failed", ended(137, "Error"), reason="DeadlineExceeded"), {}, "0/1", "Error"),
    ("a b", "", status("Running", ended(0, "Completed", "a"), running("b"), conditions=READY), {}, "1/2", "Running"),
    ("a b", "", status("Running", ended(0, "Completed", "a"), running("b")), {}, "1/2", "NotReady"),
    ("c", "", status("Running", running()), DELETED, "1/1", "Terminating"),
    ("c", "", status("Succeeded", ended(0, "Completed")), DELETED, "0/1", "Completed"),
    ("c", "", status("Running", running(), reason="NodeLost"), DELETED, "1/1", "Unknown"),
    ("c", "", status("Running", reason="NodeLost"), {}, "0/1", "NodeLost"),
    (
        "c",
        "",
        status("Pending", conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]),
        {},
        "0/1",
        "SchedulingGated",
    ),
    ("c", "i j", status("Pending", initContainerStatuses=[running("i"), waiting("")]), {}, "0/1", "Init:0/2"),
    (
        "c",
        "i j",
        status("Pending", initContainerStatuses=[ended(0, "Completed", "i"), waiting("PodInitializing", "j")]),
        {},
        "0/1",
        "Init:1/2",
    ),
    ("c", "i", status("Pending", initContainerStatuses=[ended(1, "Error", "i")]), {}, "0/1", "Init:Error"),
    ("c", "i", status("Pending", initContainerStatuses=[ended(2, "", "i")]), {}, "0/1", "Init:ExitCode:2"),
    ("c", "i", status("Pending", initContainerStatuses=[ended(0, "", "i", signal=0)]), {}, "0/1", "Pending"),
    ("c", "i", status("Pending", initContainerStatuses=[ended(1, "", "i", signal=15)]), {}, "0/1", "Init:Signal:15"),
    (
        "c",
        "i",
        status("Pending", initContainerStatuses=[waiting("CrashLoopBackOff", "i")]),
        {},
        "0/1",
        "Init:CrashLoopBackOff",
    ),
    (
        "c",
        "i",
        status("Pending", waiting("PodInitializing"), initContainerStatuses=[ended(0, "Completed", "i")]),
        {},
        "0/1",
        "PodInitializing",
    ),
    ("c", "+s", status("Running", running(), initContainerStatuses=[running("s")]), {}, "2/2", "Running"),
    (
        "c",
        "+s i",
        status("Pending", initContainerStatuses=[running("s"), running("i")]),
        {},
        "1/2",
        "Init:1/2",
    ),
    (
        "c",
        "+s",
        status("Running", running(), initContainerStatuses=[waiting("CrashLoopBackOff", "s")], conditions=READY),
        {},
        "1/2",
        "Init:CrashLoopBackOff",
    ),
]


@pytest.mark.parametrize(("names", "inits", "state", "metadata", "ready", "word"), CASES)
def test_the_word(
    names: str, inits: str, state: dict[str, Any], metadata: dict[str, Any], ready: str, word: str
) -> None:
    init_containers = [
        {"name": name.lstrip("+"), "restartPolicy": "Always"} if name.startswith("+") else {"name": name}
        for name in inits.split()
    ]
    spec = {"containers": [{"name": name} for name in names.split()], "initContainers": init_containers}
    assert cells({"metadata": metadata, "spec": spec, "status": state})[1:3] == [ready, word]


def test_all_cells() -> None:
    last = {"terminated": {"exitCode": 1, "finishedAt": ago(minutes=5)}}
    earlier = {"terminated": {"exitCode": 1, "finishedAt": ago(hours=1)}}
    document = {
        "metadata": {"name": "p", "creationTimestamp": ago(hours=2)},
        "spec": {
            "containers": [{"name": "a"}, {"name": "b"}],
            "nodeName": "n1",
            "readinessGates": [{"conditionType": "x"}, {"conditionType": "y"}],
        },
        "status": status(
            "Running",
            running("a", restartCount=1, lastState=earlier),
            running("b", restartCount=2, lastState=last),
            podIP="127.1.0.1",
            podIPs=[{"ip": "127.1.0.1"}],
            nominatedNodeName="n2",
            conditions=true("x"),
        ),
    }
    assert cells(document) == ["p", "2/2", "Running", "3 (5m ago)", "120m", "127.1.0.1", "n1", "n2", "1/2"]


def test_cells_of_almost_nothing() -> None:
    assert cells({}) == ["", "0/0", "", "0", "<unknown>", "<none>", "<none>", "<none>", "<none>"]


def test_restarts_of_init_containers_count_only_until_the_pod_is_initialized() -> None:
    inits = [ended(0, "Completed", "i", restartCount=4), running("s", restartCount=2)]
    spec = {
        "containers": [{"name": "c"}],
        "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}],
    }
    state = status("Running", running(restartCount=1), initContainerStatuses=inits)
    assert cells({"spec": spec, "status": state})[3] == "3"
    inits = [waiting("CrashLoopBackOff", "i", restartCount=4)]
    assert cells({"spec": spec, "status": status("Pending", initContainerStatuses=inits)})[3] == "4"
