"""Sees to it that logs of pods that are gone, and what a job keeps for itself, stay for as long as their Job or JobSet
does, and go with it.

A guest in a cluster of others keeps none: no user there could ask for them, and it does not see Jobs.
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
from muster.runtime.informer import Informer
from muster.runtime.manager import Manager

log = logging.getLogger(__name__)


class Keeping:
    """Of one node."""

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
            informer.on_change(self._job_changed)

    def forget(self, uid: str) -> None:
        """The pod is gone, and nothing of it runs."""
        record = self._storage.of(uid).read()
        if record is not None and not record.gone:
            self._remover.add(self.let_go(record))

    def let_go(self, record: PodRecord) -> list[Path]:
        """A pod is gone: what is to be removed of it, or instead of it."""
        if self._job_stays(record):
            try:
                return self._past.keep(record, self._clock.now().isoformat())
            except OSError as error:
                log.warning("%s: the logs of pod %s/%s are lost: %s", self._name, record.namespace, record.name, error)
        return self._storage.of(record.uid).remove()

    def recalls(self, record: PodRecord) -> bool:
        """Whether only the logs of the pod are left, from before a restart, and they are to stay."""
        stays = bool(record.gone) and self._job_stays(record)
        if stays:
            self._past.restore(record)
        return stays

    def tidy(self) -> None:
        """What jobs have kept that went while no server was here."""
        if self._states is not None:
            jobs = {job.metadata.uid for informer in self._jobs for job in informer.all()}
            self._remover.add(self._states.left_over(jobs))

    def _job_stays(self, record: PodRecord) -> bool:
        """Whether the pod is of a Job, or of a JobSet, that is there, and is not about to go."""
        if not record.job:
            return False
        jobs = (job.metadata for informer in self._jobs for job in informer.all())
        found = (meta for meta in jobs if meta.uid == record.job)
        return any(meta.deletion_timestamp is None and meta.namespace == record.namespace for meta in found)

    def _job_changed(self, old: Job | JobSet | None, new: Job | JobSet | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._remover.add(self._past.forget(old.metadata.uid))
            if self._states is not None:
                self._remover.add(self._states.forget(old.metadata.uid))
