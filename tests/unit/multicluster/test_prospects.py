"""Where a manager believes that there is room, and what it remembers of the head starts that follow from that."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from muster.api.config.types import ALL_AT_ONCE, EARLIEST_START, INCREMENTAL
from muster.api.kueue import ClusterQueue, Workload
from muster.api.managed.dispatch import HOME_ANNOTATION
from muster.multicluster.dispatch.lead import HEAD_START, LONGEST_HEAD_START
from muster.multicluster.dispatch.views import DispatchPlan, DispatchView, Lead, Remote
from muster.multicluster.links.clusters import Fleet
from muster.multicluster.prospects import DOUBTED, KEPT_SECONDS, Prospects
from muster.runtime.clock import Clock
from muster.runtime.informer import Informer
from muster.runtime.objects import key_of

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
BOTH = Remote("a"), Remote("b")
MINE = "example.com/mine"


@dataclass
class Time:
    """A clock that a test sets."""

    seconds: float = 0.0

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds


@dataclass
class Queues:
    """What a worker shows of its one queue."""

    queue: ClusterQueue
    known: bool = True
    refusal: str = ""

    def behind(self, keys: Iterable[str]) -> tuple[ClusterQueue, ...]:
        return (self.queue,) if list(keys) == ["ns/team"] else ()


@dataclass
class There:
    """A worker. is_asked: whether its queues are followed."""

    shown: Queues | None
    lost_since: datetime | None = None
    is_asked: bool = False

    def follow_queues(self) -> Queues | None:
        self.is_asked = True
        return self.shown


@dataclass
class Workers:
    """A fleet."""

    clusters: dict[str, There]

    def get(self, cluster: str) -> There | None:
        return self.clusters.get(cluster)

    def on_standing(self, handler: Callable[[str], None]) -> None:
        for name in self.clusters:
            handler(name)


@dataclass
class Here:
    """The cache of the manager's own workloads."""

    workloads: list[Workload] = field(default_factory=list)
    index: Callable[[Workload], Iterable[str]] = lambda _: ()

    def add_index(self, _name: str, function: Callable[[Workload], Iterable[str]]) -> None:
        self.index = function

    def by(self, _name: str, value: str) -> list[Workload]:
        return [one for one in self.workloads if value in self.index(one)]

    def all(self) -> list[Workload]:
        return self.workloads


class World:
    """A manager's prospects in two workers of four CPUs."""

    def __init__(self, dispatcher: str = ALL_AT_ONCE) -> None:
        self.time, self.here = Time(), Here()
        self.there = {name: There(Queues(cpus())) for name in "ab"}
        fleet, clock = cast("Fleet", Workers(self.there)), cast("Clock", self.time)
        self.prospects = Prospects(fleet, cast("Informer[Workload]", self.here), clock, dispatcher)

    def seconds(self, one: Workload, remotes: tuple[Remote, ...] = BOTH) -> list[float | None]:
        return [remote.seconds for remote in self.prospects.find_remotes(one, remotes)]

    def send(self, one: Workload, cluster: str = "a") -> Lead:
        """A workload's head start is decided, and its clone is to be created."""
        self.seconds(one)
        lead = Lead(cluster, self.time.now())
        plan = DispatchPlan("", one.status, create=(cluster,), lead=lead)
        self.prospects.follow_plan(DispatchView(one, "c", remotes=BOTH), plan)
        return lead

    def admit(self, lead: Lead, one: Workload) -> None:
        """The cluster with the head start has admitted the workload."""
        view = DispatchView(one, "c", remotes=BOTH, lead=lead)
        self.prospects.follow_plan(view, DispatchPlan(lead.cluster, one.status))

    def look(self, one: Workload, lead: Lead, *remotes: Remote) -> None:
        """The workload is looked at again, and its head start is what it was."""
        view = DispatchView(one, "c", remotes=remotes or BOTH, lead=lead)
        self.prospects.follow_plan(view, DispatchPlan("", one.status, lead=lead))


def cpus(total: int = 4, used: int = 0) -> ClusterQueue:
    flavor = {"name": "f", "resources": [{"name": "cpu", "nominalQuota": total}]}
    reserved = {"name": "f", "resources": [{"name": "cpu", "total": used, "borrowed": 0}]}
    spec = {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}]}
    return msgspec.convert(
        {"metadata": {"name": "q"}, "spec": spec, "status": {"flavorsReservation": [reserved]}}, ClusterQueue
    )


