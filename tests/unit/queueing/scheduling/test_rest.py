"""Tests that admission comes to rest without arrivals and endings, and evicts no workload twice for one preemptor."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.unit.queueing import admission_worlds as aw
from tests.unit.queueing.topology import halls
from tests.unit.queueing.worlds import START

from muster.api.values.selectors import EVERYTHING
from muster.queueing.elastic.growth import growth_by, growth_key
from muster.queueing.elastic.sizing import ElasticWorkload, find_smaller_sizes
from muster.queueing.model import (
    FlavorResource,
    FlavorSpec,
    PreemptionPolicy,
    QueueSpec,
    Quota,
    ResourceGroup,
    WorkloadInfo,
)
from muster.queueing.model import Preemption as Rules
from muster.queueing.quota.tree import Tree
from muster.queueing.scheduling.cycle import AdmissionSettings, CyclePreemption, run
from muster.queueing.scheduling.fairness import FairSharing
from muster.queueing.scheduling.nomination import nominate

FAIR = (None, FairSharing(), FairSharing(("LessThanOrEqualToFinalShare",)), FairSharing(("LessThanInitialShare",)))


class Cluster:
    """A tree and its queues, with workloads that leave some time after they were evicted, and then wait again.

    elastic: the smallest sizes of workloads, by name, that shrink so that others need not be evicted.
    evictions: which workload was evicted for which since the last arrival.
    """

    def __init__(
        self,
        tree: Tree,
        settings: AdmissionSettings,
        flavors: Mapping[str, FlavorSpec] = aw.FLAVORS,
        elastic: Mapping[str, int] = {},
    ) -> None:
        self.tree = tree
        self.queues = aw.queues((node.policy for node in self.tree.queues.values()), {})
        self.settings = settings
        self.flavors = flavors
        self.elastic = elastic
        self.evictions: list[tuple[str, str]] = []
        self.arrived: dict[str, WorkloadInfo] = {}
        self.unhelped: set[str] = set()  # for whom others were to shrink, in vain

    def arrive(self, workload: WorkloadInfo) -> None:
        self.arrived[workload.key] = workload
        self.queues.add(workload)
        self.evictions.clear()

    def cycle(self) -> None:
        outcome = run(self.tree, self.queues, self.flavors, self.settings, START, spare=self.can_shrink)
        for admission in outcome.admitted:
            if admission.workload.growth_of:
                self.grow(admission.workload)
        for decision in outcome.preemptions:
            self.evict(decision)
        for decision in outcome.spared:
            self.shrink(decision.workload)

    def evict(self, decision: CyclePreemption) -> None:
        for victim in decision.victims:
            holder = self.tree.holder(victim.workload.key)
            if holder is not None and not holder.evicted:
                self.evictions.append((decision.workload.uid, holder.uid))
                self.tree.hold(replace(holder, evicted=True))
                self.queues.remove(growth_key(holder.key))

    def can_shrink(self, decision: CyclePreemption) -> bool:
        if decision.workload.key in self.unhelped:
            self.unhelped.discard(decision.workload.key)
            return False
        holders = [self.tree.holder(victim.workload.key) for victim in decision.victims]
        return all(one is not None and not one.evicted for one in holders) and bool(self.sizes(decision.workload))

    def sizes(self, waiting: WorkloadInfo) -> Mapping[str, int]:
        def fits(claim: WorkloadInfo) -> bool:
            return nominate(self.tree, claim, self.flavors, self.settings).fits

        elastic = [
            ElasticWorkload(
                holder.key, holder.queue, holder.priority, holder.created, self.size(holder), least, self.pod(holder)
            )
            for holder in self.holders()
            if not holder.evicted
            and holder.uid in self.elastic
            and (least := self.elastic[holder.uid]) < self.size(holder)
        ]
        return find_smaller_sizes(self.tree, waiting, None, elastic, fits)

    def pod(self, holder: WorkloadInfo) -> dict[FlavorResource, int]:
        requests = holder.podsets[0].requests
        return {fr: requests[fr.resource] for fr in holder.usage or {}}

    def size(self, holder: WorkloadInfo) -> int:
        return min(amount // self.pod(holder)[fr] for fr, amount in (holder.usage or {}).items())

    def shrink(self, waiting: WorkloadInfo) -> None:
        sizes = self.sizes(waiting)
        for key, size in sizes.items():
            holder = self.tree.holder(key)
            assert holder is not None
            self.tree.hold(replace(holder, usage={fr: size * amount for fr, amount in self.pod(holder).items()}))
            self.queues.flush(self.tree.queues[holder.queue], holder.usage)
            (podset,) = holder.podsets
            flavors = {fr.resource: fr.flavor for fr in holder.usage or {}}
            missing = replace(podset, count=podset.count - size, least=None, flavors=flavors)
            self.queues.add(replace(growth_by(self.arrived[key], (missing,)), queued=datetime.max.replace(tzinfo=UTC)))
        if not sizes:
            self.unhelped.add(waiting.key)
            self.queues.retry(waiting.queue)

    def grow(self, more: WorkloadInfo) -> None:
        holder = self.tree.holder(more.growth_of)
        assert holder is not None
        self.tree.release(more)
        self.tree.hold(replace(holder, usage=dict(Counter(holder.usage) + Counter(more.usage))))

    def holders(self) -> list[WorkloadInfo]:
        holders = (holder for node in self.tree.queues.values() for holder in node.workloads.values())
        return sorted(holders, key=lambda holder: holder.key)

    def leave(self, holder: WorkloadInfo) -> None:
        self.tree.release(holder)
        self.queues.flush(self.tree.queues[holder.queue], holder.usage)
        self.queues.flush_places()
        self.queues.add(self.arrived[holder.key])

    def check(self) -> None:
        assert len(set(self.evictions)) == len(self.evictions), self.evictions
        for node in self.tree.queues.values():
            assert all(node.available(fr) >= 0 for fr in node.policy.quotas)

    def settle(self, choices: Iterable[int]) -> None:
        """Let evicted workloads leave in the order of the choices, one or two at a time, until all is at rest."""
        turns = iter(choices)
        for _ in range(400):
            cycles = 0
            while self.queues.untried:
                self.cycle()
                self.check()
                cycles += 1
                assert cycles < 100, f"cycles follow each other without rest: {self.evictions}"
            leaving = [holder for holder in self.holders() if holder.evicted]
            if not leaving:
                return
            turn = next(turns, 0)
            first = turn % len(leaving)
            for holder in leaving[first : first + 1 + turn % 2]:
                self.leave(holder)
        raise AssertionError(f"admission does not come to rest: {self.evictions}")

    def play(self, arrivals: Sequence[WorkloadInfo], choices: Sequence[int], together: int) -> None:
        """Let workloads arrive one after the other, except the last so many, which arrive together."""
        for number, workload in enumerate(arrivals):
            self.arrive(workload)
            if number < len(arrivals) - together:
                self.settle(choices)
        self.settle(choices)


def tense_world(integer: Callable[[int, int], int]) -> dict[str, Any]:
    """Return ClusterQueues that lend each other less than all request.

    integer: draws a number between two.
    """

    def one_of(*values: str) -> str:
        return values[integer(0, len(values) - 1)]

    resources = one_of("cpu", "cpu", "cpu gpu").split()
    flavors = one_of("default", "default", "spot solid").split()

    def limits() -> str:
        return "".join(f",{kind}{integer(0, 4)}" for kind in "bl" if integer(0, 9) == 0)

    def quota() -> str:
        return " ".join(f"{flavor}/{name}={integer(0, 4)}{limits()}" for flavor in flavors for name in resources)

    def about() -> str:
        return f"{quota()} weight={one_of('1', '1', '1', '2', '1/2', '0')}"

    def rules() -> str:
        within, reclaim = one_of("lower", "newer", "lower", "never"), one_of("any", "lower", "any", "never", "newer")
        flags = [flag for flag in ("strict", "try-borrow", "stop-preempt") if integer(0, 4) == 0]
        return " ".join((f"within={within} reclaim={reclaim}", one_of("", "", "borrow=lower", "borrow=0"), *flags))

    cohorts = {"c0": about()}
    for number in range(1, integer(0, 2) + integer(0, 1)):
        cohorts[f"c{number}"] = f"in=c{integer(0, number - 1)} {about()}"
    queues = {
        f"q{number}": f"in=c{integer(0, len(cohorts) - 1)} {about()} {rules()}" for number in range(integer(2, 4))
    }

    def waiting(number: int) -> str:
        gpu = f" gpu={integer(1, 3)}" if len(resources) > 1 and integer(0, 1) else ""
        return f"q{integer(0, len(queues) - 1)} p={integer(-1, 1)} at={number} | cpu={integer(1, 4)}{gpu}"

    arrivals = [waiting(number) for number in range(integer(2, 8))]
    return {"cohorts": cohorts, "queues": queues, "arrivals": arrivals}


@st.composite
def tense_worlds(draw: st.DrawFn) -> dict[str, Any]:
    return tense_world(lambda least, most: draw(st.integers(least, most)))


def play(
    case: dict[str, Any],
    fair: FairSharing | None,
    choices: Sequence[int],
    together: int,
    elastic: Mapping[str, int] = {},
) -> None:
    cluster = Cluster(aw.tree(case), AdmissionSettings(fair), elastic=elastic)
    arrivals = [aw.workload(f"w{number}", text) for number, text in enumerate(case["arrivals"])]
    cluster.play(arrivals, choices, together)


CIRCLES = [
    pytest.param(
        {
            "cohorts": {"c0": "cpu=1"},
            "queues": {
                "q0": "in=c0 cpu=2 weight=0 within=newer reclaim=any",
                "q1": "in=c0 cpu=0 weight=2 within=newer reclaim=any",
            },
            "arrivals": [
                "q0 p=1 at=0 | cpu=3",
                "q1 p=1 at=1 | cpu=3",
                "q0 p=-1 at=2 | cpu=2",
                "q0 p=0 at=3 | cpu=3",
                "q1 p=1 at=4 | cpu=3",
            ],
        },
        FairSharing(),
        id="its own quota, a priority and a share, each against the next",
    ),
    pytest.param(
        {
            "cohorts": {"c0": "cpu=3", "c1": "in=c0 cpu=3", "c2": "in=c1 cpu=1"},
            "queues": {
                "q0": "in=c0 cpu=2 within=lower reclaim=any borrow=0 stop-preempt",
                "q1": "in=c1 cpu=0 within=lower reclaim=any borrow=lower",
            },
            "arrivals": [
                "q0 p=-1 at=0 | cpu=1",
                "q0 p=1 at=1 | cpu=1",
                "q1 p=-1 at=2 | cpu=1",
                "q1 p=1 at=3 | cpu=4",
                "q1 p=1 at=4 | cpu=4",
                "q0 p=0 at=5 | cpu=2",
                "q0 p=0 at=6 | cpu=2",
            ],
        },
        None,
        id="its own quota against borrowing by priority",
    ),
    pytest.param(
        {
            "cohorts": {"all": "cpu=5"},
            "queues": {"ann": "in=all cpu=0 within=lower reclaim=any", "bob": "in=all cpu=0 reclaim=any"},
            "arrivals": ["ann p=-1 at=0 | cpu=1", "bob at=1 | cpu=4", "ann at=2 | cpu=3"],
        },
        FairSharing(),
        id="an own workload that is spared (kueue 14543)",
    ),
]


@pytest.mark.parametrize(("case", "fair"), CIRCLES)
@pytest.mark.parametrize("together", range(1, 4))
def test_no_circle_of_workloads_displaces_itself(case: dict[str, Any], fair: FairSharing | None, together: int) -> None:
    for choices in ([], [5, 2, 2, 3, 0, 3, 2], [1, 1, 1]):
        play(case, fair, choices, together)


CHOICES = st.lists(st.integers(0, 5), max_size=8)
TOGETHER = st.integers(1, 4)


@given(tense_worlds(), st.sampled_from(FAIR), CHOICES, TOGETHER)
def test_admission_comes_to_rest(
    case: dict[str, Any], fair: FairSharing | None, choices: list[int], together: int
) -> None:
    play(case, fair, choices, together)


@given(tense_worlds(), st.sampled_from(FAIR), CHOICES, TOGETHER, st.sets(st.integers(0, 7)))
def test_so_it_does_where_some_are_elastic(
    case: dict[str, Any], fair: FairSharing | None, choices: list[int], together: int, elastic: set[int]
) -> None:
    case["arrivals"] = [re.sub(r"cpu=(\d)", r"cpu=1 x=\1", text) for text in case["arrivals"]]
    play(case, fair, choices, together, {f"w{number}": 1 for number in elastic})


class Hall:
    """A world with a topology.

    integer: draws a number between two.
    """

    def __init__(self, integer: Callable[[int, int], int]) -> None:
        racks, hosts, names = integer(1, 2), integer(1, 2), [f"q{number}" for number in range(integer(1, 3))]
        self.tree = Tree()
        self.tree.ledger.in_use = True
        for rack in range(racks):
            for host in range(hosts):
                self.tree.ledger.set_node(
                    halls.node(f"b1/r{rack}/r{rack}h{host}", cpu=integer(1, 3), gpu=integer(0, 2))
                )
        withins: Sequence[PreemptionPolicy] = ("LowerPriority", "LowerOrNewerEqualPriority", "Never")
        withouts: Sequence[PreemptionPolicy] = ("Any", "LowerPriority", "Never")
        for name in names:
            cpu, gpu = (FlavorResource("tas", resource) for resource in ("cpu", "gpu"))
            spec = QueueSpec(
                name,
                cohort=("all", "")[integer(0, 1)],
                groups=(ResourceGroup(("cpu", "gpu"), ("tas",)),),
                quotas={cpu: Quota(integer(0, 6) * 1000), gpu: Quota(integer(0, 3))},
                preemption=Rules(withins[integer(0, 2)], withouts[integer(0, 2)], bool(integer(0, 1))),
                namespaces=EVERYTHING,
            )
            self.tree.set_queue(spec)
        self.arrivals = []
        for number in range(integer(2, 7)):
            request = (halls.required, halls.preferred)[integer(0, 1)](("rack", halls.HOST)[integer(0, 1)])
            pods = halls.podset(integer(1, 3), request, cpu=integer(0, 2), gpu=integer(0, 1))
            queue, priority = names[integer(0, len(names) - 1)], integer(-1, 1)
            self.arrivals.append(halls.workload(pods, name=f"w{number}", queue=queue, priority=priority))

    def play(self, fair: FairSharing | None, choices: Sequence[int], together: int) -> None:
        cluster = Cluster(self.tree, AdmissionSettings(fair), {"tas": halls.flavor()})
        cluster.play(self.arrivals, choices, together)


@given(st.data(), st.sampled_from(FAIR), CHOICES, TOGETHER)
def test_so_it_does_where_pods_have_places(
    data: st.DataObject, fair: FairSharing | None, choices: list[int], together: int
) -> None:
    Hall(lambda least, most: data.draw(st.integers(least, most))).play(fair, choices, together)
