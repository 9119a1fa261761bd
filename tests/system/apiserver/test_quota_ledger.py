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
from muster.cluster.store.journal import JournalRecord
from muster.runtime.clock import VirtualClock, run_virtual

SCOPES = (Scope(), Scope(("BestEffort",)), Scope(("NotTerminating",)))


class Refusing(MemoryJournal):
    """Refuses the next batch if it is told to."""

    refuse = False

    async def append(self, records: Sequence[JournalRecord]) -> None:
        if self.refuse:
            self.refuse = False
            raise StorageFull("the disk")


GROUPS = "podgroups.incubator.scheduling.k8s.io"


def put(key: Key, cpus: int, phase: str, group: str = "") -> Put:
    requests = {"requests": {"cpu": str(cpus)}} if cpus else {}
    container = {"name": "c", "resources": requests}
    annotations = {"scheduling.k8s.io/group-name": group} if group else {}
    return written(key, {"annotations": annotations}, spec={"containers": [container]}, status={"phase": phase})


def put_group(key: Key, cpus: int, over: str) -> Put:
    spec = {"minMembers": 2} | ({"totalResources": {"cpu": cpus}} if cpus else {})
    return written(key, {}, spec=spec, status={"completionTime": "2026-01-01T00:00:00Z"} if over else {})


def written(key: Key, meta: Any, **parts: Any) -> Put:
    def encode(revision: int) -> bytes:
        return msgspec.json.encode({"metadata": meta | {"name": key.name, "resourceVersion": str(revision)}} | parts)

    return Put(key, encode)


def counted(store: Store, namespace: str, scope: Scope) -> dict[str, int]:
    """What pods use, and what is left of what each group has set aside; worked out from the objects alone."""
    total, groups = Counter[str](), dict[str, Counter[str]]()
    for entry in store.latest_list("pods", namespace).entries:
        measure = measure_body("pods", entry.body)
        groups.setdefault(measure.group, Counter()).update(measure.usage)
        if scope.covers(measure):
            total.update(measure.usage)
    for entry in store.latest_list(GROUPS, namespace).entries if scope == Scope() else ():
        group = msgspec.json.decode(entry.body)
        cpus = group["spec"].get("totalResources", {}).get("cpu", 0)
        if cpus and "completionTime" not in group["status"]:
            reserved = {"cpu": cpus * 1000, "requests.cpu": cpus * 1000, "pods": 2, "count/pods": 2}
            total.update(Counter(reserved) - groups.get(entry.key.name, Counter()))
    return dict(+total)


STEP = st.one_of(
    st.tuples(
        st.just("put"),
        st.sampled_from("ab"),
        st.integers(0, 3),
        st.integers(0, 2),
        st.sampled_from(["", "Failed"]),
        st.sampled_from(["", "g0", "g1"]),
    ),
    st.tuples(
        st.just("group"), st.sampled_from("ab"), st.integers(0, 1), st.integers(0, 4), st.sampled_from(["", "", "over"])
    ),
    st.tuples(st.just("delete"), st.sampled_from("ab"), st.integers(0, 3)),
    st.tuples(st.just("disband"), st.sampled_from("ab"), st.integers(0, 1)),
    st.tuples(st.just("try"), st.sampled_from("ab"), st.integers(0, 3), st.sampled_from(["", "g0", "g1"])),
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
                        used = +ledger.sum_usage("pods", namespace, scope)
                        used.pop(f"count/{GROUPS}", None)
                        assert dict(used) == counted(store, namespace, scope)

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
        case ("put", namespace, number, cpus, phase, group):
            watched(store.write(put(Key("pods", namespace, f"p{number}"), cpus, phase, group)))
        case ("group", namespace, number, cpus, over):
            watched(store.write(put_group(Key(GROUPS, namespace, f"g{number}"), cpus, over)))
        case ("disband", namespace, number):
            key = Key(GROUPS, namespace, f"g{number}")
            if store.latest(key) is not None:
                watched(store.write(Delete(key, put_group(key, 0, "").encode)))
        case ("try", namespace, number, group):
            key = Key("pods", namespace, f"p{number}")
            before = Counter(counted(store, namespace, Scope()))
            measure = measure_body("pods", put(key, 2, "", group).encode(0))
            used, more = ledger.with_object("pods", Scope(), key, measure)
            watched(store.write(put(key, 2, "", group)))
            assert (+used).items() >= before.items()
            assert more == Counter(counted(store, namespace, Scope())) - before
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
