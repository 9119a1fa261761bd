"""The verbs over a scripted transport: what goes out, what comes back, and what becomes of nonsense."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import pairwise
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.unit.runtime.conftest import THING, ScriptedTransport, Thing

from muster.api.kinds import Kind
from muster.api.meta import ObjectMeta, Struct
from muster.api.status import ApiError, Status, StatusCause, StatusDetails, conflict, expired, forbidden, not_found
from muster.runtime import client as client_module
from muster.runtime.client import PAGE_BYTES, PAGE_SIZE, Client, WatchEvent, error_of, iterate_lines
from muster.runtime.clock import run_virtual
from muster.runtime.limits import Limits
from muster.runtime.objects import meta_of
from muster.runtime.transport import (
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    RawEvent,
    Request,
    Response,
    TransportError,
    UnreadableAnswerError,
)

T = TypeVar("T")

PATH = "/apis/test.dev/v1/namespaces/ns/things"
THING_1 = Thing(metadata=ObjectMeta(name="a", namespace="ns", uid="u", resource_version="5"), value=3)
BODY_1 = (
    b'{"apiVersion":"test.dev/v1","kind":"Thing",'
    b'"metadata":{"name":"a","namespace":"ns","uid":"u","resourceVersion":"5"},"value":3}'
)
OK = Response(200, BODY_1)


def refusal(error: ApiError) -> Response:
    return Response(error.code, msgspec.json.encode(error.status))


def test_a_patch_of_another_object_of_the_name_is_a_conflict():
    cause = StatusCause(reason="FieldValueInvalid", message="field is immutable", field="metadata.uid")
    status = Status(status="Failure", code=422, reason="Invalid", details=StatusDetails(causes=(cause,)))
    client = Client(ScriptedTransport(refusal(ApiError(status))))
    with pytest.raises(ApiError) as error:
        run_virtual(client.patch(THING, "a", {"metadata": {"uid": "x"}}, "ns"))
    assert (error.value.code, error.value.reason) == (409, "Conflict")


@pytest.mark.parametrize(
    ("call", "sent", "body"),
    [
        (lambda c: c.get(THING, "a", "ns"), Request("GET", f"{PATH}/a"), None),
        (
            lambda c: c.create(THING, THING_1),
            Request("POST", PATH, {"fieldManager": "me"}),
            json.loads(BODY_1),
        ),
        (
            lambda c: c.create(THING, THING_1, "other", dry_run=True),
            Request("POST", PATH.replace("ns/", "other/"), {"fieldManager": "me", "dryRun": "All"}),
            json.loads(BODY_1),
        ),
        (
            lambda c: c.update(THING, THING_1, subresource="status"),
            Request("PUT", f"{PATH}/a/status", {"fieldManager": "me"}),
            json.loads(BODY_1),
        ),
        (
            lambda c: c.patch(THING, "a", {"value": 4}, "ns"),
            Request("PATCH", f"{PATH}/a", {"fieldManager": "me"}, content_type=MERGE_PATCH),
            {"value": 4},
        ),
        (
            lambda c: c.patch(THING, "a", [], "ns", type=JSON_PATCH, subresource="status", force=True, dry_run=True),
            Request(
                "PATCH",
                f"{PATH}/a/status",
                {"fieldManager": "me", "dryRun": "All", "force": "true"},
                content_type=JSON_PATCH,
            ),
            [],
        ),
        (
            lambda c: c.patch_object(THING, THING_1, {"value": 4}),
            Request("PATCH", f"{PATH}/a", {"fieldManager": "me"}, content_type=MERGE_PATCH),
            {"metadata": {"uid": "u", "resourceVersion": "5"}, "value": 4},
        ),
        (
            lambda c: c.patch_object(
                THING,
                THING_1,
                {"metadata": {"labels": {"a": "b"}}},
                lock=False,
                type=STRATEGIC_MERGE_PATCH,
                subresource="status",
            ),
            Request("PATCH", f"{PATH}/a/status", {"fieldManager": "me"}, content_type=STRATEGIC_MERGE_PATCH),
            {"metadata": {"uid": "u", "labels": {"a": "b"}}},
        ),
        (
            lambda c: c.delete(THING, "a", "ns"),
            Request("DELETE", f"{PATH}/a"),
            {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"},
        ),
        (
            lambda c: c.delete(
                THING, "a", "ns", propagation="Orphan", grace_period_seconds=0, uid="u", resource_version="5"
            ),
            Request("DELETE", f"{PATH}/a"),
            {
                "kind": "DeleteOptions",
                "apiVersion": "v1",
                "propagationPolicy": "Orphan",
                "gracePeriodSeconds": 0,
                "preconditions": {"uid": "u", "resourceVersion": "5"},
            },
        ),
        (
            lambda c: c.delete_object(THING, THING_1),
            Request("DELETE", f"{PATH}/a"),
            {
                "kind": "DeleteOptions",
                "apiVersion": "v1",
                "propagationPolicy": "Background",
                "preconditions": {"uid": "u"},
            },
        ),
        (
            lambda c: c.post(THING, "a", "ns", "binding", {"x": 1}),
            Request("POST", f"{PATH}/a/binding", {"fieldManager": "me"}),
            {"x": 1},
        ),
    ],
)
def test_verb_sends_one_request(call: Callable[[Client], Awaitable[Any]], sent: Request, body: Any) -> None:
    transport = ScriptedTransport(OK)

    async def main() -> Any:
        return await call(Client(transport, field_manager="me"))

    result = run_virtual(main())
    assert result in (THING_1, None)
    (request,) = transport.requests
    assert (request.method, request.path, dict(request.query)) == (sent.method, sent.path, dict(sent.query))
    assert request.content_type == sent.content_type
    assert (json.loads(request.body) if request.body else None) == body


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.get(THING, "", "ns"),
        lambda c: c.patch(THING, "", {}, "ns"),
        lambda c: c.delete(THING, "", "ns"),
        lambda c: c.update(THING, Thing(metadata=ObjectMeta(namespace="ns"))),
        lambda c: c.post(THING, "", "ns", "scale", {}),
    ],
    ids=["get", "patch", "delete", "update", "post"],
)
def test_no_name_does_not_mean_all_of_them(call: Callable[[Client], Awaitable[Any]]) -> None:
    transport = ScriptedTransport()

    async def body() -> None:
        with pytest.raises(ApiError, match="resource name may not be empty"):
            await call(Client(transport))

    run_virtual(body())
    assert transport.requests == []


def test_refusal_is_an_api_error() -> None:
    async def main() -> None:
        await Client(ScriptedTransport(refusal(not_found("things.test.dev", "a")))).get(THING, "a", "ns")

    with pytest.raises(ApiError, match=r'^things\.test\.dev "a" not found$') as caught:
        run_virtual(main())
    assert (caught.value.code, caught.value.reason) == (404, "NotFound")


def test_what_is_looked_for_need_not_be_there() -> None:
    refused = refusal(forbidden("no"))
    client = Client(ScriptedTransport(OK, refusal(not_found("things.test.dev", "a")), refused))

    async def find() -> Thing | None:
        return await client.find(THING, "a", "ns")

    assert run_virtual(find()) == THING_1
    assert run_virtual(find()) is None
    with pytest.raises(ApiError, match="no"):
        run_virtual(find())


@pytest.mark.parametrize(
    ("response", "method", "reason", "message", "wait"),
    [
        (refusal(conflict("things", "a")), "PUT", "Conflict", "Operation cannot be fulfilled on things", 0),
        (Response(404, b"<html>nginx</html>"), "GET", "NotFound", "<html>nginx</html>", 0),
        (Response(409, b""), "POST", "AlreadyExists", "HTTP 409", 0),
        (Response(409, b""), "PUT", "Conflict", "HTTP 409", 0),
        (Response(410, b"[]"), "GET", "Expired", "[]", 0),
        (Response(418, b"{}"), "GET", "Unknown", "{}", 0),
        (Response(429, b"", headers={"retry-after": "12"}), "GET", "TooManyRequests", "HTTP 429", 12),
        (Response(503, b"", headers={"retry-after": "soon"}), "GET", "ServiceUnavailable", "HTTP 503", 0),
        (Response(500, b"\xff\xfe" * 500), "GET", "InternalError", "\ufffd", 0),
        (Response(500, b"[" * 100_000), "GET", "InternalError", "[[[", 0),
    ],
)
def test_any_refusal_has_a_reason(response: Response, method: str, reason: str, message: str, wait: int) -> None:
    error = error_of(response, method)
    assert (error.code, error.reason) == (response.status, reason)
    assert str(error).startswith(message)
    assert len(str(error)) < 250
    assert (error.status.details.retry_after_seconds if error.status.details else 0) == wait


def page(names: str, continue_: str = "", version: str = "9") -> Response:
    items = [{"metadata": {"name": name}} for name in names]
    return Response(
        200, json.dumps({"metadata": {"resourceVersion": version, "continue": continue_}, "items": items}).encode()
    )


async def names_of(transport: ScriptedTransport) -> tuple[str, str]:
    found = await Client(transport).list(THING, "ns", labels="a=b", fields="c=d")
    return "".join(item.metadata.name for item in found.items), found.metadata.resource_version


def test_list_reads_all_pages() -> None:
    transport = ScriptedTransport(page("ab", "t1"), page("cd", "t2"), page("e"))
    assert run_virtual(names_of(transport)) == ("abcde", "9")
    base = {"labelSelector": "a=b", "fieldSelector": "c=d", "limit": "500"}
    assert [dict(request.query) for request in transport.requests] == [
        base,
        base | {"continue": "t1"},
        base | {"continue": "t2"},
    ]


@pytest.mark.parametrize(("bytes_", "limits"), [(PAGE_BYTES, ["2", "2"]), (0, ["2", str(PAGE_SIZE)])])
def test_a_client_with_small_pages_asks_for_more_of_small_objects(bytes_: int, limits: list[str]) -> None:
    first = page("ab", "t1")
    transport = ScriptedTransport(replace(first, body=first.body + b" " * bytes_), page("c"))
    listed = run_virtual(Client(transport, page_size=2).list(THING, "ns"))
    assert [one.metadata.name for one in listed.items] == ["a", "b", "c"]
    assert [request.query["limit"] for request in transport.requests] == limits


def test_list_whose_pages_expire_is_asked_for_whole() -> None:
    transport = ScriptedTransport(page("ab", "t1"), refusal(expired("too old")), page("abc", version="12"))
    assert run_virtual(names_of(transport)) == ("abc", "12")
    assert "limit" not in transport.requests[2].query
    assert "continue" not in transport.requests[2].query


@pytest.mark.parametrize("answers", [(page("ab", "t1"), page("c")),
                                     (page("a", "t1"), refusal(expired("too old")), page("abc"))])  # fmt: skip
def test_of_what_is_listed_as_much_is_kept_as_is_said(answers: tuple[Response, ...]) -> None:
    found = run_virtual(
        Client(ScriptedTransport(*answers)).list(THING, transform=lambda thing: replace(thing, value=7))
    )
    assert [(each.metadata.name, each.value) for each in found.items] == [("a", 7), ("b", 7), ("c", 7)]


def test_other_refusals_of_a_page_are_raised() -> None:
    transport = ScriptedTransport(page("ab", "t1"), refusal(not_found("things", "")))
    with pytest.raises(ApiError):
        run_virtual(names_of(transport))


LIMITS = Limits(page=2, objects=4, size=400, parts=20, line=100, line_parts=10)


class Endless:
    """A list that always goes on, with a page like this."""

    def __init__(self, answer: Response) -> None:
        self.answer, self.asked = answer, 0

    async def request(self, request: Request) -> Response:
        self.asked += 1
        return self.answer

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise AssertionError

    async def close(self) -> None: ...


@pytest.mark.parametrize(
    ("answer", "limits", "problem"),
    [
        (page("", "t"), None, "lists no things, and always says that there are more"),
        (page("", "t"), replace(LIMITS, size=1 << 20), "lists no things, and always says that there are more"),
        (page("ab", "t"), LIMITS, "lists more than 4 things"),
        (page("abcde"), LIMITS, "lists more than 4 things"),
        (page("", "t" * 100), replace(LIMITS, size=1 << 20, objects=1 << 20), "always says that there are more"),
        (page("a" * 90), replace(LIMITS, size=1 << 10, objects=1 << 20, parts=1 << 20), "lists more than 0 MiB"),
        (page("abcdefghijk"), LIMITS, "more than 20 parts at once"),
    ],
)
def test_a_list_that_has_no_end_gets_one(answer: Response, limits: Limits | None, problem: str) -> None:
    endless = Endless(answer)
    with pytest.raises(TransportError, match=problem):
        run_virtual(Client(endless, limits=limits).list(THING))
    assert endless.asked <= 1001


def test_a_list_with_limits_is_asked_for_in_small_pages_and_never_whole() -> None:
    transport = ScriptedTransport(page("ab", "t1"), page("", "t2"), refusal(expired("too old")))
    with pytest.raises(ApiError, match="too old"):
        run_virtual(Client(transport, limits=LIMITS).list(THING))
    assert [request.query.get("limit") for request in transport.requests] == ["2", "2", "2"]


@pytest.mark.parametrize(
    ("line", "problem"), [(b"x" * 200, "a line of more than 0 MiB"), (b"[" * 15 + b"\n", "more than 10 parts at once")]
)
def test_an_event_has_limits(line: bytes, problem: str) -> None:
    async def main() -> None:
        async with Client(ScriptedTransport([line]), limits=LIMITS).watch(THING) as events:
            await anext(events)

    with pytest.raises(TransportError, match=problem):
        run_virtual(main())


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'{"metadata":7}', b'{"value":"three"}', b"\xff", b'{"value":' + b"[" * 100_000],
)
def test_answer_that_makes_no_sense_is_a_transport_error(body: bytes) -> None:
    async def main() -> None:
        await Client(ScriptedTransport(Response(200, body))).get(THING, "a", "ns")

    with pytest.raises(TransportError, match="is not a Thing as we know it"):
        run_virtual(main())


def test_page_that_makes_no_sense_is_a_transport_error() -> None:
    with pytest.raises(TransportError, match="is not a Thing"):
        run_virtual(names_of(ScriptedTransport(Response(200, b'{"items":[{"value":"x"}]}'))))


def test_explicit_nulls_are_absent_fields() -> None:
    async def main() -> Thing:
        body = b'{"metadata":{"name":"a","labels":null,"creationTimestamp":null},"value":null}'
        return await Client(ScriptedTransport(Response(200, body))).get(THING, "a")

    assert run_virtual(main()) == Thing(metadata=ObjectMeta(name="a"))


def event(type: str, name: str, version: int) -> bytes:
    return json.dumps({"type": type, "object": {"metadata": {"name": name, "resourceVersion": str(version)}}}).encode()


async def watched(
    *chunks: bytes | Exception, kind: Kind[Any] = THING
) -> tuple[list[tuple[str, str, str]], ScriptedTransport]:
    transport = ScriptedTransport(list(chunks))
    seen: list[tuple[str, str, str]] = []
    async with Client(transport).watch(
        kind, "ns", resource_version="4", labels="a=b", fields="c=d", timeout_seconds=300
    ) as events:
        async for found in events:
            assert isinstance(found, WatchEvent)
            name = meta_of(found.object).name if found.object is not None else ""
            seen.append((found.type, name, found.resource_version))
    return seen, transport


class Strict(Struct):
    """A kind that has to have a value."""

    value: int
    metadata: ObjectMeta = ObjectMeta()


def test_a_bookmark_need_not_be_a_whole_object() -> None:
    kind = Kind("test.dev", "v1", "Strict", "stricts", Strict)
    seen, _ = run_virtual(watched(event("BOOKMARK", "", 9) + b"\n", kind=kind))
    assert seen == [("BOOKMARK", "", "9")]


@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
@pytest.mark.parametrize("kind", [THING, Kind("test.dev", "v1", "Thing", "things", dict)])
def test_watch_yields_events_until_the_stream_ends(kind: Kind[Any], size: int) -> None:
    whole = b"\n".join([event("ADDED", "a", 5), event("MODIFIED", "a", 6), event("DELETED", "a", 7)]) + b"\n"
    whole += b"\n" + event("BOOKMARK", "", 9) + b"\n" + event("ADDED", "cut off", 10)
    expected = [("ADDED", "a", "5"), ("MODIFIED", "a", "6"), ("DELETED", "a", "7"), ("BOOKMARK", "", "9")]
    chunks = [whole[start : start + size] for start in range(0, len(whole), size)]
    seen, transport = run_virtual(watched(*chunks, kind=kind))
    assert seen == expected
    assert transport.open_streams == 0
    assert transport.requests[0].path == PATH
    assert transport.requests[0].query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "4",
        "labelSelector": "a=b",
        "fieldSelector": "c=d",
        "timeoutSeconds": "300",
    }


def test_error_event_is_raised() -> None:
    line = msgspec.json.encode({"type": "ERROR", "object": expired("too old resource version").status}) + b"\n"
    with pytest.raises(ApiError, match="too old") as caught:
        run_virtual(watched(event("ADDED", "a", 5) + b"\n", line))
    assert (caught.value.code, caught.value.reason) == (410, "Expired")


def test_broken_connection_is_raised() -> None:
    with pytest.raises(TransportError, match="reset"):
        run_virtual(watched(event("ADDED", "a", 5) + b"\n", TransportError("connection reset")))


@pytest.mark.parametrize(
    "line",
    [
        b"garbage",
        b"{}",
        b'{"type":"ADDED"}',
        b'{"type":"EXPLODED","object":{}}',
        b'{"type":"ADDED","object":[]}',
        b'{"type":"ADDED","object":{"value":"x"}}',
        b'{"type":"ERROR","object":7}',
        b'{"type":"ADDED","object":' + b"[" * 100_000,
    ],
)
def test_line_that_makes_no_sense_is_a_transport_error(line: bytes) -> None:
    with pytest.raises(TransportError, match="is not a Thing as we know it"):
        run_virtual(watched(line + b"\n"))


def test_endless_line_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "LINE_LIMIT", 1 << 20)
    with pytest.raises(TransportError, match="more than 1 MiB"):
        run_virtual(watched(*[b"x" * 100_000] * 20))


@given(st.binary(max_size=200).map(lambda data: data.replace(b"x", b"\n")), st.lists(st.integers(0, 200), max_size=8))
def test_lines_do_not_depend_on_the_pieces(data: bytes, cuts: list[int]) -> None:
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]

    async def chunks() -> AsyncIterator[bytes]:
        for start, end in pairwise(bounds):
            yield data[start:end]

    async def main() -> list[bytes]:
        return [line async for line in iterate_lines(chunks())]

    assert run_virtual(main()) == [line for line in data.split(b"\n") if line]


async def lines_of(*chunks: bytes | Exception) -> tuple[list[bytes], bool]:
    """The lines, and whether the stream broke."""
    found: list[bytes] = []

    async def pieces() -> AsyncIterator[bytes]:
        for chunk in chunks:
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk

    try:
        async for line in iterate_lines(pieces()):
            found.append(line)  # noqa: PERF401 - what came before the stream broke counts
    except TransportError:
        return found, True
    return found, False


def test_a_text_ends_with_a_line_that_has_no_end_unless_the_stream_broke() -> None:
    assert run_virtual(lines_of(b"a\nb", b"c")) == ([b"a", b"bc"], False)
    assert run_virtual(lines_of(b"a\nb", TransportError("reset"))) == ([b"a"], True)


def test_a_line_of_a_text_that_never_ends_comes_in_parts() -> None:
    piece = b"x" * 65536
    found, _ = run_virtual(lines_of(*[piece] * 40, b"end\nnext\n"))
    assert (b"".join(found[:-1]), found[-1]) == (piece * 40 + b"end", b"next")
    assert len(found) == 4


class ScriptedNeighbor:
    """A server in this process that sends these batches of events."""

    def __init__(self, *batches: list[RawEvent]) -> None:
        self.batches = batches
        self.requests: list[Request] = []

    @asynccontextmanager
    async def follow(self, request: Request) -> AsyncIterator[AsyncIterator[Sequence[RawEvent]]]:
        self.requests.append(request)

        async def batches() -> AsyncIterator[Sequence[RawEvent]]:
            for batch in self.batches:
                yield batch

        yield batches()

    def decode(self, kind: Kind[T], body: bytes) -> T:
        return kind.decode(body)


def test_a_neighbor_is_followed_without_its_transport() -> None:
    async def test() -> None:
        bookmark = RawEvent("BOOKMARK", b'{"metadata":{"resourceVersion":"9"}}')
        thing = RawEvent("ADDED", b'{"metadata":{"name":"a","resourceVersion":"8"},"value":3}')
        neighbor = ScriptedNeighbor([thing], [], [bookmark, thing])
        client = Client(ScriptedTransport(), neighbor=neighbor)
        async with client.watch(THING, "default", resource_version="7", labels="a=b") as events:
            seen = [event async for event in events]
        obj = Thing(metadata=ObjectMeta(name="a", resource_version="8"), value=3)
        added: WatchEvent[Thing] = WatchEvent("ADDED", obj, "8")
        assert seen == [added, WatchEvent("BOOKMARK", None, "9"), added]
        [request] = neighbor.requests
        query = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": "7", "labelSelector": "a=b"}
        assert (request.path, dict(request.query)) == (THING.path("default"), query)

    run_virtual(test())


@pytest.mark.parametrize("body", [b"", b"{}}", b'{"value":"text"}', b"[" * 100_000])
def test_an_event_of_a_neighbor_that_makes_no_sense_is_a_transport_error(body: bytes) -> None:
    async def test() -> None:
        client = Client(ScriptedTransport(), neighbor=ScriptedNeighbor([RawEvent("ADDED", body)]))
        async with client.watch(THING) as events:
            with pytest.raises(UnreadableAnswerError, match="not a Thing"):
                await anext(events)

    run_virtual(test())


@pytest.mark.parametrize(
    ("body", "version"),
    [
        (b'{"major": "1", "minor": "36", "gitVersion": "v1.36.0"}', "v1.36.0"),
        (b"{}", ""),
        (b"[]", ""),
        (b"nothing", ""),
    ],
)
def test_the_version_is_the_servers_and_asked_for_once(body: bytes, version: str) -> None:
    transport = ScriptedTransport(Response(200, body))

    async def ask() -> list[str]:
        client = Client(transport)
        return [await client.find_version(), await client.find_version()]

    assert run_virtual(ask()) == [version, version]
    assert [request.path for request in transport.requests] == ["/version"]
