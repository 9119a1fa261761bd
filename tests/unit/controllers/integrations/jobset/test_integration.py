"""How a JobSet queues; the facts about sizes, readiness and what is reclaimable are those of upstream's tests."""

from datetime import UTC, datetime

import msgspec
import pytest

from muster.api.core import Toleration
from muster.api.jobset import JobSet
from muster.api.meta import ObjectMeta
from muster.api.patch import json as jsonpatch
from muster.controllers.integrations.framework import Step
from muster.controllers.integrations.jobset.integration import JobSetIntegration
from muster.queueing.jobframework.observedjob import End, PodSetInfo

KIND = JobSetIntegration()


def role(name="a", replicas=1, parallelism=1, completions=1, *, template=None, **more):
    sizes = {"parallelism": parallelism, "completions": completions}
    spec = {key: value for key, value in sizes.items() if value is not None} | {"template": template or {}}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **more}


def jobset(*roles, status=None, annotations=None, **spec):
    document = {
        "metadata": {"name": "j", "annotations": annotations or {}},
        "spec": {"replicatedJobs": list(roles), **spec},
        "status": status or {},
    }
    return msgspec.convert(document, JobSet)


def records(**counts):
    """By role what its Jobs do; and conditions."""
    return {"replicatedJobsStatus": [{"name": name, **count} for name, count in counts.items()]}


def conditions(*types):
    return {"conditions": [{"type": type_, "status": "True", "message": "m"} for type_ in types]}


def plain(value):
    """As it goes over the wire."""
    return msgspec.json.decode(msgspec.json.encode(value))


def patched(made, steps):
    """The JobSet after some steps, as an API server would change it."""
    document = plain(made)
    for step in steps:
        if step.operations:
            document = jsonpatch.apply(document, plain(step.operations))
        else:
            document["spec"] |= step.patch["spec"]
    return msgspec.convert(document, JobSet)


@pytest.mark.parametrize(
    ("given", "count"),
    [
        (role(replicas=2, parallelism=1, completions=1), 2),
        (role(replicas=3, parallelism=2, completions=3), 6),
        (role(replicas=2, parallelism=3, completions=2), 4),
        (role(replicas=2, parallelism=3, completions=None), 6),
        (role(replicas=2, parallelism=None, completions=None), 2),
        (role(replicas=0, parallelism=0, completions=0), 0),
        (role(replicas=0), 0),
    ],
)
def test_a_podset_has_what_runs_side_by_side(given, count):
    (podset,) = KIND.podsets(jobset(given))
    assert (podset.name, podset.count, podset.min_count) == ("a", count, None)


def test_podsets_are_those_of_the_roles_in_their_order():
    made = jobset(role("workers", 2), role("driver"), role("db", template={"metadata": {"labels": {"x": "y"}}}))
    podsets = KIND.podsets(made)
    assert [podset.name for podset in podsets] == ["workers", "driver", "db"]
    assert podsets[2].template.metadata.labels == {"x": "y"}


def test_the_ranks_of_pods_are_those_in_their_job_and_of_their_job():
    level = "cloud.com/block"
    asking = {"metadata": {"annotations": {"kueue.x-k8s.io/podset-required-topology": level}}}
    plain, asks = KIND.podsets(jobset(role("a", 2), role("b", 3, 2, 3, template=asking)))
    request = asks.topology_request
    assert plain.topology_request is None
    assert (request.required, request.pod_index_label) == (level, "batch.kubernetes.io/job-completion-index")
    assert (request.sub_group_index_label, request.sub_group_count) == ("jobset.sigs.k8s.io/job-index", 3)


TWO = (role("a", 2), role("b", 3))
AFTER = {"dependsOn": [{"name": "a", "status": "Complete"}]}
ONCE_READY = {"dependsOn": [{"name": "a", "status": "Ready"}]}


