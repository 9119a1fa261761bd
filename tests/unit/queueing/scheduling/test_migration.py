"""Tests of which variants of one parent may be admitted beside one that is."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from muster.api.values.selectors import EVERYTHING
from muster.queueing.model import (
    FlavorResource,
    FlavorSpec,
    Migration,
    Mode,
    PodSet,
    QueueSpec,
    Quota,
    ResourceGroup,
    WorkloadInfo,
)
from muster.queueing.pending.queues import Queues
from muster.queueing.quota.tree import Tree
from muster.queueing.scheduling.cycle import AdmissionSettings, run
from muster.queueing.scheduling.migration import find_bar, find_leaver, is_checked
from muster.queueing.scheduling.nomination import nominate

START = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ("best", "middle", "worst")
FLAVORS = {name: FlavorSpec(name) for name in NAMES}
SPEC = QueueSpec(
    "cq",
    groups=(ResourceGroup(("cpu",), NAMES),),
    quotas={FlavorResource(name, "cpu"): Quota(2) for name in NAMES},
    namespaces=EVERYTHING,
    migration=Migration(),
)


def variant(flavor: str, family: str = "f", cpu: int = 2, *, gated: bool = False) -> WorkloadInfo:
    podset = PodSet("main", 1, {"cpu": cpu}, allowed=frozenset({flavor}))
    key = f"ns/{family}-{flavor}"
    return WorkloadInfo(key, key, "cq", "ns/lq", 0, START, START, (podset,), family=family, gated=gated)


def hold(workload: WorkloadInfo, *, admitted: bool = True) -> WorkloadInfo:
    (flavor,) = workload.podsets[0].allowed
    usage = {FlavorResource(flavor, "cpu"): workload.podsets[0].requests["cpu"]}
    return replace(workload, usage=usage, admitted=admitted, reserved=START)


@pytest.mark.parametrize(
    ("mine", "other", "migration", "bar"),
    [
        ("best", "worst", Migration(), ""),
        ("worst", "best", Migration(), "A more favorable variant is already admitted"),
        ("best", "worst", Migration(retains=True), "Another variant is already admitted"),
        ("best", "worst", Migration(last="best"), ""),
        ("middle", "worst", Migration(last="best"), "Target flavor is below LastAcceptableFlavorName"),
    ],
)
def test_who_may_take_the_place_of_whom(mine: str, other: str, migration: Migration, bar: str) -> None:
    result = find_bar(replace(SPEC, migration=migration), variant(mine), hold(variant(other)))
    assert (result.message if result is not None else "") == bar


def test_one_with_checks_gets_quota_beside_the_one_that_runs() -> None:
    checked = replace(SPEC, checks={"room": frozenset({"best"})})
    assert (is_checked(checked, variant("best")), is_checked(checked, variant("middle"))) == (True, False)
    assert find_leaver(checked, variant("best"), hold(variant("worst"))) == ()
    (leaver,) = find_leaver(checked, variant("middle"), hold(variant("worst")))
    assert leaver.migrates


class World:
    def __init__(self, *holders: WorkloadInfo, spec: QueueSpec = SPEC) -> None:
        self.tree, self.queues = Tree(), Queues()
        self.tree.set_queue(spec)
        self.queues.set_queue(spec, active=True)
        self.queues.set_namespace("ns", {})
        for holder in holders:
            self.tree.hold(holder)

    def cycle(self) -> tuple[list[str], list[tuple[str, list[str]]]]:
        """Who is admitted, and who has to go for whom."""
        outcome = run(self.tree, self.queues, FLAVORS, AdmissionSettings(), START)
        gone = [(one.workload.uid, [victim.workload.uid for victim in one.victims]) for one in outcome.preemptions]
        return [one.workload.uid for one in outcome.admitted], gone


def test_a_variant_gets_its_own_flavor_alone() -> None:
    world = World()
    result = nominate(world.tree, variant("middle"), FLAVORS, AdmissionSettings())
    assert [choice.flavor for choice in result.assignment.podsets[0].flavors.values()] == ["middle"]
    skipped = result.assignment.podsets[0].attempts[0]
    assert skipped.reasons == ("skipping flavor best due to WorkloadAllowedResourceFlavorAnnotation annotation",)


def test_of_the_variants_of_one_parent_the_first_is_admitted() -> None:
    world = World()
    for flavor in NAMES:
        world.queues.add(variant(flavor))
    assert world.cycle() == (["ns/f-best"], [])


def test_a_better_one_waits_for_the_one_that_runs_whatever_else_happens() -> None:
    world = World(hold(variant("worst")))
    world.queues.add(variant("best"))
    assert world.cycle() == ([], [("ns/f-best", ["ns/f-worst"])])
    leaving = replace(hold(variant("worst")), evicted=True)
    world.tree.hold(leaving)
    world.queues.add(variant("best", "other", 1))
    world.queues.retry("cq")
    assert world.cycle() == ([], []), "its quota is kept, and it is not counted twice"
    world.tree.release(leaving)
    world.queues.flush(world.tree.queues["cq"], leaving.usage)
    assert world.cycle() == (["ns/f-best"], [])


def test_one_whose_gate_is_closed_displaces_nobody() -> None:
    rules = replace(SPEC, preemption=replace(SPEC.preemption, within_queue="Any"))
    world = World(hold(variant("best", "other")), spec=rules)
    result = nominate(world.tree, variant("best", gated=True), FLAVORS, AdmissionSettings())
    assert (result.mode, result.victims) == (Mode.NO_FIT, ())
    assert result.bar == ("AdmissionGated", "Workload requires preemption, but it's gated")
    assert nominate(world.tree, variant("best"), FLAVORS, AdmissionSettings()).victims
