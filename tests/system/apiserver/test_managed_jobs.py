"""Jobs on their way into the embedded server, which does what Kueue's webhooks do on a real cluster."""

import msgspec
import pytest
from tests.system.apiserver.harness import JOBS, PODS, Api, api, api_under, job, pod
from tests.system.plane import virtual
from tests.system.queueing import queueing_world

from muster.api.batch import JOB, Job
from muster.api.config import load
from muster.api.core import POD, Pod
from muster.api.jobset import JOB_SET, JobSet
from muster.api.kueue import (
    ADMISSION_CHECK,
    LOCAL_QUEUE,
    WORKLOAD_PRIORITY_CLASS,
    AdmissionCheck,
    WorkloadPriorityClass,
)
from muster.api.status import ApiError

QUEUE = "kueue.x-k8s.io/queue-name"
HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "none"}]}}


async def create(world, name="j", *, namespace="default", labels=None, dry_run=False, metadata=None, **spec):
    document = {
        "metadata": {"name": name, "labels": labels or {}, **(metadata or {})},
        "spec": {"template": TEMPLATE, **spec},
    }
    return await world.client.create(JOB, msgspec.convert(document, Job), namespace, dry_run=dry_run)


async def default_queue(world):
    await queueing_world.flavor(world)
    await queueing_world.queue(world, "cq", 0, local=False)
    await queueing_world.local_queue(world, "default", "cq")


@virtual
async def test_without_queues_nothing_changes(world):
    job = await create(world)
    assert (bool(job.spec.suspend), QUEUE in job.metadata.labels, job.spec.managed_by) == (False, False, None)


@virtual
async def test_a_job_gets_the_default_queue_of_its_namespace_and_waits(world):
    await default_queue(world)
    job = await create(world)
    assert (job.spec.suspend, job.metadata.labels[QUEUE]) == (True, "default")
    other = await create(world, "k", labels={QUEUE: "mine"})
    assert (other.spec.suspend, other.metadata.labels[QUEUE]) == (True, "mine")


@virtual
async def test_a_dry_run_shows_what_it_would_get(world):
    await default_queue(world)
    assert (await create(world, dry_run=True)).metadata.labels[QUEUE] == "default"


@virtual
async def test_pitfall_43_system_namespaces_are_left_alone(world):
    job = await create(world, namespace="kube-system", labels={QUEUE: "lq"})
    assert not job.spec.suspend


@virtual
async def test_pitfall_42_a_child_of_a_job_with_a_queue_is_its_parents(world):
    await default_queue(world)
    parent = await create(world)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": parent.metadata.uid, "controller": True}
    child = await create(world, "child", metadata={"ownerReferences": [owner]}, suspend=True)
    assert QUEUE not in child.metadata.labels


@virtual
async def test_the_default_priority_class(world):
    document = {"metadata": {"name": "default"}, "value": 5}
    await world.client.create(WORKLOAD_PRIORITY_CLASS, msgspec.convert(document, WorkloadPriorityClass))
    job = await create(world, labels={QUEUE: "lq"})
    assert job.metadata.labels["kueue.x-k8s.io/priority-class"] == "default"


@virtual
async def test_what_runs_in_another_cluster_is_not_run_here(world):
    check = {"metadata": {"name": "far"}, "spec": {"controllerName": "kueue.x-k8s.io/multikueue"}}
    await world.client.create(ADMISSION_CHECK, msgspec.convert(check, AdmissionCheck))
    await queueing_world.flavor(world)
    strategy = {"admissionChecks": [{"name": "far"}]}
    await queueing_world.queue(world, "cq", 1, admissionChecksStrategy=strategy)
    job = await create(world, labels={QUEUE: "cq"})
    assert job.spec.managed_by == "kueue.x-k8s.io/multikueue"


@pytest.mark.parametrize(
    ("labels", "annotations", "said"),
    [
        ({QUEUE: "my_queue"}, {}, "a lowercase RFC 1123 subdomain"),
        ({"kueue.x-k8s.io/max-exec-time-seconds": "0"}, {}, "should be greater than 0"),
        ({}, {"kueue.x-k8s.io/job-min-parallelism": "5"}, "should be between 0 and 0"),
    ],
)
def test_what_breaks_a_rule_is_refused(labels, annotations, said):
    @virtual
    async def body(world):
        with pytest.raises(ApiError) as refused:
            await create(world, labels=labels, metadata={"annotations": annotations})
        assert (refused.value.code, refused.value.reason) == (403, "Forbidden")
        assert str(refused.value).startswith('admission webhook "vjob.kb.io" denied the request: metadata.')
        assert said in str(refused.value)

    body()


@virtual
async def test_a_running_job_keeps_its_queue(world):
    await queueing_world.flavor(world)
    await queueing_world.queue(world, "cq", 4)
    await create(world, labels={QUEUE: "cq"})
    await world.settle()
    with pytest.raises(ApiError, match="field is immutable"):
        await world.client.patch(JOB, "j", {"metadata": {"labels": {QUEUE: "other"}}}, "default")


