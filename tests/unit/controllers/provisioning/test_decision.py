"""What requests mean for checks, and which requests are made and deleted: the cases of Kueue's controller_test.go."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from muster.api.groups.provisioning import ProvisioningRequest
from muster.api.kueue import AdmissionCheckState, ProvisioningRequestConfigSpec, ResourceFlavor, Workload
from muster.api.status import ApiError
from muster.controllers.provisioning.decision import ProvisioningPlan, RequestAttempt, decide

THEN = datetime(2026, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)
FLAVORS = {"f": {"nodeLabels": {"zone": "a"}, "tolerations": [{"key": "spot", "operator": "Exists"}]}}


def flavor_of(name: str) -> ResourceFlavor | None:
    return msgspec.convert({"spec": FLAVORS[name]}, ResourceFlavor) if name in FLAVORS else None


def podset(name: str = "main", count: int = 2, *, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {"name": name, "count": count, "template": {"spec": {"containers": [container], **spec}}}


def workload(
    *podsets: dict[str, Any],
    true: tuple[str, ...] = ("QuotaReserved",),
    counts: dict[str, int] | None = None,
    state: str = "Pending",
    message: str = "",
    retries: int | None = None,
    flavor: str = "f",
    active: bool = True,
    annotations: dict[str, str] | None = None,
) -> Workload:
    """One with quota and a check; counts: pods that were admitted, where not all."""
    sets = podsets or (podset(),)
    assigned = [
        {"name": one["name"], "flavors": {"cpu": flavor}, "count": (counts or {}).get(one["name"], one["count"])}
        for one in sets
    ]
    check = {"name": "room", "state": state, "message": message, "lastTransitionTime": THEN, "retryCount": retries}
    other = {"name": "other", "state": "Pending", "message": "of others", "lastTransitionTime": THEN}
    conditions = [{"type": one, "status": "True", "reason": "R", "message": ""} for one in true]
    return msgspec.convert(
        {
            "metadata": {"name": "w", "namespace": "n", "uid": "u", "annotations": annotations or {}},
            "spec": {"podSets": list(sets), "active": active},
            "status": {
                "admission": {"clusterQueue": "cq", "podSetAssignments": assigned},
                "conditions": conditions,
                "admissionChecks": [check, other],
            },
        },
        Workload,
    )


def config(**spec: Any) -> ProvisioningRequestConfigSpec:
    return msgspec.convert({"provisioningClassName": "best", **spec}, ProvisioningRequestConfigSpec)


def request(
    attempt: int = 1, *conditions: str, message: str = "m", class_name: str = "best", going: bool = False, **more: Any
) -> ProvisioningRequest:
    """The workload's request for its podset `main`. conditions: those that are True; with a `!`, False."""
    said = [
        {"type": one.strip("!"), "status": "False" if "!" in one else "True", "reason": "R", "message": message}
        for one in conditions
    ]
    name = f"w-room-{attempt}"
    meta = {"name": name, "namespace": "n", "deletionTimestamp": NOW if going else None}
    spec = {
        "provisioningClassName": class_name,
        "podSets": [{"podTemplateRef": {"name": f"ppt-{name}-main"}, "count": 2}],
        "parameters": more.pop("parameters", {}),
    }
    return msgspec.convert(
        {"metadata": meta, "spec": spec, "status": {"conditions": said, **more}}, ProvisioningRequest
    )


def plan(of: Workload, spec: ProvisioningRequestConfigSpec | None, *requests: ProvisioningRequest) -> ProvisioningPlan:
    return decide(of, {"room": spec}, requests, flavor_of, NOW)


def check(plan: ProvisioningPlan) -> AdmissionCheckState:
    state, other = plan.checks
    assert other.message == "of others"
    return state


def asked(plan: ProvisioningPlan) -> RequestAttempt:
    (attempt,) = plan.create
    return attempt


def deleted(plan: ProvisioningPlan) -> list[str]:
    return [one.metadata.name for one in plan.delete]


def written(part: Any) -> Any:
    """As JSON has it."""
    return msgspec.json.decode(msgspec.json.encode(part))


# Which workloads are looked at.


