"""An autoscaler makes room before a workload is admitted; the test plays the autoscaler."""

from typing import Any

import msgspec
from tests.system.cluster.test_custom_kinds import DEFINITION
from tests.system.integrations.queued_jobs import Queued, configured, story
from tests.system.scheduler.test_capacity_requests import CRD, said

from muster.api.conditions import find
from muster.api.core import POD_TEMPLATE, PodTemplate
from muster.api.groups.provisioning import PROVISIONING_REQUEST, ProvisioningRequest
from muster.api.kueue import (
    ADMISSION_CHECK,
    LOCAL_QUEUE,
    PROVISIONING_REQUEST_CONFIG,
    AdmissionCheck,
    AdmissionCheckState,
    ProvisioningRequestConfig,
)

CONTROLLER = "kueue.x-k8s.io/provisioning-request"
CONFIG = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "config"}
MAP = {"type": "object", "additionalProperties": {"type": "string"}}


def served() -> Any:
    """The definition of ProvisioningRequests with what a check needs besides: parameters and a status."""
    crd = msgspec.json.decode(msgspec.json.encode(CRD))
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["parameters"] = MAP
    condition = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema["properties"]["status"] = {
        "type": "object",
        "properties": {"conditions": {"type": "array", "items": condition}, "provisioningClassDetails": MAP},
    }
    return crd


class Autoscaled:
    """A queue with a check by ProvisioningRequest, and an autoscaler that does what it is told."""

    def __init__(self, q: Queued) -> None:
        self.q, self.world, self.client = q, q.world, q.client

    async def begin(self, *, serve: bool = True, **config: Any) -> None:
        """Create all that it takes. config: fields of the configuration."""
        if serve:
            await self.client.create(DEFINITION, served())
            await self.world.settle(60)  # until it is followed
        spec = {"controllerName": CONTROLLER, "parameters": CONFIG}
        await self.client.create(
            ADMISSION_CHECK, msgspec.convert({"metadata": {"name": "room"}, "spec": spec}, AdmissionCheck)
        )
        await self.q.queue(admissionChecksStrategy={"admissionChecks": [{"name": "room"}]})
        await self.configure(**config)

    async def configure(self, **config: Any) -> None:
        document = {"metadata": {"name": "config"}, "spec": {"provisioningClassName": "best", **config}}
        await self.client.create(PROVISIONING_REQUEST_CONFIG, msgspec.convert(document, ProvisioningRequestConfig))
        await self.world.settle()

    async def check(self) -> AdmissionCheckState:
        """The state of the job's check."""
        (state,) = (await self.q.workload()).status.admission_checks
        return state

    async def requests(self) -> list[ProvisioningRequest]:
        return (await self.client.list(PROVISIONING_REQUEST, "default")).items

    async def templates(self) -> list[PodTemplate]:
        return (await self.client.list(POD_TEMPLATE, "default")).items

    async def attempt(self) -> int:
        """Which attempt the only request is."""
        (request,) = await self.requests()
        return int(request.metadata.name.rpartition("-")[2])

    async def answer(self, condition: str, message: str = "m", **status: Any) -> None:
        """Set a condition of the newest request."""
        (request,) = await self.requests()
        said = {"type": condition, "status": "True", "reason": "R", "message": message}
        conditions = [*msgspec.to_builtins(request.status.conditions), said]
        patch = {"status": {"conditions": conditions, **status}}
        name = request.metadata.name
        await self.client.patch(PROVISIONING_REQUEST, name, patch, "default", subresource="status")
        await self.world.settle()


