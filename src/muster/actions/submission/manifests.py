"""Make the manifests that `muster run` submits. Pure.

A gang is a JobSet with one Job per role, whose workers start together. An elastic gang is a Job with a headless Service
that names its workers, and so is any gang in a cluster without JobSets. A sweep is a single Job. A gang with a schedule
is a CronJob, which creates such a Job at each start.
"""

from collections.abc import Mapping
from typing import Any

from muster.actions.submission.gang import Gang, Role
from muster.actions.submission.sweep import make_sweep
from muster.actions.submission.workers import pod_spec
from muster.api.batch import JOB_NAME_LABEL
from muster.api.kueue.names import PRIORITY_CLASS_LABEL, QUEUE_NAME_LABEL
from muster.api.ours import notify
from muster.api.ours.cronjobs import CRON_JOB_LABEL
from muster.api.ours.deferral import make_annotations
from muster.api.ours.elastic import ELASTIC_ANNOTATION, GANG_ANNOTATION, World
from muster.api.ours.simulated import RUN_TIME
from muster.jobs.interruption import DISRUPTION_TARGET
from muster.jobs.job.world import birth_annotations, make_world_annotations
from muster.jobs.jobset.gang import WHOLE

WEEK_SECONDS = 7 * 24 * 3600


def make_jobset(gang: Gang) -> dict[str, Any]:
    """Return the manifest of a gang's JobSet, with one Job per role.

    The JobSet is deleted a week after its end. If it has several workers, they start together.
    """
    spec: dict[str, Any] = {"ttlSecondsAfterFinished": WEEK_SECONDS}
    if gang.size > 1:  # a single worker waits for no other
        timeout = gang.start_timeout
        spec["groupSchedulingConfig"] = {} if timeout is None else {"timeoutAfterSeconds": timeout}
    if gang.until:
        spec["successPolicy"] = {"operator": "All", "targetReplicatedJobs": [gang.until]}
    if gang.retries or gang.upstream:
        spec["failurePolicy"] = _make_failure_policy(gang)
    first, roles = 0, []
    for role in gang.parts:
        template = {"spec": _make_job_spec(gang, role, first)}
        roles.append({"name": role.name, "replicas": 1, "template": template})
        first += role.workers
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": _make_metadata(gang, {GANG_ANNOTATION: WHOLE} if len(roles) > 1 else {}),
        "spec": _suspend(gang) | spec | {"replicatedJobs": roles},
    }


def make_job(gang: Gang) -> dict[str, Any]:
    """Return the manifest of the Job of a gang without roles, or of a sweep.

    The Job is deleted a week after its end. It is created suspended if its start is deferred.
    """
    [role] = gang.parts
    own: dict[str, str] = {}
    if gang.elastic is not None:
        world = World(size=gang.workers, epoch=1)
        own = {ELASTIC_ANNOTATION: str(gang.elastic)} | make_world_annotations(world)
    spec = _suspend(gang) | _make_job_spec(gang, role, 0)
    spec["ttlSecondsAfterFinished"] = WEEK_SECONDS
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": _make_metadata(gang, own), "spec": spec}
    if gang.sweep is not None:
        return make_sweep(manifest, gang.sweep)
    spec["template"]["spec"]["subdomain"] = gang.name
    return manifest


def cron_job(gang: Gang) -> dict[str, Any]:
    """Return the manifest of the CronJob of a gang with a schedule.

    A start is delayed while the Job of an earlier start still runs.
    """
    template = make_job(gang)
    metadata = template["metadata"]
    marks = {kind: metadata[kind] for kind in ("labels", "annotations") if kind in metadata}
    pods = template["spec"]["template"]
    pods["metadata"] = pods.get("metadata", {}) | {"labels": {**gang.labels, CRON_JOB_LABEL: gang.name}}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": gang.name, "namespace": gang.namespace} | _make_marks(gang.labels, gang.annotations),
        "spec": {
            "schedule": gang.schedule,
            "concurrencyPolicy": "Forbid",
            "jobTemplate": ({"metadata": marks} if marks else {}) | {"spec": template["spec"]},
        },
    }


