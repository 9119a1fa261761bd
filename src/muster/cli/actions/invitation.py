"""What a worker cluster grants to a manager, as manifests: as little as MultiKueue needs. Pure.

The manager sees Workloads and the kinds of jobs that it sends everywhere, for it follows them with one watch each, and
the queues; what it may write, and the output that it may read, can be confined to some namespaces.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from muster.api.core import NAMESPACE, POD, SECRET, SERVICE_ACCOUNT
from muster.api.kinds import Kind
from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD, LocalQueue
from muster.api.server.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, GROUP, ROLE_BINDING
from muster.jobs.podgroup.record import KINDS
from muster.multicluster.identity import NAMED_BY
from muster.multicluster.mirrors.table import MIRRORS

TOKEN = "kubernetes.io/service-account-token"  # noqa: S105  (a type of secrets)
LABEL = "muster.dev/invitation"  # whose value is the name of the account

_SEE = ("get", "list", "watch")
_MAKE = ("create", "delete", "patch", "update")

Manifest = tuple[Kind[Any], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Invitation:
    """What is granted, and to whom.

    name: of the service account, in the namespace `home`: one for each manager.
    namespaces: where the manager may have jobs run; all of them if empty.
    kinds: further ones that it may send, as PLURAL.GROUP.
    exec: whether it may run commands in pods that are there (`muster exec`).
    """

    name: str
    home: str
    namespaces: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    exec: bool = True

    @property
    def secret(self) -> str:
        """The name of the Secret with the token."""
        return f"{self.name}-token"

    @property
    def writing(self) -> list[Manifest]:
        """The bindings of what may be written; others that have the label are of an earlier invitation."""
        role = f"muster:{self.name}:work"
        if not self.namespaces:
            return [self._binding(CLUSTER_ROLE_BINDING, role)]
        return [self._binding(ROLE_BINDING, role, namespace) for namespace in self.namespaces]

    def manifests(self) -> list[Manifest]:
        """All of it, in the order in which it is to be made. The namespace may be there already."""
        seeing = f"muster:{self.name}:watch"
        account = {"kubernetes.io/service-account.name": self.name}
        return [
            (NAMESPACE, {"metadata": {"name": self.home}}),
            (SERVICE_ACCOUNT, {"metadata": self._meta(self.name, self.home)}),
            (SECRET, {"metadata": self._meta(self.secret, self.home) | {"annotations": account}, "type": TOKEN}),
            (CLUSTER_ROLE, {"metadata": self._meta(seeing), "rules": self._seen()}),
            (CLUSTER_ROLE, {"metadata": self._meta(f"muster:{self.name}:work"), "rules": self._written()}),
            self._binding(CLUSTER_ROLE_BINDING, seeing),
            *self.writing,
        ]

    def _seen(self) -> list[dict[str, Any]]:
        """The one namespace tells the manager which cluster this is."""
        which = _rule("", [NAMESPACE.plural], ("get",)) | {"resourceNames": [NAMED_BY]}
        queues = [(kind.group, kind.plural) for kind in (CLUSTER_QUEUE, LOCAL_QUEUE)]
        seen = _by_group([*self._resources(), *queues])
        return [*(_rule(group, plurals, _SEE) for group, plurals in seen), which]

    def _written(self) -> list[dict[str, Any]]:
        rules = [_rule(group, plurals, _MAKE) for group, plurals in _by_group(self._resources())]
        rules.append(_rule(WORKLOAD.group, [f"{WORKLOAD.plural}/status"], ("get", "patch", "update")))
        rules.append(_rule("", ["pods"], _SEE))
        groups = [(kind.group, kind.plural) for kind in KINDS]  # which pods may name
        rules += [_rule(group, plurals, ("create", "get", "patch")) for group, plurals in _by_group(groups)]
        logs = [(kind.group, f"{kind.plural}/log") for kind in (POD, *(mirror.kind for mirror in MIRRORS))]
        rules += [_rule(group, plurals, ("get",)) for group, plurals in _by_group(logs)]  # `muster logs`
        if self.exec:
            rules.append(_rule("", ["pods/exec"], ("create", "get")))
        return rules

    def _resources(self) -> list[tuple[str, str]]:
        """Group and plural of what it follows and sends."""
        own = [(kind.group, kind.plural) for kind in (WORKLOAD, *(mirror.kind for mirror in MIRRORS))]
        return own + [(group, plural) for plural, _, group in (kind.partition(".") for kind in self.kinds)]

    def _binding(self, kind: Kind[Any], role: str, namespace: str = "") -> Manifest:
        reference = {"apiGroup": GROUP, "kind": CLUSTER_ROLE.kind, "name": role}
        subject = {"kind": SERVICE_ACCOUNT.kind, "name": self.name, "namespace": self.home}
        return kind, {"metadata": self._meta(role, namespace), "roleRef": reference, "subjects": [subject]}

    def _meta(self, name: str, namespace: str = "") -> dict[str, Any]:
        return {"name": name, "labels": {LABEL: self.name}} | ({"namespace": namespace} if namespace else {})


def places(queues: Iterable[LocalQueue], home: str) -> tuple[str, ...]:
    """The namespaces in which a manager's jobs may run unless the user says otherwise: where there are queues for them.

    home: where the invitation is; what is there, and in Kubernetes' own namespaces, belongs to the cluster.
    """
    found = {queue.metadata.namespace for queue in queues}
    return tuple(sorted(name for name in found if name != home and not name.startswith("kube-")))


def _by_group(resources: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    found: dict[str, list[str]] = {}
    for group, plural in dict.fromkeys(resources):
        found.setdefault(group, []).append(plural)
    return list(found.items())


def _rule(group: str, resources: Sequence[str], verbs: Sequence[str]) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
