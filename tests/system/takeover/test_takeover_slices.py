"""Elastic Jobs that a real Kueue has resized by workload slices: Muster goes on with them, and gives them back."""

import msgspec
from tests.system.operator.operator_site import Site
from tests.system.takeover.left_by_kueue import FLAVOR, Kueue, podset
from tests.system.takeover.test_takeover import everything, left_by, running_job, sliced, takeover

from muster.api.batch import JOB
from muster.api.core import POD
from muster.api.kueue import ADMISSION_CHECK, CLUSTER_QUEUE, WORKLOAD, AdmissionCheck
from muster.insight.quota.state import index_by_owner
from muster.operator.handback import hand_back
from muster.queueing.workload.eviction import evict

GATE = [{"name": "kueue.x-k8s.io/elastic-job"}]
ELASTIC = {"kueue.x-k8s.io/elastic-job": "true"}


async def gated(s: Site) -> int:
    return sum(bool(pod.spec.scheduling_gates) for pod in await s.world.pods("grows"))


async def used(s: Site) -> str:
    """The CPUs for which the ClusterQueue says that quota is reserved."""
    queue = await s.client.get(CLUSTER_QUEUE, "cq")
    (flavor,) = queue.status.flavors_reservation
    (cpu,) = flavor.resources
    assert flavor.name == FLAVOR
    return str(cpu.total)


async def finished(s: Site, name: str) -> tuple[str, str]:
    workload = await s.client.get(WORKLOAD, name, "default")
    (condition,) = [one for one in workload.status.conditions if one.type == "Finished"]
    return condition.reason, condition.message


async def open_one(k: Kueue) -> None:
    """Let one pod go, as Kueue does for a slice of one pod."""
    await k.settle()
    first = min((await k.client.list(POD, "default")).items, key=lambda pod: pod.metadata.name)
    await k.client.patch(POD, first.metadata.name, {"spec": {"schedulingGates": None}}, "default")


async def one_waits(k: Kueue) -> tuple[str, str]:
    """A slice of three pods waits behind one of one pod; another Job has two of the four CPUs."""
    await running_job(k)
    old, new = await sliced(k)
    await k.refuse(new)
    return old, new


@takeover
async def test_a_slice_that_waits_goes_on_as_growth_of_the_workload_that_runs(s: Site) -> None:
    k, (old, new) = await left_by(s, one_waits)
    left = await everything(k)
    await s.start("muster")
    await s.world.settle(40)
    now = await everything(k)
    assert now["workloads"][new] == left["workloads"][new]
    assert {name: one["metadata"]["uid"] for name, one in now["pods"].items()} == {
        name: one["metadata"]["uid"] for name, one in left["pods"].items()
    }
    assert now["jobs"] == left["jobs"]
    (was,), (grew,) = (world["workloads"][old]["spec"]["podSets"] for world in (left, now))
    assert grew == was | {"count": 3}
    assert now["workloads"][old]["status"]["admission"] == left["workloads"][old]["status"]["admission"]
    workloads = (await s.client.list(WORKLOAD, "default")).items
    job = await s.client.get(JOB, "grows", "default")
    assert index_by_owner(workloads)[job.metadata.uid].metadata.name == old, "people are told of the one that runs"
    assert (await used(s), await gated(s)) == ("3", 2)
    await s.client.delete(JOB, "runs", "default")
    await s.world.settle(40)
    (held,) = (await s.client.get(WORKLOAD, old, "default")).status.admission.pod_set_assignments
    assert (held.count, await used(s), await gated(s)) == (3, "3", 0)
    assert await s.client.find(WORKLOAD, new, "default") is None, "it has nothing to wait for any more"


@takeover
async def test_a_slice_goes_that_waits_for_a_job_that_has_shrunk(s: Site) -> None:
    k, (old, new) = await left_by(s, one_waits)
    await k.client.patch(JOB, "grows", {"spec": {"parallelism": 1}}, "default")
    await s.start("muster")
    await s.world.settle(40)
    assert (await used(s), await s.client.find(WORKLOAD, new, "default")) == ("3", None)
    assert (await s.client.get(WORKLOAD, old, "default")).spec.pod_sets[0].count == 1


@takeover
async def test_of_two_slices_with_quota_the_older_one_is_finished(s: Site) -> None:
    """Kueue was stopped between its two writes. The gates of the pods are not open yet."""

    async def scene(k: Kueue) -> tuple[str, str]:
        old, new = await sliced(k)
        await open_one(k)
        await k.admit(new, {"main": 3}, ready=False)
        return old, new

    _, (old, new) = await left_by(s, scene)
    assert await gated(s) == 2
    await s.start("muster")
    await s.world.settle(40)
    assert await finished(s, old) == ("WorkloadSliceReplaced", "Replaced to accommodate a new workload slice")
    assert (await used(s), await gated(s)) == ("3", 0)
    assert [
        one for one in (await s.client.get(WORKLOAD, new, "default")).status.conditions if one.type == "Evicted"
    ] == []
    await s.client.delete(JOB, "grows", "default")
    await s.world.settle(40)
    assert (await s.client.list(WORKLOAD, "default")).items == [], "nothing of it is left"
    assert await used(s) == "0"