@pytest.mark.parametrize(
    ("true", "goes"),
    [
        ((), False),
        (("QuotaReserved",), False),
        (("QuotaReserved", "Finished"), True),
        (("Finished",), True),
        (("QuotaReserved", "Evicted"), True),
        (("Evicted",), True),
    ],
)
def test_requests_go_with_what_ends_or_is_evicted(true: tuple[str, ...], *, goes: bool) -> None:
    found = plan(workload(true=true), config(), request())
    assert deleted(found) == (["w-room-1"] if goes else [])
    assert found.create == ()


def test_without_clean_up_an_eviction_leaves_the_request() -> None:
    evicted = workload(true=("QuotaReserved", "Evicted"))
    found = decide(evicted, {"room": config()}, [request()], flavor_of, NOW, cleanup=False)
    assert found == ProvisioningPlan(evicted.status.admission_checks)


def test_a_check_without_a_usable_configuration_waits() -> None:
    found = plan(workload(state="Ready"), None, request())
    assert (check(found).state, check(found).message) == ("Pending", "the check is not active")
    assert (deleted(found), found.create) == (["w-room-1"], ())


# What is asked for.


def test_a_request_is_made_with_its_templates() -> None:
    annotations = {"provreq.kueue.x-k8s.io/zone": "b", "provreq.kueue.x-k8s.io/more": "1", "zone": "c"}
    of = workload(podset(tolerations=[{"key": "own"}]), annotations=annotations)
    found = plan(of, config(parameters={"zone": "a", "hours": "1"}))
    made = asked(found)
    owner = {
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "name": "w", "uid": "u", "controller": True,
        "blockOwnerDeletion": True,
    }  # fmt: skip
    labels = {"kueue.x-k8s.io/managed": "true"}
    meta = {"namespace": "n", "labels": labels, "ownerReferences": [owner]}
    assert written(made.request.metadata) == {"name": "w-room-1", **meta}
    assert written(made.request.spec) == {
        "provisioningClassName": "best",
        "podSets": [{"podTemplateRef": {"name": "ppt-w-room-1-main"}, "count": 2}],
        "parameters": {"zone": "b", "hours": "1", "more": "1"},
    }
    (template,) = made.templates
    assert written(template.metadata) == {"name": "ppt-w-room-1-main", **meta}
    assert template.template.spec.node_selector == {"zone": "a"}
    assert [one.key for one in template.template.spec.tolerations] == ["own", "spot"]
    assert found.checks == of.status.admission_checks


def test_limits_stand_for_absent_requests() -> None:
    resources = {"limits": {"cpu": "2", "nvidia.com/gpu": "1"}, "requests": {"cpu": "1"}}
    of = workload(podset(containers=[{"name": "c", "image": "i", "resources": resources}]))
    (template,) = asked(plan(of, config())).templates
    assert template.template.spec.containers[0].resources.requests == {"cpu": "1", "nvidia.com/gpu": "1"}


@pytest.mark.parametrize(
    ("podsets", "counts", "managed", "names"),
    [
        ([podset("a"), podset("b")], {}, [], ["a", "b"]),
        ([podset("a"), podset("b")], {}, ["cpu"], ["a", "b"]),
        ([podset("a"), podset("b")], {}, ["nvidia.com/gpu"], []),
        ([podset("a", 0), podset("b")], {}, [], ["b"]),
        ([podset("a"), podset("b")], {"a": 0}, [], ["b"]),
        ([podset("a", 0)], {}, [], []),
        (
            [podset("a"), podset("b", initContainers=[{"name": "i", "resources": {"limits": {"tpu": "1"}}}])],
            {},
            ["tpu"],
            ["b"],
        ),
    ],
)
def test_podsets_with_pods_that_use_a_managed_resource_are_asked_for(
    podsets: Any, counts: dict[str, int], managed: list[str], names: list[str]
) -> None:
    found = plan(workload(*podsets, counts=counts), config(managedResources=managed))
    refs = [one.pod_template_ref.name for attempt in found.create for one in attempt.request.spec.pod_sets]
    assert refs == [f"ppt-w-room-1-{name}" for name in names]
    if not names:
        assert (check(found).state, check(found).message) == ("Ready", "the provisioning request is not needed")
        assert check(found).last_transition_time == NOW


