"""Small random clusters with one pod that waits: what may decide on which nodes it can go, and little else.

A world's nodes, labels and namespaces carry its name, so that many worlds live in one cluster and never meet.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec

from muster.api.core import Node, PersistentVolume, PersistentVolumeClaim, Pod

Manifest = dict[str, Any]


@dataclass
class World:
    """Manifests. bound: pods with a node; leaving: the names of those that are being deleted."""

    name: str
    namespaces: list[Manifest] = field(default_factory=list)
    nodes: list[Manifest] = field(default_factory=list)
    volumes: list[Manifest] = field(default_factory=list)
    claims: list[Manifest] = field(default_factory=list)
    bound: list[Manifest] = field(default_factory=list)
    leaving: set[str] = field(default_factory=set)
    pending: Manifest = field(default_factory=dict)

    def node_objects(self) -> list[Node]:
        """The nodes."""
        return [msgspec.convert(one, Node) for one in self.nodes]

    def bound_objects(self) -> list[Pod]:
        """The pods with a node."""
        gone = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
        pods = []
        for one in self.bound:
            meta = one["metadata"] | (gone if one["metadata"]["name"] in self.leaving else {})
            pods.append(msgspec.convert(one | {"metadata": meta | {"uid": meta["name"]}}, Pod))
        return pods

    def pending_object(self) -> Pod:
        """The pod that waits."""
        meta = self.pending["metadata"]
        return msgspec.convert(self.pending | {"metadata": meta | {"uid": meta["name"]}}, Pod)

    def volume_objects(self) -> list[PersistentVolume]:
        """The volumes."""
        return [msgspec.convert(one, PersistentVolume) for one in self.volumes]

    def claim_objects(self) -> list[PersistentVolumeClaim]:
        """The claims."""
        return [msgspec.convert(one, PersistentVolumeClaim) for one in self.claims]


def random_world(random: Random, name: str = "0") -> World:
    """A world of up to five nodes and nine pods."""
    return _Maker(random, name).make()


class _Maker:
    def __init__(self, random: Random, name: str) -> None:
        self._random = random
        self._world = World(name)
        self._name = name
        self._keys = [f"zone-{name}", f"rack-{name}", f"host-{name}"]
        self._spaces = [f"w{name}-a", f"w{name}-b"]

    def make(self) -> World:
        world = self._world
        for space in self._spaces:
            labels = self._some({"team": ["red", "blue"]}, 0.7)
            world.namespaces.append({"metadata": {"name": space, "labels": {**labels}}})
        for number in range(self._random.randint(1, 5)):
            world.nodes.append(self._node(f"w{self._name}-n{number}"))
        for number in range(self._random.randint(0, 2)):
            self._volume(number)
        for number in range(self._random.randint(0, 8)):
            pod = self._pod(f"w{self._name}-p{number}", busy=0.25)
            pod["spec"]["nodeName"] = self._one(world.nodes)["metadata"]["name"]
            world.bound.append(pod)
            if self._chance(0.1):
                world.leaving.add(pod["metadata"]["name"])
        world.pending = self._pod(f"w{self._name}-pending", busy=0.5)
        world.pending["spec"].setdefault("nodeSelector", {})["world"] = self._name
        return world

    def _node(self, name: str) -> Manifest:
        values = zip(self._keys, ("ab", "xyz", [name]), (0.9, 0.8, 0.95), strict=True)
        labels = {key: self._one(options) for key, options, chance in values if self._chance(chance)}
        labels |= self._some({"disk": ["ssd", "hdd"], "cores": ["2", "8"]}, 0.5)
        taints = [
            {"key": "dedicated", "value": self._one(["red", "blue"]), "effect": effect}
            for effect in ("NoSchedule", "NoExecute", "PreferNoSchedule")
            if self._chance(0.12)
        ]
        spec: Manifest = {"taints": taints} if taints else {}
        if self._chance(0.08):
            spec["unschedulable"] = True
        resources = {"cpu": self._one(["1", "2", "4"]), "memory": "8Gi", "pods": self._one(["3", "110"])}
        if self._chance(0.5):
            resources["example.com/gpu"] = self._one(["1", "2"])
        status = {"allocatable": resources, "capacity": resources, "conditions": [{"type": "Ready", "status": "True"}]}
        return {"metadata": {"name": name, "labels": labels | {"world": self._name}}, "spec": spec, "status": status}

    def _volume(self, number: int) -> None:
        name, space = f"w{self._name}-v{number}", self._one(self._spaces)
        mode = self._one(["ReadWriteOnce", "ReadWriteOncePod"])
        reference = {"kind": "PersistentVolumeClaim", "namespace": space, "name": f"claim{number}"}
        spec: Manifest = {
            "capacity": {"storage": "1Gi"}, "accessModes": [mode], "hostPath": {"path": "/none"}, "claimRef": reference
        }  # fmt: skip
        if self._chance(0.6):
            expression = {"key": self._keys[0], "operator": self._one(["In", "NotIn"]), "values": [self._one("ab")]}
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
        self._world.volumes.append({"metadata": {"name": name}, "spec": spec})
        bound = {"pv.kubernetes.io/bind-completed": "yes"} if self._chance(0.85) else {}
        meta = {"name": f"claim{number}", "namespace": space, "annotations": bound}
        asked = {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}}
        if bound:
            asked |= {"volumeName": name}
        self._world.claims.append({"metadata": meta, "spec": asked | {"storageClassName": ""}})

    def _pod(self, name: str, *, busy: float) -> Manifest:
        """busy: how likely each kind of term is."""
        space = self._one(self._spaces)
        labels = {"app": self._one("ab"), **self._some({"tier": ["x", "y"], "version": ["1", "2"]}, 0.5)}
        container: Manifest = {"name": "c", "image": "none"}
        requests = {"cpu": self._one(["100m", "500m", "1"])} if self._chance(0.7) else {}
        if self._chance(0.15):
            requests["example.com/gpu"] = "1"
            container["resources"] = {"limits": {"example.com/gpu": "1"}}
        container["resources"] = container.get("resources", {}) | {"requests": requests}
        if self._chance(busy * 0.6):
            container["ports"] = [self._port() for _ in range(self._random.randint(1, 2))]
            seen = {(one["protocol"], one["hostPort"], one.get("hostIP", "")): one for one in container["ports"]}
            container["ports"] = list(seen.values())
        spec: Manifest = {"containers": [container], "terminationGracePeriodSeconds": 30}
        affinity: Manifest = {}
        if self._chance(busy * 0.6):
            affinity["nodeAffinity"] = {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": self._node_terms()}
            }
        for key, chance in (("podAffinity", 0.5), ("podAntiAffinity", 0.8)):
            if self._chance(busy * chance):
                terms = [self._term() for _ in range(self._random.randint(1, 2))]
                affinity[key] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        if affinity:
            spec["affinity"] = affinity
        if self._chance(busy * 0.5):
            spec["nodeSelector"] = self._some({"disk": ["ssd", "hdd"]}, 0.8)
        if self._chance(busy):
            spec["tolerations"] = [self._toleration()]
        if self._chance(busy * 0.9):
            keys = self._random.sample(self._keys, self._random.randint(1, 2))
            spec["topologySpreadConstraints"] = [self._spread(key) for key in keys]
        here = [one["metadata"]["name"] for one in self._world.claims if one["metadata"]["namespace"] == space]
        if here and self._chance(busy * 0.7):
            spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": self._one(here)}}]
        elif self._chance(0.05):
            disk = {"pdName": "disk", "readOnly": self._chance(0.5)}
            spec["volumes"] = [{"name": "v", "gcePersistentDisk": disk}]
        return {"metadata": {"name": name, "namespace": space, "labels": labels}, "spec": spec}

    def _port(self) -> Manifest:
        number = self._random.choice([8080, 9090])
        port: Manifest = {"hostPort": number, "containerPort": number, "protocol": self._one(["TCP", "TCP", "UDP"])}
        if self._chance(0.4):
            port["hostIP"] = self._one(["10.0.0.1", "10.0.0.2", "0.0.0.0"])
        return port

    def _node_terms(self) -> list[Manifest]:
        def expression() -> Manifest:
            operator = self._one(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
            if operator in ("Gt", "Lt"):
                return {"key": "cores", "operator": operator, "values": ["4"]}
            key = self._one(["disk", "cores", self._keys[0]])
            values = {"disk": ["ssd"], "cores": ["8"], self._keys[0]: ["a"]}[key]
            return {"key": key, "operator": operator} | ({"values": values} if operator in ("In", "NotIn") else {})

        return [
            {"matchExpressions": [expression() for _ in range(self._random.randint(1, 2))]}
            for _ in range(self._random.randint(1, 2))
        ]

    def _selector(self) -> Manifest:
        choice = self._random.randint(0, 5)
        if choice == 0:
            return {}
        if choice == 1:
            return {"matchExpressions": [{"key": "tier", "operator": self._one(["Exists", "DoesNotExist"])}]}
        if choice == 2:
            return {"matchExpressions": [{"key": "app", "operator": self._one(["In", "NotIn"]), "values": ["a", "c"]}]}
        return {"matchLabels": {"app": self._one("ab")}}

    def _term(self) -> Manifest:
        term: Manifest = {"topologyKey": self._one(self._keys)}
        if self._chance(0.95):
            term["labelSelector"] = self._selector()
            if self._chance(0.2):
                term[self._one(["matchLabelKeys", "mismatchLabelKeys"])] = ["version"]
        if self._chance(0.3):
            term["namespaces"] = self._random.sample(self._spaces, self._random.randint(1, 2))
        if self._chance(0.3):
            term["namespaceSelector"] = self._one([{}, {"matchLabels": {"team": "red"}}])
        return term

    def _spread(self, key: str) -> Manifest:
        constraint: Manifest = {
            "topologyKey": key,
            "maxSkew": self._one([1, 1, 2]),
            "whenUnsatisfiable": self._one(["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]),
        }
        if self._chance(0.95):
            constraint["labelSelector"] = self._selector()
            if self._chance(0.2):
                constraint["matchLabelKeys"] = ["version"]
        if constraint["whenUnsatisfiable"] == "DoNotSchedule" and self._chance(0.3):
            constraint["minDomains"] = self._one([2, 3])
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if self._chance(0.4):
                constraint[policy] = self._one(["Honor", "Ignore"])
        return constraint

    def _toleration(self) -> Manifest:
        options: list[Manifest] = [
            {"operator": "Exists"},
            {"key": "dedicated", "operator": "Exists"},
            {"key": "dedicated", "operator": "Equal", "value": "red"},
            {"key": "dedicated", "value": "blue", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
        ]
        return options[self._random.randrange(len(options))]

    def _one(self, options: Sequence[Any]) -> Any:
        return options[self._random.randrange(len(options))]

    def _some(self, options: dict[str, list[str]], chance: float) -> dict[str, str]:
        return {key: self._one(values) for key, values in options.items() if self._chance(chance)}

    def _chance(self, share: float) -> bool:
        return self._random.random() < share