@pytest.mark.parametrize(
    ("roles", "status", "ready"),
    [
        (TWO, records(a={"ready": 1, "succeeded": 1}, b={"ready": 3}), True),
        (TWO, records(a={"ready": 1}, b={"ready": 1, "succeeded": 2}), False),
        (TWO, {}, False),
        ((role("a", 2), role("b", 0)), records(a={"ready": 2}), True),
        # What waits for another cannot be ready (kueue#6796).
        ((role("a", 2), role("b", 3, **AFTER)), records(a={"ready": 2}, b={}), True),
        ((role("a", 2), role("b", 3, **AFTER)), records(a={"ready": 1, "succeeded": 1}, b={}), True),
        ((role("a", 2), role("b", 3, **AFTER)), records(a={"ready": 1}, b={}), False),
        ((role("a", 2), role("b", 3, **AFTER)), records(a={"succeeded": 2}, b={"ready": 2}), False),
        ((role("a", 2), role("b", 3, **AFTER)), records(a={"succeeded": 2}, b={"ready": 3}), True),
        ((role("a", 2), role("b", 3, **ONCE_READY)), records(a={"ready": 1}, b={}), False),
        ((role("a", 2), role("b", 3, **ONCE_READY)), records(a={"ready": 2}, b={"ready": 2}), False),
        ((role("a", 2), role("b", 3, **ONCE_READY)), records(a={"ready": 2}, b={"ready": 3}), True),
    ],
)
def test_it_is_ready_when_all_jobs_are_that_may_run(roles, status, ready):
    assert KIND.is_ready(jobset(*roles, status=status)) is ready


SIZES = (role("a", 1, 2, 2), role("b", 2, 3, 6))


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, {}),
        (records(), {}),
        (records(a={"succeeded": 1}), {"a": 2}),
        (records(b={"succeeded": 1}), {"b": 3}),
        (records(a={"succeeded": 1}, b={"succeeded": 2}), {"a": 2, "b": 6}),
        (records(a={"succeeded": 2}), {}),
        # It has just shrunk: one that has succeeded is gone, and one runs.
        (records(b={"succeeded": 2, "active": 1}), {"b": 3}),
    ],
)
def test_pods_of_jobs_that_have_succeeded_are_reclaimable(status, expected):
    assert {one.name: one.count for one in KIND.reclaimable(jobset(*SIZES, status=status))} == expected


def policy(maximum, *actions):
    rules = [{"name": f"r{number}", "action": action} for number, action in enumerate(actions)]
    return {"maxRestarts": maximum, "rules": rules}


@pytest.mark.parametrize(
    ("given", "status", "count"),
    [
        pytest.param(policy(0), {}, 2, id="never restarted"),
        pytest.param(policy(1), {}, 0, id="may be restarted"),
        pytest.param(policy(1), {"restarts": 1, "restartsCountTowardsMax": 1}, 2, id="not once more"),
        pytest.param(
            policy(1), {"restarts": 1, "restartsCountTowardsMax": 1} | conditions("RestartingJobSet"), 0, id="restarts"
        ),
        pytest.param(policy(0, "RestartJobSetAndIgnoreMaxRestarts"), {}, 0, id="any number of times"),
        pytest.param(policy(0, "RestartJobAndIgnoreMaxRestarts"), {}, 2, id="only what failed"),
    ],
)
def test_what_a_restart_would_run_again_is_not_reclaimable(given, status, count):
    made = jobset(*SIZES, status=records(a={"succeeded": 1}) | status, failurePolicy=given)
    assert sum(one.count for one in KIND.reclaimable(made)) == count


@pytest.mark.parametrize(
    ("suspend", "status", "active"),
    [
        (True, {}, False),
        (False, records(a={"active": 1}), True),
        (True, records(a={}, b={"active": 1}), True),
        (True, records(a={"ready": 1}), True),  # its controller has not said yet that its Jobs are suspended
        (True, records(a={"active": 1}) | conditions("Suspended"), True),
        (True, records(a={"suspended": 1}) | conditions("Suspended"), False),
        (False, records(a={"succeeded": 1}), False),
    ],
)
def test_it_is_active_until_its_jobs_are_known_to_be_suspended(suspend, status, active):
    assert KIND.is_active(jobset(*TWO, suspend=suspend, status=status)) is active


