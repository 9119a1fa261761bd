"""exec, attach and port-forward up to where the conversation begins: who is refused, and why."""

from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import force_setattr
from tests.system.apiserver.harness import PODS, api, pod

from muster.api.status import bad_request
from muster.cluster.apiserver.answers import Tunnel
from muster.cluster.apiserver.identity.users import ADMIN
from muster.runtime.transport import Request

STREAMS = {"stdout": "1"}


class Node:
    """A node that runs whatever it is asked for."""

    def __init__(self):
        self.asked = []

    def exec(self, pod, options):
        self.asked.append(options)

        @asynccontextmanager
        async def opening():
            yield None

        return opening

    def attach(self, pod, options):
        return self.exec(pod, options)

    def dial(self, pod: Any) -> Any:
        raise bad_request("nothing runs")


class Reachable(Node):
    """A node whose pods have ports."""

    def dial(self, pod):
        return None


async def ask(api, action, query, method="GET", **lists):
    path = f"{PODS}/{query.pop('pod', 'p')}/{action}"
    return await api.server.handle(Request(method, path, query, lists=lists), ADMIN)


@api
async def test_a_command_is_asked_for(api):
    node = api.plane.nodes["n"] = Node()
    await api.made(PODS, pod(node="n"))
    query = {"stdin": "true", "stdout": "true", "stderr": "true", "tty": "true", "container": "c"}
    for method in ("GET", "POST"):
        answer = await ask(api, "exec", dict(query), method, command=("sh", "-c", "a b"))
        assert isinstance(answer, Tunnel)
        assert set(answer.protocols) >= {"v5.channel.k8s.io", "v4.channel.k8s.io", "base64.channel.k8s.io", ""}
    assert node.asked[0] == node.asked[1]
    asked = node.asked[0]
    assert (asked.container, asked.command, asked.stdin, asked.tty) == ("c", ("sh", "-c", "a b"), True, True)
    assert not asked.stderr, "a terminal has no standard error"


@api
async def test_ports_are_asked_for(api):
    api.plane.nodes["n"] = Reachable()
    await api.made(PODS, pod(node="n"))
    answer = await ask(api, "portforward", {})
    assert set(answer.protocols) == {"SPDY/3.1+portforward.k8s.io"}
    answer = await ask(api, "portforward", {}, ports=("80,81", "82"))
    assert set(answer.protocols) > {"v4.channel.k8s.io"}


@pytest.mark.parametrize(
    ("action", "query", "lists", "code", "message"),
    [
        ("exec", {}, {}, 400, "you must specify at least 1 of stdin, stdout, stderr"),
        ("exec", STREAMS, {}, 400, "you must specify at least one command for the container"),
        ("exec", STREAMS | {"container": "x"}, {"command": ("a",)}, 400, "container x is not valid for pod p"),
        ("exec", STREAMS | {"pod": "none"}, {"command": ("a",)}, 404, 'pods "none" not found'),
        ("exec", STREAMS | {"pod": "waits"}, {"command": ("a",)}, 400, "pod waits does not have a host assigned"),
        ("exec", STREAMS | {"pod": "lost"}, {"command": ("a",)}, 503, 'the node "gone" of pod "lost" is not connected'),
        ("attach", {"stdout": "0"}, {}, 400, "you must specify at least 1 of stdin, stdout, stderr"),
        ("portforward", {}, {"ports": ("80", "x")}, 400, "ports are numbers from 1 to 65535: 80,x"),
        ("portforward", {}, {"ports": ("65536",)}, 400, "ports are numbers from 1 to 65535: 65536"),
        ("portforward", {}, {"ports": ("1",) * 101}, 400, "no more than 100 ports can be forwarded in one WebSocket"),
        ("portforward", {}, {}, 400, "nothing runs"),
    ],
)
@api
async def test_what_makes_no_sense_is_refused(api, action, query, lists, code, message):
    api.plane.nodes["n"] = Node()
    for made in (pod(node="n"), pod("waits"), pod("lost", node="gone")):
        await api.made(PODS, made)
    answer = await ask(api, action, dict(query), **lists)
    assert answer.status == code, answer
    assert message in answer.body.decode().replace('\\"', '"')


@api
async def test_admission_is_asked(api):
    seen = []

    class Webhooks:
        async def change(self, attempt, warnings):
            return False

        async def judge(self, attempt, warnings):
            seen.append((attempt.operation, attempt.resource.name, attempt.subresource, attempt.document))
            raise bad_request("not here")

    api.plane.nodes["n"] = Node()
    await api.made(PODS, pod(node="n"))
    force_setattr(api.server._admission, "webhooks", Webhooks())
    answer = await ask(api, "exec", dict(STREAMS), command=("a", "b"))
    assert (answer.status, b"not here" in answer.body) == (400, True)
    options = {"kind": "PodExecOptions", "apiVersion": "v1", "stdout": True, "container": "c", "command": ["a", "b"]}
    assert seen == [("CONNECT", "pods", "exec", options)]


@api
async def test_without_a_wire_there_is_no_conversation(api):
    api.plane.nodes["n"] = Node()
    await api.made(PODS, pod(node="n"))
    answer = await api.get(f"{PODS}/p/attach", stdout="1")
    assert (answer.status, answer.message) == (400, "Upgrade request required")
