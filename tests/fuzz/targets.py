"""What coverage-guided fuzzing is let loose on: everything that reads what strangers write.

A target takes bytes and may refuse them in the way that its module promises; anything else that it raises is a find.
Each runs in a process of its own, which atheris never leaves: `python -m tests.fuzz.targets NAME -runs=20000`. Several
names with commas between them share the import of what is instrumented, and run one after the other.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, NoReturn
from zoneinfo import ZoneInfo

import atheris
import httptools
import msgspec

with atheris.instrument_imports(include=["muster"]):
    from tests.unit.cluster.apiserver.front.http1.test_connection import Client

    from muster.api.core import POD
    from muster.api.patch import json as json_patch
    from muster.api.patch import merge
    from muster.api.schema import make_inlined_schema
    from muster.api.status import ApiError
    from muster.api.values import durations, quantity, schedules, selectors
    from muster.cluster.apiserver.decode import Document, decode
    from muster.cluster.apiserver.front.http2.frames import PREFACE
    from muster.cluster.apiserver.front.http2.headers import encode
    from muster.cluster.apiserver.front.http2.session import RequestReceived, Session
    from muster.cluster.apiserver.patch import strategic
    from muster.cluster.apiserver.protobuf.messages import MEDIA_TYPE
    from muster.cluster.apiserver.request.requestinfo import parse_path
    from muster.cluster.apiserver.schema import DecodeError, compile_builtin
    from muster.multicluster.links.kubeconfigs import UntrustedKubeconfigError, read_trusted
    from muster.runtime.clock import run_virtual
    from muster.runtime.kube import kubeconfig_parse  # noqa: F401  (loaded late, it would not be instrumented)

POD_DOCUMENT: Document = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"a": "b"}, "finalizers": ["one", "two"]},
    "spec": {"containers": [{"name": "main", "env": [{"name": "A", "value": "1"}], "ports": [{"containerPort": 80}]}]},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


# What objects and patches are made of: from bytes alone a fuzzer would take years to find these words.
_NAMES = (
    "apiVersion", "kind", "metadata", "labels", "annotations", "finalizers", "name", "spec", "status", "containers",
    "env", "value", "ports", "containerPort", "protocol", "conditions", "type", "tolerations", "$patch",
    "$retainKeys", "$setElementOrder/containers", "$setElementOrder/finalizers", "$deleteFromPrimitiveList/finalizers",
    "op", "path", "from", "f:spec", ".", 'k:{"name":"main"}',
)  # fmt: skip
_SCALARS: tuple[object, ...] = (
    None, True, False, 0, 1, -1, 80, 2**63, 1.5, "", "a", "main", "one", "A", "delete", "replace", "merge", "test",
    "add", "remove", "move", "copy", "/spec", "/spec/containers/0", "/metadata/labels/a~1", "/-", "v1", "Pod", "TCP",
)  # fmt: skip


def _grown(data: bytes) -> object:
    """A JSON value that the bytes choose."""
    return _value(atheris.FuzzedDataProvider(data), 6)


def _value(choices: atheris.FuzzedDataProvider, depth: int) -> object:
    match choices.ConsumeIntInRange(0, 9) if depth else 0:
        case 0 | 1 | 2:
            return choices.PickValueInList(list(_SCALARS))
        case 3:
            return choices.ConsumeUnicode(8)
        case 4 | 5 | 6:
            return [_value(choices, depth - 1) for _ in range(choices.ConsumeIntInRange(0, 3))]
        case _:
            names = [choices.PickValueInList(list(_NAMES)) for _ in range(choices.ConsumeIntInRange(0, 4))]
            return {name: _value(choices, depth - 1) for name in names}


def decode_json(data: bytes) -> None:
    decode(data, "application/json", "Pod")


def decode_yaml(data: bytes) -> None:
    decode(data, "application/yaml", "Pod")


def decode_protobuf(data: bytes) -> None:
    decode(b"k8s\x00" + data, MEDIA_TYPE, "Pod")


def pod_form(data: bytes) -> None:
    _pod_checker()(_grown(data))


@cache
def _pod_checker() -> Callable[[object], object]:
    return compile_builtin(POD)


def patch_json(data: bytes) -> None:
    json_patch.apply(POD_DOCUMENT, _grown(data))


def patch_merge(data: bytes) -> None:
    merge.apply(POD_DOCUMENT, _grown(data))


def patch_strategic(data: bytes) -> None:
    strategic.apply(POD_DOCUMENT, _grown(data), make_inlined_schema(POD))


def label_selector(data: bytes) -> None:
    selectors.parse_label_selector(_text(data))


def field_selector(data: bytes) -> None:
    selectors.parse_field_selector(_text(data))


def quantities(data: bytes) -> None:
    quantity.format_canonical(_text(data))


def duration(data: bytes) -> None:
    durations.parse(_text(data))


def schedule(data: bytes) -> None:
    """A schedule with an hour that daylight saving time skips ahead of it."""
    moment = datetime(2026, 3, 8, 6, tzinfo=UTC)
    starts = schedules.parse(_text(data), ZoneInfo("America/New_York"))
    start = starts.next(moment)
    assert start is None or start > moment
    latest = starts.latest(moment, moment + timedelta(days=400))
    assert latest is None or (start is not None and start <= latest)


def path(data: bytes) -> None:
    parse_path("/" + _text(data))


# By name: the target, and how it may refuse.
def http2(data: bytes) -> None:
    """What comes behind the preface, and an answer to each request that is found in it."""
    session = Session(0.0)
    for event in session.receive(PREFACE + bytes(3) + b"\4" + bytes(5) + data, 0.0):
        if isinstance(event, RequestReceived):
            session.widen_window(event.stream)
            session.answer(event.stream, 200, [])
            session.send(event.stream, b"x" * 20_000, ends=True)
    session.pump(1 << 20, 0.0)
    session.take()


def http1(data: bytes) -> None:
    """What comes on a connection, in two pieces; what the client is told is a row of whole answers."""

    async def answer(_scope: object, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x"})

    async def talk() -> None:
        client = Client(answer)
        half = len(data) // 2
        told = await client.say(data[:half], data[half:])
        httptools.HttpResponseParser(object()).feed_data(told)
        assert client.problems == []
        client.transport.abort()
        await asyncio.sleep(0)

    run_virtual(talk())


def kubeconfig(data: bytes) -> None:
    """A worker cluster's, whose text may come from a Secret."""
    read_trusted(data, "Secret ns/name")


