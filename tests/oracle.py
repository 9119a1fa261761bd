"""On which nodes of a world its waiting pod may go, said the plain and slow way, from the manifests.

Written from the documentation of kube-scheduler's default plugins, without anything of `muster.gang`.
"""

from typing import Any

from tests.worlds import Manifest, World


def open_nodes(world: World) -> set[str]:
    """The nodes that pass every predicate for the pod that waits."""
    return {node["metadata"]["name"] for node in world.nodes if _fits(world, node)}


def _fits(world: World, node: Manifest) -> bool:
    pod = world.pending
    return (
        _schedulable(node, pod)
        and _tolerates_all(node, pod)
        and _selected(node, pod)
        and _ports_are_free(world, node)
        and _has_room(world, node)
        and _disks_are_free(world, node)
        and _volumes_allow(world, node)
        and _spread_allows(world, node)
        and _affinity_allows(world, node)
        and _anti_affinity_allows(world, node)
        and _others_allow(world, node)
    )


def _labels(thing: Manifest) -> dict[str, str]:
    labels: dict[str, str] = thing["metadata"].get("labels", {})
    return labels


def _on(world: World, node: Manifest) -> list[Manifest]:
    return [pod for pod in world.bound if pod["spec"]["nodeName"] == node["metadata"]["name"]]


def _tolerates(pod: Manifest, key: str, value: str, effect: str) -> bool:
    for one in pod["spec"].get("tolerations", []):
        if one.get("effect") and one["effect"] != effect:
            continue
        if one.get("key") and one["key"] != key:
            continue
        if one.get("operator") == "Exists" or one.get("value", "") == value:
            return True
    return False


def _schedulable(node: Manifest, pod: Manifest) -> bool:
    cordoned = node["spec"].get("unschedulable", False)
    return not cordoned or _tolerates(pod, "node.kubernetes.io/unschedulable", "", "NoSchedule")


def _tolerates_all(node: Manifest, pod: Manifest) -> bool:
    hard = [one for one in node["spec"].get("taints", []) if one["effect"] != "PreferNoSchedule"]
    return all(_tolerates(pod, one["key"], one["value"], one["effect"]) for one in hard)


def _expression(one: Manifest, labels: dict[str, str]) -> bool:
    value = labels.get(one["key"])
    match one["operator"]:
        case "In":
            return value in one["values"]
        case "NotIn":
            return value not in one["values"]
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and int(value) > int(one["values"][0])
        case "Lt":
            return value is not None and int(value) < int(one["values"][0])
    raise ValueError(one["operator"])


def _node_terms(terms: list[Manifest], labels: dict[str, str]) -> bool:
    return any(
        one.get("matchExpressions") and all(_expression(part, labels) for part in one["matchExpressions"])
        for one in terms
    )


def _selected(node: Manifest, pod: Manifest) -> bool:
    labels = _labels(node)
    if any(labels.get(key) != value for key, value in pod["spec"].get("nodeSelector", {}).items()):
        return False
    required = _required(pod, "nodeAffinity")
    return not required or _node_terms(required["nodeSelectorTerms"], labels)


def _required(pod: Manifest, kind: str) -> Any:
    found = pod["spec"].get("affinity", {}).get(kind, {})
    return found.get("requiredDuringSchedulingIgnoredDuringExecution", [])


def _ports(pod: Manifest) -> list[tuple[int, str, str]]:
    found = [port for container in pod["spec"]["containers"] for port in container.get("ports", [])]
    return [(port["hostPort"], port["protocol"], port.get("hostIP", "0.0.0.0")) for port in found]


def _ports_are_free(world: World, node: Manifest) -> bool:
    for number, protocol, address in _ports(world.pending):
        for pod in _on(world, node):
            for other in _ports(pod):
                meet = address == other[2] or "0.0.0.0" in (address, other[2])
                if (number, protocol) == other[:2] and meet:
                    return False
    return True


def _asks(pod: Manifest) -> dict[str, int]:
    requests = pod["spec"]["containers"][0]["resources"]["requests"]
    return {"pods": 1} | {name: _amount(text) for name, text in requests.items()}


def _amount(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else int(text) * 1000


def _has_room(world: World, node: Manifest) -> bool:
    allocatable = node["status"]["allocatable"]
    for resource, wanted in _asks(world.pending).items():
        used = sum(_asks(pod).get(resource, 0) for pod in _on(world, node))
        has = int(allocatable["pods"]) if resource == "pods" else _amount(allocatable.get(resource, "0"))
        if has - used < wanted:
            return False
    return True


def _disks_are_free(world: World, node: Manifest) -> bool:
    def disks(pod: Manifest) -> list[Manifest]:
        return [one["gcePersistentDisk"] for one in pod["spec"].get("volumes", []) if "gcePersistentDisk" in one]

    others = [disk for pod in _on(world, node) for disk in disks(pod)]
    return all(disk["readOnly"] and other["readOnly"] for disk in disks(world.pending) for other in others)


def _claims(pod: Manifest) -> list[str]:
    volumes = pod["spec"].get("volumes", [])
    return [one["persistentVolumeClaim"]["claimName"] for one in volumes if "persistentVolumeClaim" in one]


def _volumes_allow(world: World, node: Manifest) -> bool:
    space = world.pending["metadata"]["namespace"]
    for name in _claims(world.pending):
        (claim,) = (
            one for one in world.claims if one["metadata"]["name"] == name and one["metadata"]["namespace"] == space
        )
        if "volumeName" not in claim["spec"]:
            return False
        users = [pod for pod in world.bound if pod["metadata"]["namespace"] == space and name in _claims(pod)]
        if users and "ReadWriteOncePod" in claim["spec"]["accessModes"]:
            return False
        (volume,) = (one for one in world.volumes if one["metadata"]["name"] == claim["spec"]["volumeName"])
        affinity = volume["spec"].get("nodeAffinity")
        if affinity and not _node_terms(affinity["required"]["nodeSelectorTerms"], _labels(node)):
            return False
    return True


def _matches(selector: Manifest | None, labels: dict[str, str]) -> bool:
    if selector is None:
        return False
    pairs = all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())
    return pairs and all(_expression(one, labels) for one in selector.get("matchExpressions", []))