def workload(name: str = "w", cpu: int = 2, *, home: str = "", **conditions: str) -> Workload:
    """One with quota in the manager."""
    stamp = {"reason": "R", "message": "", "lastTransitionTime": NOW}
    said = [
        {"type": type_, "status": value, **stamp} for type_, value in {"QuotaReserved": "True", **conditions}.items()
    ]
    assigned = [{"name": "main", "resourceUsage": {"cpu": cpu}}]
    document: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "ns", "annotations": {HOME_ANNOTATION: home} if home else {}},
        "spec": {"queueName": "team", "podSets": []},
        "status": {"admission": {"clusterQueue": "here", "podSetAssignments": assigned}, "conditions": said},
    }
    return msgspec.convert(document, Workload)


@pytest.mark.parametrize(
    ("there", "has_room"),
    [
        pytest.param(There(Queues(cpus(4, used=2))), True, id="there is room"),
        pytest.param(There(Queues(cpus(4, used=3))), False, id="there is none"),
        pytest.param(There(Queues(cpus(), known=False)), False, id="its queues are not listed yet"),
        pytest.param(There(Queues(cpus(), refusal="Forbidden")), False, id="it does not show its queues"),
        pytest.param(There(Queues(cpus()), lost_since=NOW), False, id="it is lost"),
        pytest.param(There(None), False, id="it is not connected"),
        pytest.param(There(Queues(cpus(-1))), False, id="what it shows is no quota"),
    ],
)
@pytest.mark.parametrize("dispatcher", [ALL_AT_ONCE, INCREMENTAL])
def test_where_there_is_room(there: There, has_room: bool, dispatcher: str) -> None:
    world = World(dispatcher)
    world.there["a"] = there
    assert [remote.has_room for remote in world.prospects.find_remotes(workload(), BOTH)] == [has_room, True]


def test_a_queue_of_another_name_shows_nothing() -> None:
    one = workload()
    assert World().seconds(replace(one, spec=replace(one.spec, queue_name="other"))) == [None, None]


def test_a_cluster_of_another_configuration_is_not_looked_at() -> None:
    assert World().seconds(workload(), (Remote("a", chosen_for=False), Remote("b"))) == [None, 0.0]


def test_of_many_at_once_each_counts_those_before_it_once() -> None:
    world = World()
    for _ in range(2):
        world.send(workload("x"))
    assert world.seconds(workload("y"))[0] == 0.0
    world.send(workload("y"))
    assert world.seconds(workload("z")) != [0.0, 0.0]
    assert world.seconds(workload("z"))[1] == 0.0


@pytest.mark.parametrize(
    ("before", "room"),
    [
        pytest.param([workload("x", home="a"), workload("y", home="a")], False, id="two that run there"),
        pytest.param([workload("x", home="a", Finished="True"), workload("y", home="a")], True, id="one has ended"),
        pytest.param([workload("x", home="a", QuotaReserved="False"), workload("y", home="a")], True, id="one waits"),
        pytest.param([workload("x", home="b"), workload("y", home="a")], True, id="one runs elsewhere"),
    ],
)
def test_what_the_worker_has_just_admitted_is_not_in_its_status_yet_and_counts(
    before: list[Workload], room: bool
) -> None:
    world = World()
    world.here.workloads = before
    assert (world.seconds(workload("z"))[0] == 0.0) is room


def test_loads_are_read_again_after_a_moment() -> None:
    world = World()
    for name in "xy":
        world.send(workload(name))  # both are deleted before they are seen
    assert world.seconds(workload("z"))[0] != 0.0
    world.time.seconds = 2 * KEPT_SECONDS
    assert world.seconds(workload("z"))[0] == 0.0


def test_a_head_start_counts_in_its_cluster_alone_after_loads_are_read_again() -> None:
    world = World()
    waiting = [
        replace(one, status=replace(one.status, nominated_cluster_names=("a", "b")))
        for one in (workload("x"), workload("y"))
    ]
    world.here.workloads = waiting
    for one in waiting:
        world.send(one)
    world.time.seconds = 2 * KEPT_SECONDS
    first, second = world.seconds(workload("z"))
    assert (first != 0.0, second) == (True, 0.0)