TARGETS: Mapping[str, tuple[Callable[[bytes], None], tuple[type[Exception], ...]]] = {
    "decode_json": (decode_json, (ApiError,)),
    "decode_yaml": (decode_yaml, (ApiError,)),
    "decode_protobuf": (decode_protobuf, (ApiError,)),
    "pod_form": (pod_form, (DecodeError,)),
    "patch_json": (patch_json, (ApiError,)),
    "patch_merge": (patch_merge, (ApiError,)),
    "patch_strategic": (patch_strategic, (ApiError,)),
    "label_selector": (label_selector, (selectors.SelectorError,)),
    "field_selector": (field_selector, (selectors.SelectorError,)),
    "quantities": (quantities, (quantity.QuantityError,)),
    "duration": (duration, (durations.DurationError,)),
    "path": (path, (ApiError,)),
    "schedule": (schedule, (schedules.ScheduleError,)),
    "http1": (http1, ()),
    "http2": (http2, ()),
    "kubeconfig": (kubeconfig, (UntrustedKubeconfigError,)),
}


# What the fuzzer begins with, where bytes are text of some form.
_BLOCK = encode([(b":method", b"POST"), (b":scheme", b"https"), (b":path", b"/api"), (b"accept", b"*/*")])
_REQUEST = bytes([0, 0, len(_BLOCK), 1, 5, 0, 0, 0, 1]) + _BLOCK
_CHUNKED = b"POST / HTTP/1.1\r\nhost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
_KUBECONFIG = b"""current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: 'https://[::1]:6443', proxy-url: 'http://a:b@c:1', tls-server-name: d}}]
users: [{name: u, user: {token: t, as: x, as-groups: [g], exec: null, client-key-data: aGk=, username: ''}}]
"""
SEEDS: Mapping[str, tuple[bytes, ...]] = {
    "decode_json": (msgspec.json.encode(POD_DOCUMENT), b'{"a":1,"a":[2,1e400,-0.0]}'),
    "decode_yaml": (b"a: &x [1, 2]\nb: *x\n<<: {c: !!str 3}\n", b"kind: Pod\nmetadata: {name: p}\n--- \n"),
    "decode_protobuf": (
        b'\n\n\n\x02v1\x12\x04Node\x12\x10\n\x0e\n\x01n\x12\x00\x1a\x00Z\x05\n\x01a\x12\x01b\x1a\x00"\x00',
    ),
    "http1": (
        b"GET /a?b HTTP/1.1\r\nhost: x\r\n\r\nGET / HTTP/1.1\r\nhost: x\r\nConnection: close\r\n\r\n",
        _CHUNKED.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n") + b"3\r\nabc\r\n0\r\na: b\r\n\r\n",
        _CHUNKED + b"1;" + b"a" * 1000 + b"\r\nx\r\n0\r\na: " + b"b" * 1000,
        b"GET / HTTP/1.1\r\nhost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x00",
    ),
    "http2": (
        _REQUEST,
        _REQUEST.replace(b"\x01\x05", b"\x01\x04", 1) + b"\0\0\1\0\1\0\0\0\1x\0\0\4\x08\0\0\0\0\0\0\0\1\0",
    ),
    "label_selector": (b"a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1",),
    "field_selector": (b"metadata.name=a,spec.x!=b\\,c",),
    "quantities": (b"1.5Gi", b"-12e-3", b"100m"),
    "duration": (b"1h2m3.5s", b"-4us"),
    "kubeconfig": (_KUBECONFIG,),
    "schedule": (b"*/5 1-3,7 ? jan-DEC/2 MON", b"@every 1h30m", b"0 0 29 2 *"),
    "path": (b"apis/batch/v1/namespaces/n/jobs/j/status",),
}


def main() -> None:
    """Fuzz the targets that the first argument names, and name those that do not survive."""
    names = sys.argv[1].split(",") if sys.argv[1:] else []
    if not names or not set(names) <= set(TARGETS):
        sys.exit(f"which of them? {', '.join(TARGETS)}")
    failures = []
    for name in names:
        if not (child := os.fork()):
            fuzz(name, [one.replace("{name}", name) for one in sys.argv[2:]])
        if code := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            failures.append(f"{name} ended with {code}")
    if failures:
        sys.exit(", ".join(failures))


def fuzz(name: str, options: Sequence[str]) -> NoReturn:
    """Fuzz one target until it does not survive, or has run often enough."""
    target, refusals = TARGETS[name]

    def once(data: bytes) -> None:
        try:
            target(data)
        except refusals:
            return

    atheris.Setup([sys.argv[0], *options], once)
    atheris.Fuzz()
    raise AssertionError("atheris does not return")


if __name__ == "__main__":
    main()
