"""Track the devices of nodes and the pods that use them, and pick devices for pods.

This is a state machine owned by the scheduler. Devices that match the same requests (a `Selection`) are a resource of
their node, so that gangs are placed by counting. The devices of a pod are picked when its node is chosen.

- The amount of a selection on a node is the number of its matching devices, without devices whose claim no pod on a
  node uses, because such a claim is about to be deallocated.
- The use of a selection by a pod is the number of the pod's devices that match, whichever request they were allocated
  for.

Limits: only whole devices of one node are allocated. Devices that several nodes share, that consume shared counters or
that have binding conditions are ignored.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec import Struct

from muster.api.core import Pod
from muster.api.groups.resource import Device, DeviceClass, ResourceClaim, ResourceSlice
from muster.gang.nodes.devicechoice import Choice, DeviceId, choose_devices
from muster.gang.nodes.devicenesting import Nesting
from muster.gang.nodes.devicepools import published_devices
from muster.gang.nodes.devicerequests import ClaimWants, DeviceDemand, Selection, expressions_of, read_claim, tolerates
from muster.gang.nodes.deviceselections import MOST_OF_NAMESPACE, MOST_SELECTIONS, Selections
from muster.gang.shapes import Amounts, DeviceAsk

# Returns whether a device of a driver matches a CEL expression. If the evaluation fails, the device does not match.
Matcher: TypeAlias = Callable[[str, str, Device], bool]

# The devices for each claim of a pod, by the claim's `namespace/name`.
Picks: TypeAlias = Mapping[str, Choice]

NOT_CREATED: Final = "ResourceClaim not created yet"
_NAMED: Final = "this scheduler allocates only claims that are made from templates"


def match_nothing(expression: str, driver: str, device: Device) -> bool:  # noqa: ARG001  (it is the type's)
    """Return False for every device, in a process that cannot evaluate CEL expressions."""
    return False


class _Placement(Struct, frozen=True):
    """A pod with claims, and the node on which it runs or to which it is about to be bound."""

    node: str
    pod: Pod


class Devices:
    """The ResourceSlices, DeviceClasses and claims of a cluster, and the devices that pods hold.

    A *selection* is a requested DeviceClass with its selectors. It counts as a resource, whose amount on a node is the
    number of matching devices. Methods that change the state return the names of the affected nodes.
    """

    def __init__(self, matches: Matcher = match_nothing) -> None:
        self._matches = matches
        self._slices: dict[str, ResourceSlice] = {}  # slices with the devices of a single node
        self._slices_on: defaultdict[str, set[str]] = defaultdict(set)  # slice names by node
        self._classes: dict[str, DeviceClass] = {}
        self._claims: dict[str, ResourceClaim] = {}
        self._by_user: defaultdict[str, set[str]] = defaultdict(set)  # claims by the UID of a pod that may use them
        self._selections = Selections()
        self._forgotten: set[str] = set()  # resources that no node has any more, until `take_forgotten` returns them
        self._on_node: dict[str, dict[DeviceId, Device]] = {}
        self._node_of: dict[DeviceId, str] = {}
        self._matching: dict[tuple[str, str], frozenset[DeviceId]] = {}  # by selection and node
        self._nesting = Nesting(self._find_matching)
        self._placements: dict[str, _Placement] = {}  # by UID of the pod
        self._pods_on: defaultdict[str, set[str]] = defaultdict(set)  # UIDs by node
        self._picks: dict[str, Picks] = {}  # by UID of the pod: devices that are not yet written to the claims
        self._awaiting: set[str] = set()  # UIDs of pods that referred to a claim before it existed
        self._held: dict[DeviceId, set[str]] = {}  # the claims of each device that is allocated or about to be

    # Changes in the cluster.

    def set_slice(self, name: str, slice_: ResourceSlice | None) -> frozenset[str]:
        """Add, update or remove (None) a ResourceSlice; return the names of the affected nodes."""
        touched = set()
        before = self._slices.pop(name, None)
        if before is not None and before.spec.node_name:
            touched.add(before.spec.node_name)
            self._slices_on[before.spec.node_name].discard(name)
        if slice_ is not None and slice_.spec.node_name:
            touched.add(slice_.spec.node_name)
            self._slices[name] = slice_
            self._slices_on[slice_.spec.node_name].add(name)
        for node in touched:
            self._read_node(node)
        return frozenset(touched)

    def set_class(self, name: str, device_class: DeviceClass | None) -> frozenset[str]:
        """Add, update or remove (None) a DeviceClass; return the names of the affected nodes."""
        before = self._classes.pop(name, None)
        if device_class is not None:
            self._classes[name] = device_class
        if before is not None and device_class is not None and before.spec == device_class.spec:
            return frozenset()
        concerned = {resource for resource, one in self._selections.items() if one.device_class == name}
        for key in [key for key in self._matching if key[0] in concerned]:
            del self._matching[key]
        self._nesting.forget()
        return frozenset(self._on_node)

    def set_claim(self, key: str, claim: ResourceClaim | None) -> frozenset[str]:
        """Add, update or remove (None) a claim by its `namespace/name`; return the names of the affected nodes."""
        before = self._claims.pop(key, None)
        touched = self._find_nodes(before)
        for uid in _list_users(before) if before is not None else ():
            self._by_user[uid].discard(key)
            if not self._by_user[uid]:
                del self._by_user[uid]
        self._let_go(key, (*devices_of(before), *self._list_picked(key, before)))
        if claim is not None:
            self._claims[key] = claim
            for uid in _list_users(claim):
                self._by_user[uid].add(key)
            self._record_held(key, devices_of(claim) or self._list_picked(key, claim))
            touched |= self._find_nodes(claim)
        return frozenset(self._on_node) if self._follow(key, claim) else touched

    def seat(self, pod: Pod, node: str) -> frozenset[str]:
        """Record that a pod with claims is on a node, so that it may use their devices; return the affected nodes."""
        uid = pod.metadata.uid
        before = self._placements.get(uid)
        self._placements[uid] = _Placement(node, pod)
        if before is not None and before.node == node:
            return frozenset()
        self._pods_on[node].add(uid)
        if before is None:
            return self._find_nodes_held_by(uid) | {node}
        self._pods_on[before.node].discard(uid)
        return frozenset({node, before.node})

    def unseat(self, uid: str) -> frozenset[str]:
        """Record that a pod has left its node; return the affected nodes.

        No pod can use the devices of its claims until they are deallocated.
        """
        self._awaiting.discard(uid)
        for key, devices in self._picks.pop(uid, {}).items():
            written = devices_of(self._claims.get(key))
            self._let_go(key, (device for _, device in devices if device not in written))
        before = self._placements.pop(uid, None)
        if before is None:
            return frozenset()
        self._pods_on[before.node].discard(uid)
        if not self._pods_on[before.node]:
            del self._pods_on[before.node]
        return self._find_nodes_held_by(uid) | {before.node}

    def take_forgotten(self) -> frozenset[str]:
        """Return the resources of selections that were dropped since the last call of this function."""
        forgotten, self._forgotten = frozenset(self._forgotten), set()
        return forgotten

    def is_awaited(self, claim: ResourceClaim) -> bool:
        """Return whether a pod waits for this claim, because `ask` read the pod before the claim existed."""
        return not self._awaiting.isdisjoint(_list_users(claim))

    # Queries on devices and their use.

    def count_devices(self, node: str) -> dict[str, int]:
        """Return how many devices of each selection a node offers, by the selection's resource.

        Devices of a claim without a placed pod are left out. `whole`: 1 if some match and none is left out, else 0.
        """
        if node not in self._on_node:
            return {}
        orphans = {one for one, claims in self._find_held(node).items() if not any(map(self._find_holder, claims))}
        amounts = {}
        for resource, selection in self._selections.items():
            matching = self._find_matching(resource, node)
            left = len(matching) - len(matching & orphans)
            amounts[resource] = int(left == len(matching) > 0) if selection.whole else left
        return amounts

    def held_by(self, uid: str) -> Amounts:
        """Return the amount of each selection that a pod holds on its node: the number of its devices that match.

        A selection with `whole` counts 1. A device that matches several selections counts for each of them.
        """
        placement = self._placements.get(uid)
        if placement is None or placement.node not in self._on_node:
            return ()
        held = {one for one, claims in self._find_held(placement.node).items() if uid in map(self._find_holder, claims)}
        if not held:
            return ()
        amounts = []
        for resource, selection in self._selections.items():
            if number := len(self._find_matching(resource, placement.node) & held):
                amounts.append((resource, 1 if selection.whole else number))
        return tuple(amounts)

    def seated_on(self, nodes: Iterable[str]) -> list[tuple[Pod, str]]:
        """Return the pods with claims on these nodes, each with the name of its node."""
        return [(self._placements[uid].pod, node) for node in nodes for uid in sorted(self._pods_on.get(node, ()))]

    def ask(self, pod: Pod) -> DeviceAsk:
        """Return the device requests of a waiting pod, or the reason why no node fits."""
        wanted = self._read_wanted(pod)
        if isinstance(wanted, str):
            return DeviceAsk(unable=wanted)
        amounts: dict[str, int] = {}
        for one in (one for claim in wanted.values() for one in claim.requests):
            for resource in self._list_wider(one.selection):
                amounts[resource] = amounts.get(resource, 0) + one.count
        return DeviceAsk(tuple(sorted(amounts.items())))

    # The choice of devices for pods.

    def pick(self, bindings: Sequence[tuple[Pod, str]]) -> str:
        """Pick the devices of pods that are about to be bound; return "" if all pods get theirs.

        Otherwise nothing is picked, and the result is the name of a node on which a pod gets too few devices. On that
        node, requests of several selections overlap, or the free devices do not share an attribute as a claim requires.
        """
        taken: set[DeviceId] = set()
        picks: dict[str, Picks] = {}
        for pod, node in bindings:
            if not pod.spec.resource_claims:
                continue
            wanted = self._read_wanted(pod)
            gets = None if isinstance(wanted, str) else self._choose(wanted, node, taken)
            if gets is None:
                return node
            picks[pod.metadata.uid] = gets
            taken.update(device for choice in gets.values() for _, device in choice)
        self._picks |= picks
        for chosen in picks.values():
            for key, devices in chosen.items():
                self._record_held(key, (device for _, device in devices))
        return ""

    def get_picks(self, uid: str) -> Picks:
        """Return the devices that were picked for a pod, by claim."""
        return self._picks.get(uid, {})

    def claim(self, key: str) -> ResourceClaim | None:
        """Return a claim by its `namespace/name`; None if it does not exist."""
        return self._claims.get(key)

    def device_class(self, name: str) -> DeviceClass | None:
        """Return the DeviceClass with this name; None if it does not exist."""
        return self._classes.get(name)

    def list_allocated(self, pods: Mapping[str, Pod]) -> dict[str, list[ResourceClaim]]:
        """Return the claims that already have devices, by the UID of their pod.

        pods: the pods by UID; most of them have no claims.
        """
        allocated: dict[str, list[ResourceClaim]] = {}
        for uid in sorted(uid for uid in pods.keys() & self._by_user.keys() if pods[uid].spec.resource_claims):
            for claim in filter(None, map(self._claims.get, self._by_user[uid])):
                if claim.status.allocation is not None:
                    allocated.setdefault(uid, []).append(claim)
        return allocated

    def _choose(self, claims: Mapping[str, ClaimWants], node: str, excluded: Collection[DeviceId]) -> Picks | None:
        held, devices = self._find_held(node), self._on_node.get(node, {})
        free = [one for one in devices if one not in held and one not in excluded]
        # Devices that few selections match come first, so that the others stay free for more selections.
        rank = {one: sum(one in self._find_matching(each, node) for each in self._selections) for one in free}
        free.sort(key=lambda one: (rank[one], one))
        return choose_devices(claims, free, lambda selection: self._find_matching(selection.resource, node), devices)

    def _read_wanted(self, pod: Pod) -> dict[str, ClaimWants] | str:
        """Return the requests of each of a pod's claims, by `namespace/name`; or why the pod gets no devices."""
        names = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses}
        wants_by_claim: dict[str, ClaimWants] = {}
        if (problem := named_claim(pod)) != "":
            return problem
        for entry in pod.spec.resource_claims:
            if entry.name in names and not names[entry.name]:
                continue  # the pod needs no claim for this entry
            key = f"{pod.metadata.namespace}/{names.get(entry.name)}"
            claim = self._claims.get(key)
            if claim is None or pod.metadata.uid not in _list_users(claim):
                if entry.name in names:  # otherwise the pod is placed once its status has the name
                    self._awaiting.add(pod.metadata.uid)
                return f'cannot allocate the resource claim of "{entry.name}": {NOT_CREATED}'
            wanted = read_claim(claim.spec)
            problem = wanted if isinstance(wanted, str) else self._find_problem(wanted.requests)
            if problem or isinstance(wanted, str):
                return f'cannot allocate the resource claim of "{entry.name}": {problem}'
            wants_by_claim[key] = wanted
        self._awaiting.discard(pod.metadata.uid)
        return wants_by_claim

    def _find_problem(self, demands: Iterable[DeviceDemand]) -> str:
        for one in demands:
            if one.selection.device_class not in self._classes:
                return f"device class {one.selection.device_class} does not exist"
            if one.selection.resource not in self._selections:
                return (
                    f"more than {MOST_SELECTIONS} different selections of devices are in use, "
                    f"or more than {MOST_OF_NAMESPACE} in the namespace"
                )
        return ""

    # Internal indexes.

    def _follow(self, key: str, claim: ResourceClaim | None) -> bool:
        """Track the selections that a claim requests, if a pod may use the claim.

        Return whether that changed which resources nodes have.
        """
        wanted = read_claim(claim.spec) if claim is not None and _list_users(claim) else ""
        requests = wanted.requests if not isinstance(wanted, str) else ()
        change = self._selections.set_claim(key, tuple({one.selection: None for one in requests}))
        self._forgotten.update(change.forgotten)
        for resource in change.forgotten:
            for node in self._on_node:
                self._matching.pop((resource, node), None)
        if change.forgotten:
            self._nesting.forget()
        return change.grew or bool(change.forgotten)

    def _list_wider(self, selection: Selection) -> list[str]:
        """Return the selection and each selection of which it is a subset; a pod that uses it uses those, too."""
        if selection.whole:
            return [selection.resource]
        return [
            resource
            for resource, other in self._selections.items()
            if resource == selection.resource
            or (not other.whole and self._nesting.is_within(selection.resource, resource, self._on_node))
        ]

    def _find_matching(self, resource: str, node: str) -> frozenset[DeviceId]:
        """Return the devices of a node that a selection matches, free or not, from the cache if possible.

        resource: the name of the selection as a resource.
        """
        if node not in self._on_node:
            return frozenset()
        matching = self._matching.get((resource, node))
        if matching is None:
            matching = self._matching[resource, node] = self._match_devices(self._selections[resource], node)
        return matching

    def _match_devices(self, selection: Selection, node: str) -> frozenset[DeviceId]:
        """Return the devices of a node that satisfy a selection's expressions and whose taints it tolerates.

        A selection whose DeviceClass does not exist matches no device.
        """
        device_class = self._classes.get(selection.device_class)
        if device_class is None:
            return frozenset()
        expressions = expressions_of(selection, device_class)
        return frozenset(
            (driver, pool, name)
            for (driver, pool, name), device in self._on_node[node].items()
            if all(tolerates(selection.tolerations, taint) for taint in device.taints)
            and all(self._matches(expression, driver, device) for expression in expressions)
        )

    def _read_node(self, node: str) -> None:
        """Read the devices of a node again. Only the newest complete generation of each pool counts."""
        self._nesting.add(node, -1)
        for one in self._on_node.pop(node, ()):
            self._node_of.pop(one, None)
        for resource in self._selections:
            self._matching.pop((resource, node), None)
        mine = [self._slices[name] for name in sorted(self._slices_on[node])]
        if not mine:
            del self._slices_on[node]
        devices = {
            (driver, pool, device.name): device for driver, pool, device in published_devices(mine) if _is_whole(device)
        }
        if devices:
            self._on_node[node] = devices
            self._node_of |= dict.fromkeys(devices, node)
        self._nesting.add(node)

    def _find_held(self, node: str) -> dict[DeviceId, set[str]]:
        """Return the devices of a node that are allocated or about to be, each with its claims.

        A device has more than one claim only for a short time.
        """
        return {one: self._held[one] for one in self._on_node.get(node, ()) if one in self._held}

    def _list_picked(self, key: str, claim: ResourceClaim | None) -> list[DeviceId]:
        picks = (self._picks.get(uid, {}).get(key, ()) for uid in (_list_users(claim) if claim is not None else ()))
        return [device for pick in picks for _, device in pick]

    def _record_held(self, key: str, devices: Iterable[DeviceId]) -> None:
        """Record that these devices belong to a claim."""
        for one in devices:
            self._held.setdefault(one, set()).add(key)

    def _let_go(self, key: str, devices: Iterable[DeviceId]) -> None:
        """Record that these devices no longer belong to a claim."""
        for one in devices:
            if (claims := self._held.get(one)) is not None:
                claims.discard(key)
                if not claims:
                    del self._held[one]

    def _find_holder(self, key: str) -> str | None:
        """Return the UID of the pod on a node that counts as the user of a claim's devices; None if there is none."""
        return next((uid for uid in _list_users(self._claims[key]) if uid in self._placements), None)

    def _find_nodes_held_by(self, uid: str) -> frozenset[str]:
        """Return the nodes of the devices that are allocated to a pod's claims.

        They differ from the pod's own node only if a user has set `nodeName`.
        """
        devices = (one for key in self._by_user.get(uid, ()) for one in devices_of(self._claims[key]))
        return frozenset(self._node_of[one] for one in devices if one in self._node_of)

    def _find_nodes(self, claim: ResourceClaim | None) -> frozenset[str]:
        """Return the nodes of the claim's devices, and the nodes of the pods that may use the claim."""
        if claim is None:
            return frozenset()
        nodes = {self._node_of.get(one, "") for one in devices_of(claim)}
        nodes |= {self._placements[uid].node for uid in _list_users(claim) if uid in self._placements}
        return frozenset(nodes - {""})


def named_claim(pod: Pod) -> str:
    """Return why a pod gets no node because it names an existing ResourceClaim; "" if it names none, or templates."""
    named = next((one.resource_claim_name for one in pod.spec.resource_claims if one.resource_claim_name), None)
    return f"cannot allocate resource claim {named}: {_NAMED}" if named is not None else ""


def devices_of(claim: ResourceClaim | None) -> tuple[DeviceId, ...]:
    """Return the devices that are allocated to a claim; empty if the claim is None."""
    if claim is None or claim.status.allocation is None:
        return ()
    return tuple((one.driver, one.pool, one.device) for one in claim.status.allocation.devices.results)


def _is_whole(device: Device) -> bool:
    return not device.consumes_counters and not device.binding_conditions


def _list_users(claim: ResourceClaim) -> list[str]:
    """Return the UIDs of the pods that may use a claim: its owner pod, then the pods for which it is reserved."""
    owners = [one.uid for one in claim.metadata.owner_references if one.kind == "Pod" and one.controller]
    return [*owners, *(one.uid for one in claim.status.reserved_for if one.uid not in owners)]
