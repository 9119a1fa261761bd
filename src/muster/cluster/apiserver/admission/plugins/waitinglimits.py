"""Refuse a job that enters a ClusterQueue where its user already has as many waiting jobs or GPUs as allowed.

The check reads all jobs in the store, but only if the ClusterQueue has such a limit. Uncommitted writes count, so two
requests cannot both take the last place.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from muster.api.kueue.names import QUEUE_NAME_LABEL
from muster.api.managed.waiting import InLine, measure_job, refuse_in_line
from muster.api.ours.submitter import SUBMITTER_ANNOTATION
from muster.api.ours.teams import read_limits
from muster.api.ours.users import short_user
from muster.api.values.quantity import QuantityError
from muster.cluster.apiserver.admission.chain import WriteAttempt
from muster.cluster.apiserver.admission.plugins.storedqueues import find_cluster_queue
from muster.cluster.apiserver.decode import Document
from muster.cluster.store import Store
from muster.controllers.integrations.admission import read_or_none
from muster.controllers.integrations.framework import Integration, UnreadableJobError
from muster.runtime.objects import meta_of


class WaitingLimits:
    """The plugin that limits how many jobs and GPUs of one user may wait in a ClusterQueue.

    Pods that queue by themselves are not limited.
    """

    def __init__(self, integrations: Iterable[Integration[Any]]) -> None:
        self._integrations = {one.kind.resource: one for one in integrations}

    def __call__(self, attempt: WriteAttempt, store: Store) -> None:
        """Raise `ApiError` (403) if the job enters a ClusterQueue, and its user would then have too many waiting there.

        The limits are those of the ClusterQueue, for jobs and for GPUs.
        """
        integration = self._integrations.get(attempt.resource.key)
        if integration is None or attempt.operation not in ("CREATE", "UPDATE") or attempt.subresource:
            return
        if attempt.old is not None and _read_queue_label(attempt.old) == _read_queue_label(attempt.document):
            return  # most updates are of the status, and need no look at the queues
        job = read_or_none(attempt.document, integration.kind)
        if job is None or not integration.is_suspended(job):
            return
        meta = meta_of(job)
        submitter = meta.annotations.get(SUBMITTER_ANNOTATION, "")
        queue = find_cluster_queue(store, attempt.namespace, _read_queue_label(attempt.document))
        if queue is None or not submitter:
            return
        limits = read_limits(queue.metadata.annotations)
        if limits.waiting_jobs is None and limits.waiting_gpus is None:
            return
        name = queue.metadata.name
        earlier = find_cluster_queue(store, attempt.namespace, _read_queue_label(attempt.old)) if attempt.old else None
        if earlier is not None and earlier.metadata.name == name:
            return  # another LocalQueue of the same ClusterQueue
        waiting = sum(self._find_waiting(store, submitter, name), InLine())
        if why := refuse_in_line(short_user(submitter), name, limits, waiting, _measure_waiting_job(integration, job)):
            raise attempt.make_refusal(why)

    def _find_waiting(self, store: Store, submitter: str, queue: str) -> Iterator[InLine]:
        """Yield the measure of each of a user's jobs that wait in a ClusterQueue."""
        mark = submitter.encode()
        for integration in self._integrations.values():
            for entry in store.latest_list(integration.kind.resource).entries:
                if entry.header.deleting or mark not in entry.body:
                    continue  # decoding the jobs of all others would take most of the time
                job = integration.kind.decode(entry.body)
                meta = meta_of(job)
                if meta.annotations.get(SUBMITTER_ANNOTATION) != submitter or not integration.is_suspended(job):
                    continue
                target = find_cluster_queue(store, entry.key.namespace, meta.labels.get(QUEUE_NAME_LABEL, ""))
                if integration.end(job) is None and target is not None and target.metadata.name == queue:
                    yield _measure_waiting_job(integration, job)


def _read_queue_label(document: Document) -> str:
    """Return the LocalQueue that a job names; "" if it names none."""
    return str(((document.get("metadata") or {}).get("labels") or {}).get(QUEUE_NAME_LABEL) or "")


def _measure_waiting_job(integration: Integration[Any], job: Any) -> InLine:
    """Return how many jobs and GPUs a waiting job counts for.

    A job whose pods cannot be decoded never starts; it counts as one job without GPUs.
    """
    try:
        return measure_job(integration.podsets(job))
    except (UnreadableJobError, QuantityError):
        return InLine(1)
