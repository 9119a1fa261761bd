"""Queues as the plugins about users read them: the newest ones, each decoded once."""

import asyncio
from typing import Any

import msgspec

from muster.api.kinds import Kind
from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE
from muster.api.ours.teams import QUEUE_USERS
from muster.cluster.apiserver.admission.plugins.storedqueues import find_cluster_queue, read_queues
from muster.cluster.store import Delete, Header, Key, MemoryJournal, Put, Store


def put(kind: Kind[Any], namespace: str, name: str, spec: dict[str, Any], *users: str) -> Put:
    meta = {"name": name, "namespace": namespace, "annotations": {QUEUE_USERS: ",".join(users)} if users else {}}
    body = msgspec.json.encode({"metadata": meta, "spec": spec})
    return Put(Key(kind.resource, namespace, name), lambda _revision: body)


def test_queues_are_decoded_once_until_one_changes() -> None:
    async def story() -> None:
        async with Store(MemoryJournal(), lambda _resource, _body: Header()) as store:
            await store.write(put(CLUSTER_QUEUE, "", "a", {}), put(CLUSTER_QUEUE, "", "b", {}, "ada"))
            first = read_queues(store)
            assert [team.queue for team in first.teams] == ["b"]
            assert read_queues(store) is first
            written = store.write(put(CLUSTER_QUEUE, "", "a", {}, "bob"))  # not committed yet
            changed = read_queues(store)
            assert [team.queue for team in changed.teams] == ["a", "b"]
            assert changed.queues[1] is first.queues[1]
            await written
            assert read_queues(store) is changed

    asyncio.run(story())


def test_a_local_queue_leads_where_it_leads_now() -> None:
    async def story() -> None:
        async with Store(MemoryJournal(), lambda _resource, _body: Header()) as store:
            await store.write(put(CLUSTER_QUEUE, "", "a", {}), put(CLUSTER_QUEUE, "", "b", {}))
            for target in ("a", "b", "a"):
                local = put(LOCAL_QUEUE, "default", "q", {"clusterQueue": target})
                written = store.write(local)
                found = find_cluster_queue(store, "default", "q")
                assert found is not None
                assert found.metadata.name == target
                assert find_cluster_queue(store, "default", "q") is found
                await written
            await store.write(Delete(Key(CLUSTER_QUEUE.resource, "", "a"), lambda _revision: b"{}"))
            assert find_cluster_queue(store, "default", "q") is None
            assert find_cluster_queue(store, "default", "") is None
            assert find_cluster_queue(store, "elsewhere", "q") is None

    asyncio.run(story())
