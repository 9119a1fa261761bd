"""Notices of a job's events, in virtual time with all controllers of an embedded cluster; pods are driven by hand."""

from typing import Any

import msgspec
import pytest
from tests.system.plane import World, virtual

from muster.actions.jobs.cancelling import cancel
from muster.actions.submission.gang import Gang
from muster.actions.submission.submitting import submit
from muster.api.batch import JOB, Job
from muster.api.core import EVENT, POD, Pod
from muster.api.jobset import JOB_SET
from muster.api.ours.notify import Event, NoticeSettings
from muster.api.status import ApiError
from muster.insight.reader.jobs.job import investigate
from muster.insight.why.answer import render_lines
from muster.runtime.transport import STRATEGIC_MERGE_PATCH

ALL = ",".join(Event)
HOOK = "https://example.org/hook"


async def begin(world: World, events: str = ALL, targets: str = "tell", **spec: Any) -> Job:
    annotations = {"muster.dev/notify": targets, "muster.dev/notify-on": events}
    job = await world.job("train", 1, annotations=annotations, **spec)
    await world.node("n", cpu="8")
    await world.settle()
    return job


async def list_notices(world: World) -> dict[str, Pod]:
    """Return the pods that send notices, by event."""
    await world.settle()
    pods = (await world.client.list(POD, "default", labels="muster.dev/notice-of")).items
    return {pod.metadata.annotations["muster.dev/notice-event"]: pod for pod in pods}


async def list_sent(world: World) -> str:
    await world.settle()
    return (await world.client.get(JOB, "train", "default")).metadata.annotations.get("muster.dev/notified", "")


async def set_ready(world: World) -> None:
    [pod] = await world.pods("train")
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    patch = {"status": status}
    await world.client.patch_object(POD, pod, patch, lock=False, type=STRATEGIC_MERGE_PATCH, subresource="status")
    await world.settle()


async def finish_notice(world: World, event: str, phase: str = "Succeeded") -> None:
    await world.finish((await list_notices(world))[event], phase)
    await world.settle()


async def end(world: World, phase: str = "Succeeded") -> None:
    [pod] = await world.pods("train")
    await world.finish(pod, phase)
    await world.settle()


async def fail(world: World, code: int) -> None:
    [pod] = await world.pods("train")
    terminated = {
        "exitCode": code,
        "reason": "Error",
        "message": "ValueError: boom",
        "finishedAt": "2026-01-01T00:00:00Z",
    }
    status = {"name": pod.spec.containers[0].name, "image": "", "imageID": "", "ready": False, "restartCount": 0}
    patch = {"status": {"phase": "Failed", "containerStatuses": [status | {"state": {"terminated": terminated}}]}}
    await world.client.patch_object(POD, pod, patch, lock=False, type=STRATEGIC_MERGE_PATCH, subresource="status")
    await world.settle()


@virtual
async def test_start_and_end_are_told_once_each(world: World) -> None:
    await begin(world)
    assert await list_notices(world) == {}
    await set_ready(world)
    assert [*await list_notices(world)] == ["start"]
    await finish_notice(world, "start")
    assert await list_sent(world) == "start"
    await end(world)
    assert [*await list_notices(world)] == ["end"]
    await finish_notice(world, "end")
    assert await list_sent(world) == "end,start"
    await world.elapse(600)
    assert await list_notices(world) == {}


@pytest.mark.parametrize(("events", "told"), [(ALL, "fail"), ("fail", "fail"), ("end", "end"), ("start", "start")])
def test_a_failure_is_told_as_one_event(events: str, told: str) -> None:
    @virtual
    async def story(world: World) -> None:
        await begin(world, events, backoffLimit=0)
        await fail(world, code=3)
        notices = await list_notices(world)
        assert told in notices
        assert len(set(notices) - {"start"}) == (0 if told == "start" else 1)
        environment = {one.name: one.value for one in notices[told].spec.containers[0].env}
        if told != "start":
            assert environment["MUSTER_JOB_STATE"] == "Failed"
            assert environment["MUSTER_JOB_REASON"] == "ended with exit code 3: ValueError: boom"

    story()


@virtual
async def test_a_cancelled_job_has_ended_and_not_failed(world: World) -> None:
    await begin(world)
    await cancel(world.client, "train", "default")
    await world.settle()
    for pod in await world.pods("train"):
        await world.finish(pod, "Failed")
    notices = await list_notices(world)
    assert "fail" not in notices
    assert {one.name: one.value for one in notices["end"].spec.containers[0].env}["MUSTER_JOB_STATE"] == "Cancelled"


