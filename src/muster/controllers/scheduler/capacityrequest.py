"""Asks an autoscaler for all the room that a gang lacks: by a ProvisioningRequest, which says how many of which pods.

One is made once a gang has lacked room for a moment, and deleted when the gang starts or is gone. Its spec cannot be
changed: when the need is another, the old one goes first, with its templates.
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
from muster.controllers.scheduler.ask import Ask
from muster.controllers.scheduler.carrier import Carrier
from muster.gang.shapes import Shape
from muster.runtime.controller import Result
from muster.runtime.events.recorder import Recorder
from muster.runtime.manager import Manager
from muster.runtime.objects import key_of
from muster.runtime.reconciler import Reconciler
from muster.runtime.refusals import ignoring, is_refusal

# On a request: the gang that it was made for.
GANG_KEY_ANNOTATION = "muster.dev/requested-for"

# Room that comes so soon is not asked for; a gang whose pods come one by one is asked for once.
ASK_SECONDS = 2.0
# A server that does not serve the kind, or would not have the request, may be another by then.
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
    """What is asked for a gang: a request, and what its pods are like. carrier: is told if it cannot be asked."""

    carrier: Carrier
    request: ProvisioningRequest
    templates: tuple[PodTemplate, ...]

    def is_met_by(self, request: ProvisioningRequest) -> bool:
        """Whether a request that there is asks for just this."""
        meta, owners = request.metadata, self.request.metadata.owner_references
        same = (meta.name, request.spec, meta.owner_references) == (
            self.request.metadata.name,
            self.request.spec,
            owners,
        )
        return same and meta.deletion_timestamp is None


def need_of(ask: Ask, provisioning_class: str) -> Need | None:
    """What to ask for a gang: all that it needs to start.

    None for one pod, which autoscalers see by itself, and for pods that no node would do for.
    """
    least = ask.fewest
    if sum(least.values()) < 2 or any(shape.unable for shape in least):
        return None
    carrier = ask.carrier or Carrier(POD, ask.turn.pods[0])
    name, namespace = carrier.meta.name, carrier.meta.namespace
    first: dict[Shape, Pod] = {}
    for pod in ask.turn.pods:
        first.setdefault(ask.shapes[pod.metadata.uid], pod)
    counts, templates = Counter[str](), dict[str, PodTemplate]()
    for shape, count in least.items():
        template = _template(first[shape], shape)
        called = _name(name, template)
        counts[called] += count
        templates[called] = PodTemplate(metadata=ObjectMeta(name=called, namespace=namespace), template=template)
    sets = [ProvisionedPodSet(pod_template_ref=PodTemplateReference(name=one), count=counts[one]) for one in counts]
    meta = ObjectMeta(
        name=name,
        namespace=namespace,
        annotations={GANG_KEY_ANNOTATION: ask.key},
        owner_references=(_owner(carrier.kind, carrier.meta),),
    )
    spec = ProvisioningRequestSpec(
        provisioning_class_name=provisioning_class,
        pod_sets=tuple(sorted(sets, key=lambda one: one.pod_template_ref.name)),
    )
    return Need(carrier, ProvisioningRequest(metadata=meta, spec=spec), tuple(templates.values()))


def _template(pod: Pod, shape: Shape) -> PodTemplateSpec:
    """What nodes are chosen by, and what the server wants besides; its labels as far as others look at them."""
    spec = pod.spec
    claims = [one for one in spec.volumes if one.persistent_volume_claim is not None or one.ephemeral is not None]
    return PodTemplateSpec(
        metadata=ObjectMeta(labels=dict(shape.labels)),
        spec=PodSpec(
            **{field: getattr(spec, field) for field in _PLACED},
            volumes=tuple(claims),
            init_containers=tuple(map(_container, spec.init_containers)),
            containers=tuple(map(_container, spec.containers)),
        ),
    )


def _container(of: Container) -> Container:
    return Container(
        name=of.name, image=of.image, resources=of.resources, ports=of.ports, restart_policy=of.restart_policy
    )


def _name(carrier: str, template: PodTemplateSpec) -> str:
    """That of a template: another for another content, so that what is left of an older request is never taken."""
    digest = sha256(msgspec.json.encode(template, order="deterministic")).hexdigest()[:8]
    return f"{carrier[: _NAME_LENGTH - 9].rstrip('-.')}-{digest}"


def _owner(kind: Kind[Any], meta: ObjectMeta, *, blocks: bool = False) -> OwnerReference:
    return OwnerReference(
        api_version=kind.api_version,
        kind=kind.kind,
        name=meta.name,
        uid=meta.uid,
        controller=True,
        block_owner_deletion=blocks or None,
    )


class CapacityRequests(Reconciler):
    """Runs under a `Manager`; keys are those of gangs. waits: whether a gang has pods without a node."""

    name = "capacity-request"

    def __init__(
        self, manager: Manager, recorder: Recorder, provisioning_class: str, waits: Callable[[str], bool]
    ) -> None:
        super().__init__(manager)
        self._recorder = recorder
        self._class = provisioning_class
        self._waits = waits
        self._needs: dict[str, Need | None] = {}  # of gangs that were looked at; None: they need nothing
        self._done: dict[str, Need] = {}  # what was asked for
        self._told: set[str] = set()
        self._requests = manager.informer(PROVISIONING_REQUEST, indexes={_BY_GANG: _gang}, optional=True)
        # What becomes of a request is between the autoscaler and the nodes.
        self._controller.watch(self._requests, _gang, when=lambda old, new: old is None or new is None)

    def lacks(self, ask: Ask) -> None:
        """There is no room for a gang."""
        need = need_of(ask, self._class)
        if need is None:
            self.forget(ask.key)
        elif self._needs.get(ask.key) != need:
            self._needs[ask.key] = need
            self._controller.queue.add_after(ask.key, ASK_SECONDS)

    def forget(self, key: str) -> None:
        """A gang has started, or is gone."""
        if key in self._needs or self._requests.by(_BY_GANG, key):
            self._needs[key] = None
            self._controller.queue.add(key)

    async def _reconcile(self, key: str) -> Result:
        if key not in self._needs and self._waits(key):
            return None  # made before we started, and its gang has yet to be looked at
        need, there = self._needs.get(key), self._requests.by(_BY_GANG, key)
        stale = [request for request in there if need is None or not need.is_met_by(request)]
        for request in stale:
            await self._delete(request)
        if need is None:
            self._done.pop(key, None)
            self._told.discard(key)
            if not self._waits(key):
                self._needs.pop(key, None)
            return None
        # A request that was deleted from outside is not made again: the need is the same.
        return None if stale or self._done.get(key) == need else await self._ask(key, need)

    async def _ask(self, key: str, need: Need) -> Result:
        try:
            made = self._requests.get(key_of(need.request))
            if made is None:
                made = await self._client.create(PROVISIONING_REQUEST, need.request)
            elif not need.is_met_by(made):
                return self._cannot(key, need, "a ProvisioningRequest of that name is there, and not of this gang")
            owner = _owner(PROVISIONING_REQUEST, made.metadata, blocks=True)
            for template in need.templates:
                meta = msgspec.structs.replace(template.metadata, owner_references=(owner,))
                with ignoring("AlreadyExists"):
                    await self._client.create(POD_TEMPLATE, msgspec.structs.replace(template, metadata=meta))
        except ApiError as error:
            if error.code not in _LASTING:
                raise
            unserved = is_refusal(error, "NotFound") and not self._requests.version
            why = "the server does not serve ProvisioningRequests" if unserved else str(error)
            return self._cannot(key, need, why)
        self._done[key] = need
        return None

    def _cannot(self, key: str, need: Need, why: str) -> Result:
        """Say so once, and look again much later."""
        if key not in self._told:
            self._told.add(key)
            sentence = f"No room could be asked for: {why}"
            self._recorder.event(need.carrier.reference, "Warning", "CapacityNotRequested", sentence)
        return AGAIN_SECONDS

    async def _delete(self, request: ProvisioningRequest) -> None:
        """Its templates go before it, so that none of them is taken for one of the next."""
        meta = request.metadata
        if meta.deletion_timestamp is None:
            with ignoring("NotFound", "Conflict"):
                await self._client.delete(
                    PROVISIONING_REQUEST, meta.name, meta.namespace, propagation="Foreground", uid=meta.uid
                )


def _gang(request: ProvisioningRequest) -> tuple[str, ...]:
    """None for those that others made."""
    key = request.metadata.annotations.get(GANG_KEY_ANNOTATION)
    return (key,) if key else ()