def test_what_was_admitted_in_part_is_asked_for_in_part() -> None:
    (one,) = asked(plan(workload(counts={"main": 1}), config())).request.spec.pod_sets
    assert one.count == 1


LIKE = "IdenticalWorkloadSchedulingRequirements"


@pytest.mark.parametrize(
    ("policy", "second", "counts"),
    [
        (None, podset("b", 3), [2, 3]),
        ("IdenticalPodTemplates", podset("b", 3), [5]),
        ("IdenticalPodTemplates", podset("b", 3, hostname="x"), [2, 3]),
        (LIKE, podset("b", 3, hostname="x"), [5]),
        (LIKE, podset("b", 3, cpu="2"), [2, 3]),
        (LIKE, podset("b", 3, nodeSelector={"a": "b"}), [2, 3]),
        (LIKE, podset("b", 3, tolerations=[{"key": "a"}]), [2, 3]),
    ],
)
def test_podsets_that_are_alike_are_asked_for_as_one_if_the_policy_says_so(
    policy: str | None, second: dict[str, Any], counts: list[int]
) -> None:
    of = workload(podset("a"), second)
    made = asked(plan(of, config(podSetMergePolicy=policy)))
    assert [one.count for one in made.request.spec.pod_sets] == counts
    assert len(made.templates) == len(counts)


def test_a_podset_that_contradicts_its_flavor_is_not_asked_for() -> None:
    found = plan(workload(podset(nodeSelector={"zone": "b"})), config())
    assert found.create == ()
    assert "conflict for nodeSelector: conflict for key=zone, value1=b, value2=a" in check(found).message


def test_a_flavor_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ApiError, match="not found"):
        plan(workload(flavor="lost"), config())


# Which request counts.


def test_the_newest_attempt_counts_and_others_go() -> None:
    found = plan(workload(retries=1), config(), request(2), request(1, "Failed"))
    assert ([one.metadata.name for one in found.kept], deleted(found)) == (["w-room-2"], ["w-room-1"])
    assert (check(found).state, found.create) == ("Pending", ())


@pytest.mark.parametrize(
    ("spec", "parameters"),
    [(config(provisioningClassName="other"), {}), (config(parameters={"hours": "2"}), {"hours": "1"})],
)
def test_a_request_of_another_configuration_goes_before_the_next_is_made(
    spec: ProvisioningRequestConfigSpec, parameters: dict[str, str]
) -> None:
    found = plan(workload(), spec, request(parameters=parameters))
    assert (deleted(found), found.kept, found.create) == (["w-room-1"], (), ())


def test_a_parameter_that_an_annotation_overrides_is_as_it_should_be() -> None:
    of = workload(annotations={"provreq.kueue.x-k8s.io/hours": "1"})
    found = plan(of, config(parameters={"hours": "2"}), request(parameters={"hours": "1"}))
    assert (deleted(found), len(found.kept)) == ([], 1)


def test_a_request_that_is_being_deleted_counts_no_more_but_keeps_its_name() -> None:
    going = request(1, "Provisioned", going=True)
    found = plan(workload(), config(), going)
    assert (check(found).state, deleted(found), found.create) == ("Pending", [], ())
    assert asked(plan(workload(retries=1), config(), going)).request.metadata.name == "w-room-2"


def test_a_request_that_nobody_needs_goes() -> None:
    assert deleted(plan(workload(), config(managedResources=["tpu"]), request())) == ["w-room-1"]


# What it means.


@pytest.mark.parametrize(
    ("conditions", "before", "after"),
    [
        ((), ("Pending", "Error creating"), ("Pending", "")),
        (("Accepted",), ("Pending", "before"), ("Pending", "before")),
        (("Accepted", "Provisioned!"), ("Pending", "before"), ("Pending", "m")),
        (("Accepted", "Provisioned"), ("Pending", "before"), ("Ready", "m")),
        (("Provisioned",), ("Ready", "before"), ("Ready", "before")),
        (("Provisioned", "Failed"), ("Pending", ""), ("Retry", "Retrying after failure: m")),
        (("Provisioned", "BookingExpired"), ("Ready", ""), ("Retry", "Retrying after booking expired: m")),
        (("Provisioned", "CapacityRevoked"), ("Ready", ""), ("Rejected", "m")),
    ],
)
def test_the_state_follows_the_conditions_of_the_request(
    conditions: tuple[str, ...], before: tuple[str, str], after: tuple[str, str]
) -> None:
    found = check(plan(workload(state=before[0], message=before[1]), config(), request(1, *conditions)))
    assert (found.state, found.message) == after
    assert found.last_transition_time == (THEN if before[0] == after[0] else NOW)