@virtual
async def test_a_job_cannot_leave_where_there_is_a_default_queue(world):
    await default_queue(world)
    await create(world)
    with pytest.raises(ApiError, match="queue-name must not be empty in namespace with default queue"):
        await world.client.patch(JOB, "j", {"metadata": {"labels": {QUEUE: None}}}, "default")
    await world.client.delete(LOCAL_QUEUE, "default", "default")
    await world.settle()
    await world.client.patch(JOB, "j", {"metadata": {"labels": {QUEUE: None}}}, "default")


@virtual
async def test_jobs_that_make_no_sense_are_refused_as_ever(world):
    document = {"metadata": {"name": "j", "labels": {QUEUE: "lq"}}, "spec": {"parallelism": -1, "template": TEMPLATE}}
    with pytest.raises(ApiError, match="must be greater than or equal to 0"):
        await world.client.create(JOB, msgspec.convert(document, Job), "default")


@virtual
async def test_nobody_gates_pods_of_others(world):
    metadata = {"name": "p", "labels": {"kueue.x-k8s.io/podset": "main"}}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "no", "uid": "x", "controller": True}
    for number, owners in enumerate(([], [owner])):
        document = {
            "metadata": metadata | {"name": f"p{number}", "ownerReferences": owners},
            "spec": {"containers": [{"name": "c", "image": "none"}]},
        }
        pod = await world.client.create(POD, msgspec.convert(document, Pod), "default")
        assert pod.spec.scheduling_gates == ()


SWEEPS = "/apis/lab.example.com/v1/namespaces/default/sweeps"


async def make_sweeps(api):
    names = {"plural": "sweeps", "kind": "Sweep"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    await api.made(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "sweeps.lab.example.com"},
            "spec": {"group": "lab.example.com", "names": names, "scope": "Namespaced", "versions": [version]},
        },
    )


def sweep(name="s", **labels):
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "lab.example.com/v1", "kind": "Sweep", "metadata": metadata}


UNHEARD = f'299 - "{QUEUE}: no integration for Sweep is enabled, it does not wait in a queue"'


@api
async def test_a_queue_on_a_kind_that_nothing_makes_wait_is_answered_with_a_warning(api: Api):
    await make_sweeps(api)
    made = await api.post(SWEEPS, sweep(**{QUEUE: "lq"}))
    assert (made.status, made.headers["warning"]) == (201, UNHEARD)
    again = await api.merge(f"{SWEEPS}/s", {"metadata": {"labels": {"a": "b"}}})
    assert (again.status, "warning" in again.headers) == (200, False)  # it was told once
    other = await api.merge(f"{SWEEPS}/s", {"metadata": {"labels": {QUEUE: "other"}}})
    assert other.headers["warning"] == UNHEARD
    assert "warning" not in (await api.post(SWEEPS, sweep("t"))).headers
    assert "warning" not in (await api.post(JOBS, job() | {"metadata": {"name": "j", "labels": {QUEUE: "lq"}}})).headers


@api_under(load(f"{HEAD}integrations: {{externalFrameworks: [Sweep.v1.lab.example.com]}}"))
async def test_kinds_with_a_controller_of_their_own_and_those_that_are_off(api: Api):
    await make_sweeps(api)
    assert "warning" not in (await api.post(SWEEPS, sweep(**{QUEUE: "lq"}))).headers
    labelled = pod() | {"metadata": {"name": "p", "labels": {QUEUE: "lq"}}}
    assert "no integration for Pod" in (await api.post(PODS, labelled)).headers["warning"]


@virtual
async def test_what_holds_in_a_queue_holds_in_the_default_one(world):
    await default_queue(world)

    async def make(name, **labels):
        roles = [{"name": f"r{number}", "template": {"spec": {"template": TEMPLATE}}} for number in range(19)]
        document = {"metadata": {"name": name, "labels": labels}, "spec": {"replicatedJobs": roles}}
        await world.client.create(JOB_SET, msgspec.convert(document, JobSet), "default")

    for name, labels in {"named": {QUEUE: "default"}, "given": {}}.items():
        with pytest.raises(ApiError, match=r"spec.replicatedJobs: Too many: 19: must have at most 18 items"):
            await make(name, **labels)


@api
async def test_a_queue_in_the_templates_of_a_jobset_is_answered_with_a_warning(api: Api):
    def jobset(name, where):
        template = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "none"}]}}}}
        labelled = {"metadata": {"labels": {QUEUE: "lq"}}}
        return {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": name} | (labelled["metadata"] if where == "whole" else {}),
            "spec": {
                "replicatedJobs": [
                    {"name": "a", "template": template},
                    {"name": "b", "template": template | (labelled if where == "part" else {})},
                ]
            },
        }

    path = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
    assert "warning" not in (await api.post(path, jobset("whole", "whole"))).headers
    told = f"spec.replicatedJobs[1].template.metadata.labels[{QUEUE}]: means nothing"
    assert told in (await api.post(path, jobset("part", "part"))).headers["warning"]
