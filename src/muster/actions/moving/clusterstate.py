"""Read the state of a cluster that a move between Kueue and Muster depends on. The module writes nothing."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from muster.actions.moving import kueuestate
from muster.actions.moving.kueuestate import KueueState
from muster.api.core import CONFIG_MAP, NAMESPACE, POD, SERVICE, Pod
from muster.api.groups.apps import DEPLOYMENT, Deployment
from muster.api.kueue.visibility import VISIBILITY_GROUP
from muster.api.pods import is_finished
from muster.api.server.admissionregistration import MUTATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOK_CONFIGURATION
from muster.api.server.apiregistration import API_SERVICE
from muster.install.documents import kind_of
from muster.install.engines import KUEUE
from muster.install.options import NAME, Json, Options
from muster.operator.takeover import is_kueues
from muster.runtime.client import Client
from muster.webhooks.endpoints import MUTATING_CONFIGURATION, VALIDATING_CONFIGURATION, VISIBILITY_SERVICE

# Kueue's Helm chart gives its manager these labels, whatever the name of the release.
_KUEUE_LABELS: Final = "app.kubernetes.io/name=kueue,control-plane=controller-manager"
_CONFIGURATIONS: Final = (MUTATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOK_CONFIGURATION)
_AT_ONCE: Final = 8

Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Engine:
    """A Deployment that runs an engine: Kueue's manager, or Muster.

    replicas: the desired number of replicas.
    pods: the pods that have not terminated.
    troubles: the reasons why pods do not run.
    deleting: whether the Deployment is being deleted and waits for its pods to terminate.
    """

    namespace: str
    name: str
    replicas: int
    pods: tuple[str, ...] = ()
    troubles: tuple[str, ...] = ()
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Facts that a move has learned so far and that one read of the cluster does not show.

    tried: whether the server accepted Muster's documents in a dry run.
    lease_free: whether no replica other than Muster's renews the Lease.
    muster_leads: whether a replica of Muster renews the Lease.
    kueue_leads: whether a replica of Kueue's manager renews the Lease.
    given_back: whether all Workloads were handed back to Kueue.
    applied: the documents that the server accepted; the server may store them in another form.
    """

    tried: bool = False
    lease_free: bool = False
    muster_leads: bool = False
    kueue_leads: bool = False
    given_back: bool = False
    applied: frozenset[Key] = frozenset()


@dataclass(frozen=True, slots=True)
class MoveState:
    """The state of a cluster before a step of a move.

    kueue: the Deployments of Kueue's manager.
    muster: the Deployment of Muster.
    webhooks: the webhook configurations of Kueue's manager.
    own_webhooks: the webhook configurations of Muster.
    api_services: the APIServices of the visibility API.
    service: the Service of the webhooks.
    namespace: the namespace of the engines.
    kueue_state: the part of the cluster that belongs to Kueue, as a takeover captured it.
    live: the existing objects of Muster's documents, by `identify_object`.
    """

    kueue: Sequence[Engine] = ()
    muster: Engine | None = None
    webhooks: Sequence[Json] = ()
    own_webhooks: Sequence[Json] = ()
    api_services: Sequence[Json] = ()
    service: Json | None = None
    namespace: Json | None = None
    kueue_state: KueueState | None = None
    live: Mapping[Key, Json] = field(default_factory=dict)
    learned: RunFacts = RunFacts()


def identify_object(document: Mapping[str, Any]) -> Key:
    """Return the kind, the namespace and the name of an object, which together identify it."""
    meta = document["metadata"]
    return document["kind"], meta.get("namespace") or "", meta["name"]


def is_musters(api_service: Json) -> bool:
    """Return whether an APIService routes to Muster's Service for the visibility API."""
    service = api_service["spec"].get("service") or {}
    return bool(service.get("name") == VISIBILITY_SERVICE)


