"""What is put into the template of a child Job, and what its container does: pitfalls 43, 45 and 48."""

import json
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.jobs.jobset.start.worlds import MAIN, jobset, role

from muster.api.batch import JobTemplateSpec
from muster.api.config.types import GroupScheduling
from muster.api.core import Container
from muster.api.core.container import ResourceRequirements
from muster.jobs.jobset.start.barrier import MOUNT_PATH, SCRIPT, add_barrier

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
    return add_barrier(given, jobset(), 3).spec.template.spec.init_containers[-1]


def test_the_barrier_comes_last_and_the_rest_stays() -> None:
    given = template(
        initContainers=[{"name": "fetch"}, {"name": "side", "restartPolicy": "Always"}], volumes=[{"name": "v"}]
    )
    found = add_barrier(given, jobset(), 3).spec.template
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
                                "path": "jobset",
                                "fieldRef": {"fieldPath": "metadata.labels['jobset.sigs.k8s.io/jobset-uid']"},
                            },
                            {
                                "path": "epoch",
                                "fieldRef": {
                                    "fieldPath": "metadata.annotations['jobset.sigs.k8s.io/group-scheduling-epoch']"
                                },
                            },
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
    assert add_barrier(template(), jobset(timeout=None), 1).spec.template.spec.init_containers[-1].env == ()


@pytest.mark.parametrize(
    ("action", "seconds"),
    [("RestartJob", "240"), ("RestartJobAndIgnoreMaxRestarts", "240"), ("RestartJobSet", "65"), ("FailJobSet", "65")],
)
def test_its_time_is_longer_where_a_rule_restarts_a_job_alone(action: str, seconds: str) -> None:
    given = jobset(failurePolicy={"rules": [{"name": "rule", "action": action}]})
    found = add_barrier(template(), given, 1).spec.template.spec.init_containers[-1]
    assert [each.value for each in found.env] == [seconds]


def test_the_operator_has_the_last_word() -> None:
    context = msgspec.convert(STRICT, type(barrier_of(template()).security_context))
    resources = ResourceRequirements(requests={"cpu": "1"})
    settings = GroupScheduling(image="registry/bash:5", resources=resources, security_context=context)
    found = add_barrier(template(), jobset(), 3, settings).spec.template.spec.init_containers[-1]
    assert (found.image, found.resources, found.security_context) == ("registry/bash:5", resources, context)


class Files:
    """A directory that stands for the mounted volume."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.put("epoch", "3")
        self.put("jobset", "uid")

    def put(self, name: str, text: str) -> None:
        (self.directory / name).write_text(text)

    def run(self, timeout: int = 60, before: str = "") -> "subprocess.Popen[bytes]":
        script = before + SCRIPT.replace(MOUNT_PATH, str(self.directory))
        environment = {"PATH": "/usr/bin:/bin", "GROUP_SCHEDULING_TIMEOUT_SECONDS": str(timeout)}
        with (self.directory / "log").open("wb") as log:
            return subprocess.Popen(["bash", "-c", script], env=environment, stderr=log)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_the_file_alone_opens_it(files: Files) -> None:
    files.put("started", "uid 3\n")
    assert files.run().wait() == 0


@pytest.mark.parametrize("word", ["uid 2", "other 3", "3", "uid", "uid 33", ""])
def test_it_opens_on_no_word_of_another_and_ends_in_time(files: Files, word: str) -> None:
    files.put("started", word)
    process = files.run(timeout=1)
    assert process.wait() == 75
    said = (files.directory / "log").read_text()
    assert said == "group scheduling timed out: not all pods of the group started within 1 seconds\n"


@pytest.mark.parametrize(
    ("word", "code"),
    [
        ("started uid 3\n", 0),
        ("started uid 2\n", 75),
        ("started other 3\n", 75),
        ("\nuid 3\nstarted uid 33\n", 75),
    ],
)
def test_the_endpoint_opens_it_with_its_own_word(files: Files, word: str, code: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        files.put("endpoint", f"127.0.0.1 {server.getsockname()[1]} secret")
        process = files.run(timeout=60 if code == 0 else 1)
        connection, _ = server.accept()
        with connection, connection.makefile("rw") as stream:
            assert stream.readline() == "3 secret\n"
            stream.write(word)
            stream.flush()
            assert process.wait() == code


AGAIN = "sleep() { SECONDS=$((SECONDS + $1)); echo $SECONDS >> slept; [ $SECONDS -lt 5 ] || echo 2 > restarts; }\n"


def test_its_time_counts_anew_where_a_job_was_restarted_by_itself(files: Files) -> None:
    files.put("restarts", "1")
    assert files.run(timeout=600, before=AGAIN).wait() == 75
    assert int((files.directory / "slept").read_text().split()[-1]) in range(605, 608)


@pytest.mark.parametrize("endpoint", ["127.0.0.1 1 secret", "nonsense", "192.0.2.1 9 secret", "$(exit 0) 1 x", ""])
def test_where_there_is_no_endpoint_the_file_opens_it(files: Files, endpoint: str) -> None:
    files.put("endpoint", endpoint)
    process = files.run()
    files.put("started", "uid 3")
    assert process.wait() == 0


def attempts(files: Files, seed: int) -> int:
    """How often a barrier connects within ten minutes to an endpoint that takes all and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        files.put("endpoint", f"127.0.0.1 {server.getsockname()[1]} secret")
        process = files.run(timeout=600, before=f"RANDOM={seed}; sleep() {{ SECONDS=$((SECONDS + $1)); }}\n")
        server.settimeout(0.05)
        count = 0
        while process.poll() is None:
            with suppress(TimeoutError):
                server.accept()[0].close()
                count += 1
        assert process.returncode == 75
        return count


def test_an_endpoint_that_refuses_is_asked_ever_less_often_and_not_by_all_at_once(files: Files) -> None:
    found = [attempts(files, seed) for seed in (1, 2, 3)]
    assert all(600 / 33 < count < 600 / 8 for count in found)
    assert len(set(found)) > 1


def test_a_new_endpoint_is_asked_at_once(files: Files) -> None:
    files.put("endpoint", "127.0.0.1 1 secret")
    process = files.run(before="sleep() { SECONDS=0; : > slept; command sleep 0.01; }\n")
    while not (files.directory / "slept").exists():
        time.sleep(0.01)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20)
        files.put("endpoint", f"127.0.0.1 {server.getsockname()[1]} secret")
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"started uid 3\n")
            assert process.wait() == 0


SLOWLY = """\
echo() {
  local i
  for ((i = 0; i < ${#1}; i++)); do printf %s "${1:i:1}"; sleep 0.1; done
  printf '\\n'
}
"""


def test_a_machine_that_is_slow_loses_no_word(files: Files) -> None:
    """Whatever the child says takes longer than its parent listens at a time."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        files.put("endpoint", f"127.0.0.1 {server.getsockname()[1]} secret")
        process = files.run(timeout=20, before=SLOWLY)
        connection, _ = server.accept()
        with connection, connection.makefile("rw") as stream:
            assert stream.readline() == "3 secret\n"
            stream.write("started uid 3\n")
            stream.flush()
            assert process.wait() == 0
