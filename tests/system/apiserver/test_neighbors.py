"""A client in the server's process: it gets events without text, shares objects, and sees what every client sees."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace
from tests.system.apiserver.harness import api
from tests.system.plane import running

from muster.api.batch import JOB
from muster.api.core import CONFIG_MAP, NODE, POD, ConfigMap, Node, Pod
from muster.api.kinds import Kind
from muster.api.kueue import WORKLOAD
from muster.api.meta import Object, ObjectMeta
from muster.api.status import ApiError
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.cluster.controlplane import ControlPlane
from muster.runtime.client import Client, WatchEvent
from muster.runtime.clock import run_virtual
from muster.runtime.informer import Informer
from muster.runtime.objects import remove_managed_fields
from muster.runtime.tasks import cancel
from muster.runtime.transport import APPLY_PATCH, JSON_PATCH, STRATEGIC_MERGE_PATCH, Request, TransportError

SPACE = "default"
PODS: Kind[Any] = POD
MAPS: Kind[Any] = CONFIG_MAP
WORKLOADS: Kind[Any] = WORKLOAD
JOBS: Kind[Any] = JOB
HEADS: Kind[Any] = POD.seen_as(Object)
PLAIN: Kind[Any] = POD.seen_as(dict)


def near_and_far(plane: ControlPlane) -> tuple[Client, Client]:
    """A client that shares the server's objects, and one that reads text."""
    transport = InProcessTransport(plane.server)
    return Client(transport, neighbor=transport), Client(transport)


Write = Callable[[Client], Awaitable[Any]]

