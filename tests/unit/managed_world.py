"""What there is beside an object, for tests of what happens to it on its way in."""

from dataclasses import dataclass, field

import msgspec

from muster.api.kueue import LocalQueue
from muster.api.meta import ObjectMeta


@dataclass
class World:
    """Surroundings: LocalQueues by name, with their ClusterQueues."""

    queues: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    parent: ObjectMeta | None = None
    classes: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()

    def local_queue(self, namespace, name):
        spec = {"clusterQueue": self.queues.get(name)}
        return msgspec.convert({"metadata": {"name": name}, "spec": spec}, LocalQueue) if name in self.queues else None

    def namespace_labels(self, namespace):
        return self.labels

    def owner(self, namespace, reference):
        return self.parent

    def has_priority_class(self, name):
        return name in self.classes

    def goes_elsewhere(self, cluster_queue):
        return cluster_queue in self.elsewhere


DEFAULT = World({"default": "cq"})
