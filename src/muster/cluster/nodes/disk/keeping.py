"""Keep the logs of deleted pods, and the directories of jobs, until their Job or JobSet is deleted.

A guest (a node in another cluster) keeps neither. Its users could not read them, and a guest may not read Jobs.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from muster.api.batch import JOB, Job
from muster.api.jobset import JOB_SET, JobSet
from muster.cluster.nodes.disk.past import Past
from muster.cluster.nodes.disk.remover import Remover
from muster.cluster.nodes.disk.states import States
from muster.cluster.nodes.disk.storage import PodRecord, Storage
from muster.runtime.control.manager import Manager
from muster.runtime.informer import Informer

log = logging.getLogger(__name__)


class Keeping:
    """The part of a node that keeps the logs of deleted pods and the directories of jobs."""

    def __init__(
        self,
        manager: Manager,
        name: str,
        storage: Storage,
        past: Past,
        remover: Remover,
        states: States | None,
        *,
        guest: bool = False,
    ) -> None:
        self._clock = manager.clock
        self._name = name
        self._storage = storage
        self._past = past
        self._remover = remover
        self._states = states
        self._jobs: Sequence[Informer[Any]] = ()
        if not guest:
            self._jobs = (manager.informer(JOB), manager.informer(JOB_SET, optional=True))
        for informer in self._jobs:
            informer.on_change(self._on_job_changed)

    def forget(self, uid: str) -> None:
        """Remove the files of a deleted pod that has no processes. Keep its logs if its job still exists."""
        record = self._storage.of(uid).read()
        if record is not None and not record.gone:
            self._remover.add(self.let_go(record))

    def let_go(self, record: PodRecord) -> list[Path]:
        """Keep the logs of a deleted pod if its job still exists.

        Return the paths that the caller must remove: all files of the pod; or, if its logs are kept, its volumes and
        older logs that exceed the limits.
        """
        if self._is_job_live(record):
            try:
                return self._past.keep(record, self._clock.now().isoformat())
            except OSError as error:
                log.warning("%s: the logs of pod %s/%s are lost: %s", self._name, record.namespace, record.name, error)
        return self._storage.of(record.uid).remove()

    def keeps_logs(self, record: PodRecord) -> bool:
        """Return whether a pod's logs stay, because the pod was deleted before a restart and its job still exists.

        If so, list the pod among the deleted pods whose logs are kept.
        """
        stays = bool(record.gone) and self._is_job_live(record)
        if stays:
            self._past.restore(record)
        return stays

    def tidy(self) -> None:
        """Remove the directories of jobs that were deleted while no server ran."""
        if self._states is not None:
            jobs = {job.metadata.uid for informer in self._jobs for job in informer.all()}
            self._remover.add(self._states.left_over(jobs))

    def _is_job_live(self, record: PodRecord) -> bool:
        """Return whether the pod's Job or JobSet exists and is not being deleted; False for a pod without one."""
        if not record.job:
            return False
        jobs = (job.metadata for informer in self._jobs for job in informer.all())
        same = (meta for meta in jobs if meta.uid == record.job)
        return any(meta.deletion_timestamp is None and meta.namespace == record.namespace for meta in same)

    def _on_job_changed(self, old: Job | JobSet | None, new: Job | JobSet | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._remover.add(self._past.forget(old.metadata.uid))
            if self._states is not None:
                self._remover.add(self._states.forget(old.metadata.uid))
