"""Refuse settings of a scenario that a simulation would ignore, and queues that can never admit a job."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from muster.api.config import Configuration
from muster.api.core import Node
from muster.api.kueue import ADMISSION_CHECK, CLUSTER_QUEUE, LOCAL_QUEUE, ClusterQueue
from muster.api.kueue.names import MULTI_KUEUE_CONTROLLER
from muster.api.values.manifests import Manifest
from muster.insight.forecasts.forecast import build_quota_tree
from muster.queueing.convert import ConversionSettings, list_flavors
from muster.queueing.model import FlavorSpec, QueueSpec
from muster.queueing.pending.activity import judge_activity
from muster.queueing.workload.checks import of_queue
from muster.runtime.objects import key_of
from muster.simulation.engine.site import Site
from muster.simulation.scenario.reading import Reading
from muster.simulation.scenario.source import ScenarioError


def refuse_checks(manifests: Iterable[Manifest], queues: Iterable[ClusterQueue]) -> None:
    """Raise `ScenarioError` for ClusterQueues with unsupported admission checks; only MultiKueue's is supported."""
    titles, controllers = {}, {}
    for one in manifests:
        name = one.document["metadata"].get("name")
        if one.document["kind"] == CLUSTER_QUEUE.kind:
            titles[name] = one.title_with_line
        if one.document["kind"] == ADMISSION_CHECK.kind:
            controllers[name] = (one.document.get("spec") or {}).get("controllerName")
    for queue in queues:
        for check in of_queue(queue.spec):
            if controllers.get(check) != MULTI_KUEUE_CONTROLLER:
                where = titles.get(queue.metadata.name, f"ClusterQueue {queue.metadata.name}")
                why = "cannot be simulated: leave it out, and count its time as startup of the work"
                raise ScenarioError(f"{where}: AdmissionCheck {check} {why}")


def find_elastic_work(reading: Reading, site: Site) -> str | None:
    """Return the path of the first template of elastic jobs in the scenario; None if there is none."""
    for number, work in enumerate(reading.scenario.spec.work):
        if site.templates[work.name].bounds is not None:
            return f"spec.work[{number}].template.metadata.annotations"
    return None


def refuse_idle_queues(manifests: Iterable[Manifest], site: Site, configuration: Configuration) -> None:
    """Raise `ScenarioError` for queues in the manifests that could never admit a job.

    These are LocalQueues without a ClusterQueue, and ClusterQueues without a flavor, without nodes, or in a circle of
    Cohorts. A stopped queue is allowed, because a change of the scenario may resume it. Queues of a recorded state are
    not checked.
    """
    tree = build_quota_tree(site.cluster_queues, site.cohorts)
    flavors = list_flavors(site.flavors, site.topologies, topology=ConversionSettings.of(configuration).topology)
    behind = {key_of(one): one.spec.cluster_queue for one in site.local_queues}
    nodes = (*site.nodes, *site.later_nodes)
    for one in manifests:
        meta, kind = one.document["metadata"], one.document["kind"]
        if kind == LOCAL_QUEUE.kind:
            queue = behind[f"{meta.get('namespace') or 'default'}/{meta['name']}"]
            if queue not in tree.queues:
                why = f"no manifest defines the ClusterQueue {queue}"
                raise ScenarioError(f"{one.title_with_line}: spec.clusterQueue: {why}")
        elif kind == CLUSTER_QUEUE.kind and (node := tree.queues.get(meta["name"])) is not None:
            spec = replace(node.policy, stop="None", checks={})
            is_in_circle = tree.is_in_circle(node)
            state = judge_activity(spec, flavors, {}, in_circle=is_in_circle)
            if not state.active:
                field = "spec.cohortName" if is_in_circle else "spec.resourceGroups"
                raise ScenarioError(f"{one.title_with_line}: {field}: {state.message.rstrip('.')}")
            if nodes and spec.name in behind.values() and (names := _find_flavors_without_nodes(spec, flavors, nodes)):
                why = f"no node has the labels of ResourceFlavor {' or '.join(names)}"
                raise ScenarioError(f"{one.title_with_line}: spec.resourceGroups: {why}")


def _find_flavors_without_nodes(
    spec: QueueSpec, flavors: Mapping[str, FlavorSpec], nodes: Sequence[Node]
) -> Sequence[str]:
    """Return the flavors of the first resource group without any node; () if every group has nodes."""
    for group in spec.groups:
        wanted = [flavors[name].labels.items() for name in group.flavors]
        if not any(labels <= node.metadata.labels.items() for labels in wanted for node in nodes):
            return group.flavors
    return ()
