"""The control plane of an embedded cluster: a store, an API server on it, and the controllers of a cluster.

All of it on one event loop, in virtual time too. Nodes are not part of it: they come and go, and stand in `embedded`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from muster.api.config import EMBEDDED, Configuration
from muster.cluster.aggregation import RoleAggregator
from muster.cluster.apiserver.access.control import AccessControl, Trust
from muster.cluster.apiserver.admission import PLUGINS, Admission
from muster.cluster.apiserver.bootstrap import create_first_objects
from muster.cluster.apiserver.builtin import builtin
from muster.cluster.apiserver.builtin_apiextensions import NameSettlement
from muster.cluster.apiserver.custom.serving import CustomResources
from muster.cluster.apiserver.headers import header_of
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.cluster.apiserver.managed import managed_plugins, queue_of_nobody
from muster.cluster.apiserver.pipeline import ApiServer
from muster.cluster.apiserver.plugins.limitranger import require_limits_kept, set_default_resources
from muster.cluster.apiserver.plugins.ownerpermission import OwnerPermission
from muster.cluster.apiserver.plugins.quotaledger import QuotaLedger
from muster.cluster.apiserver.plugins.requester import note_requester
from muster.cluster.apiserver.plugins.resourcequota import QuotaAdmission
from muster.cluster.apiserver.policies import PolicyJudge
from muster.cluster.apiserver.registry import Registry
from muster.cluster.apiserver.users import ADMIN, AUTHENTICATED, MASTERS, User
from muster.cluster.apiserver.webhooks import HttpCalls, WebhookDispatcher
from muster.cluster.apiserver.webhooks.services import address_of
from muster.cluster.apiservices import ApiServices
from muster.cluster.collector import GarbageCollector
from muster.cluster.customresources import CustomResourceController
from muster.cluster.lostpods import LostPodCollector
from muster.cluster.namespaces import NamespaceController
from muster.cluster.quotas import QuotaController
from muster.cluster.serviceaccounts import CertificatePublisher, TokenSecrets
from muster.cluster.store import Journal, Store
from muster.controllers.integrations.setup import integrations
from muster.controllers.job import JobController
from muster.controllers.queueing.admission import AdmissionController
from muster.controllers.queueing.cache import QueueingCache
from muster.controllers.queueing.capacity import NodeQuotaController
from muster.controllers.queueing.clusterqueue import ClusterQueueController
from muster.controllers.queueing.cohort import CohortController
from muster.controllers.queueing.fairusage import fair_usage
from muster.controllers.queueing.inuse import checks_in_use, flavors_in_use, topologies_in_use
from muster.controllers.queueing.localqueue import LocalQueueController
from muster.controllers.queueing.metrics import QueueingMetrics
from muster.controllers.queueing.priorityclass import PriorityClassController
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
from muster.runtime.yielding import YieldingTransport


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
    access: AccessControl
    ledger: QuotaLedger
    manager: Manager
    events: EventSink
    failed: asyncio.Future[None]

    def client(self, user: User = ADMIN, manager: str = "muster") -> Client:
        """A client of the server, without a socket."""
        return Client(InProcessTransport(self.server, user), field_manager=manager)

    def add_controllers(self) -> None:
        """Everything that a cluster does by itself, except for running pods."""
        # Custom resources come and go: who deals with all kinds follows their definitions.
        served = [each for each in self.server.registry if "watch" in each.verbs]  # reviews are not kept
        kinds = [each.kind for each in served if each.kind == each.stored and each.storage is None]
        ready = self.manager.ready
        self.server.endpoints.ready_checks["controllers"] = lambda: None if ready.is_set() else "they are starting"
        self.manager.add(NamespaceController(self.manager, kinds))
        self.manager.add(GarbageCollector(self.manager, kinds))
        self.manager.add(CustomResourceController(self.manager, kinds))
        self.manager.add(LostPodCollector(self.manager))
        self.manager.add(RoleAggregator(self.manager))
        trust = self.access.trust
        if trust.authority_pem:
            self.manager.add(ApiServices(self.manager, self.server.registry))
            self.manager.add(CertificatePublisher(self.manager, trust.authority_pem))
            self.manager.add(TokenSecrets(self.manager, trust.key, trust.authority_pem))
        self.manager.add(QuotaController(self.manager, self.store, self.ledger))
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
        self.manager.add(checks_in_use(self.manager))
        self.manager.add(topologies_in_use(self.manager))
        self.manager.add(PriorityClassController(self.manager))
        recorder = self.events.recorder("kueue-workload-controller")
        self.manager.add(WorkloadController(self.manager, recorder, self.configuration))
        for part in integrations(self.manager, self.events.recorder("kueue-job-controller"), self.configuration):
            self.manager.add(part)
        self.manager.add(Scheduler(self.manager, self.events.recorder("default-scheduler")))


@asynccontextmanager
async def control_plane(
    journal: Journal,
    surroundings: Surroundings,
    configuration: Configuration = EMBEDDED,
    trust: Callable[[], Trust] = Trust,
) -> AsyncIterator[ControlPlane]:
    """A store and a server on a journal, with the objects that every cluster begins with.

    `trust` is asked once the journal is ours; by default nobody reaches the server from outside, and its tokens end
    with it.
    Raises `DataDirectoryError` where the journal does. The caller runs and stops the manager.
    """
    clock, ids, random = surroundings.clock, surroundings.ids, surroundings.random
    failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    async with Store(journal, header_of, on_failure=failed.set_exception) as store:
        access = AccessControl(store, clock, ids, trust())
        registry = Registry(builtin(configuration.muster.elastic, configuration.muster.apis))
        ledger, calls = QuotaLedger(store), HttpCalls(partial(address_of, store))
        admission = Admission(
            changing=(
                *PLUGINS,
                set_default_resources,
                note_requester,
                *access.changing,
                *managed_plugins(configuration),
            ),
            judging=(require_limits_kept, OwnerPermission(registry, access.rbac.require), *access.judging),
            last=(QuotaAdmission(ledger), NameSettlement(clock)),
            remarks=(queue_of_nobody(configuration),),
            webhooks=PolicyJudge(store, registry, WebhookDispatcher(store, registry, ids, calls)),
        )
        CustomResources(store, registry, calls, ids).start()
        server = ApiServer(
            store, clock, ids, random, registry=registry, admission=admission, authorizer=access.rbac.require
        )
        server.actions |= access.actions
        server.endpoints.documents |= access.documents
        system = User("system:muster", frozenset({MASTERS, AUTHENTICATED}))
        transport = InProcessTransport(server, system)
        await create_first_objects(Client(transport))
        events = EventSink(Client(transport), clock, ids, random)
        yielding = YieldingTransport(transport, clock, events.recorder("muster"))
        manager = Manager(Client(yielding), clock, random, registry=server.metrics)
        manager.add(events)
        try:
            yield ControlPlane(surroundings, configuration, store, server, access, ledger, manager, events, failed)
        finally:
            server.stop()
            await calls.close()
            failed.cancel()