@pytest.mark.parametrize(
    ("types", "end"),
    [
        (["Completed"], End(True, "m")),
        (["Failed"], End(False, "m")),
        (["RestartingJobSet", "Suspended"], None),
        ([], None),
    ],
)
def test_how_it_ended(types, end):
    assert KIND.end(jobset(status=conditions(*types))) == end


@pytest.mark.parametrize(
    ("manager", "ours", "patch"),
    [
        (None, True, {"spec": {"managedBy": "kueue.x-k8s.io/multikueue"}}),
        ("jobset.sigs.k8s.io/jobset-controller", True, {"spec": {"managedBy": "kueue.x-k8s.io/multikueue"}}),
        ("kueue.x-k8s.io/multikueue", True, {}),
        ("example.com/foo", False, {}),
    ],
)
def test_it_queues_unless_another_controller_manages_it_and_goes_elsewhere_only_from_here(manager, ours, patch):
    made = jobset(managedBy=manager)
    assert KIND.is_managed(made) is ours
    assert KIND.hand_over(made) == patch


def info(name, **what):
    given = {"labels": {}, "annotations": {}, "node_selector": {}} | what
    return PodSetInfo(name=name, count=1, **given)


OWN = {
    "metadata": {"labels": {"mine": "x"}, "name": "kept"},
    "spec": {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "own"}], "containers": []},
}
POD_SET = "kueue.x-k8s.io/podset"


def test_it_starts_with_what_was_injected_in_each_podset_and_is_restored():
    made = jobset(role("a", template=OWN), role("b", 2, template={"spec": {"hostname": "h"}}), suspend=True)
    more = Toleration(key="more")
    infos = [
        info("a", labels={POD_SET: "a"}, annotations={"n": "1"}, node_selector={"zone": "z"}, tolerations=(more,)),
        info("b", labels={POD_SET: "b"}, gates=("g",)),
    ]
    started = patched(made, KIND.start(made, infos))
    a, b = (one.template.spec.template for one in started.spec.replicated_jobs)
    assert started.spec.suspend is False
    assert a.metadata.labels == {"mine": "x", POD_SET: "a"}
    assert (a.metadata.annotations, a.metadata.name) == ({"n": "1"}, "kept")
    assert a.spec.node_selector == {"disk": "ssd", "zone": "z"}
    assert a.spec.tolerations == (Toleration(key="own"), more)
    assert b.metadata.labels == {POD_SET: "b"}
    assert [gate.name for gate in b.spec.scheduling_gates] == ["g"]
    assert not KIND.lacks_injection(started)
    assert KIND.lacks_injection(patched(made, [Step({"spec": {"suspend": False}})]))
    stopped = patched(started, KIND.stop(started))
    assert patched(stopped, KIND.restore(stopped, KIND.podsets(made))) == made


def test_nothing_else_of_a_template_is_written():
    """A field that this version of us does not know stays as it is."""
    made = jobset(role("a", template=OWN), suspend=True)
    (step,) = KIND.start(made, [info("a", labels={POD_SET: "a"})])
    document = plain(made)
    document["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["ofTomorrow"] = True
    changed = jsonpatch.apply(document, plain(step.operations))
    assert changed["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["ofTomorrow"] is True


def test_its_priority_is_the_first_that_its_pods_ask_for():
    named = {"spec": {"priorityClassName": "high", "containers": []}}
    assert KIND.priority_class(jobset(role("a"), role("b", template=named))) == "high"
    assert KIND.priority_class(jobset(role("a"))) == ""


SINCE = datetime(2026, 1, 1, 0, 0, 7, tzinfo=UTC)


def suspended(status):
    return {"conditions": [{"type": "Suspended", "status": status, "lastTransitionTime": "2026-01-01T00:00:07Z"}]}


@pytest.mark.parametrize(
    ("status", "started"),
    [
        ({}, None),
        (suspended("True"), None),
        (suspended("False"), SINCE),
        (records(a={}), SINCE.replace(second=1)),
        (records(a={}) | suspended("False"), SINCE),
    ],
)
def test_it_has_started_when_it_was_resumed(status, started):
    made = jobset(*TWO, status=status)
    made = msgspec.structs.replace(made, metadata=ObjectMeta(creation_timestamp=SINCE.replace(second=1)))
    assert KIND.started_at(made) == started