async def find_kueue(client: Client) -> list[Engine]:
    """Return the Deployments of Kueue's manager. Raises `ApiError`."""
    named = (await client.list(DEPLOYMENT, fields=f"metadata.name={KUEUE}")).items
    labelled = (await client.list(DEPLOYMENT, labels=_KUEUE_LABELS)).items
    deployments = {(one.metadata.namespace, one.metadata.name): one for one in (*named, *labelled)}
    return [await _read_engine(client, deployments[place]) for place in sorted(deployments)]


async def observe(client: Client, options: Options, documents: Sequence[Json], learned: RunFacts) -> MoveState:
    """Read the state of the cluster that a move depends on: the engines, webhooks, Services and documents.

    Raises `ApiError`.
    """
    where = options.namespace
    muster = await client.find(DEPLOYMENT, NAME, where)
    kueues_webhooks, own_webhooks = await _read_webhooks(client)
    services = (await client.list(API_SERVICE.seen_as(dict))).items
    webhook_service = options.settings.internal_cert_management.webhook_service_name
    return MoveState(
        kueue=await find_kueue(client),
        muster=None if muster is None else await _read_engine(client, muster),
        webhooks=kueues_webhooks,
        own_webhooks=own_webhooks,
        api_services=[
            {"apiVersion": API_SERVICE.api_version, "kind": API_SERVICE.kind} | one
            for one in services
            if one["spec"].get("group") == VISIBILITY_GROUP
        ],
        service=await client.find(SERVICE.seen_as(dict), webhook_service, where),
        namespace=await client.find(NAMESPACE.seen_as(dict), where),
        kueue_state=kueuestate.state_in(await client.find(CONFIG_MAP.seen_as(dict), kueuestate.NAME, where)),
        live=await _read_live(client, documents),
        learned=learned,
    )


async def _read_webhooks(client: Client) -> tuple[list[Json], list[Json]]:
    """Return the webhook configurations of Kueue's manager and of Muster. Raises `ApiError`."""
    kueues: list[Json] = []
    own: list[Json] = []
    for kind in _CONFIGURATIONS:
        for one in (await client.list(kind.seen_as(dict))).items:
            document = {"apiVersion": kind.api_version, "kind": kind.kind} | one
            if one["metadata"]["name"] in (MUTATING_CONFIGURATION, VALIDATING_CONFIGURATION):
                own.append(document)
            elif is_kueues(kind.typed(one)):
                kueues.append(document)
    return kueues, own


async def _read_engine(client: Client, deployment: Deployment) -> Engine:
    meta, spec = deployment.metadata, deployment.spec
    selector = spec.selector.match_labels if spec.selector is not None else {}
    labels = ",".join(f"{name}={value}" for name, value in selector.items())
    pods = [pod for pod in (await client.list(POD, meta.namespace, labels=labels)).items if not is_finished(pod)]
    return Engine(
        meta.namespace,
        meta.name,
        1 if spec.replicas is None else spec.replicas,
        tuple(pod.metadata.name for pod in pods),
        tuple(trouble for pod in pods for trouble in _find_troubles(pod)),
        meta.deletion_timestamp is not None,
    )


def _find_troubles(pod: Pod) -> list[str]:
    waiting = [one.state.waiting for one in pod.status.container_statuses]
    reasons = [f"{one.reason}: {one.message}".rstrip(": ") for one in waiting if one is not None]
    placement_messages = [
        one.message for one in pod.status.conditions if one.type == "PodScheduled" and one.status == "False"
    ]
    return [f"pod {pod.metadata.name}: {text}" for text in (*reasons, *placement_messages) if text]


async def _read_live(client: Client, documents: Sequence[Json]) -> dict[Key, Json]:
    """Return the existing objects that these documents describe, by `identify_object`."""
    turns = asyncio.Semaphore(_AT_ONCE)

    async def find(document: Json) -> Json | None:
        meta = document["metadata"]
        async with turns:
            return await client.find(kind_of(document), meta["name"], meta.get("namespace") or "")

    async with asyncio.TaskGroup() as group:
        tasks = {identify_object(each): group.create_task(find(each)) for each in documents}
    return {name: live_object for name, task in tasks.items() if (live_object := task.result()) is not None}
