"""JobSets with a group, their Jobs and pods, as short as a table wants them."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from muster.api.batch import Job
from muster.api.core import Pod
from muster.api.jobset import JobSet

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MAIN = {"name": "main", "image": "python"}


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def role(name: str = "workers", replicas: int = 2, *, pods: int = 1, **more: Any) -> dict[str, Any]:
    """A replicated job whose Jobs have so many pods. more: of the Jobs' spec; `pod`: of the pods'."""
    pod = {"containers": [MAIN], **more.pop("pod", {})}
    spec = {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "template": {"spec": pod}} | more
    return {"name": name, "replicas": replicas, "template": {"spec": {k: v for k, v in spec.items() if v is not None}}}


def jobset(
    *roles: Mapping[str, Any],
    timeout: int | None = 60,
    targets: tuple[str, ...] = (),
    status: Mapping[str, Any] | None = None,
    conditions: list[dict[str, str]] | None = None,
    **spec: Any,
) -> JobSet:
    """A JobSet `js` of these roles. status: `status.groupScheduling`."""
    config = {"targetReplicatedJobs": targets} | ({} if timeout is None else {"timeoutAfterSeconds": timeout})
    document = {
        "metadata": {"name": "js", "namespace": "ns", "uid": "js-uid"},
        "spec": {"replicatedJobs": list(roles) or [role()], "groupSchedulingConfig": config, **spec},
        "status": {"conditions": conditions or [], "groupScheduling": status},
    }
    return msgspec.convert(document, JobSet)


def job(
    name: str, *conditions: str, epoch: int = 1, succeeded: int = 0, completed: str | None = None, failed: str = ""
) -> Job:
    """A child Job; `js-workers-0` is of the role workers."""
    labels = {"jobset.sigs.k8s.io/replicatedjob-name": name.split("-")[1]}
    annotations = {"jobset.sigs.k8s.io/group-scheduling-epoch": str(epoch)}
    document = {
        "metadata": {"name": name, "namespace": "ns", "uid": f"{name}-uid", "labels": labels},
        "spec": {"template": {"metadata": {"annotations": annotations}}},
        "status": {
            "succeeded": succeeded,
            "completedIndexes": (f"0-{succeeded - 1}" if succeeded else "") if completed is None else completed,
            "failedIndexes": failed or None,
            "conditions": [{"type": type, "status": "True"} for type in conditions],
        },
    }
    return msgspec.convert(document, Job)


RUNNING: dict[str, Any] = {"running": {}}


def pod(
    name: str = "js-workers-0",
    index: str | None = "0",
    barrier: Mapping[str, Any] | None = RUNNING,
    *,
    epoch: str | None = "1",
    phase: str = "Pending",
    deleting: bool = False,
    stopped: bool = False,
    uid: str = "pod-uid",
    owner: str = "Job",
) -> Pod:
    """A pod of a child Job. barrier: the state of its; None if there is none of it. stopped: with its cluster."""
    annotations = {
        "batch.kubernetes.io/job-completion-index": index,
        "jobset.sigs.k8s.io/group-scheduling-epoch": epoch,
    }
    statuses = [{"name": "group-scheduling-init", "state": barrier}] if barrier is not None else []
    document = {
        "metadata": {
            "name": f"{name}-{index}-abcde",
            "namespace": "ns",
            "uid": uid,
            "labels": {"jobset.sigs.k8s.io/jobset-uid": "js-uid"},
            "annotations": {key: value for key, value in annotations.items() if value is not None},
            "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": owner, "name": name, "uid": f"{name}-uid", "controller": True}
            ],
            "deletionTimestamp": "2026-01-02T03:04:05Z" if deleting else None,
        },
        "status": {
            "phase": phase,
            "initContainerStatuses": statuses,
            "conditions": [{"type": "muster.dev/ClusterStopped", "status": "True"}] if stopped else [],
        },
    }
    return msgspec.convert(document, Pod)