@virtual
async def test_a_pod_that_the_platform_ended_is_created_again(world: World) -> None:
    await begin(world, "end")
    await end(world)
    first = (await list_notices(world))["end"]
    status = {"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "x"}]}
    patch = {"status": status}
    await world.client.patch_object(POD, first, patch, lock=False, type=STRATEGIC_MERGE_PATCH, subresource="status")
    second = (await list_notices(world))["end"]
    assert second.metadata.uid != first.metadata.uid
    assert await list_sent(world) == ""
    await finish_notice(world, "end")
    assert await list_sent(world) == "end"


@virtual
async def test_a_notice_that_fails_is_told_of_and_not_sent_again(world: World) -> None:
    await begin(world, "end")
    await end(world)
    pod = (await list_notices(world))["end"]
    terminated = {"exitCode": 3, "message": "a\nno route"}
    status = {"phase": "Failed", "containerStatuses": [{"name": "target-1", "state": {"terminated": terminated}}]}
    patch = {"status": status}
    await world.client.patch_object(POD, pod, patch, lock=False, type=STRATEGIC_MERGE_PATCH, subresource="status")
    await world.elapse(600)
    assert (await list_notices(world))["end"].metadata.uid == pod.metadata.uid
    assert await list_sent(world) == "end"
    events = (await world.client.list(EVENT.seen_as(dict), "default")).items
    assert [event["message"] for event in events if event["reason"] == "NoticeFailed"] == [
        "The notice of end failed: target-1 ended with exit code 3: no route"
    ]
    readings = await investigate(world.client, "default", "train", world.clock.now())
    assert readings is not None
    assert render_lines(readings, []) == [
        "train: completed",
        "",
        "The notice of end failed: target-1 ended with exit code 3: no route",
    ]


@virtual
async def test_a_notice_outlives_its_job_until_it_has_been_sent(world: World) -> None:
    await begin(world, "end")
    await end(world)
    assert [*await list_notices(world)] == ["end"]
    await world.client.delete(JOB, "train", "default", propagation="Background")
    assert [*await list_notices(world)] == ["end"]
    await finish_notice(world, "end")
    assert await list_notices(world) == {}


@virtual
async def test_a_jobset_tells_of_its_start_and_its_end(world: World) -> None:
    await world.node("n", cpu="8")
    settings = NoticeSettings(("tell",), frozenset(Event))
    await submit(world.client, Gang("train", ["x"], workers=2, cpus="1", notify=settings), pytest.fail)
    await world.settle(10)
    for pod in await world.pods():
        await world.finish(pod)
    notices = await list_notices(world)
    assert set(notices) == {"start", "end"}
    for pod in notices.values():
        await world.finish(pod)
    await world.settle()
    jobset = await world.client.get(JOB_SET, "train", "default")
    assert jobset.metadata.annotations["muster.dev/notified"] == "end,start"


@virtual
async def test_the_pod_of_a_notice_has_a_container_for_each_target_and_what_the_job_has(world: World) -> None:
    container = {
        "name": "c",
        "image": "none",
        "workingDir": "/w",
        "env": [
            {"name": "A", "value": "$(B)"},
            {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
    }
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    document = {
        "metadata": {"name": "train", "annotations": {"muster.dev/notify": f"echo $(date)\n{HOOK}"}},
        "spec": {"template": template},
    }
    await world.node("n", cpu="8")
    await world.client.create(JOB, msgspec.convert(document, Job), "default")
    await world.settle()
    await end(world)
    pod = (await list_notices(world))["end"]
    command, hook = pod.spec.containers
    assert command.command == ("/bin/sh", "-c", "echo $$(date)")
    assert hook.command[2].endswith(" notify")
    assert {one.name: one.value for one in hook.env}["MUSTER_NOTICE_TARGET"] == HOOK
    assert {container.working_dir for container in pod.spec.containers} == {"/w"}
    environment = {one.name: one.value for one in command.env}
    assert environment == {
        "A": "$(B)",
        "MUSTER_JOB": "train",
        "MUSTER_NAMESPACE": "default",
        "MUSTER_EVENT": "end",
        "MUSTER_JOB_STATE": "Completed",
        "MUSTER_JOB_REASON": "",
    }
    assert pod.spec.active_deadline_seconds == 60
    assert not pod.spec.automount_service_account_token
    assert pod.metadata.owner_references == ()


@virtual
async def test_a_copy_that_another_cluster_sent_here_tells_nobody(world: World) -> None:
    await world.node("n", cpu="8")
    annotations = {"muster.dev/notify": "tell"}
    job = await world.job("train", 1, annotations=annotations)
    await world.client.patch_object(
        JOB, job, {"metadata": {"labels": {"kueue.x-k8s.io/multikueue-origin": "m"}}}, lock=False
    )
    await world.settle()
    await end(world)
    assert await list_notices(world) == {}


@virtual
async def test_wishes_that_mean_nothing_are_refused(world: World) -> None:
    with pytest.raises(ApiError, match="'ende' is no event of a job: there are start, requeue, end, fail"):
        await begin(world, "ende")
    with pytest.raises(ApiError, match="'http://' is no URL"):
        await begin(world, targets="http://")


@virtual
async def test_a_pod_of_the_user_in_the_place_of_a_notice_holds_up_nothing(world: World) -> None:
    job = await begin(world, "end")
    container = {"name": "mine", "image": "none", "command": ["x"]}
    made = {
        "metadata": {"name": f"notice-end-{job.metadata.uid}", "labels": {"muster.dev/notice-of": job.metadata.uid}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    await world.client.create(POD.seen_as(dict), made, "default")
    await end(world)
    [pod] = (await world.client.list(POD, "default", labels="muster.dev/notice-of")).items
    ended = {"name": "mine", "state": {"terminated": {"exitCode": 1}}}
    patch = {"status": {"phase": "Failed", "containerStatuses": [ended]}}
    await world.client.patch_object(POD, pod, patch, lock=False, type=STRATEGIC_MERGE_PATCH, subresource="status")
    await world.client.patch(JOB, "train", {"metadata": {"labels": {"a": "b"}}}, "default")
    assert await list_sent(world) == "end"
