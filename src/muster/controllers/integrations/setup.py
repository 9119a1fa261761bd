"""The controllers of the kinds that queue, by the Configuration: one list for every host of the engine."""

from collections.abc import Sequence
from typing import Any

from muster.api.batch import JOB
from muster.api.config import Configuration
from muster.api.jobset import JOB_SET
from muster.controllers.integrations.framework import Integration
from muster.controllers.integrations.job.gates import QuotaGates
from muster.controllers.integrations.jobset.gates import JobSetGates
from muster.controllers.integrations.owners import Owners
from muster.controllers.integrations.pods.reconciler import PodReconciler
from muster.controllers.integrations.reconciler import JobReconciler
from muster.controllers.integrations.table import INTEGRATIONS, chosen
from muster.runtime.events.recorder import Recorder
from muster.runtime.manager import Manager, Runnable


def reconcilers(
    manager: Manager,
    recorder: Recorder,
    configuration: Configuration,
    integrations: Sequence[Integration[Any]] = INTEGRATIONS,
) -> list[Runnable]:
    """A controller for each kind that the Configuration names, and what elastic Jobs and plain pods need."""
    ours = chosen(integrations, configuration)
    kinds = [one.kind for one in ours]
    owners = Owners(manager, ours, without_queue=configuration.manage_jobs_without_queue_name)
    parts: list[Runnable] = [JobReconciler(manager, one, owners, recorder, configuration) for one in ours]
    if JOB in kinds:
        parts.append(QuotaGates(manager, owners))
    if JOB_SET in kinds:
        parts.append(JobSetGates(manager, owners))
    if "pod" in configuration.integrations.frameworks:
        parts.append(PodReconciler(manager, recorder, configuration))
    return parts
