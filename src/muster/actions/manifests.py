"""What `muster run` submits: a JobSet with a Job for each role, whose workers start together. Pure.

An elastic gang is a Job with a headless Service that names its workers; so is any gang on a cluster without JobSets. A
sweep is a Job alone.
"""

from collections.abc import Mapping
from typing import Any

from muster.actions.gang import Gang, Role
from muster.actions.sweep import swept
from muster.actions.workers import pod_spec
from muster.api.batch import JOB_NAME_LABEL
from muster.api.kueue.names import PRIORITY_CLASS_LABEL, QUEUE_NAME_LABEL
from muster.api.ours.elastic import ELASTIC_ANNOTATION, GANG_ANNOTATION, World
from muster.api.ours.simulated import RUN_TIME
from muster.jobs.job.world import annotations, birth_annotations
from muster.jobs.jobset.gang import WHOLE

WEEK_SECONDS = 7 * 24 * 3600


def jobset(gang: Gang) -> dict[str, Any]:
    """The manifest of the JobSet."""
    spec: dict[str, Any] = {"ttlSecondsAfterFinished": WEEK_SECONDS}
    if gang.size > 1:  # one alone has no other to wait for
        timeout = gang.start_timeout
        spec["groupSchedulingConfig"] = {} if timeout is None else {"timeoutAfterSeconds": timeout}
    if gang.until:
        spec["successPolicy"] = {"operator": "All", "targetReplicatedJobs": [gang.until]}
    if gang.retries:
        spec["failurePolicy"] = _failure_policy(gang, gang.retries)
    first, roles = 0, []
    for role in gang.parts:
        template = {"spec": _job_spec(gang, role, first)}
        roles.append({"name": role.name, "replicas": 1, "template": template})
        first += role.workers
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": _metadata(gang, {GANG_ANNOTATION: WHOLE} if len(roles) > 1 else {}),
        "spec": spec | {"replicatedJobs": roles},
    }


def job(gang: Gang) -> dict[str, Any]:
    """The manifest of a Job, of a gang without roles."""
    [role] = gang.parts
    own: dict[str, str] = {}
    if gang.elastic is not None:
        world = World(size=gang.workers, epoch=1)
        own = {ELASTIC_ANNOTATION: str(gang.elastic)} | annotations(world)
    spec = _job_spec(gang, role, 0)
    spec["ttlSecondsAfterFinished"] = WEEK_SECONDS
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": _metadata(gang, own), "spec": spec}
    if gang.sweep is not None:
        return swept(manifest, gang.sweep)
    spec["template"]["spec"]["subdomain"] = gang.name
    return manifest


def _failure_policy(gang: Gang, retries: int) -> dict[str, Any]:
    """All of it starts anew; but what ran into its time limit would only do so again."""
    policy: dict[str, Any] = {"maxRestarts": retries}
    if gang.time_limit is not None:
        rule = {"name": "timeLimit", "action": "FailJobSet", "onJobFailureReasons": ["DeadlineExceeded"]}
        policy["rules"] = [rule]
    return policy


def _metadata(gang: Gang, own: Mapping[str, str]) -> dict[str, Any]:
    """That of the whole. own: annotations that say what it is."""
    queueing = {QUEUE_NAME_LABEL: gang.queue, PRIORITY_CLASS_LABEL: gang.queue_priority}
    labels = {**gang.labels, **{label: value for label, value in queueing.items() if value}}
    return {"name": gang.name, "namespace": gang.namespace} | _marked(labels, {**gang.annotations, **own})


def _marked(labels: Mapping[str, str], annotations: Mapping[str, str]) -> dict[str, Any]:
    marks = {"labels": dict(labels), "annotations": dict(annotations)}
    return {kind: found for kind, found in marks.items() if found}


def _job_spec(gang: Gang, role: Role, first: int) -> dict[str, Any]:
    """That of the Job of a role, whose first worker has the rank `first`."""
    born = {RUN_TIME: gang.run_time} if gang.run_time else {}
    if gang.elastic is not None:
        # For a cluster whose Job controller is not ours; ours gives each pod the world that it is born into.
        born |= birth_annotations(World(size=gang.workers, epoch=1))
    marked = _marked(gang.labels, {**gang.annotations, **born})
    template = {"metadata": marked} if marked else {}
    limited = gang.time_limit is not None and gang.sweep is None
    limit = {"activeDeadlineSeconds": gang.time_limit} if limited else {}
    return limit | {
        "completions": role.workers,
        "parallelism": role.workers,
        "completionMode": "Indexed",
        "backoffLimit": _failures_allowed(gang),
        "template": template | {"spec": pod_spec(gang, role, first)},
    }


def _failures_allowed(gang: Gang) -> int:
    """A gang that lost a worker is lost, or starts anew as a whole.

    But an elastic program lives through losses, so its workers are replaced: as often as its user says, or until as
    many have failed as it began with, so that what fails on all of them fails at once.
    """
    if gang.elastic is None:
        return 0
    return gang.workers - 1 if gang.retries is None else gang.retries


def service(gang: Gang, job_uid: str = "") -> dict[str, Any]:
    """The headless Service whose name completes the host names of a Job's workers; it goes when the Job goes."""
    metadata: dict[str, Any] = {"name": gang.name, "namespace": gang.namespace}
    if job_uid:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": gang.name, "uid": job_uid}
        metadata["ownerReferences"] = [owner]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "clusterIP": "None",
            "selector": {JOB_NAME_LABEL: gang.name},
            "publishNotReadyAddresses": True,
        },
    }
