"""Assemble the engine: quota, Jobs, placement and worker clusters under one manager, for any server.

The embedded cluster, an operator in a cluster and a simulation use different servers and clocks, but the same engine.
"""

import logging
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct

from muster.api.config import Configuration
from muster.api.values.durations import SECOND
from muster.controllers.decisionlog import DecisionLog
from muster.controllers.deferral import DEFERRABLE, DeferralController
from muster.controllers.elastic.decisions import ResizeRecorder
from muster.controllers.elastic.quota import ElasticQuota
from muster.controllers.elastic.world import WorldController
from muster.controllers.integrations.framework import Integration
from muster.controllers.integrations.rules import follow_readiness
from muster.controllers.integrations.setup import make_reconcilers
from muster.controllers.integrations.surroundings import settings_of
from muster.controllers.integrations.table import INTEGRATIONS, gang_sources, list_enabled, pod_groups
from muster.controllers.job import JobController
from muster.controllers.job.ttl import TtlController
from muster.controllers.jobset import JobSetController
from muster.controllers.podgroup.budget import PodGroupBudgetController
from muster.controllers.podgroup.policy import PodGroupPolicyController
from muster.controllers.podgroup.status import PodGroupStatusController
from muster.controllers.provisioning.checks import ProvisioningCheckController
from muster.controllers.provisioning.reconciler import ProvisioningController
from muster.controllers.queueing.admission import AdmissionController
from muster.controllers.queueing.cache import QueueingCache
from muster.controllers.queueing.capacity import NodeQuotaController
from muster.controllers.queueing.decisions import CycleRecorder
from muster.controllers.queueing.devices import DeviceReview
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
from muster.controllers.queueing.variants import VariantController
from muster.controllers.queueing.workload import WorkloadController
from muster.controllers.scheduler.scheduler import Scheduler
from muster.gang.nodes.devices import Matcher, match_nothing
from muster.multicluster.checks import CheckController
from muster.multicluster.garbage import GarbageCollector
from muster.multicluster.links.clusters import ClusterController, Fleet
from muster.multicluster.links.reach import Reach, Surroundings, over_https, pace_reach, ping_seconds
from muster.multicluster.mirrors.table import list_mirrors
from muster.multicluster.quota.quotacontroller import ManagerQuotaController
from muster.multicluster.workloads import DispatchController
from muster.runtime.control.manager import Manager
from muster.runtime.events.recorder import EventSink

log = logging.getLogger(__name__)


class Part(StrEnum):
    """A part of the engine, which may run in its own process or be left to the cluster's own controller."""

    JOBS = "jobs"  # Jobs create pods, elastic ones too, and are deleted by their TTL
    JOBSETS = "jobsets"  # JobSets create Jobs
    QUEUEING = "queueing"  # workloads get quota, and their jobs start and stop with it
    SCHEDULING = "scheduling"  # pods get nodes
    MULTICLUSTER = "multicluster"  # workloads are dispatched to worker clusters


class Engine(Struct, frozen=True):
    """The parts of the engine that their host reads."""

    visibility: Visibility | None  # None if this engine manages no queues
    fleet: Fleet | None  # None if this engine has no worker clusters


def assemble(
    manager: Manager,
    events: EventSink,
    configuration: Configuration,
    parts: Iterable[Part] = tuple(Part),
    integrations: Sequence[Integration[Any]] = INTEGRATIONS,
    reach: Reach = over_https,
    matches: Matcher = match_nothing,
    decisions: DecisionLog | None = None,
) -> Engine:
    """Add the parts to the manager before it runs, and return those that the host reads.

    integrations: the kinds of jobs that may queue.
    reach: opens transports to worker clusters.
    matches: returns whether a device matches an expression of a device class or of a claim.
    decisions: the log of the engine's decisions; by default a new log.
    """
    decisions = DecisionLog() if decisions is None else decisions
    chosen, visibility, fleet = frozenset(parts), None, None
    for warning in configuration.warnings:
        log.warning("%s", warning)
    if Part.JOBS in chosen:
        manager.add(JobController(manager, events.recorder("job-controller")))
        manager.add(TtlController(manager))
        manager.add(WorldController(manager))
    if Part.JOBSETS in chosen:
        start, upstream = configuration.muster.group_scheduling, configuration.muster.job_set_namespace
        manager.add(
            JobSetController(manager, events.recorder("jobset"), start=start, upstream=upstream, decisions=decisions)
        )
    if Part.QUEUEING in chosen:
        visibility = _add_queueing(manager, events, configuration, integrations, matches, decisions)
    if Part.SCHEDULING in chosen:
        runs_jobs = Part.JOBS in chosen
        _add_scheduling(manager, events, configuration, integrations, matches, decisions, runs_jobs=runs_jobs)
    if Part.MULTICLUSTER in chosen and configuration.features.is_enabled("MultiKueue"):
        fleet = _add_multicluster(manager, events, configuration, reach, decisions)
    return Engine(visibility, fleet)


