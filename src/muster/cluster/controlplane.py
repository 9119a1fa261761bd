"""Assemble the control plane of an embedded cluster: a store, an API server on it, and the controllers of a cluster.

All of it runs on one event loop, and in tests also in virtual time. Nodes are not part of it: they may be added and
removed, and are in `embedded`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, MutableMapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeAlias

from msgspec import Struct

from muster.api.config import EMBEDDED, Configuration
from muster.api.config.configz import CONFIGZ, make_configz
from muster.cluster.apiserver.access.control import AccessControl, Trust
from muster.cluster.apiserver.admission.chain import PLUGINS, AdmissionChain, add_default_tolerations
from muster.cluster.apiserver.admission.definitions import require_definitions_kept, warn_of_builtin_kinds
from muster.cluster.apiserver.admission.elastic import warn_of_bounds
from muster.cluster.apiserver.admission.managed import (
    make_managed_plugins,
    require_readable,
    warn_of_queue_in_part,
    warn_of_unread_queue,
)
from muster.cluster.apiserver.admission.plugins.jobparts import refuse_forged_parts
from muster.cluster.apiserver.admission.plugins.jobsetclaims import require_claims_meant
from muster.cluster.apiserver.admission.plugins.jobsetplacement import place_exclusively
from muster.cluster.apiserver.admission.plugins.limitranger import require_limits_kept, set_default_resources
from muster.cluster.apiserver.admission.plugins.ownerpermission import OwnerPermission
from muster.cluster.apiserver.admission.plugins.podbounds import require_bounds_of_pods
from muster.cluster.apiserver.admission.plugins.podgrouplabel import label_with_group
from muster.cluster.apiserver.admission.plugins.podgrouppriority import set_group_priority
from muster.cluster.apiserver.admission.plugins.quotaledger import QuotaLedger
from muster.cluster.apiserver.admission.plugins.requester import note_requester
from muster.cluster.apiserver.admission.plugins.resourcequota import QuotaAdmission
from muster.cluster.apiserver.admission.plugins.runtimeclass import follow_runtime_class, require_overhead_of_class
from muster.cluster.apiserver.admission.plugins.submitter import note_submitters
from muster.cluster.apiserver.admission.plugins.tenancy import require_tenancy
from muster.cluster.apiserver.admission.plugins.userqueue import give_queues, require_team
from muster.cluster.apiserver.admission.plugins.userwrites import limit_user_writes
from muster.cluster.apiserver.admission.plugins.waitinglimits import WaitingLimits
from muster.cluster.apiserver.admission.podgroups import warn_of_endless_pods
from muster.cluster.apiserver.admission.policies import PolicyJudge
from muster.cluster.apiserver.admission.schedulers import warn_of_missing_scheduler
from muster.cluster.apiserver.admission.schedules import warn_of_endless_wait
from muster.cluster.apiserver.admission.volcano import warn_of_ignored_parts
from muster.cluster.apiserver.admission.webhooks import HttpCalls, WebhookDispatcher
from muster.cluster.apiserver.admission.webhooks.services import address_of
from muster.cluster.apiserver.cel import device_matches
from muster.cluster.apiserver.custom.registration import CustomResources
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.identity.users import ADMIN, AUTHENTICATED, MASTERS, User
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.cluster.apiserver.objects.bootstrap import create_first_objects, put_definitions
from muster.cluster.apiserver.objects.headers import header_of
from muster.cluster.apiserver.objects.shared import SharedObjects
from muster.cluster.apiserver.pipeline import ApiServer
from muster.cluster.apiserver.registry.apiextensions import NameSettlement
from muster.cluster.apiserver.registry.builtin import make_builtin_resources
from muster.cluster.apiserver.registry.owndefinitions import encode_definitions, with_own_definitions
from muster.cluster.apiserver.registry.resources import Registry
from muster.cluster.apiserver.static import static_answer
from muster.cluster.apiserver.visibility import pending_actions
from muster.cluster.controllers.access.aggregation import RoleAggregator
from muster.cluster.controllers.access.serviceaccounts import CertificatePublisher, TokenSecrets
from muster.cluster.controllers.access.teamqueues import TeamQueues
from muster.cluster.controllers.claims.resourceclaims import ClaimMaker, ClaimReleaser
from muster.cluster.controllers.endpoints.apiservices import ApiServices
from muster.cluster.controllers.history.failurecauses import FailureCauses
from muster.cluster.controllers.lifetimes.collector import GarbageCollector
from muster.cluster.controllers.lifetimes.customresources import CustomResourceController
from muster.cluster.controllers.lifetimes.namespaces import NamespaceController
from muster.cluster.controllers.limits.disruption import DisruptionController
from muster.cluster.controllers.limits.quotas import QuotaController
from muster.cluster.controllers.nodes.lostpods import LostPodCollector, UnscheduledPodCollector
from muster.cluster.controllers.nodes.nodelifecycle import NodeLifecycle
from muster.cluster.controllers.nodes.tainteviction import TaintEviction
from muster.cluster.nodeconnection import NodeConnection
from muster.cluster.store import Journal, Store
from muster.controllers.cronjob import CronJobController
from muster.controllers.decisionlog import DecisionLog
from muster.controllers.engine import Engine, Part, assemble
from muster.controllers.integrations.framework import Integration
from muster.controllers.integrations.surroundings import settings_of
from muster.controllers.integrations.table import INTEGRATIONS, list_enabled, pod_groups
from muster.controllers.notices import NoticeController
from muster.controllers.trimming import ObjectSharer
from muster.controllers.volcano import VolcanoJobController
from muster.multicluster.links.reach import Reach, over_https
from muster.runtime.client import Client
from muster.runtime.control.manager import Manager
from muster.runtime.control.yielding import YieldingTransport
from muster.runtime.events.recorder import EventSink
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.process.accounts import Account
from muster.runtime.process.program import compose_muster_call

MakeDefinitions: TypeAlias = Callable[[], Iterable[Document]]
"""Makes CustomResourceDefinitions, some MB of objects, which the server keeps encoded."""


class ControlPlane(Struct, frozen=True):
    """A running store and API server, and a manager that the caller must run.

    integrations: the kinds of jobs that may queue.
    nodes: the connections to nodes and their pods, by node name; the code that runs nodes registers them here.
    failed: set if the disk fails permanently.
    decisions: the newest decisions of the engine.
    """

    inputs: ExternalInputs
    configuration: Configuration
    integrations: Sequence[Integration[Any]]
    store: Store
    server: ApiServer
    access: AccessControl
    ledger: QuotaLedger
    manager: Manager
    events: EventSink
    nodes: MutableMapping[str, NodeConnection]
    failed: asyncio.Future[None]
    decisions: DecisionLog

    def client(self, user: User = ADMIN, manager: str = "muster") -> Client:
        """Return a client that acts as this user. It calls the server in this process, without a socket.

        manager: the field manager of the client's writes.
        """
        return Client(InProcessTransport(self.server, user), field_manager=manager)

    def add_controllers(self, parts: Iterable[Part] = tuple(Part), reach: Reach = over_https) -> Engine:
        """Add all controllers of a cluster except those that run pods.

        parts: the parts of the engine to add.
        reach: opens transports to worker clusters.
        """
        # Custom resources come and go: controllers of all kinds follow their definitions.
        served = [each for each in self.server.registry if "watch" in each.verbs]  # reviews are not kept
        kinds = [each.kind for each in served if each.kind == each.stored and each.storage is None]
        ready = self.manager.ready
        self.server.endpoints.ready_checks["controllers"] = lambda: None if ready.is_set() else "they are starting"
        self.manager.add(NamespaceController(self.manager, kinds))
        self.manager.add(GarbageCollector(self.manager, kinds))
        self.manager.add(CustomResourceController(self.manager, kinds))
        self.manager.add(LostPodCollector(self.manager))
        self.manager.add(UnscheduledPodCollector(self.manager))
        self.manager.add(RoleAggregator(self.manager))
        self.manager.add(TeamQueues(self.manager))
        trust = self.access.trust
        if trust.authority_pem:
            self.manager.add(ApiServices(self.manager, self.server.registry))
            self.manager.add(CertificatePublisher(self.manager, trust.authority_pem))
            self.manager.add(TokenSecrets(self.manager, trust.key, trust.authority_pem))
        nodes = self.events.recorder("node-controller")
        lifecycle = NodeLifecycle(self.manager, nodes, self.nodes, self.configuration)
        evictor = self.events.recorder("taint-eviction-controller")
        self.manager.add(lifecycle)
        self.manager.add(TaintEviction(self.manager, evictor, lifecycle.is_heard))
        recorder = self.events.recorder("controllermanager")
        self.manager.add(DisruptionController(self.manager, self.server.registry, recorder))
        self.manager.add(ClaimMaker(self.manager, self.events.recorder("resource_claim")))
        self.manager.add(ClaimReleaser(self.manager))
        self.manager.add(QuotaController(self.manager, self.store, self.ledger))
        parts = frozenset(parts)
        if Part.JOBS in parts:  # a cluster with a real API server has its own controllers
            self.manager.add(VolcanoJobController(self.manager, self.events.recorder("vc-controller-manager")))
            recorder = self.events.recorder("cronjob-controller")
            self.manager.add(CronJobController(self.manager, recorder, self.inputs.zone))
            recorder, causes = self.events.recorder("notice-controller"), FailureCauses(self.manager)
            self.manager.add(NoticeController(self.manager, recorder, compose_muster_call(), causes.explain))
        settings = self.configuration
        engine = assemble(
            self.manager,
            self.events,
            settings,
            parts,
            self.integrations,
            reach,
            matches=device_matches,
            decisions=self.decisions,
        )
        self.server.actions |= pending_actions(engine.visibility)
        return engine


@asynccontextmanager
async def control_plane(
    journal: Journal,
    inputs: ExternalInputs,
    configuration: Configuration = EMBEDDED,
    trust: Callable[[], Trust] = Trust,
    integrations: Sequence[Integration[Any]] = INTEGRATIONS,
    make_definitions: MakeDefinitions = tuple,
    find_account: Callable[[int], Account] | None = None,
    *,
    roles: bool = True,
) -> AsyncIterator[ControlPlane]:
    """Run a store and a server on a journal, with the objects that every cluster starts with.

    trust: called after the journal is locked. By default the server accepts no connections from outside, and its tokens
    expire with it.
    integrations: the kinds of jobs that may queue.
    make_definitions: makes CustomResourceDefinitions for kinds that the server serves anyway, so that clients find
    them.
    find_account: returns the Unix account of a pod by user ID, under a system server; None otherwise.
    roles: whether to create the default roles; only users in the group `system:masters` need none of them.

    Raises `DataDirectoryError` if the journal does. The caller runs and stops the manager.
    """
    clock, ids, random = inputs.clock, inputs.ids, inputs.random
    failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    async with Store(journal, header_of, on_failure=failed.set_exception) as store:
        access = AccessControl(store, clock, ids, trust())
        own = encode_definitions(make_definitions())
        registry = Registry(
            with_own_definitions(make_builtin_resources(configuration.muster.elastic, configuration.muster.apis), own)
        )
        groups = pod_groups(configuration)
        queued = [one.kind.resource for one in list_enabled(integrations, configuration)]
        ledger, calls, shared = QuotaLedger(store), HttpCalls(partial(address_of, store)), SharedObjects()
        admission = AdmissionChain(
            changing=(
                set_group_priority(groups),
                *PLUGINS,
                add_default_tolerations(configuration.muster.nodes.default_toleration_seconds),
                label_with_group,
                place_exclusively,
                follow_runtime_class,
                set_default_resources,
                note_requester,
                note_submitters(queued),
                give_queues(queued),
                *access.changing,
                *make_managed_plugins(configuration, integrations, shared),
            ),
            judging=(
                require_readable(configuration, integrations),
                require_team(queued, settings_of(configuration)),
                refuse_forged_parts(queued, access.rbac.require),
                require_bounds_of_pods,
                require_limits_kept,
                require_overhead_of_class,
                require_claims_meant,
                require_definitions_kept(own),
                OwnerPermission(registry, access.rbac.require),
                *([require_tenancy(find_account)] if find_account is not None else []),
                *([limit_user_writes(access.rbac.require)] if find_account is not None else []),
                *access.judging,
            ),
            last=(
                WaitingLimits(list_enabled(integrations, configuration)),
                QuotaAdmission(ledger),
                NameSettlement(clock),
            ),
            remarks=(
                warn_of_unread_queue(configuration, integrations),
                warn_of_queue_in_part(configuration, integrations),
                warn_of_endless_pods(groups),
                warn_of_builtin_kinds(registry, own),
                warn_of_missing_scheduler(configuration.muster.scheduling.scheduler_names),
                warn_of_bounds,
                warn_of_endless_wait(clock),
                warn_of_ignored_parts(configuration.muster.scheduling.scheduler_names),
            ),
            webhooks=PolicyJudge(store, registry, WebhookDispatcher(store, registry, ids, calls)),
        )
        CustomResources(store, registry, calls, ids).start()
        nodes: dict[str, NodeConnection] = {}
        server = ApiServer(
            store,
            clock,
            ids,
            random,
            registry=registry,
            admission=admission,
            authorizer=access.rbac.require,
            nodes=nodes,
            shared=shared,
        )
        server.actions |= access.actions
        server.endpoints.documents |= access.documents
        server.endpoints.ready_checks["storage"] = lambda: store.trouble or None
        server.endpoints.documents[CONFIGZ] = lambda: static_answer(make_configz(configuration))
        system = User("system:muster", frozenset({MASTERS, AUTHENTICATED}))
        transport = InProcessTransport(server, system)
        await create_first_objects(Client(transport), roles=roles)
        await put_definitions(Client(transport), own)
        events = EventSink(Client(transport), clock, ids, random)
        yielding = YieldingTransport(transport, clock, events.recorder("muster"))
        client = Client(yielding, neighbor=transport)
        manager = Manager(client, clock, random, registry=server.metrics, transform=ObjectSharer())
        manager.add(events)
        try:
            yield ControlPlane(
                inputs,
                configuration,
                integrations,
                store,
                server,
                access,
                ledger,
                manager,
                events,
                nodes,
                failed,
                DecisionLog(),
            )
        finally:
            server.stop()
            await calls.close()
            failed.cancel()
