"""What is put into the template of a child Job, and what its container does: pitfalls 43, 45 and 48."""

import json
import socket
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.jobs.jobset.start.worlds import MAIN, jobset, role

from muster.api.batch import JobTemplateSpec
from muster.api.config.types import GroupScheduling
from muster.api.core import Container
from muster.api.core.container import ResourceRequirements
from muster.jobs.jobset.start.barrier import MOUNT_PATH, SCRIPT, gated

STRICT = {
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
    "allowPrivilegeEscalation": False,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def template(**pod: Any) -> JobTemplateSpec:
    return jobset(role(pod=pod)).spec.replicated_jobs[0].template


def builtins(given: Any) -> Any:
    return json.loads(msgspec.json.encode(given))


def barrier_of(given: JobTemplateSpec) -> Container:
    return gated(given, jobset(), 3).spec.template.spec.init_containers[-1]


def test_the_barrier_comes_last_and_the_rest_stays() -> None:
    given = template(
        initContainers=[{"name": "fetch"}, {"name": "side", "restartPolicy": "Always"}], volumes=[{"name": "v"}]
    )
    found = gated(given, jobset(), 3).spec.template
    assert [each.name for each in found.spec.init_containers] == ["fetch", "side", "group-scheduling-init"]
    assert found.metadata.annotations == {"jobset.sigs.k8s.io/group-scheduling-epoch": "3"}
    assert found.spec.containers == given.spec.template.spec.containers
    assert given.spec.template.metadata.annotations == {}
    assert builtins(found.spec.volumes[1]) == {
        "name": "group-scheduling",
        "projected": {
            "sources": [
                {"configMap": {"name": "js-group-scheduling", "optional": True}},
                {
                    "downwardAPI": {
                        "items": [
                            {
                                "path": "epoch",
                                "fieldRef": {
                                    "fieldPath": "metadata.annotations['jobset.sigs.k8s.io/group-scheduling-epoch']"
                                },
                            }
                        ]
                    }
                },
            ]
        },
    }


@pytest.mark.parametrize(
    ("main", "barrier"),
    [
        pytest.param({}, {}, id="nothing"),
        pytest.param(
            {"requests": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "8"}},
            {"requests": {"cpu": "100m", "memory": "64Mi"}},
            id="a little, and no GPU",
        ),
        pytest.param({"requests": {"cpu": "10m"}}, {"requests": {"cpu": "10m"}}, id="never above main's"),
        pytest.param(
            {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
            {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "100m", "memory": "64Mi"}},
            id="Guaranteed stays Guaranteed",
        ),
    ],
)
def test_it_costs_the_pod_nothing(main: dict[str, Any], barrier: dict[str, Any]) -> None:
    found = barrier_of(template(containers=[MAIN | {"resources": main}]))
    assert builtins(found.resources) == barrier


@pytest.mark.parametrize(
    ("main", "more"),
    [
        pytest.param({"privileged": True, "procMount": "Unmasked"}, {}, id="no right that restricted refuses"),
        pytest.param(STRICT, STRICT, id="it runs where the main container does"),
    ],
)
def test_its_rights(main: dict[str, Any], more: dict[str, Any]) -> None:
    found = barrier_of(template(containers=[MAIN | {"securityContext": main}]))
    wanted = more | {"capabilities": {"drop": ["ALL"]}, "allowPrivilegeEscalation": False}
    assert builtins(found.security_context) == wanted


def seconds_of(given: JobTemplateSpec) -> list[dict[str, str]]:
    found: list[dict[str, str]] = builtins(barrier_of(given).env)
    return found


def test_48_its_time_is_over_after_the_controllers_unless_a_policy_asks_how_it_ends() -> None:
    codes = {"containerName": "group-scheduling-init", "operator": "In", "values": [75]}
    policy = {"rules": [{"action": "FailJob", "onExitCodes": codes}]}
    asked = jobset(role(podFailurePolicy=policy)).spec.replicated_jobs[0].template
    assert seconds_of(template()) == [{"name": "GROUP_SCHEDULING_TIMEOUT_SECONDS", "value": "65"}]
    assert seconds_of(asked) == [{"name": "GROUP_SCHEDULING_TIMEOUT_SECONDS", "value": "60"}]
    assert gated(template(), jobset(timeout=None), 1).spec.template.spec.init_containers[-1].env == ()


def test_the_operator_has_the_last_word() -> None:
    context = msgspec.convert(STRICT, type(barrier_of(template()).security_context))
    resources = ResourceRequirements(requests={"cpu": "1"})
    settings = GroupScheduling(image="registry/bash:5", resources=resources, security_context=context)
    found = gated(template(), jobset(), 3, settings).spec.template.spec.init_containers[-1]
    assert (found.image, found.resources, found.security_context) == ("registry/bash:5", resources, context)


class Files:
    """A directory that stands for the mounted volume."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.put("epoch", "3")

    def put(self, name: str, text: str) -> None:
        (self.directory / name).write_text(text)

    def run(self, timeout: int = 60) -> "subprocess.Popen[bytes]":
        script = SCRIPT.replace(MOUNT_PATH, str(self.directory))
        environment = {"PATH": "/usr/bin:/bin", "GROUP_SCHEDULING_TIMEOUT_SECONDS": str(timeout)}
        with (self.directory / "log").open("wb") as log:
            return subprocess.Popen(["bash", "-c", script], env=environment, stderr=log)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_the_file_alone_opens_it(files: Files) -> None:
    files.put("started", "3\n")
    assert files.run().wait() == 0


def test_it_opens_on_no_word_of_another_epoch_and_ends_in_time(files: Files) -> None:
    files.put("started", "2")
    process = files.run(timeout=1)
    assert process.wait() == 75
    said = (files.directory / "log").read_text()
    assert said == "group scheduling timed out: not all pods of the group started within 1 seconds\n"


@pytest.mark.parametrize(("word", "code"), [("started 3\n", 0), ("started 2\n", 75), ("\n3\nstarted 33\n", 75)])
def test_the_endpoint_opens_it_with_the_word_of_its_epoch(files: Files, word: str, code: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        files.put("endpoint", f"127.0.0.1 {server.getsockname()[1]} secret")
        process = files.run(timeout=60 if code == 0 else 1)
        connection, _ = server.accept()
        with connection, connection.makefile("rw") as stream:
            assert stream.readline() == "3 secret\n"
            stream.write(word)
            stream.flush()
            assert process.wait() == code


@pytest.mark.parametrize("endpoint", ["127.0.0.1 1 secret", "nonsense", "192.0.2.1 9 secret", "$(exit 0) 1 x", ""])
def test_where_there_is_no_endpoint_the_file_opens_it(files: Files, endpoint: str) -> None:
    files.put("endpoint", endpoint)
    process = files.run()
    files.put("started", "3")
    assert process.wait() == 0
