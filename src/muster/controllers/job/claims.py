"""Find a Job's pods, by owner reference and selector, and finalizers that no controller will remove.

A pod belongs to the Job whose UID is in the pod's controller reference. A pod without a controller that matches the
selector of an existing Job is adopted; a pod that no longer matches is released. A pod that still has the tracking
finalizer while its Job is deleted or has ended is an *orphan*: the finalizer must be removed, or the pod could never be
deleted.
"""

from collections.abc import Iterator, Sequence

from muster.api.batch import CONTROLLER_UID_LABEL, TRACKING_FINALIZER, Job
from muster.api.core import Pod
from muster.api.meta import controller_of
from muster.api.pods import job_reference
from muster.api.values.selectors import LabelMatcher, SelectorError, label_matcher
from muster.runtime.informer import Informer
from muster.runtime.objects import ignores_status, owner_key

# Indexes of the informers.
BY_CONTROLLER = "job-controller-uid"  # pods, by the namespace and the UID of the Job that controls them
UNCONTROLLED = "job-uncontrolled"  # pods without a controller, by namespace and by the UID in their label
BY_UID = "job-uid"  # Jobs, by their UID
MANUAL = "job-manual-selector"  # Jobs with a selector set by the user, by namespace


@ignores_status
def by_controller(pod: Pod) -> tuple[str, ...]:
    """Return the key of the Job that controls a pod, for the index BY_CONTROLLER; empty for any other pod."""
    owner = job_reference(pod)
    return (owner_key(pod.metadata.namespace, owner.uid),) if owner else ()


@ignores_status
def key_if_uncontrolled(pod: Pod) -> tuple[str, ...]:
    """Return the keys of a pod in the index UNCONTROLLED: its namespace, and the label with its Job's UID.

    A pod with a controller has no keys.
    """
    if controller_of(pod.metadata) is not None:
        return ()
    return _get_namespace(pod), _make_label(pod.metadata.namespace, pod.metadata.labels.get(CONTROLLER_UID_LABEL, ""))


@ignores_status
def by_uid(job: Job) -> tuple[str, ...]:
    """Return the key of a Job in the index BY_UID."""
    return (job.metadata.uid,)


@ignores_status
def key_if_manual(job: Job) -> tuple[str, ...]:
    """Return the namespace of a Job whose selector a user wrote, for the index MANUAL; empty for any other Job."""
    return (job.metadata.namespace,) if job.spec.manual_selector else ()


def make_matcher(job: Job) -> LabelMatcher | None:
    """Return the selector of the Job; None if it has no selector or an invalid one.

    Without a selector, no pod is adopted or released.
    """
    try:
        return label_matcher(job.spec.selector) if job.spec.selector is not None else None
    except SelectorError:
        return None


def find_strangers(job: Job, pods: Sequence[Pod]) -> list[Pod]:
    """Return the pods that the Job controls and that no longer match its selector."""
    selects = make_matcher(job)
    if selects is None or job.metadata.deletion_timestamp is not None:
        return []
    return [pod for pod in pods if not selects.matches(pod.metadata.labels)]


def find_adoptable_pods(job: Job, pods: Informer[Pod]) -> list[Pod]:
    """Return the pods without a controller that the Job may adopt."""
    selects = make_matcher(job)
    if selects is None or job.metadata.deletion_timestamp is not None:
        return []
    meta = job.metadata
    where = meta.namespace if job.spec.manual_selector else _make_label(meta.namespace, meta.uid)
    return [
        pod
        for pod in pods.by(UNCONTROLLED, where)
        if pod.metadata.deletion_timestamp is None and selects.matches(pod.metadata.labels)
    ]


def find_adopters(pod: Pod, jobs: Informer[Job]) -> Iterator[Job]:
    """Yield the Jobs whose selector matches a pod without a controller."""
    labels, namespace = pod.metadata.labels, pod.metadata.namespace
    for job in (*jobs.by(BY_UID, labels.get(CONTROLLER_UID_LABEL, "")), *jobs.by(MANUAL, namespace)):
        selects = make_matcher(job)
        if job.metadata.namespace == namespace and selects is not None and selects.matches(labels):
            yield job


def is_tracked(pod: Pod) -> bool:
    """Return whether the pod has the tracking finalizer."""
    return TRACKING_FINALIZER in pod.metadata.finalizers


def _get_namespace(pod: Pod) -> str:
    return pod.metadata.namespace


def _make_label(namespace: str, uid: str) -> str:
    return f"{namespace}/{uid}"