def test_a_head_start_is_remembered_until_the_decision_drops_it_or_the_workload_is_gone() -> None:
    world, one = World(), workload()
    key = key_of(one)
    lead = world.send(one)
    world.look(one, lead)
    assert world.prospects.lead(key) == lead
    assert world.seconds(one) == [None, None], "nobody asks again where there is room"
    world.prospects.follow_plan(DispatchView(one, "c", lead=lead), DispatchPlan("a", one.status))
    assert world.prospects.lead(key) is None
    world.send(one)
    world.prospects.forget(key)
    assert world.prospects.lead(key) is None


def test_no_room_is_looked_for_where_something_is_left_of_an_earlier_attempt() -> None:
    assert World().seconds(workload(), (Remote("a", workload=workload()), Remote("b"))) == [None, None]


def test_a_silent_cluster_gets_no_head_start_for_a_while_once() -> None:
    world, one = World(), workload()
    lead = world.send(one)
    for seconds, seen in ((9.0, 0.0), (10.0, None), (50.0, None), (69.0, None), (70.0, 0.0)):
        world.time.seconds = seconds
        world.look(one, lead)
        assert world.seconds(workload("z"))[0] == seen, f"after {seconds} s"
    assert (HEAD_START + DOUBTED).total_seconds() == 70.0


def test_a_cluster_that_has_answered_keeps_its_trust() -> None:
    world, one = World(), workload()
    lead = world.send(one)
    world.time.seconds = 60.0
    world.look(one, lead, Remote("a", workload=workload(QuotaReserved="False")), Remote("b"))
    assert world.seconds(workload("z"))[0] == 0.0


def test_a_refused_clone_ends_the_head_start_of_its_cluster_and_costs_it_the_next() -> None:
    world, one = World(), workload()
    lead, key = world.send(one), key_of(one)
    assert not world.prospects.end_head_start(key, "b")
    assert not world.prospects.end_head_start("ns/other", "a")
    assert world.prospects.lead(key) == lead
    assert world.prospects.end_head_start(key, "a")
    for _ in "12":
        ended = world.prospects.lead(key)
        assert ended is not None
        assert ended.since + HEAD_START <= NOW
        world.admit(world.send(workload("x")), workload("x"))  # others
    assert world.seconds(workload("z")) == [None, 0.0]


def test_a_cluster_that_admits_others_keeps_its_head_start_for_a_minute() -> None:
    world, one = World(), workload()
    lead = world.send(one)
    for seconds, counts_from in ((0.0, 0.0), (8.0, 8.0), (45.0, 45.0), (55.0, 50.0), (500.0, 50.0)):
        world.time.seconds = seconds
        world.admit(world.send(workload("x")), workload("x"))
        assert world.prospects.lead(key_of(one)) == replace(lead, since=NOW + timedelta(seconds=counts_from))
    assert (LONGEST_HEAD_START - HEAD_START).total_seconds() == 50.0


def test_what_another_cluster_admits_says_nothing_of_this_one() -> None:
    world, one = World(), workload()
    lead = world.send(one)
    world.time.seconds = 8.0
    world.admit(world.send(workload("x"), "b"), workload("x"))
    world.look(one, lead)
    assert world.prospects.lead(key_of(one)) == lead


def test_the_earliest_start_is_asked_of_clusters_that_have_no_clone_and_needs_no_trust() -> None:
    world, one = World(EARLIEST_START), workload()
    lead = world.send(one)
    world.prospects.end_head_start(key_of(one), lead.cluster)
    asked = replace(one, status=replace(one.status, nominated_cluster_names=("b",)))
    assert world.seconds(asked, (Remote("a"), Remote("b", workload=one))) == [0.0, None]


@pytest.mark.parametrize(("dispatcher", "is_asked"), [(ALL_AT_ONCE, True), (EARLIEST_START, True), (MINE, False)])
def test_queues_are_followed_where_they_are_of_use(dispatcher: str, is_asked: bool) -> None:
    world, one = World(dispatcher), workload()
    world.seconds(one)
    world.prospects.follow_plan(DispatchView(one, "c", remotes=BOTH), DispatchPlan("", one.status, create=("a", "b")))
    assert [there.is_asked for there in world.there.values()] == [is_asked, is_asked]
