"""Tests of the plan for a parent and its variants, situation by situation."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from muster.api.conditions import find
from muster.api.kueue import ClusterQueueSpec, Workload
from muster.queueing.variants.decide import FamilyPlan, decide
from muster.queueing.variants.family import Family, variant_of

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
FLAVORS = ("best", "middle", "worst")
GATE = "kueue.x-k8s.io/concurrent-admission"
CREATED = "muster.dev/created"
GATED_BY = "kueue.x-k8s.io/admission-gated-by"
PODSET = {
    "name": "main",
    "count": 1,
    "template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}},
}


def conditions(text: str, ago: int = 60) -> list[dict[str, Any]]:
    """Parse conditions such as `Admitted Evicted=Preempted !PodsReady=WaitForStart`, so many seconds old."""
    result = []
    for word in text.split():
        type_, _, reason = word.lstrip("!").partition("=")
        moment = (NOW - timedelta(seconds=ago)).isoformat()
        result.append({
            "type": type_, "status": "False" if word.startswith("!") else "True", "reason": reason or type_,
            "message": f"because of {reason or type_}", "lastTransitionTime": moment,
        })  # fmt: skip
    return result


def admission(flavor: str) -> dict[str, Any]:
    assigned = {"name": "main", "flavors": {"cpu": flavor}, "resourceUsage": {"cpu": "1"}, "count": 1}
    return {"clusterQueue": "cq", "podSetAssignments": [assigned]}


def parent(state: str = "", flavor: str = "", *, ago: int = 60, active: bool = True, **status: Any) -> Workload:
    meta = {
        "name": "job-j-12345", "namespace": "ns", "uid": "parent", "creationTimestamp": "2026-01-01T11:00:00Z",
        "labels": {"kueue.x-k8s.io/concurrent-admission-parent": "true", "kueue.x-k8s.io/job-uid": "j"},
    }  # fmt: skip
    all_conditions = {"admission": admission(flavor)} if flavor else {}
    spec = {"podSets": [PODSET], "queueName": "lq", "priority": 3, "active": active}
    document = {
        "metadata": meta,
        "spec": spec,
        "status": {"conditions": conditions(state, ago)} | all_conditions | status,
    }
    return msgspec.convert(document, Workload)


def variant(flavor: str, state: str = "", *, active: bool = True, ago: int = 60, **status: Any) -> Workload:
    result = variant_of(parent(), flavor, 0)
    holds = {"admission": admission(flavor)} if "QuotaReserved" in state.split() else {}
    document = msgspec.to_builtins(result)
    document["metadata"]["uid"] = flavor
    document["spec"]["active"] = active
    document["status"] = {"conditions": conditions(state, ago)} | holds | status
    return msgspec.convert(document, Workload)


def plan_for(
    parent: Workload, *variants: Workload, mode: str = "TryPreferredFlavors", last: str = "", flavors: Any = FLAVORS
) -> FamilyPlan:
    """Return the plan for a parent and its variants."""
    quotas = [{"name": name, "resources": [{"name": "cpu", "nominalQuota": 1}]} for name in flavors]
    policy: dict[str, Any] = {"mode": mode} | ({"constraints": {"lastAcceptableFlavorName": last}} if last else {})
    queue = {
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": quotas}],
        "concurrentAdmissionPolicy": {"migration": policy},
    }
    return decide(Family.of(parent, variants, msgspec.convert(queue, ClusterQueueSpec)), NOW)


def summarize(plan: FamilyPlan) -> dict[str, str]:
    """Summarize in few words what happens to each Workload."""
    changes = {}
    for change in plan.changes:
        name, words = change.workload.metadata.uid, []
        if change.spec is not None and change.spec.active != change.workload.spec.active:
            words.append("on" if change.spec.active else "off")
        elif change.spec is not None:
            words.append("spec")
        if change.status is not None:
            before = change.workload.status.conditions
            words += [
                f"{'' if one.status == 'True' else '!'}{one.type}={one.reason}"
                for one in change.status.conditions
                if one not in before
            ]
        changes[name] = " ".join(words) or "same"
    return changes


RUNS = "QuotaReserved Admitted"


def test_each_flavor_gets_a_variant() -> None:
    plan = plan_for(parent(), variant("middle"))
    assert plan.create == ("best", "worst")
    result = variant_of(parent(), "worst", 2)
    assert result.metadata.name.startswith("job-j-variant-worst-")
    assert "kueue.x-k8s.io/concurrent-admission-parent" not in result.metadata.labels
    assert result.metadata.annotations["kueue.x-k8s.io/workload-allowed-resource-flavors"] == "worst"
    orders = [variant_of(parent(), "worst", place).metadata.annotations[CREATED] for place in range(3)]
    assert orders == sorted(set(orders)), "the better ones queue first"
    owners = [(one.uid, one.controller, one.block_owner_deletion) for one in result.metadata.owner_references]
    assert owners == [("parent", True, True)]
    assert result.metadata.finalizers == ()


def test_the_parent_is_admitted_as_its_variant_is() -> None:
    plan = plan_for(parent("Evicted=VariantEvicted"), variant("best"), variant("middle", RUNS), variant("worst"))
    assert summarize(plan) == {
        "worst": "off",
        "parent": "!Evicted=QuotaReserved QuotaReserved=QuotaReserved Admitted=Admitted",
    }
    status = plan.changes[-1].status
    assert status is not None
    assert status.admission == variant("middle", RUNS).status.admission
    admitted = find(status.conditions, "Admitted")
    assert admitted is not None
    assert admitted.message == f"The variant {variant('middle').metadata.name} is admitted"


@pytest.mark.parametrize(
    ("wanted", "granted", "follows"),
    [
        pytest.param((2, 1), (2, 1), True, id="its variant has grown"),
        pytest.param((1, 1), (2, 1), False, id="what the variant was granted is more than the parent wants by now"),
        pytest.param((1, 1), (1, 2), False, id="also of the second podset"),
        pytest.param((2, 2), (1, 1), False, id="nothing has changed"),
    ],
)
def test_an_admitted_parent_has_what_its_variant_was_granted(
    wanted: tuple[int, int], granted: tuple[int, int], follows: bool
) -> None:
    def assigned(counts: tuple[int, int]) -> dict[str, Any]:
        (row,) = admission("middle")["podSetAssignments"]
        rows = [row | {"name": name, "count": count} for name, count in zip(("main", "more"), counts, strict=True)]
        return {"clusterQueue": "cq", "podSetAssignments": rows}

    mine = parent(RUNS, admission=assigned((1, 1)))
    (podset,) = mine.spec.pod_sets
    podsets = tuple(
        msgspec.structs.replace(podset, name=name, count=count)
        for name, count in zip(("main", "more"), wanted, strict=True)
    )
    mine = msgspec.structs.replace(mine, spec=msgspec.structs.replace(mine.spec, pod_sets=podsets))
    runs = variant("middle", RUNS, admission=assigned(granted))
    changes = [one for one in plan_for(mine, variant("best"), runs).changes if one.workload is mine]
    assert [one.status.admission == runs.status.admission for one in changes if one.status] == [True] * follows


@pytest.mark.parametrize(
    ("rules", "changes"),
    [
        ({}, {"worst": "off"}),
        ({"mode": "RetainFirstAdmission"}, {"best": "off", "worst": "off"}),
        ({"last": "best"}, {"worst": "off"}),
    ],
)
def test_variants_that_may_not_move_are_deactivated(rules: Any, changes: Any) -> None:
    family = variant("best"), variant("middle", RUNS), variant("worst")
    assert summarize(plan_for(parent(RUNS, "middle"), *family, **rules)) == changes


def test_none_is_activated_that_is_beyond_the_last_acceptable_flavor() -> None:
    family = variant("best", active=False), variant("middle", active=False), variant("worst", RUNS)
    assert summarize(plan_for(parent(RUNS, "worst"), *family, last="best")) == {"best": "on"}
    assert summarize(plan_for(parent(RUNS, "worst"), *family)) == {"best": "on", "middle": "on"}


@pytest.mark.parametrize(
    ("mine", "others", "changes"),
    [
        pytest.param(
            parent(RUNS, "worst"), [variant("worst", f"{RUNS} Evicted=FlavorMigration")],
            {"parent": "Evicted=VariantEvicted"}, id="the parent is evicted first",
        ),
        pytest.param(
            parent(f"{RUNS} Evicted=VariantEvicted", "worst"), [variant("worst", f"{RUNS} Evicted=FlavorMigration")],
            {}, id="its job is stopping",
        ),
        pytest.param(
            parent("Evicted=VariantEvicted"), [variant("worst", f"{RUNS} Evicted=FlavorMigration")],
            {"worst": "!QuotaReserved=PendingEvaluation !Admitted=NoReservation Requeued=FlavorMigration"},
            id="then the variant gives its quota back",
        ),
        pytest.param(
            parent(RUNS, "worst"), [variant("best", "QuotaReserved Evicted=AdmissionCheck"), variant("worst", RUNS)],
            {"best": "!QuotaReserved=PendingEvaluation !Admitted=NoReservation !Requeued=AdmissionCheck"},
            id="one that the job does not run on leaves the job alone",
        ),
        pytest.param(
            parent(f"{RUNS} Evicted=PodsReadyTimeout", "worst"), [variant("worst", RUNS)],
            {"worst": "Evicted=PodsReadyTimeout"}, id="the parent takes its variant with it",
        ),
        pytest.param(
            parent("!QuotaReserved Evicted=PodsReadyTimeout", ago=10), [variant("worst", RUNS, ago=20)],
            {"worst": "Evicted=PodsReadyTimeout"}, id="also if it has stopped already",
        ),
        pytest.param(
            parent("!QuotaReserved Evicted=PodsReadyTimeout", ago=20), [variant("worst", RUNS, ago=10)],
            {"parent": "QuotaReserved=QuotaReserved !Evicted=QuotaReserved Admitted=Admitted"},
            id="one that is admitted later is its next one",
        ),
        pytest.param(
            parent("!QuotaReserved Evicted=PodsReadyTimeout", ago=10), [variant("worst", "QuotaReserved", ago=20)],
            {}, id="one that only waits for its checks is of no round",
        ),
        pytest.param(
            parent(f"{RUNS} Evicted=PodsReadyTimeout", "worst"), [variant("worst")], {},
            id="its job is stopping, and no variant has quota",
        ),
        pytest.param(
            parent(RUNS, "worst"), [variant("worst")], {"parent": "Evicted=ConcurrentAdmission"}, id="none runs",
        ),
        pytest.param(
            parent(RUNS, "worst"), [variant("best", RUNS), variant("worst", RUNS)], {"worst": "off"},
            id="a better one has passed its checks",
        ),
    ],
)  # fmt: skip
def test_who_has_to_go(mine: Workload, others: list[Workload], changes: dict[str, str]) -> None:
    assert summarize(plan_for(mine, *others)) == changes


def test_variants_wait_as_long_as_their_parent() -> None:
    until = NOW + timedelta(minutes=1)
    state = {"count": 1, "requeueAt": until.isoformat()}
    plan = plan_for(parent("!QuotaReserved", requeueState=state), variant("best"))
    (change,) = [one for one in plan.changes if one.workload.metadata.uid == "best"]
    assert change.status is not None
    assert change.status.requeue_state is not None
    assert change.status.requeue_state.requeue_at == until


def test_an_inactive_parent_has_inactive_variants() -> None:
    assert summarize(plan_for(parent(active=False), variant("best"), variant("worst", active=False))) == {"best": "off"}


def test_an_inactive_parent_is_not_admitted_by_a_variant_that_has_to_go() -> None:
    plan = plan_for(parent(active=False), variant("best", RUNS), variant("middle", active=False))
    assert summarize(plan) == {"best": "off"}


def test_a_rejected_variant_stays_inactive_until_the_parent_is_activated_anew() -> None:
    rejected = "Evicted=DeactivatedDueToAdmissionCheck"
    family = variant("best", rejected, active=False), variant("middle", active=False)
    assert summarize(plan_for(parent(), *family)) == {"middle": "on"}
    for ago, changes in (
        (5, {"best": "on", "middle": "on"}),
        (60, {"best": "on", "middle": "on"}),
        (61, {"middle": "on"}),
    ):
        assert summarize(plan_for(parent("Evicted=DeactivatedDueToAdmissionCheck", ago=ago), *family)) == changes
    everybody = [variant(flavor, rejected, active=False) for flavor in FLAVORS]
    assert summarize(plan_for(parent(), *everybody)) == {"parent": "DeactivationTarget=AdmissionCheck"}


@pytest.mark.parametrize(
    ("state", "changes"),
    [
        ("", {"best": "on"}),
        ("Evicted=Preempted", {"best": "on"}),
        ("DeactivationTarget=AdmissionCheck", {}),
        ("DeactivationTarget=RequeuingLimitExceeded", {"best": "on"}),
        ("Evicted=DeactivatedDueToAdmissionCheck", {}),
    ],
)
def test_an_inactive_variant_may_try_again_unless_a_check_has_rejected_it(state: str, changes: dict[str, str]) -> None:
    assert summarize(plan_for(parent(), variant("best", state, active=False), variant("middle"))) == changes


def test_a_parent_that_is_being_deleted_is_left_alone() -> None:
    metadata = msgspec.structs.replace(parent().metadata, deletion_timestamp=NOW)
    plan = plan_for(msgspec.structs.replace(parent(), metadata=metadata), variant("best", active=False))
    assert plan == FamilyPlan()


@pytest.mark.parametrize(
    ("mine", "others", "written"),
    [
        ("example.com/gate", None, "example.com/gate"),
        ("example.com/gate", "example.com/old", "example.com/gate"),
        (None, "example.com/gate", None),
    ],
)
def test_whoever_gates_the_parent_gates_its_variants(mine: str | None, others: str | None, written: str | None) -> None:
    one = gated(variant("best"), others)
    (change,) = [change for change in plan_for(gated(parent(), mine), one).changes if change.workload is one]
    assert change.annotations == {GATED_BY: written}


def gated(workload: Workload, by: str | None) -> Workload:
    annotations = dict(workload.metadata.annotations) | ({GATED_BY: by} if by else {})
    metadata = msgspec.structs.replace(workload.metadata, annotations=annotations)
    return msgspec.structs.replace(workload, metadata=metadata)


def test_an_end_is_that_of_all() -> None:
    plan = plan_for(parent("Finished=Succeeded"), variant("best", RUNS), variant("stray"))
    assert summarize(plan) == {"best": "Finished=Succeeded", "stray": "Finished=Succeeded"}
    assert plan.create == ()


def test_a_variant_of_a_flavor_that_is_gone_stops_before_it_is_deleted() -> None:
    plan = plan_for(parent(RUNS, "old"), variant("best"), variant("old", RUNS))
    assert (summarize(plan), plan.delete) == ({"old": "off", "parent": "Evicted=ConcurrentAdmission"}, ())
    (gone,) = plan_for(parent(), variant("best"), variant("old")).delete
    assert gone.metadata.uid == "old"


def test_what_is_known_of_the_pods_counts_for_the_variant() -> None:
    mine = parent(f"{RUNS} PodsReady=Started", "best", reclaimablePods=[{"name": "main", "count": 1}])
    plan = plan_for(mine, variant("best", f"{RUNS} !PodsReady=WaitForStart"), flavors=("best",))
    assert summarize(plan) == {"best": "PodsReady=Started"}
    status = plan.changes[0].status
    assert status is not None
    assert [one.count for one in status.reclaimable_pods] == [1]


def test_a_waiting_variant_follows_its_parent() -> None:
    changed = msgspec.structs.replace(parent(), spec=msgspec.structs.replace(parent().spec, priority=9))
    plan = plan_for(changed, variant("best"), variant("middle", RUNS), variant("worst", active=False))
    assert {name: word for name, word in summarize(plan).items() if name in ("best", "middle")} == {
        "best": "spec", "middle": "spec",
    }  # fmt: skip


BLOCKED = "!QuotaReserved=AdmissionGated BlockedOnPreemptionGates=PreemptionGated"


def opened(ago: int) -> dict[str, Any]:
    moment = (NOW - timedelta(seconds=ago)).isoformat()
    return {"preemptionGates": [{"name": GATE, "position": "Open", "lastTransitionTime": moment}]}


def test_one_variant_at_a_time_may_preempt() -> None:
    plan = plan_for(parent(), variant("best", BLOCKED), variant("middle", BLOCKED))
    assert plan.opened is not None
    assert plan.opened.metadata.uid == "best"
    again = plan_for(parent(), variant("best", BLOCKED, **opened(100)), variant("middle", BLOCKED))
    assert (again.opened, again.wake_at) == (None, NOW + timedelta(seconds=200))
    later = plan_for(parent(), variant("best", BLOCKED, **opened(300)), variant("middle", BLOCKED))
    assert later.opened is not None
    assert later.opened.metadata.uid == "middle"
    assert plan_for(parent(), variant("best"), variant("middle")).opened is None


def test_the_gate_of_a_variant_that_is_written_for_another_reason_opens_with_the_next_look() -> None:
    changed = msgspec.structs.replace(parent(), spec=msgspec.structs.replace(parent().spec, priority=9))
    plan = plan_for(changed, variant("best", BLOCKED))
    assert (plan.opened, summarize(plan)["best"]) == (None, "spec")


def test_opening_a_gate_leaves_the_other_gates_as_they_are() -> None:
    other = {"name": "example.com/gate", "position": "Open", "lastTransitionTime": NOW.isoformat()}
    plan = plan_for(parent(), variant("best", BLOCKED, preemptionGates=[other]))
    (change,) = [one for one in plan.changes if one.workload is plan.opened]
    assert change.status is not None
    assert [(gate.name, gate.position) for gate in change.status.preemption_gates] == [
        ("example.com/gate", "Open"), (GATE, "Open"),
    ]  # fmt: skip