def _add_multicluster(
    manager: Manager, events: EventSink, configuration: Configuration, reach: Reach, decisions: DecisionLog
) -> Fleet:
    settings = configuration.multi_kueue
    kinds = list_mirrors(configuration)
    reach = pace_reach(reach, configuration.client_connection)
    pings = ping_seconds(settings.worker_lost_timeout / SECOND)
    around = Surroundings(
        settings.origin, tuple(each.kind for each in kinds), manager.clock, manager.random, reach, pings
    )
    clusters = ClusterController(manager, events.recorder("multikueue"), configuration, around)
    manager.add(clusters)
    manager.add(CheckController(manager))
    if configuration.features.is_enabled("MultiKueueManagerQuotaAutomation"):
        manager.add(ManagerQuotaController(manager, clusters.fleet))
    if settings.gc_interval:
        manager.add(GarbageCollector(manager, clusters.fleet, settings.gc_interval / SECOND))
    recorder = events.recorder("multikueue")
    manager.add(DispatchController(manager, clusters.fleet, kinds, recorder, settings, decisions.add))
    return clusters.fleet


def _add_scheduling(
    manager: Manager,
    events: EventSink,
    configuration: Configuration,
    integrations: Sequence[Integration[Any]],
    matches: Matcher,
    decisions: DecisionLog,
    *,
    runs_jobs: bool,
) -> None:
    settings, groups = configuration.muster.scheduling, pod_groups(configuration)
    names = frozenset(settings.scheduler_names)
    recorder = events.recorder("podgroup-controller")
    manager.add(PodGroupStatusController(manager, recorder, groups, names))
    manager.add(PodGroupPolicyController(manager, recorder, groups))
    manager.add(PodGroupBudgetController(manager, recorder, groups))
    sources = gang_sources(integrations, configuration)
    wait = configuration.wait_for_pods_ready
    queues_recover = wait is not None and bool(wait.recovery_timeout)
    scheduler = Scheduler(
        manager, events.recorder("default-scheduler"), sources, names=names, settings=settings, matches=matches,
        runs_jobs=runs_jobs, queues_recover=queues_recover, decisions=decisions,
    )  # fmt: skip
    manager.add(scheduler)


def _add_queueing(
    manager: Manager,
    events: EventSink,
    configuration: Configuration,
    integrations: Sequence[Integration[Any]],
    matches: Matcher,
    decisions: DecisionLog,
) -> Visibility:
    """Add the controllers of quota, and of the jobs that queue, to a manager; return the reader of pending workloads.

    integrations: the kinds of jobs that queue.
    """
    manager.add(NodeQuotaController(manager))
    cache = QueueingCache(manager, configuration, matches)
    manager.add(DeviceReview(manager, cache.devices))
    usage = fair_usage(manager, cache, configuration)
    metrics = QueueingMetrics(manager.registry, cache, configuration, by_usage=usage is not None)
    if usage is not None:
        manager.add(usage)
    recorder = events.recorder("kueue-admission")
    elastic = ElasticQuota(manager, cache, recorder, ResizeRecorder(decisions, manager.clock).record)
    records = CycleRecorder(cache, decisions, manager.clock)
    listeners = (metrics.on_cycle, elastic.on_cycle, records.on_cycle)
    admission = AdmissionController(
        manager,
        cache,
        recorder,
        on_cycle=listeners,
        spare=elastic.shrinks_instead,
        on_wait=records.record_wait,
        watched=follow_readiness(manager, configuration),
    )
    manager.add(admission)
    manager.add(elastic)
    manager.add(ClusterQueueController(manager, cache, events.recorder("kueue-clusterqueue")))
    manager.add(LocalQueueController(manager, cache, usage))
    manager.add(CohortController(manager, cache))
    for in_use in (flavors_in_use, checks_in_use, topologies_in_use):
        manager.add(in_use(manager))
    manager.add(PriorityClassController(manager))
    manager.add(TopologyUngater(manager, cache, configuration))
    manager.add(NodeReplacement(manager, cache, recorder, configuration.features))
    manager.add(ProvisioningCheckController(manager))
    recorder = events.recorder("kueue-provisioning-request-controller")
    manager.add(ProvisioningController(manager, recorder, configuration))
    if configuration.features.is_enabled("ConcurrentAdmission"):
        manager.add(VariantController(manager, events.recorder("concurrent-admission-controller")))
    recorder = events.recorder("kueue-workload-controller")
    manager.add(WorkloadController(manager, recorder, configuration, decisions))
    queued = [one.kind for one in list_enabled(integrations, configuration)]
    kinds = [kind for kind in DEFERRABLE if kind in queued]
    manager.add(DeferralController(manager, events.recorder("deferral"), kinds, settings=settings_of(configuration)))
    for part in make_reconcilers(manager, events.recorder("kueue-job-controller"), configuration, integrations):
        manager.add(part)
    return Visibility(cache)