NAMES = st.sampled_from(["a", "b"])
LABELS = st.dictionaries(st.sampled_from(["on", "x"]), st.sampled_from(["1", "2", "no good!"]), max_size=2)
TEXTS = st.sampled_from(["", "1", "ü\n", "x" * 300])
SPECS: Mapping[str, Any] = {
    POD.kind: {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
    JOB.kind: {
        "suspend": True,
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
    },
    WORKLOAD.kind: {
        "queueName": "q",
        "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}],
    },
}
CONDITIONS = st.lists(
    st.builds(
        lambda type_, status, message: {
            "type": type_, "status": status, "reason": "R", "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        },
        st.sampled_from(["A", "B", "bad type!"]), st.sampled_from(["True", "False", "perhaps"]), TEXTS,
    ),
    max_size=3,
)  # fmt: skip


@st.composite
def writes(draw: st.DrawFn) -> Write:
    """A write that succeeds, or is refused."""
    kind: Kind[Any] = draw(st.sampled_from([PODS, MAPS, WORKLOADS, JOBS]))
    name, labels, text = draw(NAMES), draw(LABELS), draw(TEXTS)
    meta: dict[str, Any] = {"name": name, "namespace": SPACE, "labels": labels}
    body = {"metadata": meta} | ({"spec": SPECS[kind.kind]} if kind.kind in SPECS else {"data": {"text": text}})
    whole = {"apiVersion": kind.api_version, "kind": kind.kind} | body
    version, conditions = draw(st.sampled_from([None, "1", "999999"])), draw(CONDITIONS)
    status = {"metadata": {"resourceVersion": version}, "status": {"conditions": conditions}}
    edits = [{"op": "add", "path": "/metadata/labels", "value": labels}]
    held = {"metadata": {"finalizers": draw(st.sampled_from([[], ["example.com/a"], ["bad"]]))}}
    binding = {"metadata": {"name": name, "annotations": {"a": text}}, "target": {"kind": "Node", "name": "n"}}
    choices: list[Write] = [
        lambda client: client.create(kind, kind.typed(body), SPACE),
        lambda client: client.create(kind, kind.typed(body), SPACE, dry_run=True),
        lambda client: client.update(kind, kind.typed(body)),
        lambda client: client.patch(kind, name, {"metadata": {"labels": labels}, "data": {"text": text}}, SPACE),
        lambda client: client.patch(kind, name, edits, SPACE, type=JSON_PATCH),
        lambda client: client.patch(kind, name, {"metadata": {"labels": labels}}, SPACE, type=STRATEGIC_MERGE_PATCH),
        lambda client: client.patch(kind, name, whole, SPACE, type=APPLY_PATCH),
        lambda client: client.patch(kind, name, status, SPACE, subresource="status"),
        lambda client: client.patch(kind, name, held, SPACE),
        lambda client: client.post(POD, name, SPACE, "binding", binding),
        lambda client: client.delete(kind, name, SPACE, grace_period_seconds=0),
        lambda client: client.delete(kind, name, SPACE, propagation="Foreground"),
        lambda client: client.get(kind, name, SPACE),
    ]
    return draw(st.sampled_from(choices))


async def outcome(write: Write, client: Client) -> Any:
    """What the writer gets; a neighbor gets objects without managedFields."""
    try:
        answer = await write(client)
        return remove_managed_fields(answer) if isinstance(answer, Struct) else answer
    except (ApiError, TransportError) as error:
        return type(error), getattr(error, "status", str(error))


async def followed(client: Client, kind: Kind[Any], events: list[WatchEvent[Any] | ApiError], **where: Any) -> None:
    """Note every event of a watch, and the error that ends it."""
    try:
        async with client.watch(kind, SPACE, **where) as stream:
            async for event in stream:
                events.append(event)  # noqa: PERF401  (whoever waits sees each at once)
    except ApiError as error:
        events.append(error)


@settings(max_examples=max(25, settings.default.max_examples // 10), deadline=None)
@given(st.lists(writes(), min_size=1, max_size=12), st.sampled_from(["", "on=1", "on,x!=2"]))
def test_a_neighbor_sees_what_every_client_sees(steps: list[Write], labels: str) -> None:
    async def test() -> None:
        async with running(controllers=False) as here, running(controllers=False) as there:
            near, _ = near_and_far(here)
            _, far = near_and_far(there)
            seen: list[tuple[list[Any], list[Any]]] = []
            watches = []
            for kind in (PODS, MAPS, WORKLOADS, JOBS, HEADS, PLAIN):
                for where in ({}, {"labels": labels}):
                    pair: tuple[list[Any], list[Any]] = ([], [])
                    seen.append(pair)
                    for client, events in zip((near, far), pair, strict=True):
                        options = {**where, "resource_version": "1", "timeout_seconds": 50}
                        watches.append(asyncio.create_task(followed(client, kind, events, **options)))
            await asyncio.sleep(0.1)
            for write in steps:
                assert await outcome(write, near) == await outcome(write, far)
            await asyncio.wait(watches)
            for close, distant in seen:
                assert list(map(_shown, close)) == list(map(_shown, distant))
                assert close[-1].type == "BOOKMARK"
            bodies = [{entry.key: entry.body for entry in plane.store.everything().entries} for plane in (here, there)]
            assert bodies[0] == bodies[1]

    run_virtual(test())


def _shown(event: WatchEvent[Any] | ApiError) -> Any:
    if isinstance(event, ApiError):
        return event.status
    return replace(event, object=remove_managed_fields(event.object)) if event.object is not None else event


@api
async def test_a_neighbor_gets_one_bookmark_at_the_end(api: Any) -> None:
    seen: tuple[list[Any], list[Any]] = ([], [])
    for client, events in zip(near_and_far(api.plane), seen, strict=True):
        await followed(client, POD, events, resource_version="1", timeout_seconds=400)
    assert [len(events) for events in seen] == [1, 7]


class Counter(InProcessTransport):
    """Counts the watches that are opened."""

    watches = 0

    def follow(self, request: Request) -> Any:
        self.watches += 1
        return super().follow(request)


@api
async def test_an_informer_of_a_neighbor_keeps_its_watch_for_hours(api: Any) -> None:
    transport, inputs = Counter(api.plane.server), api.plane.inputs
    informer = Informer(Client(transport, neighbor=transport), CONFIG_MAP, inputs.clock, inputs.random)
    following = asyncio.create_task(informer.run())
    await asyncio.sleep(3 * 3600)
    await api.plane.client().create(CONFIG_MAP, ConfigMap(metadata=ObjectMeta(name="a", namespace=SPACE)))
    await asyncio.sleep(0.1)
    assert informer.get(f"{SPACE}/a") is not None
    assert transport.watches == 1
    await cancel((following,))


@api
async def test_one_object_is_decoded_for_all_neighbors(api: Any) -> None:
    near, far = near_and_far(api.plane)
    events: list[Any] = []
    watches = [asyncio.create_task(followed(near, POD, events, resource_version="1")) for _ in range(2)]
    await asyncio.sleep(0.1)
    pod = POD.typed({"metadata": {"name": "a", "namespace": SPACE}, "spec": SPECS[POD.kind]})
    answer = await near.create(POD, pod)
    await asyncio.sleep(0.1)
    one, other = events
    assert one.object is other.object is answer is await near.get(POD, "a", SPACE)
    assert remove_managed_fields(await far.get(POD, "a", SPACE)) == answer
    for watch in watches:
        watch.cancel()


@api
async def test_plain_objects_are_not_shared(api: Any) -> None:
    near, _ = near_and_far(api.plane)
    await near.create(CONFIG_MAP, ConfigMap(metadata=ObjectMeta(name="a", namespace=SPACE)))
    kind = CONFIG_MAP.seen_as(dict)
    (await near.get(kind, "a", SPACE))["metadata"]["name"] = "spoilt"
    assert (await near.get(kind, "a", SPACE))["metadata"]["name"] == "a"


@api
async def test_a_version_that_is_too_old_ends_the_watch_of_a_neighbor(api: Any) -> None:
    near, _ = near_and_far(api.plane)
    await near.create(NODE, Node(metadata=ObjectMeta(name="n")))
    await api.store.compact(api.store.revision)
    with pytest.raises(ApiError) as refusal:
        async with near.watch(NODE, resource_version="1") as events:
            await anext(events)
    assert refusal.value.status.reason == "Expired"


@api
async def test_a_neighbor_is_refused_a_watch_as_everybody_is(api: Any) -> None:
    near, _ = near_and_far(api.plane)
    with pytest.raises(ApiError) as refusal:
        async with near.watch(POD, SPACE, labels="on in") as events:
            await anext(events)
    assert refusal.value.code == 400


@api
async def test_many_events_come_in_order(api: Any) -> None:
    near, _ = near_and_far(api.plane)
    names = [f"m-{number}" for number in range(1000)]
    events: list[Any] = []
    for name in names:
        await near.create(CONFIG_MAP, ConfigMap(metadata=ObjectMeta(name=name, namespace=SPACE)))
    with suppress(TimeoutError):
        async with asyncio.timeout(1):
            await followed(near, CONFIG_MAP, events, resource_version="1")
    made = [event.object.metadata.name for event in events if event.object is not None]
    assert [name for name in made if name in set(names)] == names


def test_the_controllers_of_a_cluster_are_neighbors() -> None:
    async def test() -> None:
        async with running(controllers=False) as plane:
            client = plane.manager.client
            pod: Pod = POD.typed({"metadata": {"name": "a", "namespace": SPACE}, "spec": SPECS[POD.kind]})
            assert await client.create(POD, pod) is await client.get(POD, "a", SPACE)

    run_virtual(test())


@api
async def test_an_object_that_the_store_keeps_in_pieces_is_decoded_once(api):
    near, far = near_and_far(api.plane)
    await near.create(MAPS, ConfigMap(metadata=ObjectMeta(name="a"), data={"key": "x" * 5_000}), SPACE)
    await api.store.pack()
    first = await near.get(MAPS, "a", SPACE)
    assert await near.get(MAPS, "a", SPACE) is first
    assert remove_managed_fields(await far.get(MAPS, "a", SPACE)) == first
