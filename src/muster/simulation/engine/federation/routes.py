"""Find where the workloads of a manager's ClusterQueues are dispatched, and refuse what cannot be simulated. Pure."""

from collections.abc import Collection, Iterator

from msgspec import structs

from muster.api.config import Configuration
from muster.api.config.types import ALL_AT_ONCE, EARLIEST_START, INCREMENTAL
from muster.api.kueue import ADMISSION_CHECK, CLUSTER_QUEUE, MULTI_KUEUE_CLUSTER, MULTI_KUEUE_CONFIG, AdmissionCheck
from muster.api.kueue.checks import AUTOMATED, AdmissionCheckStatus
from muster.api.kueue.names import ACTIVE, MULTI_KUEUE_CONTROLLER
from muster.api.meta import Condition
from muster.multicluster.links.activity import CHECK_ACTIVE, find_check_activity
from muster.queueing import convert
from muster.queueing.pending.activity import judge_activity
from muster.simulation.engine.federation.manager import Route
from muster.simulation.engine.site import Site
from muster.simulation.scenario.reading import Reading
from muster.simulation.scenario.source import ScenarioError
from muster.simulation.scenario.workers import list_names

_ACTIVE = AdmissionCheckStatus(conditions=(Condition(type=ACTIVE, status="True", reason=ACTIVE),))


def find_routes(
    reading: Reading, site: Site, configuration: Configuration, clusters: Collection[str]
) -> dict[str, Route]:
    """Return the route of each ClusterQueue that dispatches workloads, by name.

    clusters: the names of the scenario's worker clusters.

    Raises `ScenarioError` if a check is not MultiKueue's, an object or cluster is missing, the dispatcher or quota
    management cannot be simulated, or a cluster gets no work.
    """
    for one in site.connections:
        if one.metadata.name not in clusters:
            raise _refuse(reading, MULTI_KUEUE_CLUSTER.kind, one.metadata.name, "spec.clusters has no such cluster")
    checks = {one.metadata.name: structs.replace(one, status=_ACTIVE) for one in site.checks}
    routes = dict(_list_routes(reading, site, clusters, checks))
    if routes and (name := configuration.multi_kueue.dispatcher_name) not in (ALL_AT_ONCE, INCREMENTAL, EARLIEST_START):
        raise ScenarioError(f"{reading.source.file}: multiKueue.dispatcherName {name} cannot be simulated")
    used = {name for route in routes.values() for name in route.clusters}
    for number, cluster in enumerate(reading.scenario.spec.clusters):
        for name in list_names(cluster):
            if name not in used:
                why = f"no ClusterQueue sends workloads to {name}, by an AdmissionCheck and a {MULTI_KUEUE_CONFIG.kind}"
                raise reading.source.error(f"spec.clusters[{number}].name", why)
    return routes


def _list_routes(
    reading: Reading, site: Site, clusters: Collection[str], checks: dict[str, AdmissionCheck]
) -> Iterator[tuple[str, Route]]:
    """Yield each ClusterQueue that dispatches, with its route.

    Raises `ScenarioError` for a check that cannot be simulated.
    """
    configs = {one.metadata.name: one for one in site.configs}
    for queue in site.cluster_queues:
        name = queue.metadata.name
        spec = convert.queue_spec(queue)
        if not spec.checks:
            continue
        found = judge_activity(structs.replace(spec, stop="None", groups=()), {}, checks)
        if not found.active:
            raise _refuse(reading, CLUSTER_QUEUE.kind, name, found.message)
        for check_name in spec.checks:
            check = checks[check_name].spec
            if check.controller_name != MULTI_KUEUE_CONTROLLER:
                why = f"the checks of {check.controller_name} cannot be simulated"
                raise _refuse(reading, ADMISSION_CHECK.kind, check_name, why)
            standing = find_check_activity(check.parameters, configs, dict.fromkeys(clusters, True))
            if standing != CHECK_ACTIVE:
                raise _refuse(reading, ADMISSION_CHECK.kind, check_name, f"{standing.message} (of spec.clusters)")
            assert check.parameters is not None, "else the check was not active"
            config = configs[check.parameters.name]
            if config.spec.quota_management == AUTOMATED:
                why = "quotaManagement Automated cannot be simulated: give the manager's queues their quota"
                raise _refuse(reading, MULTI_KUEUE_CONFIG.kind, config.metadata.name, why)
            yield name, Route(check_name, config.spec.clusters)


def _refuse(reading: Reading, kind: str, name: str, why: str) -> ScenarioError:
    """Return an error about an object, with the file of its manifest, or with the scenario's file if it has none."""
    for one in reading.manifests:
        if one.document["kind"] == kind and one.document["metadata"].get("name") == name:
            return ScenarioError(f"{one.title_with_line}: {why}")
    return ScenarioError(f"{reading.source.file}: {kind} {name}: {why}")
