"""Make the controllers of the kinds that queue, by the Configuration, for every host of the engine."""

import logging
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
from muster.controllers.integrations.serving.groups import GROUPS, GroupsReconciler
from muster.controllers.integrations.serving.kinds import select_serving
from muster.controllers.integrations.table import INTEGRATIONS, frameworks_without_effect, list_enabled
from muster.runtime.control.manager import Manager, Runnable
from muster.runtime.events.recorder import Recorder

log = logging.getLogger(__name__)


def make_reconcilers(
    manager: Manager,
    recorder: Recorder,
    configuration: Configuration,
    integrations: Sequence[Integration[Any]] = INTEGRATIONS,
) -> list[Runnable]:
    """Return a controller for each kind that the Configuration names, and those of elastic Jobs and plain pods.

    Log a warning about each framework that has no effect.
    """
    for name, why in frameworks_without_effect(configuration).items():
        log.warning("integrations.frameworks names %s: %s, objects of this kind run without quota", name, why)
    ours = list_enabled(integrations, configuration)
    kinds = [one.kind for one in ours]
    owners = Owners(manager, ours, without_queue=configuration.manage_jobs_without_queue_name)
    parts: list[Runnable] = [JobReconciler(manager, one, owners, recorder, configuration) for one in ours]
    if JOB in kinds:
        parts.append(QuotaGates(manager, owners, configuration))
    if JOB_SET in kinds:
        parts.append(JobSetGates(manager, owners, configuration))
    if "pod" in configuration.integrations.frameworks:
        parts.append(PodReconciler(manager, recorder, configuration))
    serve = select_serving(configuration)
    parts += (GroupsReconciler(manager, one, recorder, configuration) for one in GROUPS if one.serving in serve)
    return parts
