"""What is done about Volcano's Jobs: their pods, their phases, and what their policies ask for."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from muster.api.core import Pod
from muster.api.defaults.volcano import default_volcano_job
from muster.api.ours.embedded import CLUSTER_STOPPED
from muster.api.volcano import JOB_VERSION, REPLACED_BY_RETRY, TASK_INDEX, Job
from muster.jobs.volcano.decide import AT_MOST, decide
from muster.jobs.volcano.plan import VolcanoJobPlan
from muster.jobs.volcano.pods import make_pod

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def job(*tasks: dict[str, Any], status: dict[str, Any] | None = None, **spec: Any) -> Job:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    document = {
        "metadata": {"name": "j", "namespace": "n", "uid": "u", "creationTimestamp": "2025-12-31T23:00:00Z"},
        "spec": {"tasks": [{"template": template} | task for task in tasks], **spec},
        "status": status or {},
    }
    default_volcano_job(document)
    return msgspec.convert(document, Job)


def task(name: str = "w", replicas: int = 2, **more: Any) -> dict[str, Any]:
    return {"name": name, "replicas": replicas, **more}


def policy(event: str, action: str, **more: Any) -> dict[str, Any]:
    return {"event": event, "action": action, **more}


def pod(of: Job, name: str = "w", index: int = 0, phase: str = "Running", **more: Any) -> Pod:
    """A pod of a task as a node would have it. going: it was deleted. code: of its container. retry: its mark."""
    (found,) = [each for each in of.spec.tasks if each.name == name]
    made: dict[str, Any] = msgspec.to_builtins(make_pod(of, found, index))
    made["metadata"] |= {"uid": f"{name}-{index}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    made["status"] = {"phase": phase}
    if more.get("going"):
        made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if "retry" in more:
        made["metadata"]["annotations"][REPLACED_BY_RETRY] = str(more["retry"])
    if "code" in more:
        ended = {"terminated": {"exitCode": more["code"]}}
        made["status"]["containerStatuses"] = [{"name": "c", "state": ended}]
    if "restarts" in more:
        made["status"]["containerStatuses"] = [{"name": "c", "ready": True, "restartCount": more["restarts"]}]
    if "condition" in more:
        made["status"]["conditions"] = [more["condition"]]
    if phase == "Running":
        made["spec"]["nodeName"] = "node"
    return msgspec.convert(made, Pod)


def running(of: Job, **status: Any) -> Job:
    state = {"phase": "Running", "lastTransitionTime": NOW}
    return msgspec.structs.replace(of, status=msgspec.convert({"state": state, **status}, type(of.status)))


def names(pods: tuple[Pod, ...]) -> list[str]:
    return [each.metadata.name for each in pods]


def phase(plan: VolcanoJobPlan) -> str:
    return plan.status.state.phase


def test_a_new_job_gets_all_its_pods_and_a_group_that_starts_whole() -> None:
    plan = decide(job(task(), task("m", 1)), (), now=NOW)
    assert names(plan.create) == ["j-w-0", "j-w-1", "j-m-0"]
    assert plan.children is not None
    spec = plan.children.pod_group.spec
    assert (spec.min_member, spec.min_task_member) == (3, {"w": 2, "m": 1})
    assert phase(plan) == "Pending"


def test_pods_say_which_group_task_and_attempt_they_are_of() -> None:
    (first, _) = decide(job(task()), (), now=NOW).create
    said = first.metadata.annotations
    assert said["scheduling.k8s.io/group-name"] == "j-u"
    assert (said["volcano.sh/task-spec"], said["volcano.sh/task-index"]) == ("w", "0")
    assert (said["volcano.sh/job-version"], said["volcano.sh/job-retry-count"]) == ("0", "0")
    assert first.metadata.labels["volcano.sh/job-name"] == "j"
    assert first.spec.scheduler_name == "volcano"


def test_a_job_runs_once_its_minimum_does_and_waits_again_when_it_does_not() -> None:
    waiting = job(task(replicas=3), minAvailable=2, status={"state": {"phase": "Pending"}})
    there = [pod(waiting, index=0), pod(waiting, index=1), pod(waiting, index=2, phase="Pending")]
    assert phase(decide(waiting, there, now=NOW)) == "Running"
    fewer = [pod(waiting, index=0), *(pod(waiting, index=i, phase="Pending") for i in (1, 2))]
    assert phase(decide(running(waiting), fewer, now=NOW)) == "Pending"


@pytest.mark.parametrize(
    ("phases", "spec", "end"),
    [
        (("Succeeded", "Succeeded"), {}, "Completed"),
        (("Succeeded", "Failed"), {}, "Failed"),
        (("Succeeded", "Failed"), {"minAvailable": 1}, "Completed"),
        (("Failed", "Failed"), {"minAvailable": 1}, "Failed"),
        (("Succeeded", "Running"), {}, "Running"),
        (("Succeeded", "Running"), {"minSuccess": 1}, "Completed"),
        (("Succeeded", "Failed"), {"minSuccess": 2, "minAvailable": 1}, "Failed"),
    ],
)
def test_a_job_ends_as_its_pods_do(phases: tuple[str, str], spec: dict[str, Any], end: str) -> None:
    it = running(job(task(minAvailable=spec.get("minAvailable", 2)), **spec))
    plan = decide(it, [pod(it, index=i, phase=each) for i, each in enumerate(phases)], now=NOW)
    assert phase(plan) == end
    if end != "Running":  # the phase is stored, and nothing else is done
        assert plan.status.running_duration == "1h0m0s"
        assert (plan.children, plan.create, plan.delete, len(plan.notes)) == (None, (), (), 1)
        assert plan.status.state.reason == ("PodsEnded" if end == "Failed" else "")


@pytest.mark.parametrize(
    ("action", "there", "after"),
    [
        ("AbortJob", "Aborting", "Aborted"),
        ("TerminateJob", "Terminating", "Terminated"),
        ("CompleteJob", "Completing", "Completed"),
    ],
)
def test_a_job_that_is_stopped_keeps_the_pods_that_have_ended(action: str, there: str, after: str) -> None:
    it = running(job(task(), policies=[policy("PodFailed", action)]))
    pods = [pod(it, index=0, phase="Failed", code=3), pod(it, index=1)]
    stop = decide(it, pods, now=NOW)
    assert (phase(stop), stop.status.version, stop.delete) == (there, 1, ())
    assert stop.status.state.message == f"pod j-w-0 failed with exit code 3: {action}"
    assert [note.type for note in stop.notes] == ["Normal"]
    it = msgspec.structs.replace(it, status=stop.status)
    going = decide(it, pods, now=NOW)
    assert (names(going.delete), going.create) == (["j-w-1"], ())
    it = msgspec.structs.replace(it, status=going.status)
    end = decide(it, pods[:1], now=NOW)
    assert (phase(end), end.status.failed, end.create) == (after, 1, ())
    assert [note.type for note in end.notes] == ["Normal" if after == "Completed" else "Warning"]


def test_a_restart_makes_no_pod_before_all_old_ones_are_gone() -> None:
    it = running(job(task(), policies=[policy("PodFailed", "RestartJob")]))
    pods = [pod(it, index=0, phase="Failed"), pod(it, index=1)]
    restart = decide(it, pods, now=NOW)
    assert (phase(restart), restart.status.version, restart.status.retry_count) == ("Restarting", 1, 1)
    it = msgspec.structs.replace(it, status=restart.status)
    assert names(decide(it, pods, now=NOW).delete) == ["j-w-0", "j-w-1"]
    last = decide(it, [pod(running(job(task())), index=1, going=True)], now=NOW)
    assert (phase(last), last.create) == ("Restarting", ())
    it = msgspec.structs.replace(it, status=decide(it, (), now=NOW).status)
    assert it.status.state.phase == "Pending"
    again = decide(it, (), now=NOW)
    assert [each.metadata.annotations["volcano.sh/job-version"] for each in again.create] == ["1", "1"]


def test_the_retry_that_reaches_the_limit_fails_the_job() -> None:
    it = running(job(task(), maxRetry=2, policies=[policy("PodFailed", "RestartJob")]), retryCount=1)
    plan = decide(it, [pod(it, phase="Failed"), pod(it, index=1)], now=NOW)
    assert (phase(plan), plan.status.retry_count) == ("Failed", 2)
    assert "retry 2 of at most 2" in plan.status.state.message
    over = msgspec.structs.replace(it, status=plan.status)
    assert names(decide(over, [pod(it, phase="Failed"), pod(it, index=1)], now=NOW).delete) == ["j-w-1"]


@pytest.mark.parametrize(("action", "marked"), [("RestartPod", ["j-w-0"]), ("RestartTask", ["j-w-0", "j-w-1"])])
def test_a_restart_of_a_part_is_counted_once_however_often_it_is_cut_off(action: str, marked: list[str]) -> None:
    it = running(job(task(policies=[policy("PodFailed", action)]), task("other", 1)))
    pods = [pod(it, phase="Failed"), pod(it, index=1), pod(it, "other")]
    first = decide(it, pods, now=NOW)
    assert (names(first.replaced), first.retry, first.status) == (marked, 1, it.status)
    pods[0] = pod(it, phase="Failed", retry=1)
    assert names(decide(it, pods, now=NOW).replaced) == marked[1:]
    pods[: len(marked)] = [pod(it, phase="Failed", retry=1), pod(it, index=1, retry=1)][: len(marked)]
    counted = decide(it, pods, now=NOW)
    assert (phase(counted), counted.status.retry_count, counted.status.version) == ("Restarting", 1, 0)
    assert counted.status.state.message == f"pod j-w-0 failed: {action}"
    it = msgspec.structs.replace(it, status=counted.status)
    deleting = decide(it, pods, now=NOW)
    assert (names(deleting.delete), deleting.status.retry_count) == (marked, 1)


def test_a_marked_pod_that_has_gone_before_the_retry_was_stored_counts_all_the_same() -> None:
    it = running(job(task(policies=[policy("PodFailed", "RestartTask")])))
    counted = decide(it, [pod(it, index=1, retry=1)], now=NOW)
    assert (phase(counted), counted.status.retry_count) == ("Restarting", 1)


def test_policies_of_a_task_go_before_those_of_the_job() -> None:
    it = job(
        task("w", 1, policies=[{"exitCode": 3, "action": "CompleteJob"}]),
        task("m", 1),
        policies=[policy("PodFailed", "AbortJob")],
    )
    it = running(it)
    assert phase(decide(it, [pod(it, "w", phase="Failed", code=3), pod(it, "m")], now=NOW)) == "Completing"
    assert phase(decide(it, [pod(it, "w", phase="Failed", code=4), pod(it, "m")], now=NOW)) == "Aborting"
    assert phase(decide(it, [pod(it, "w"), pod(it, "m", phase="Failed", code=3)], now=NOW)) == "Aborting"


@pytest.mark.parametrize(
    ("event", "pods"),
    [
        ("PodEvicted", [{"going": True}, {}]),
        ("TaskCompleted", [{"phase": "Succeeded"}, {"phase": "Succeeded"}]),
        ("TaskFailed", [{"restarts": 2}, {"restarts": 1}]),
        (
            "Unknown",
            [
                {},
                {
                    "phase": "Pending",
                    "condition": {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
                },
            ],
        ),
        ("*", [{"going": True}, {}]),
    ],
)
def test_events_are_seen_in_what_pods_are(event: str, pods: list[dict[str, Any]]) -> None:
    it = running(job(task(), policies=[policy(event, "AbortJob")]))
    assert phase(decide(it, [pod(it, index=i, **each) for i, each in enumerate(pods)], now=NOW)) == "Aborting"


def test_a_pod_that_was_deleted_at_once_was_evicted() -> None:
    it = running(job(task(), policies=[policy("PodEvicted", "RestartJob")]))
    there, lost = [pod(it, index=1)], [pod(it, index=0)]
    assert phase(decide(it, there, now=NOW, lost=lost)) == "Restarting"
    assert names(decide(running(job(task())), there, now=NOW, lost=lost).create) == ["j-w-0"]


def test_a_pod_may_be_pending_for_as_long_as_the_policy_says() -> None:
    it = job(task(), policies=[policy("PodPending", "AbortJob", timeout="10m")])
    pods = [pod(it, index=i, phase="Pending") for i in range(2)]
    waiting = decide(it, pods, now=NOW)
    assert (phase(waiting), waiting.wake_at) == ("Pending", NOW + timedelta(minutes=10))
    assert phase(decide(it, pods, now=NOW + timedelta(minutes=10))) == "Aborting"


def test_pods_that_ended_with_the_cluster_are_made_again_and_no_policy_is_asked() -> None:
    it = running(job(task(), policies=[policy("*", "AbortJob")]))
    stopped = {"type": CLUSTER_STOPPED, "status": "True"}
    plan = decide(it, [pod(it, index=i, phase="Failed", condition=stopped) for i in range(2)], now=NOW)
    assert names(plan.delete) == ["j-w-0", "j-w-1"]
    assert (phase(plan), plan.status.failed, plan.status.terminating, plan.status.retry_count) == ("Running", 0, 2, 0)


def test_a_job_shrinks_from_its_last_pods_and_grows_again() -> None:
    it = running(job(task(replicas=1), policies=[policy("PodEvicted", "AbortJob")]))
    both = running(job(task(replicas=2)))
    shrinks = decide(it, [pod(both, index=0), pod(both, index=1)], now=NOW)
    assert (names(shrinks.delete), shrinks.create, phase(shrinks)) == (["j-w-1"], (), "Running")
    assert phase(decide(it, [pod(both, index=0), pod(both, index=1, going=True)], now=NOW)) == "Running"
    assert names(decide(both, [pod(both, index=0)], now=NOW).create) == ["j-w-1"]


def test_a_task_waits_for_those_that_it_depends_on() -> None:
    it = job(task("a", 1), task("b", 1), task("c", 1, dependsOn={"name": ["a", "b"]}), minAvailable=1)
    assert names(decide(it, (), now=NOW).create) == ["j-a-0", "j-b-0"]
    there = [pod(it, "a"), pod(it, "b", phase="Pending")]
    assert decide(it, there, now=NOW).create == ()
    any_of = job(*map(task, "ab", (1, 1)), task("c", 1, dependsOn={"name": ["a", "b"], "iteration": "any"}))
    assert names(decide(any_of, there, now=NOW).create) == ["j-c-0"]
    empty = job(task("a", 0), task("c", 1, dependsOn={"name": ["a"]}))
    assert names(decide(empty, (), now=NOW).create) == ["j-c-0"]


def test_a_finished_job_goes_when_its_time_is_over() -> None:
    it = job(task(), ttlSecondsAfterFinished=60, status={"state": {"phase": "Failed", "lastTransitionTime": NOW}})
    stays = decide(it, (), now=NOW + timedelta(seconds=59))
    assert (stays.expired, stays.wake_at) == (False, NOW + timedelta(seconds=60))
    assert decide(it, (), now=NOW + timedelta(seconds=60)).expired


def test_conditions_name_each_phase_once() -> None:
    it = running(job(task(), policies=[policy("PodFailed", "RestartJob")]))
    for _ in range(2):
        pods: list[Pod] = [pod(it, phase="Failed"), pod(it, index=1)]
        for there in (pods, pods, (), (), [pod(it, index=0), pod(it, index=1)]):
            it = msgspec.structs.replace(it, status=decide(it, there, now=NOW).status)
    assert [each.status for each in it.status.conditions].count("Restarting") == 1


def test_a_big_job_is_made_and_unmade_in_turns() -> None:
    it = job(task(replicas=300))
    first = decide(it, (), now=NOW)
    assert (len(first.create), first.more) == (256, True)
    rest = decide(it, first.create, now=NOW)
    assert (len(rest.create), rest.more) == (44, False)
    over = job(task(replicas=300), status={"state": {"phase": "Failed"}})
    assert len(decide(over, [*first.create, *rest.create], now=NOW).delete) == 256


class Labels(dict[str, str]):
    """Labels of a template that know how many pods were made from it."""

    pods = 0

    def __or__(self, others: Any) -> Any:
        self.pods += 1
        return dict(self) | others


def test_a_look_makes_no_more_pods_than_it_creates_and_one() -> None:
    labels, it = Labels(), job(task(replicas=10_000))
    (only,) = it.spec.tasks
    metadata = msgspec.structs.replace(only.template.metadata, labels=labels)
    only = msgspec.structs.replace(only, template=msgspec.structs.replace(only.template, metadata=metadata))
    plan = decide(msgspec.structs.replace(it, spec=msgspec.structs.replace(it.spec, tasks=(only,))), (), now=NOW)
    assert (len(plan.create), plan.more) == (AT_MOST, True)
    assert labels.pods == AT_MOST + 1


@pytest.mark.parametrize("plugins", [{"svc": []}, {"pytorch": ["--master=w"]}])
def test_what_all_pods_are_given_alike_is_made_once_in_a_look(plugins: dict[str, list[str]]) -> None:
    first, second = decide(job(task(), task("m", 0), plugins=plugins), (), now=NOW).create
    theirs = [[one for one in each.spec.containers[0].env if one.name != "RANK"] for each in (first, second)]
    assert theirs[0]
    assert all(one is other for one, other in zip(*theirs, strict=True))


@pytest.mark.parametrize("said", [{}, *({"index": text} for text in ("", "x", "-1", "²", "1" * 10))])
@pytest.mark.parametrize("what", ["index", "version"])
def test_pods_whose_annotations_say_no_place_or_attempt_are_nobody(what: str, said: dict[str, str]) -> None:
    it = running(job(task(replicas=1)))
    annotations = dict(pod(it).metadata.annotations)
    annotations |= {{"index": TASK_INDEX, "version": JOB_VERSION}[what]: text for text in said.values()}
    metadata = msgspec.structs.replace(pod(it).metadata, annotations=annotations if said else {})
    stranger = msgspec.structs.replace(pod(it), metadata=metadata)
    plan = decide(it, [stranger], now=NOW)
    assert (plan.delete, names(plan.create)) == ((), ["j-w-0"])


EVICTED = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}


@pytest.mark.parametrize(
    ("policies", "after", "version"),
    [
        pytest.param([], "Running", 0, id="no policy: the pod is made again"),
        pytest.param([policy("PodFailed", "AbortJob")], "Running", 0, id="it has not failed"),
        pytest.param([policy("PodEvicted", "RestartJob")], "Restarting", 1, id="a restart of all"),
        pytest.param([policy("PodEvicted", "RestartPod")], "Running", 0, id="a restart of the pod"),
        pytest.param([policy("PodEvicted", "TerminateJob")], "Terminating", 1, id="an end"),
    ],
)
@pytest.mark.parametrize("how", [{"phase": "Failed", "code": 143}, {"phase": "Running", "going": True}])
def test_a_pod_that_the_platform_ended_uses_up_no_retry(
    policies: list[dict[str, Any]], after: str, version: int, how: dict[str, Any]
) -> None:
    it = running(job(task(), policies=policies, maxRetry=1))
    plan = decide(it, [pod(it, index=0), pod(it, index=1, condition=EVICTED, **how)], now=NOW)
    assert (phase(plan), plan.status.retry_count, plan.status.version) == (after, 0, version)
    if after == "Running" and how["phase"] == "Failed":
        assert names(plan.delete) == ["j-w-1"]


def test_a_pod_of_a_task_that_is_gone_goes_and_no_policy_is_asked() -> None:
    both = running(job(task(), task("m", 1), policies=[policy("PodFailed", "AbortJob")]))
    fewer = running(job(task(), policies=[policy("PodFailed", "AbortJob")]))
    there = [pod(both, index=0), pod(both, index=1), pod(both, "m", phase="Failed")]
    plan = decide(fewer, there, now=NOW)
    assert (phase(plan), names(plan.delete)) == ("Running", ["j-m-0"])


def test_what_a_job_has_beside_its_pods_is_listed() -> None:
    volumes = [{"mountPath": "/a", "volumeClaimName": "mine"}]
    it = job(task(), plugins={"svc": [], "theirs": []}, volumes=volumes)
    assert decide(it, (), now=NOW).status.controlled_resources == {"plugin-svc": "svc", "volume-pvc-mine": "mine"}
