"""The control plane of an embedded cluster: a store, an API server on it, and the controllers of a cluster.

All of it on one event loop, in virtual time too. Nodes are not part of it: they come and go, and stand in `embedded`.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from muster.api.config import EMBEDDED, Configuration
from muster.cluster.apiserver.admission import PLUGINS, Admission
from muster.cluster.apiserver.bootstrap import create_first_objects
from muster.cluster.apiserver.builtin import builtin
from muster.cluster.apiserver.headers import header_of
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.cluster.apiserver.managed import managed_plugins
from muster.cluster.apiserver.pipeline import ApiServer
from muster.cluster.apiserver.registry import Registry
from muster.cluster.apiserver.users import ADMIN, AUTHENTICATED, MASTERS, User
from muster.cluster.collector import GarbageCollector
from muster.cluster.lostpods import LostPodCollector
from muster.cluster.namespaces import NamespaceController
from muster.cluster.store import Journal, Store
from muster.controllers.integrations.setup import integrations
from muster.controllers.job import JobController
from muster.controllers.queueing.admission import AdmissionController
from muster.controllers.queueing.cache import QueueingCache
from muster.controllers.queueing.capacity import NodeQuotaController
from muster.controllers.queueing.clusterqueue import ClusterQueueController
from muster.controllers.queueing.cohort import CohortController
from muster.controllers.queueing.fairusage import fair_usage
from muster.controllers.queueing.inuse import flavors_in_use, topologies_in_use
from muster.controllers.queueing.localqueue import LocalQueueController
from muster.controllers.queueing.metrics import QueueingMetrics
from muster.controllers.queueing.sizes import ElasticQuota
from muster.controllers.queueing.visibility import Visibility
from muster.controllers.queueing.workload import WorkloadController
from muster.controllers.scheduler import Scheduler
from muster.controllers.ttl import TtlController
from muster.controllers.world import WorldController
from muster.runtime.client import Client
from muster.runtime.clock import Clock
from muster.runtime.ids import Ids, Random
from muster.runtime.manager import Manager
from muster.runtime.recorder import EventSink


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is given to everything: time, chance and identity."""

    clock: Clock
    ids: Ids
    random: Random


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """A running store and server, and a manager that is still to run. `failed` is set if the disk fails for good."""

    surroundings: Surroundings
    configuration: Configuration
    store: Store
    server: ApiServer
    manager: Manager
    events: EventSink
    failed: asyncio.Future[None]

    def client(self, user: User = ADMIN, manager: str = "muster") -> Client:
        """A client of the server, without a socket."""
        return Client(InProcessTransport(self.server, user), field_manager=manager)

    def add_controllers(self) -> None:
        """Everything that a cluster does by itself, except for running pods."""
        kinds = [resource.kind for resource in self.server.registry if resource.kind == resource.stored]
        ready = self.manager.ready
        self.server.endpoints.ready_checks["controllers"] = lambda: None if ready.is_set() else "they are starting"
        self.manager.add(NamespaceController(self.manager, kinds))
        self.manager.add(GarbageCollector(self.manager, kinds))
        self.manager.add(LostPodCollector(self.manager))
        self.manager.add(JobController(self.manager, self.events.recorder("job-controller")))
        self.manager.add(TtlController(self.manager))
        self.manager.add(WorldController(self.manager))
        self.manager.add(NodeQuotaController(self.manager))
        cache = QueueingCache(self.manager, self.configuration)
        metrics = QueueingMetrics(self.manager.registry, cache, self.configuration.metrics)
        recorder = self.events.recorder("kueue-admission")
        usage = fair_usage(self.manager, cache, self.configuration)
        if usage is not None:
            self.manager.add(usage)
        elastic = ElasticQuota(self.manager, cache, recorder)
        listeners = (metrics.cycled, elastic.cycled)
        self.manager.add(AdmissionController(self.manager, cache, recorder, cycled=listeners, spare=elastic.instead))
        self.manager.add(elastic)
        self.server.pending = Visibility(cache)
        self.manager.add(ClusterQueueController(self.manager, cache, self.events.recorder("kueue-clusterqueue")))
        self.manager.add(LocalQueueController(self.manager, cache, usage))
        self.manager.add(CohortController(self.manager, cache))
        self.manager.add(flavors_in_use(self.manager))
        self.manager.add(topologies_in_use(self.manager))
        recorder = self.events.recorder("kueue-workload-controller")
        self.manager.add(WorkloadController(self.manager, recorder, self.configuration))
        for part in integrations(self.manager, self.events.recorder("kueue-job-controller"), self.configuration):
            self.manager.add(part)
        self.manager.add(Scheduler(self.manager, self.events.recorder("default-scheduler")))


@asynccontextmanager
async def control_plane(
    journal: Journal, surroundings: Surroundings, configuration: Configuration = EMBEDDED
) -> AsyncIterator[ControlPlane]:
    """A store and a server on a journal, with the objects that every cluster begins with.

    Raises `DataDirectoryError` where the journal does. The caller runs and stops the manager.
    """
    clock, ids, random = surroundings.clock, surroundings.ids, surroundings.random
    failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    async with Store(journal, header_of, on_failure=failed.set_exception) as store:
        admission = Admission(changing=(*PLUGINS, *managed_plugins(configuration)))
        registry = Registry(builtin(configuration.muster.elastic))
        server = ApiServer(store, clock, ids, random, registry=registry, admission=admission)
        system = User("system:muster", frozenset({MASTERS, AUTHENTICATED}))
        client = Client(InProcessTransport(server, system))
        await create_first_objects(client)
        manager = Manager(client, clock, random, registry=server.metrics)
        events = EventSink(client, clock, ids, random)
        manager.add(events)
        try:
            yield ControlPlane(surroundings, configuration, store, server, manager, events, failed)
        finally:
            server.stop()
            failed.cancel()