@takeover
async def test_pods_that_are_born_gated_go_as_their_slice_is_admitted(s: Site) -> None:
    """Kueue puts the gate into the template of an elastic Job: its pods have it whatever quota there is."""

    async def scene(k: Kueue) -> str:
        job = await k.job("grows", 2, completions=6, annotations=ELASTIC)
        gate = {"spec": {"template": {"spec": {"schedulingGates": GATE}}}}
        job = await k.client.patch(JOB, "grows", gate, "default")
        name = await k.workload(job, JOB, [podset(2)], extra="1", annotations=ELASTIC)
        await k.refuse(name, 2)
        return name

    _, name = await left_by(s, scene)
    await s.start("muster")
    await s.world.settle(40)
    assert (await used(s), await gated(s), len(await s.world.pods("grows"))) == ("2", 0, 2)
    assert {
        pod.metadata.annotations.get("kueue.x-k8s.io/workload-slice-name") for pod in await s.world.pods("grows")
    } == {name}
    await s.client.patch(JOB, "grows", {"spec": {"parallelism": 4}}, "default")
    await s.world.settle(40)
    assert (await used(s), await gated(s), len(await s.world.pods("grows"))) == ("4", 0, 4)


@takeover
async def test_a_slice_that_kueue_has_lowered_holds_no_more_than_the_job_has(s: Site) -> None:
    """Kueue lowers the podsets alone; what was admitted stays as it was."""

    async def scene(k: Kueue) -> str:
        job = await k.job("grows", 3, completions=6, annotations=ELASTIC)
        name = await k.workload(job, JOB, [podset(3)], extra="1", annotations=ELASTIC)
        await k.admit(name, {"main": 3})
        await k.start(job, name)
        await k.settle()
        await k.ungate()
        await k.client.patch(JOB, "grows", {"spec": {"parallelism": 2}}, "default")
        await k.client.patch(WORKLOAD, name, {"spec": {"podSets": [podset(2)]}}, "default")
        return name

    await left_by(s, scene)
    await s.start("muster")
    await s.world.settle(40)
    assert (await used(s), await gated(s), len(await s.world.pods("grows"))) == ("2", 0, 2)


async def reserves(k: Kueue) -> tuple[str, str]:
    """A slice has quota and waits for its checks; the slice that it replaces is finished, and its pods run on."""
    old, new = await sliced(k)
    await open_one(k)
    assigned = {"name": "main", "count": 3, "flavors": {"cpu": FLAVOR}, "resourceUsage": {"cpu": "3"}}
    conditions = [
        k.condition("QuotaReserved", True, "QuotaReserved", "Quota reserved in ClusterQueue cq"),
        k.condition("Admitted", False, "UnsatisfiedAdmissionChecks", "The workload has not all checks ready"),
    ]
    admission = {"clusterQueue": "cq", "podSetAssignments": [assigned]}
    pending = {"name": "other", "state": "Pending", "message": "", "lastTransitionTime": k.then}
    await k.apply(new, {"admission": admission, "admissionChecks": [pending], "conditions": conditions})
    await k.apply(old, {"conditions": [k.condition("Finished", True, "WorkloadSliceReplaced", "Replaced")]})
    return old, new


async def checked(k: Kueue) -> None:
    """A check that nobody here answers."""
    check = msgspec.convert({"metadata": {"name": "other"}, "spec": {"controllerName": "x.y/z"}}, AdmissionCheck)
    await k.client.create(ADMISSION_CHECK, check)
    works = {"status": {"conditions": [k.condition("Active", True, "Active", "works")]}}
    await k.client.patch(ADMISSION_CHECK, "other", works, subresource="status")
    await k.client.patch(
        CLUSTER_QUEUE, "cq", {"spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "other"}]}}}
    )


@takeover
async def test_a_job_runs_on_while_its_larger_slice_waits_for_checks(s: Site) -> None:
    async def scene(k: Kueue) -> tuple[str, str]:
        await checked(k)
        return await reserves(k)

    _, (_, new) = await left_by(s, scene)
    await s.start("muster")
    await s.world.settle(40)
    job = await s.client.get(JOB, "grows", "default")
    assert (job.spec.suspend, await used(s), await gated(s)) == (False, "3", 2)
    ready = {"name": "other", "state": "Ready", "message": "", "lastTransitionTime": "2026-01-01T00:01:00Z"}
    await s.client.patch(WORKLOAD, new, {"status": {"admissionChecks": [ready]}}, "default", subresource="status")
    await s.world.settle(40)
    assert (await used(s), await gated(s)) == ("3", 0)


@takeover
async def test_the_slice_that_waits_is_the_job_s_once_the_one_that_ran_was_evicted(s: Site) -> None:
    _, (old, new) = await left_by(s, one_waits)
    await s.start("muster")
    await s.world.settle(40)
    evicted = (await s.client.get(WORKLOAD, old, "default")).status
    await s.queued.status(
        await s.client.get(WORKLOAD, old, "default"), evict(evicted, "Preempted", "go", s.world.clock.now())
    )
    await s.world.settle(60)
    assert await finished(s, old) == ("WorkloadSliceReplaced", "Replaced to accommodate a new workload slice")
    assert await s.is_suspended("grows")
    await s.client.delete(JOB, "runs", "default")
    await s.world.settle(60)
    assert (await used(s), await gated(s), await s.is_suspended("grows")) == ("3", 0, False)
    assert (await s.client.get(WORKLOAD, new, "default")).status.admission is not None


@takeover
async def test_kueue_is_given_back_a_workload_of_the_size_that_was_granted(s: Site) -> None:
    """It opens the gates of as many pods as the podsets say."""
    k, (old, new) = await left_by(s, one_waits)
    left = await everything(k)
    await s.start("muster")
    await s.world.settle(40)
    await s.replicas["muster"].stop()
    await s.ended("muster")
    assert await hand_back(s.client) == 1
    assert await hand_back(s.client) == 0
    back = await everything(k)
    assert back["workloads"][old]["spec"] == left["workloads"][old]["spec"]
    assert back["workloads"][old]["status"]["admission"] == left["workloads"][old]["status"]["admission"]
    assert back["workloads"][new] == left["workloads"][new], "it waits for its turn again"
    assert back["jobs"] == left["jobs"]
