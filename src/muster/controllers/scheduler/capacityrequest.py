"""Request nodes for a gang from an autoscaler, by a ProvisioningRequest that counts pods of each template.

A request is created when a gang has lacked room for two seconds, and deleted when the gang starts or is deleted. Its
spec cannot be changed: when the need changes, the old request is deleted first, with its templates.
"""

from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct

from muster.api.core import POD, POD_TEMPLATE, Container, Pod, PodSpec, PodTemplate, PodTemplateSpec
from muster.api.groups.provisioning import (
    PROVISIONING_REQUEST,
    PodTemplateReference,
    ProvisionedPodSet,
    ProvisioningRequest,
    ProvisioningRequestSpec,
)
from muster.api.kinds import Kind
from muster.api.meta import ObjectMeta, OwnerReference
from muster.api.status import ApiError
from muster.controllers.scheduler.ask import GangTurn
from muster.controllers.scheduler.carrier import Carrier
from muster.gang.shapes import Shape
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.events.recorder import Recorder
from muster.runtime.objects import key_of
from muster.runtime.refusals import ignoring, is_refusal

# The annotation of a request with the gang for which it was created.
GANG_KEY_ANNOTATION = "muster.dev/requested-for"

# The delay before a request is created. In this time, room may become free and all pods of a gang are created.
ASK_SECONDS = 2.0
# The seconds before a retry, if the server does not serve the kind or refuses the request.
AGAIN_SECONDS = 300.0

_BY_GANG = "gang"
_LASTING = (403, 404, 422)
_NAME_LENGTH = 253
_PLACED = (
    "restart_policy", "node_selector", "host_network", "affinity", "scheduler_name", "tolerations",
    "priority_class_name", "priority", "preemption_policy", "runtime_class_name", "overhead",
    "topology_spread_constraints", "resources",
)  # fmt: skip


class Need(Struct, frozen=True):
    """A gang's desired ProvisioningRequest and its pod templates.

    carrier: the object that gets an event if the request cannot be created.
    """

    carrier: Carrier
    request: ProvisioningRequest
    templates: tuple[PodTemplate, ...]

    def is_met_by(self, request: ProvisioningRequest) -> bool:
        """Return whether an existing ProvisioningRequest requests exactly these pods."""
        meta, owners = request.metadata, self.request.metadata.owner_references
        same = (meta.name, request.spec, meta.owner_references) == (
            self.request.metadata.name,
            self.request.spec,
            owners,
        )
        return same and meta.deletion_timestamp is None


def need_of(ask: GangTurn, provisioning_class: str) -> Need | None:
    """Return the ProvisioningRequest for all pods that a gang needs to start.

    Return None for a single pod, which autoscalers handle themselves, and for pods that claim devices or fit no node.
    """
    least = ask.fewest
    if sum(least.values()) < 2 or any(shape.unable for shape in least):
        return None
    if any(pod.spec.resource_claims for pod in ask.turn.pods):
        return None
    carrier = ask.carrier or Carrier(POD, ask.turn.pods[0])
    name, namespace = carrier.meta.name, carrier.meta.namespace
    first: dict[Shape, Pod] = {}
    for pod in ask.turn.pods:
        first.setdefault(ask.shapes[pod.metadata.uid], pod)
    counts, templates = Counter[str](), dict[str, PodTemplate]()
    for shape, count in least.items():
        template = _make_template(first[shape], shape)
        called = _make_name(name, template)
        counts[called] += count
        templates[called] = PodTemplate(metadata=ObjectMeta(name=called, namespace=namespace), template=template)
    sets = [ProvisionedPodSet(pod_template_ref=PodTemplateReference(name=one), count=counts[one]) for one in counts]
    meta = ObjectMeta(
        name=name,
        namespace=namespace,
        annotations={GANG_KEY_ANNOTATION: ask.key},
        owner_references=(_make_owner(carrier.kind, carrier.meta),),
    )
    spec = ProvisioningRequestSpec(
        provisioning_class_name=provisioning_class,
        pod_sets=tuple(sorted(sets, key=lambda one: one.pod_template_ref.name)),
    )
    return Need(carrier, ProvisioningRequest(metadata=meta, spec=spec), tuple(templates.values()))


def _make_template(pod: Pod, shape: Shape) -> PodTemplateSpec:
    """Return the template of a pod for an autoscaler's simulation.

    The template has the fields that select nodes or that the server requires, and the labels that other pods' rules
    select.
    """
    spec = pod.spec
    claims = [one for one in spec.volumes if one.persistent_volume_claim is not None or one.ephemeral is not None]
    return PodTemplateSpec(
        metadata=ObjectMeta(labels=dict(shape.labels)),
        spec=PodSpec(
            **{field: getattr(spec, field) for field in _PLACED},
            volumes=tuple(claims),
            init_containers=tuple(map(_make_container, spec.init_containers)),
            containers=tuple(map(_make_container, spec.containers)),
        ),
    )


def _make_container(of: Container) -> Container:
    return Container(
        name=of.name, image=of.image, resources=of.resources, ports=of.ports, restart_policy=of.restart_policy
    )


