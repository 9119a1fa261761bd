"""Refuse what a scenario asks for and a simulation would ignore."""

from collections.abc import Iterable

from muster.api.kueue import ADMISSION_CHECK, CLUSTER_QUEUE, ClusterQueue
from muster.api.kueue.names import MULTI_KUEUE_CONTROLLER
from muster.api.values.manifests import Manifest
from muster.queueing.workload.checks import of_queue
from muster.simulation.scenario.reading import ScenarioError


def refuse_checks(manifests: Iterable[Manifest], queues: Iterable[ClusterQueue]) -> None:
    """Refuse ClusterQueues with admission checks that no controller answers in a simulation, as all but MultiKueue's.

    Raises:
        ScenarioError: a ClusterQueue has such a check.
    """
    titles, controllers = {}, {}
    for one in manifests:
        name = one.document["metadata"].get("name")
        if one.document["kind"] == CLUSTER_QUEUE.kind:
            titles[name] = one.title
        if one.document["kind"] == ADMISSION_CHECK.kind:
            controllers[name] = (one.document.get("spec") or {}).get("controllerName")
    for queue in queues:
        for check in of_queue(queue.spec):
            if controllers.get(check) != MULTI_KUEUE_CONTROLLER:
                where = titles.get(queue.metadata.name, f"ClusterQueue {queue.metadata.name}")
                why = "cannot be simulated: leave it out, and count its time as startup of the work"
                raise ScenarioError(f"{where}: AdmissionCheck {check} {why}")
