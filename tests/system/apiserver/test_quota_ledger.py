"""The accounts of quotas are always what counting anew would give: whatever is written, taken back, or forgotten."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cluster.apiserver.admission.plugins.quotaledger import QuotaLedger
from muster.cluster.apiserver.admission.plugins.quotausage import Scope, measure_body
from muster.cluster.apiserver.objects.headers import header_of
from muster.cluster.store import Delete, Key, MemoryJournal, Put, Store, WriteRefused
from muster.cluster.store.errors import StorageFull
from muster.cluster.store.journal import Record
from muster.runtime.clock import VirtualClock, run_virtual

SCOPES = (Scope(), Scope(("BestEffort",)), Scope(("NotTerminating",)))


class Refusing(MemoryJournal):
    """Refuses the next batch if it is told to."""

    refuse = False

    async def append(self, records: Sequence[Record]) -> None:
        if self.refuse:
            self.refuse = False
            raise StorageFull("the disk")


def put(key: Key, cpus: int, phase: str) -> Put:
    requests = {"requests": {"cpu": str(cpus)}} if cpus else {}
    container = {"name": "c", "resources": requests}
    pod = {"spec": {"containers": [container]}, "status": {"phase": phase}}

    def encode(revision: int) -> bytes:
        return msgspec.json.encode({"metadata": {"name": key.name, "resourceVersion": str(revision)}} | pod)

    return Put(key, encode)


def counted(store: Store, namespace: str, scope: Scope) -> dict[str, int]:
    total = Counter[str]()
    for entry in store.latest_list("pods", namespace).entries:
        measure = measure_body("pods", entry.body)
        if scope.covers(measure):
            total.update(measure.usage)
    return dict(+total)


STEP = st.one_of(
    st.tuples(
        st.just("put"), st.sampled_from("ab"), st.integers(0, 3), st.integers(0, 2), st.sampled_from(["", "Failed"])
    ),
    st.tuples(st.just("delete"), st.sampled_from("ab"), st.integers(0, 3)),
    st.tuples(st.sampled_from(["commit", "refuse", "ask", "forget"])),
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.lists(STEP, min_size=20, max_size=60))
def test_the_ledger_is_right(steps):
    async def body() -> None:
        journal, clock = Refusing(), VirtualClock()
        # So short a memory that the ledger misses changes if it does not ask for a while.
        async with Store(journal, header_of, history=3) as store:
            ledger = QuotaLedger(store)

            def check() -> None:
                for namespace in "ab":
                    for scope in SCOPES:
                        assert dict(+ledger.used("pods", namespace, scope)) == counted(store, namespace, scope)

            for step in steps:
                await take(step, store, journal, ledger, check, clock)
            check()
            await clock.sleep(1)
            check()

    run_virtual(body())


async def take(
    step: Any, store: Store, journal: Refusing, ledger: QuotaLedger, check: Any, clock: VirtualClock
) -> None:
    match step:
        case ("put", namespace, number, cpus, phase):
            watched(store.write(put(Key("pods", namespace, f"p{number}"), cpus, phase)))
        case ("delete", namespace, number):
            key = Key("pods", namespace, f"p{number}")
            if store.latest(key) is not None:
                watched(store.write(Delete(key, put(key, 0, "").encode)))
        case ("refuse",):
            journal.refuse = True
        case ("commit",):
            await clock.sleep(1)
        case ("forget",):
            ledger.forget("a")
        case _:
            check()


def watched(written: Any) -> None:
    """Refusals are expected: nobody is told of them."""
    written.add_done_callback(lambda done: isinstance(done.exception(), WriteRefused))
