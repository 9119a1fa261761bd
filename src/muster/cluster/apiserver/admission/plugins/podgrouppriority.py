"""Give the priority class of a PodGroup to its pods, because the engine queues and preempts pods."""

from muster.api.core import POD
from muster.api.groups.scheduling import PRIORITY_CLASS
from muster.cluster.apiserver.admission.chain import Plugin, WriteAttempt
from muster.cluster.store import Key, Store
from muster.controllers.podgroup.gang import PodGroups
from muster.jobs.podgroup.record import read
from muster.jobs.podgroup.reference import reference_of


def set_group_priority(groups: PodGroups) -> Plugin:
    """Return the plugin that gives a new pod the priority class of its PodGroup, in place.

    A pod with its own class or priority keeps it. The group must exist and name an existing class.
    """

    def set_class(attempt: WriteAttempt, store: Store) -> None:
        if attempt.operation != "CREATE" or attempt.resource.key != POD.resource or attempt.subresource:
            return
        spec = attempt.document["spec"]
        if spec.get("priorityClassName") or "priority" in spec:
            return
        pod = POD.typed(attempt.document)
        reference, key = reference_of(pod), groups.key(pod)
        if reference is None or not key:
            return
        for kind in groups.kinds:
            entry = store.latest(Key(kind.resource, attempt.namespace, reference.name))
            group = kind.decode(entry.body) if entry is not None else None
            if group is not None and groups.key_of(group) == key:
                name = read(group).priority_class
                if name and store.latest(Key(PRIORITY_CLASS.resource, "", name)) is not None:
                    spec["priorityClassName"] = name
                return

    return set_class