@story
async def test_a_job_starts_once_there_is_room_and_uses_that_room(q: Queued) -> None:
    a = Autoscaled(q)
    selector = {"key": "room", "valueFromProvisioningClassDetail": "id"}
    await a.begin(parameters={"hours": "1", "zone": "a"}, podSetUpdates={"nodeSelector": [selector]})
    await q.job(metadata={"annotations": {"provreq.kueue.x-k8s.io/zone": "b"}})
    workload = await q.workload()
    (request,), (template,) = await a.requests(), await a.templates()
    name = f"{workload.metadata.name}-room-1"
    assert request.metadata.name == name
    assert request.metadata.labels == template.metadata.labels == {"kueue.x-k8s.io/managed": "true"}
    assert [(one.kind, one.uid) for one in request.metadata.owner_references] == [("Workload", workload.metadata.uid)]
    assert request.spec.provisioning_class_name == "best"
    assert request.spec.parameters == {"hours": "1", "zone": "b"}
    assert [(one.pod_template_ref.name, one.count) for one in request.spec.pod_sets] == [(f"ppt-{name}-main", 2)]
    assert template.metadata.name == f"ppt-{name}-main"
    owners = [(one.kind, one.uid, one.controller) for one in template.metadata.owner_references]
    assert owners == [("ProvisioningRequest", request.metadata.uid, True)]
    assert template.template.spec.node_selector == {"zone": "a"}
    assert await said(a.world, "ProvisioningRequestCreated") == [
        (workload.metadata.name, f'Created ProvisioningRequest: "{name}"')
    ]

    await a.answer("Accepted")
    assert ((await a.check()).state, await q.running()) == ("Pending", [])
    await a.answer("Provisioned", "here it is", provisioningClassDetails={"id": "77"})
    check = await a.check()
    assert (check.state, check.message) == ("Ready", "here it is")
    pods = (await q.now()).spec.template
    assert pods.metadata.annotations["autoscaling.x-k8s.io/consume-provisioning-request"] == name
    assert pods.metadata.annotations["autoscaling.x-k8s.io/provisioning-class-name"] == "best"
    assert pods.spec.node_selector == {"zone": "a", "room": "77"}
    assert not (await q.now()).spec.suspend


@story
async def test_a_request_that_fails_is_made_again_later_and_not_for_ever(q: Queued) -> None:
    a = Autoscaled(q)
    await a.begin(retryStrategy={"backoffLimitCount": 2, "backoffBaseSeconds": 100, "backoffMaxSeconds": 150})
    await q.job()
    for attempt, wait in ((1, 100), (2, 150)):
        assert await a.attempt() == attempt
        await a.answer("Failed", "no machines")
        assert (await q.held(), await a.requests()) == (0, [])
        check = await a.check()
        assert (check.state, check.retry_count) == ("Pending", attempt)
        await a.world.elapse(wait - 20)
        assert await a.requests() == []
        await a.world.elapse(40)
    assert (await q.held(), await a.attempt()) == (2, 3)
    await a.answer("Failed", "no machines")
    workload = await q.workload()
    assert not workload.spec.active
    evicted = find(workload.status.conditions, "Evicted")
    assert evicted is not None
    assert evicted.reason == "DeactivatedDueToAdmissionCheck"
    assert 'AdmissionCheck in Rejected state: "room" (no machines)' in evicted.message
    assert (await a.requests(), await a.templates()) == ([], [])


@story
async def test_room_that_is_taken_back_ends_what_runs_there(q: Queued) -> None:
    a = Autoscaled(q)
    await a.begin()
    await q.job()
    await a.answer("Provisioned")
    await a.world.elapse(30)
    assert await q.running() == [0, 1]
    await a.answer("BookingExpired")
    assert await q.running() == [0, 1]
    await a.answer("CapacityRevoked", "machines are gone")
    await a.world.elapse(60)
    assert (await q.now()).spec.suspend
    assert not (await q.workload()).spec.active
    assert (await q.held(), await a.requests()) == (0, [])


@story
async def test_a_preempted_workload_asks_anew(q: Queued) -> None:
    a = Autoscaled(q)
    await a.begin()
    await q.job()
    (first,) = await a.requests()
    await a.answer("Provisioned")
    await q.evict()
    await a.world.elapse(60)
    (again,) = await a.requests()
    assert again.metadata.name == first.metadata.name
    assert again.metadata.uid != first.metadata.uid
    (template,) = await a.templates()
    assert [one.uid for one in template.metadata.owner_references] == [again.metadata.uid]
    assert (await a.check()).state == "Pending"


@story
async def test_what_ends_needs_no_request(q: Queued) -> None:
    a = Autoscaled(q)
    await a.begin()
    await q.job()
    await a.answer("Provisioned")
    await a.world.elapse(10)
    for pod in await a.world.pods("j"):
        await a.world.finish(pod)
    await a.world.settle()
    assert "Finished" in await q.state()
    assert await a.requests() == []