def _same(owner: Manifest, keys: list[str], labels: dict[str, str], *, equal: bool) -> bool:
    own = _labels(owner)
    return all((labels.get(key) == own[key]) is equal for key in keys if key in own)


def _meant(world: World, owner: Manifest, term: Manifest, other: Manifest) -> bool:
    """Whether a term of `owner` means the pod `other`."""
    space = other["metadata"]["namespace"]
    names, selector = term.get("namespaces", []), term.get("namespaceSelector")
    if not names and selector is None:
        names = [owner["metadata"]["namespace"]]
    (labels,) = (_labels(one) for one in world.namespaces if one["metadata"]["name"] == space)
    if space not in names and not _matches(selector, labels):
        return False
    return (
        _matches(term.get("labelSelector"), _labels(other))
        and _same(owner, term.get("matchLabelKeys", []), _labels(other), equal=True)
        and _same(owner, term.get("mismatchLabelKeys", []), _labels(other), equal=False)
    )


def _node_of(world: World, pod: Manifest) -> Manifest:
    return next(one for one in world.nodes if one["metadata"]["name"] == pod["spec"]["nodeName"])


def _together(node: Manifest, other: Manifest, key: str) -> bool:
    return key in _labels(node) and _labels(node)[key] == _labels(other).get(key)


def _affinity_allows(world: World, node: Manifest) -> bool:
    pod = world.pending
    terms = _required(pod, "podAffinity")
    if any(term["topologyKey"] not in _labels(node) for term in terms):
        return False
    friends = [other for other in world.bound if all(_meant(world, pod, term, other) for term in terms)]
    found = [any(_together(node, _node_of(world, friend), term["topologyKey"]) for friend in friends) for term in terms]
    if all(found):
        return True
    placed = any(term["topologyKey"] in _labels(_node_of(world, friend)) for term in terms for friend in friends)
    return not placed and all(_meant(world, pod, term, pod) for term in terms)


def _anti_affinity_allows(world: World, node: Manifest) -> bool:
    return not any(
        _meant(world, world.pending, term, other) and _together(node, _node_of(world, other), term["topologyKey"])
        for term in _required(world.pending, "podAntiAffinity")
        for other in world.bound
    )


def _others_allow(world: World, node: Manifest) -> bool:
    return not any(
        _meant(world, other, term, world.pending) and _together(node, _node_of(world, other), term["topologyKey"])
        for other in world.bound
        for term in _required(other, "podAntiAffinity")
    )


def _spread_allows(world: World, node: Manifest) -> bool:
    pod = world.pending
    hard = [
        one for one in pod["spec"].get("topologySpreadConstraints", []) if one["whenUnsatisfiable"] == "DoNotSchedule"
    ]
    for constraint in hard:
        key = constraint["topologyKey"]
        if key not in _labels(node):
            return False
        counted = [
            one
            for one in world.nodes
            if all(other["topologyKey"] in _labels(one) for other in hard)
            and (constraint.get("nodeAffinityPolicy") == "Ignore" or _selected(one, pod))
            and (constraint.get("nodeTaintsPolicy") != "Honor" or _tolerates_all(one, pod))
        ]
        counts: dict[str, int] = {}
        for one in counted:
            pods = sum(_is_counted(world, constraint, other) for other in _on(world, one))
            counts[_labels(one)[key]] = counts.get(_labels(one)[key], 0) + pods
        fewest = min(counts.values(), default=0) if len(counts) >= constraint.get("minDomains", 1) else 0
        itself = int(_counted_labels(constraint, pod, _labels(pod)))
        if counts and counts.get(_labels(node)[key], 0) + itself - fewest > constraint["maxSkew"]:
            return False
    return True


def _counted_labels(constraint: Manifest, pod: Manifest, labels: dict[str, str]) -> bool:
    same = _same(pod, constraint.get("matchLabelKeys", []), labels, equal=True)
    return _matches(constraint.get("labelSelector"), labels) and same


def _is_counted(world: World, constraint: Manifest, other: Manifest) -> bool:
    """An empty selector counts no pod that is there already."""
    pod = world.pending
    keys = [key for key in constraint.get("matchLabelKeys", []) if key in _labels(pod)]
    if constraint.get("labelSelector") == {} and not keys:
        return False
    here = other["metadata"]["namespace"] == pod["metadata"]["namespace"]
    alive = other["metadata"]["name"] not in world.leaving
    return here and alive and _counted_labels(constraint, pod, _labels(other))