def _make_name(carrier: str, template: PodTemplateSpec) -> str:
    """Return a template's name with a hash of its content, so that templates of an older request are never reused."""
    digest = sha256(msgspec.json.encode(template, order="deterministic")).hexdigest()[:8]
    return f"{carrier[: _NAME_LENGTH - 9].rstrip('-.')}-{digest}"


def _make_owner(kind: Kind[Any], meta: ObjectMeta, *, blocks: bool = False) -> OwnerReference:
    return OwnerReference(
        api_version=kind.api_version,
        kind=kind.kind,
        name=meta.name,
        uid=meta.uid,
        controller=True,
        block_owner_deletion=blocks or None,
    )


class CapacityRequests(Reconciler):
    """The controller that creates and deletes the ProvisioningRequests of gangs. Its keys are the keys of gangs.

    waits: returns whether a gang has pods without a node.
    """

    name = "capacity-request"

    def __init__(
        self, manager: Manager, recorder: Recorder, provisioning_class: str, waits: Callable[[str], bool]
    ) -> None:
        super().__init__(manager)
        self._recorder = recorder
        self._class = provisioning_class
        self._waits = waits
        self._needs: dict[str, Need | None] = {}  # by gang; None if the gang needs no request
        self._done: dict[str, Need] = {}  # by gang, the needs that were requested
        self._told: set[str] = set()
        self._requests = manager.informer(PROVISIONING_REQUEST, indexes={_BY_GANG: _find_gang}, optional=True)
        # Only the autoscaler and the nodes depend on a request's status, so changes of the status are ignored.
        self._controller.watch(self._requests, _find_gang, when=lambda old, new: old is None or new is None)

    def record_lack(self, ask: GangTurn) -> None:
        """Record that a gang lacks room. If the lack lasts, its request is created."""
        need = need_of(ask, self._class)
        if need is None:
            self.forget(ask.key)
        elif self._needs.get(ask.key) != need:
            self._needs[ask.key] = need
            self._controller.queue.add_after(ask.key, ASK_SECONDS)

    def forget(self, key: str) -> None:
        """Queue the deletion of the request of a gang that has started or is deleted."""
        if key in self._needs or self._requests.by(_BY_GANG, key):
            self._needs[key] = None
            self._controller.queue.add(key)

    async def _reconcile(self, key: str) -> Result:
        if key not in self._needs and self._waits(key):
            return None  # the request is from an earlier scheduler, and its gang is not reconciled yet
        need, there = self._needs.get(key), self._requests.by(_BY_GANG, key)
        stale = [request for request in there if need is None or not need.is_met_by(request)]
        for request in stale:
            await self._delete_request(request)
        if need is None:
            self._done.pop(key, None)
            self._told.discard(key)
            if not self._waits(key):
                self._needs.pop(key, None)
            return None
        # If a user deletes a request, it is not created again while the need is the same.
        return None if stale or self._done.get(key) == need else await self._ask(key, need)

    async def _ask(self, key: str, need: Need) -> Result:
        try:
            request = self._requests.get(key_of(need.request))
            if request is None:
                request = await self._client.create(PROVISIONING_REQUEST, need.request)
            elif not need.is_met_by(request):
                return self._report_failure(
                    key, need, "a ProvisioningRequest of that name exists and does not belong to this gang"
                )
            owner = _make_owner(PROVISIONING_REQUEST, request.metadata, blocks=True)
            for template in need.templates:
                meta = msgspec.structs.replace(template.metadata, owner_references=(owner,))
                with ignoring("AlreadyExists"):
                    await self._client.create(POD_TEMPLATE, msgspec.structs.replace(template, metadata=meta))
        except ApiError as error:
            if error.code not in _LASTING:
                raise
            unserved = is_refusal(error, "NotFound") and not self._requests.version
            why = "the server does not serve ProvisioningRequests" if unserved else str(error)
            return self._report_failure(key, need, why)
        self._done[key] = need
        return None

    def _report_failure(self, key: str, need: Need, why: str) -> Result:
        """Report once, by an event, that the request cannot be created; return the seconds until a retry."""
        if key not in self._told:
            self._told.add(key)
            sentence = f"The scheduler could not request capacity: {why}"
            self._recorder.event(need.carrier.reference, "Warning", "CapacityNotRequested", sentence)
        return AGAIN_SECONDS

    async def _delete_request(self, request: ProvisioningRequest) -> None:
        """Delete a request, its templates first, so that the next request does not use one of them."""
        meta = request.metadata
        if meta.deletion_timestamp is None:
            with ignoring("NotFound", "Conflict"):
                await self._client.delete(
                    PROVISIONING_REQUEST, meta.name, meta.namespace, propagation="Foreground", uid=meta.uid
                )


def _find_gang(request: ProvisioningRequest) -> tuple[str, ...]:
    """Return the key of a request's gang, or () for a request of another program."""
    key = request.metadata.annotations.get(GANG_KEY_ANNOTATION)
    return (key,) if key else ()
