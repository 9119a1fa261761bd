"""Which writes of documents wait for the commit of others."""

import asyncio
from collections.abc import Sequence

import pytest
from tests.unit.cluster.store.kit import Faulty

from muster.cluster.apiserver.objects.documents import Documents
from muster.cluster.apiserver.objects.headers import header_of
from muster.cluster.store import Key, MemoryJournal, Store
from muster.runtime.clock import run_virtual


@pytest.mark.parametrize(
    ("resource", "batches"), [("events", [1, 2]), ("leases.coordination.k8s.io", [1, 2]), ("pods", [1, 1, 1])]
)
def test_events_and_leases_are_committed_with_the_write_that_comes_next(resource: str, batches: Sequence[int]) -> None:
    async def test() -> None:
        journal = Faulty(MemoryJournal())
        journal.durable = True
        async with Store(journal, header_of) as store:
            documents = Documents(store)

            async def put(kind: str, name: str) -> None:
                await documents.put(Key(kind, "default", name), {"metadata": {"name": name}})

            await put("configmaps", "first")
            async with asyncio.TaskGroup() as group:
                group.create_task(put(resource, "beside"))
                await asyncio.sleep(0.001)
                await put("configmaps", "second")
        assert journal.batches == batches

    run_virtual(test())
