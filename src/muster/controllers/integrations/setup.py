"""The kinds of jobs that queue, by the Configuration: one list for every host of the engine."""

from typing import Any

from muster.api.config import Configuration
from muster.controllers.integrations.framework import Integration
from muster.controllers.integrations.gates import QuotaGates
from muster.controllers.integrations.job import JobIntegration
from muster.controllers.integrations.owners import Owners
from muster.controllers.integrations.pods.reconciler import PodReconciler
from muster.controllers.integrations.reconciler import JobReconciler
from muster.runtime.events.recorder import Recorder
from muster.runtime.manager import Manager, Runnable

# Those that come with the engine.
INTEGRATIONS: tuple[Integration[Any], ...] = (JobIntegration(),)


def integrations(manager: Manager, recorder: Recorder, configuration: Configuration) -> list[Runnable]:
    """A controller for each kind that `integrations.frameworks` names, and what elastic Jobs and plain pods need."""
    chosen = [one for one in INTEGRATIONS if one.name in configuration.integrations.frameworks]
    kinds = [one.kind for one in chosen]
    owners = Owners(manager, kinds, without_queue=configuration.manage_jobs_without_queue_name)
    parts: list[Runnable] = [JobReconciler(manager, one, owners, recorder, configuration) for one in chosen]
    if kinds:
        parts.append(QuotaGates(manager, owners))
    if "pod" in configuration.integrations.frameworks:
        parts.append(PodReconciler(manager, recorder, configuration))
    return parts
