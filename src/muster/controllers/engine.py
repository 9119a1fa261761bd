"""The engine: quota, Jobs, placement and worker clusters under one manager, whatever server that manager talks to.

The embedded cluster, an operator in a cluster and a simulation differ in their server and their clock, not in this.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from muster.api.config import Configuration
from muster.api.values.durations import SECOND
from muster.controllers.elastic.quota import ElasticQuota
from muster.controllers.elastic.world import WorldController
from muster.controllers.integrations.framework import Integration
from muster.controllers.integrations.setup import reconcilers
from muster.controllers.integrations.table import INTEGRATIONS, gang_sources, pod_groups
from muster.controllers.job import JobController
from muster.controllers.job.ttl import TtlController
from muster.controllers.jobset import JobSetController
from muster.controllers.podgroup.budget import PodGroupBudgetController
from muster.controllers.podgroup.policy import PodGroupPolicyController
from muster.controllers.podgroup.status import PodGroupStatusController
from muster.controllers.queueing.admission import AdmissionController
from muster.controllers.queueing.cache import QueueingCache
from muster.controllers.queueing.capacity import NodeQuotaController
from muster.controllers.queueing.fairusage import fair_usage
from muster.controllers.queueing.inuse import checks_in_use, flavors_in_use, topologies_in_use
from muster.controllers.queueing.metrics import QueueingMetrics
from muster.controllers.queueing.priorityclass import PriorityClassController
from muster.controllers.queueing.replacement import NodeReplacement
from muster.controllers.queueing.status.clusterqueue import ClusterQueueController
from muster.controllers.queueing.status.cohort import CohortController
from muster.controllers.queueing.status.localqueue import LocalQueueController
from muster.controllers.queueing.status.visibility import Visibility
from muster.controllers.queueing.ungater import TopologyUngater
from muster.controllers.queueing.workload import WorkloadController
from muster.controllers.scheduler.scheduler import Scheduler
from muster.multicluster.checks import CheckController
from muster.multicluster.clusters import ClusterController, Fleet
from muster.multicluster.garbage import GarbageCollector
from muster.multicluster.mirrors.table import mirrors
from muster.multicluster.quotacontroller import ManagerQuotaController
from muster.multicluster.reach import Reach, Surroundings, over_https, paced
from muster.multicluster.workloads import DispatchController
from muster.runtime.events.recorder import EventSink
from muster.runtime.manager import Manager


class Part(StrEnum):
    """What may run in one process or in several, or be left to a controller of the cluster's own."""

    JOBS = "jobs"  # Jobs make pods, elastic ones too, and go when their time is over
    JOBSETS = "jobsets"  # JobSets make Jobs
    QUEUEING = "queueing"  # workloads get quota, and what they are made of starts and stops with it
    SCHEDULING = "scheduling"  # pods get nodes
    MULTICLUSTER = "multicluster"  # workloads go to worker clusters


@dataclass(frozen=True, slots=True)
class Engine:
    """What the parts let their host read."""

    visibility: Visibility | None  # None: no queues are kept here
    fleet: Fleet | None  # None: no worker clusters are followed here


def assemble(
    manager: Manager,
    events: EventSink,
    configuration: Configuration,
    parts: Iterable[Part] = tuple(Part),
    integrations: Sequence[Integration[Any]] = INTEGRATIONS,
    reach: Reach = over_https,
) -> Engine:
    """Put the parts under the manager, before it runs.

    integrations: the kinds of jobs that may queue. reach: how worker clusters are reached.
    """
    chosen, visibility, fleet = frozenset(parts), None, None
    if Part.JOBS in chosen:
        manager.add(JobController(manager, events.recorder("job-controller")))
        manager.add(TtlController(manager))
        manager.add(WorldController(manager))
    if Part.JOBSETS in chosen:
        start, upstream = configuration.muster.group_scheduling, configuration.muster.job_set_namespace
        manager.add(JobSetController(manager, events.recorder("jobset"), start=start, upstream=upstream))
    if Part.QUEUEING in chosen:
        visibility = _add_queueing(manager, events, configuration, integrations)
    if Part.SCHEDULING in chosen:
        _add_scheduling(manager, events, configuration, integrations)
    if Part.MULTICLUSTER in chosen and configuration.features.enabled("MultiKueue"):
        fleet = _add_multicluster(manager, events, configuration, reach)
    return Engine(visibility, fleet)


def _add_multicluster(manager: Manager, events: EventSink, configuration: Configuration, reach: Reach) -> Fleet:
    settings = configuration.multi_kueue
    kinds = mirrors(configuration)
    reach = paced(reach, configuration.client_connection)
    around = Surroundings(settings.origin, tuple(each.kind for each in kinds), manager.clock, manager.random, reach)
    clusters = ClusterController(manager, events.recorder("multikueue"), configuration, around)
    manager.add(clusters)
    manager.add(CheckController(manager))
    if configuration.features.enabled("MultiKueueManagerQuotaAutomation"):
        manager.add(ManagerQuotaController(manager, clusters.fleet))
    if settings.gc_interval:
        manager.add(GarbageCollector(manager, clusters.fleet, settings.gc_interval / SECOND))
    manager.add(DispatchController(manager, clusters.fleet, kinds, events.recorder("multikueue"), settings))
    return clusters.fleet


def _add_scheduling(
    manager: Manager, events: EventSink, configuration: Configuration, integrations: Sequence[Integration[Any]]
) -> None:
    settings, groups = configuration.muster.scheduling, pod_groups(configuration)
    names = frozenset(settings.scheduler_names)
    recorder = events.recorder("podgroup-controller")
    manager.add(PodGroupStatusController(manager, recorder, groups, names))
    manager.add(PodGroupPolicyController(manager, recorder, groups))
    manager.add(PodGroupBudgetController(manager, recorder, groups))
    sources = gang_sources(integrations, configuration)
    manager.add(Scheduler(manager, events.recorder("default-scheduler"), sources, names=names, settings=settings))


def _add_queueing(
    manager: Manager, events: EventSink, configuration: Configuration, integrations: Sequence[Integration[Any]]
) -> Visibility:
    manager.add(NodeQuotaController(manager))
    cache = QueueingCache(manager, configuration)
    usage = fair_usage(manager, cache, configuration)
    metrics = QueueingMetrics(manager.registry, cache, configuration.metrics, by_usage=usage is not None)
    if usage is not None:
        manager.add(usage)
    recorder = events.recorder("kueue-admission")
    elastic = ElasticQuota(manager, cache, recorder)
    listeners = (metrics.cycled, elastic.cycled)
    manager.add(AdmissionController(manager, cache, recorder, cycled=listeners, spare=elastic.instead))
    manager.add(elastic)
    manager.add(ClusterQueueController(manager, cache, events.recorder("kueue-clusterqueue")))
    manager.add(LocalQueueController(manager, cache, usage))
    manager.add(CohortController(manager, cache))
    for in_use in (flavors_in_use, checks_in_use, topologies_in_use):
        manager.add(in_use(manager))
    manager.add(PriorityClassController(manager))
    manager.add(TopologyUngater(manager, cache))
    manager.add(NodeReplacement(manager, cache, recorder))
    manager.add(WorkloadController(manager, events.recorder("kueue-workload-controller"), configuration))
    for part in reconcilers(manager, events.recorder("kueue-job-controller"), configuration, integrations):
        manager.add(part)
    return Visibility(cache)