def test_a_check_that_is_ready_needs_its_request_no_more() -> None:
    of = workload(state="Ready", message="m")
    assert plan(of, config()) == ProvisioningPlan(of.status.admission_checks)


@pytest.mark.parametrize(
    ("condition", "state"), [("BookingExpired", "Ready"), ("CapacityRevoked", "Rejected"), ("Failed", "Retry")]
)
def test_what_is_admitted_loses_its_room_but_not_its_booking(condition: str, state: str) -> None:
    of = workload(true=("QuotaReserved", "Admitted"), state="Ready", message="m")
    assert check(plan(of, config(), request(1, "Provisioned", condition))).state == state


def test_what_is_deactivated_loses_nothing() -> None:
    of = workload(state="Ready", active=False)
    assert check(plan(of, config(), request(1, "CapacityRevoked"))).state == "Ready"


@pytest.mark.parametrize(
    ("attempt", "retries", "state", "wait"),
    [(1, None, "Retry", 60), (2, 1, "Retry", 120), (3, 2, "Retry", 200), (4, 3, "Rejected", None)],
)
@pytest.mark.parametrize("condition", ["Failed", "BookingExpired"])
def test_a_failure_is_retried_later_each_time_until_the_limit(
    condition: str, attempt: int, retries: int | None, state: str, wait: int | None
) -> None:
    spec = config(retryStrategy={"backoffLimitCount": 3, "backoffBaseSeconds": 60, "backoffMaxSeconds": 200})
    found = plan(workload(retries=retries), spec, request(attempt, condition))
    assert (check(found).state, check(found).requeue_after_seconds) == (state, wait)
    assert (check(found).message == "m") is (state == "Rejected")
    assert found.create == ()


def test_a_failure_that_an_eviction_has_counted_begins_the_next_attempt() -> None:
    found = plan(workload(retries=1), config(), request(1, "Failed"))
    assert (check(found).state, check(found).message) == ("Pending", "Retrying after failure: m")
    assert asked(found).request.metadata.name == "w-room-2"


def test_the_count_of_retries_names_the_next_attempt_when_the_last_one_has_gone() -> None:
    assert asked(plan(workload(retries=2), config())).request.metadata.name == "w-room-3"


@pytest.mark.parametrize("state", ["Retry", "Rejected"])
def test_nothing_is_asked_for_before_the_eviction(state: str) -> None:
    assert plan(workload(state=state), config()).create == ()


# What pods have to say.


def test_pods_say_that_they_use_the_room() -> None:
    keys = [
        {"key": "room", "valueFromProvisioningClassDetail": "id"},
        {"key": "lost", "valueFromProvisioningClassDetail": "none"},
    ]
    there = request(1, "Provisioned", provisioningClassDetails={"id": "77", "else": "1"})
    found = plan(workload(), config(podSetUpdates={"nodeSelector": keys}), there)
    (update,) = check(found).pod_set_updates
    assert written(update) == {
        "name": "main",
        "annotations": {
            "autoscaling.x-k8s.io/consume-provisioning-request": "w-room-1",
            "autoscaling.x-k8s.io/provisioning-class-name": "best",
        },
        "nodeSelector": {"room": "77"},
    }


def test_pods_of_each_podset_that_was_asked_for_as_one_say_it() -> None:
    of = workload(podset("main"), podset("b"), podset("c", 0))
    found = plan(of, config(podSetMergePolicy=LIKE), request(1, "Provisioned"))
    assert [one.name for one in check(found).pod_set_updates] == ["main", "b"]


def test_a_check_that_needs_no_request_any_more_asks_nothing_of_pods() -> None:
    of = workload()
    ready = check(plan(of, config(), request(1, "Provisioned")))
    status = replace(of.status, admission_checks=(replace(ready, state="Pending"), of.status.admission_checks[1]))
    assert check(plan(replace(of, status=status), config(managedResources=["tpu"]))).pod_set_updates == ()