def _make_failure_policy(gang: Gang) -> dict[str, Any]:
    """Return the failure policy that restarts the whole JobSet, except after the time limit.

    A restart would reach the time limit again. Interruptions do not count as failures, for which Kubernetes' own
    controllers need an extra rule.
    """
    policy: dict[str, Any] = {"maxRestarts": gang.retries or 0}
    rules = []
    if gang.upstream:
        action = "RestartJobSetAndIgnoreMaxRestarts"
        rules.append({"name": "interrupted", "action": action, "onJobFailureReasons": ["PodFailurePolicy"]})
    if gang.time_limit is not None:
        rules.append({"name": "timeLimit", "action": "FailJobSet", "onJobFailureReasons": ["DeadlineExceeded"]})
    return policy | ({"rules": rules} if rules else {})


def _make_metadata(gang: Gang, own: Mapping[str, str]) -> dict[str, Any]:
    """Return the metadata of a gang's JobSet or Job: name, labels including the queue, and annotations.

    own: the annotations that only this kind of object has.
    """
    queueing = {QUEUE_NAME_LABEL: gang.queue, PRIORITY_CLASS_LABEL: gang.queue_priority}
    labels = {**gang.labels, **{label: value for label, value in queueing.items() if value}}
    return {"name": gang.name, "namespace": gang.namespace} | _make_marks(
        labels, {**gang.annotations, **own, **make_annotations(gang.deferral), **notify.make_annotations(gang.notify)}
    )


def _suspend(gang: Gang) -> dict[str, Any]:
    """Return the field that suspends a deferred job until it may start; empty for any other job."""
    return {"suspend": True} if gang.deferral else {}


def _make_marks(labels: Mapping[str, str], annotations: Mapping[str, str]) -> dict[str, Any]:
    marks = {"labels": dict(labels), "annotations": dict(annotations)}
    return {kind: values for kind, values in marks.items() if values}


def _make_job_spec(gang: Gang, role: Role, first: int) -> dict[str, Any]:
    """Return the spec of the Job of a role.

    first: the rank of the role's first worker.
    """
    born = {RUN_TIME: gang.run_time} if gang.run_time else {}
    if gang.elastic is not None:
        # Kubernetes' own Job controller copies this annotation. Muster's controller sets the current world on each new
        # pod.
        born |= birth_annotations(World(size=gang.workers, epoch=1))
    marked = _make_marks(gang.labels, {**gang.annotations, **born})
    template = {"metadata": marked} if marked else {}
    limited = gang.time_limit is not None and gang.sweep is None
    limit = {"activeDeadlineSeconds": gang.time_limit} if limited else {}
    return (
        limit
        | _make_pod_failure_policy(gang)
        | {
            "completions": role.workers,
            "parallelism": role.workers,
            "completionMode": "Indexed",
            "backoffLimit": _count_allowed_failures(gang),
            "template": template | {"spec": pod_spec(gang, role, first)},
        }
    )


def _make_pod_failure_policy(gang: Gang) -> dict[str, Any]:
    """Return the policy that keeps Kubernetes' own Job controller from counting interruptions.

    Returns {} if Muster's controller runs the Job. In a JobSet, an interruption fails the Job, so that the whole JobSet
    restarts. Any other Job replaces the pod.
    """
    if not gang.upstream:
        return {}
    action = "Ignore" if gang.is_job else "FailJob"
    return {"podFailurePolicy": {"rules": [{"action": action, "onPodConditions": [{"type": DISRUPTION_TARGET}]}]}}


def _count_allowed_failures(gang: Gang) -> int:
    """Return the backoffLimit of a Job: how many of its workers may fail.

    A gang that loses a worker fails or restarts as a whole, so its limit is 0. An elastic gang replaces lost workers:
    as often as the user says, or else until as many have failed as the job had at its start. So a program that fails on
    every worker fails the job. The only worker of a gang with a schedule restarts as often as the user says.
    """
    if gang.schedule:
        return gang.retries or 0
    if gang.elastic is None:
        return 0
    return gang.workers - 1 if gang.retries is None else gang.retries


def make_service(gang: Gang, owner_uid: str = "") -> dict[str, Any]:
    """Return the manifest of the headless Service that makes the workers' host names resolvable.

    owner_uid: the UID of the Job or CronJob that owns the Service; "" for no owner.
    """
    metadata: dict[str, Any] = {"name": gang.name, "namespace": gang.namespace}
    if owner_uid:
        kind = "CronJob" if gang.schedule else "Job"
        owner = {"apiVersion": "batch/v1", "kind": kind, "name": gang.name, "uid": owner_uid}
        metadata["ownerReferences"] = [owner]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "clusterIP": "None",
            "selector": {CRON_JOB_LABEL if gang.schedule else JOB_NAME_LABEL: gang.name},
            "publishNotReadyAddresses": True,
        },
    }