@story
async def test_a_workload_without_managed_resources_needs_no_request(q: Queued) -> None:
    a = Autoscaled(q)
    await a.begin(managedResources=["nvidia.com/gpu"])
    await q.job()
    check = await a.check()
    assert (check.state, check.message) == ("Ready", "the provisioning request is not needed")
    assert await a.requests() == []
    assert not (await q.now()).spec.suspend


@story
async def test_another_configuration_is_asked_for_in_place_of_the_old_one(q: Queued) -> None:
    a = Autoscaled(q)
    await a.begin()
    await q.job()
    (before,) = await a.requests()
    patch = {"spec": {"provisioningClassName": "other"}}
    await a.client.patch(PROVISIONING_REQUEST_CONFIG, "config", patch)
    await a.world.settle()
    (after,) = await a.requests()
    assert (after.spec.provisioning_class_name, after.metadata.name) == ("other", before.metadata.name)


async def activity(a: Autoscaled) -> tuple[str, str, str]:
    """What the check says of itself."""
    said = find((await a.client.get(ADMISSION_CHECK, "room")).status.conditions, "Active")
    assert said is not None
    return said.status, said.reason, said.message


@story
async def test_a_check_is_active_while_its_configuration_is_there(q: Queued) -> None:
    a = Autoscaled(q)
    await a.begin()
    assert await activity(a) == ("True", "Active", "The admission check is active")
    await q.job()
    await a.client.delete(PROVISIONING_REQUEST_CONFIG, "config")
    await a.world.settle()
    problem = 'ProvisioningRequestConfig.kueue.x-k8s.io "config" not found'
    assert await activity(a) == ("False", "BadParametersRef", problem)
    assert (await a.check()).message == "the check is not active"
    assert await a.requests() == []
    await a.configure()
    assert await activity(a) == ("True", "Active", "The admission check is active")
    assert await a.attempt() == 1


@story
async def test_a_server_that_serves_no_requests_is_told_of_and_asked_again(q: Queued) -> None:
    a = Autoscaled(q)
    await a.begin(serve=False)
    await q.job()
    name = (await q.workload()).metadata.name
    problem = f'Error creating ProvisioningRequest "{name}-room-1": the server does not serve ProvisioningRequests'
    assert ((await a.check()).state, (await a.check()).message) == ("Pending", problem)
    assert await said(a.world, "FailedCreate") == [(name, problem)]
    await a.client.create(DEFINITION, served())
    await a.world.elapse(400)
    assert ((await a.check()).message, await a.attempt()) == ("", 1)
    assert [len(one.metadata.owner_references) for one in await a.templates()] == [1]


@configured("featureGates: {CleanupProvisioningRequestsOnEviction: false}")
async def test_an_eviction_may_leave_a_request_until_the_next_attempt(q: Queued) -> None:
    a = Autoscaled(q)
    await a.begin()
    await q.job()
    await a.answer("Failed", "no machines")
    assert (await q.held(), await a.attempt()) == (0, 1)
    await a.world.elapse(100)
    assert (await q.held(), await a.attempt()) == (2, 2)


@story
async def test_a_template_of_another_owner_is_left_alone(q: Queued) -> None:
    a = Autoscaled(q)
    await a.begin()
    await a.client.patch(LOCAL_QUEUE, "cq", {"spec": {"stopPolicy": "Hold"}}, "default")
    await q.job()
    name = f"{(await q.workload()).metadata.name}-room-1"
    pods = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    theirs = msgspec.convert({"metadata": {"name": f"ppt-{name}-main"}, "template": pods}, PodTemplate)
    uid = (await a.client.create(POD_TEMPLATE, theirs, "default")).metadata.uid
    await a.client.patch(LOCAL_QUEUE, "cq", {"spec": {"stopPolicy": "None"}}, "default")
    await a.world.settle(30)
    assert (await a.check()).message.startswith(f'Error creating PodTemplate "ppt-{name}-main": ')
    assert ([one.metadata.uid for one in await a.templates()], await a.requests()) == ([uid], [])
    await a.client.delete(POD_TEMPLATE, f"ppt-{name}-main", "default")
    await a.world.elapse(300)
    assert ((await a.check()).message, await a.attempt()) == ("", 1)
