"""Make the manifests of the rights that a worker cluster grants to a manager: only what MultiKueue needs. Pure.

The manager reads queues, Workloads and the kinds of jobs that it sends in all namespaces, because it follows each kind
with one watch. The rights to write, and to read output, can be limited to some namespaces.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from muster.api.core import NAMESPACE, POD, SECRET, SERVICE_ACCOUNT
from muster.api.kinds import Kind
from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD, LocalQueue
from muster.api.ours.invitations import INVITATION_LABEL
from muster.api.server.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, GROUP, ROLE_BINDING
from muster.jobs.podgroup.record import KINDS
from muster.multicluster.links.identity import NAMED_BY
from muster.multicluster.mirrors.table import MIRRORS

TOKEN = "kubernetes.io/service-account-token"  # noqa: S105  (a type of secrets)

_SEE = ("get", "list", "watch")
_MAKE = ("create", "delete", "patch", "update")

Manifest = tuple[Kind[Any], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Invitation:
    """The rights that a manager gets in this cluster, and the service account that has them.

    name: the name of the service account, in the namespace `home`; each manager has its own.
    namespaces: where the manager may run jobs; all namespaces if empty.
    kinds: further kinds of jobs that the manager may send, as PLURAL.GROUP.
    exec: whether the manager may run commands in existing pods (`muster exec`).
    """

    name: str
    home: str
    namespaces: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    exec: bool = True

    @property
    def label(self) -> str:
        """The label that all objects of the invitation have."""
        return INVITATION_LABEL

    @property
    def secret(self) -> str:
        """The name of the Secret with the service account's token."""
        return f"{self.name}-token"

    @property
    def writing(self) -> list[Manifest]:
        """The bindings of the rights to write. Any other binding with the label belongs to an earlier invitation."""
        role = f"muster:{self.name}:work"
        if not self.namespaces:
            return [self._make_binding(CLUSTER_ROLE_BINDING, role)]
        return [self._make_binding(ROLE_BINDING, role, namespace) for namespace in self.namespaces]

    def manifests(self) -> list[Manifest]:
        """Return all manifests in the order in which to create them. The namespace may exist already."""
        seeing = f"muster:{self.name}:watch"
        account = {"kubernetes.io/service-account.name": self.name}
        return [
            (NAMESPACE, {"metadata": {"name": self.home}}),
            (SERVICE_ACCOUNT, {"metadata": self._make_metadata(self.name, self.home)}),
            (
                SECRET,
                {"metadata": self._make_metadata(self.secret, self.home) | {"annotations": account}, "type": TOKEN},
            ),
            (CLUSTER_ROLE, {"metadata": self._make_metadata(seeing), "rules": self._make_read_rules()}),
            (
                CLUSTER_ROLE,
                {"metadata": self._make_metadata(f"muster:{self.name}:work"), "rules": self._make_write_rules()},
            ),
            self._make_binding(CLUSTER_ROLE_BINDING, seeing),
            *self.writing,
        ]

    def _make_read_rules(self) -> list[dict[str, Any]]:
        """Return the rules for reading in all namespaces, including kube-system, whose UID identifies this cluster."""
        which = make_rule("", [NAMESPACE.plural], ("get",)) | {"resourceNames": [NAMED_BY]}
        queues = [(kind.group, kind.plural) for kind in (CLUSTER_QUEUE, LOCAL_QUEUE)]
        groups = _group_resources([*self._list_resources(), *queues])
        return [*(make_rule(group, plurals, _SEE) for group, plurals in groups), which]

    def _make_write_rules(self) -> list[dict[str, Any]]:
        """Return the rules to create and change Workloads, the kinds of jobs that the manager sends, and PodGroups.

        They also allow reading pods and their output, and `exec` if the invitation includes it.
        """
        rules = [make_rule(group, plurals, _MAKE) for group, plurals in _group_resources(self._list_resources())]
        rules.append(make_rule(WORKLOAD.group, [f"{WORKLOAD.plural}/status"], ("get", "patch", "update")))
        rules.append(make_rule("", ["pods"], _SEE))
        groups = [(kind.group, kind.plural) for kind in KINDS]  # the kinds of PodGroups, which pods may name
        rules += [make_rule(group, plurals, ("create", "get", "patch")) for group, plurals in _group_resources(groups)]
        logs = [(kind.group, f"{kind.plural}/log") for kind in (POD, *(mirror.kind for mirror in MIRRORS))]
        rules += [make_rule(group, plurals, ("get",)) for group, plurals in _group_resources(logs)]  # for `muster logs`
        if self.exec:
            rules.append(make_rule("", ["pods/exec"], ("create", "get")))
        return rules

    def _list_resources(self) -> list[tuple[str, str]]:
        """Return the API group and the plural name of each kind that the manager watches and sends."""
        own = [(kind.group, kind.plural) for kind in (WORKLOAD, *(mirror.kind for mirror in MIRRORS))]
        return own + [(group, plural) for plural, _, group in (kind.partition(".") for kind in self.kinds)]

    def _make_binding(self, kind: Kind[Any], role: str, namespace: str = "") -> Manifest:
        reference = {"apiGroup": GROUP, "kind": CLUSTER_ROLE.kind, "name": role}
        subject = {"kind": SERVICE_ACCOUNT.kind, "name": self.name, "namespace": self.home}
        return kind, {"metadata": self._make_metadata(role, namespace), "roleRef": reference, "subjects": [subject]}

    def _make_metadata(self, name: str, namespace: str = "") -> dict[str, Any]:
        return {"name": name, "labels": {INVITATION_LABEL: self.name}} | ({"namespace": namespace} if namespace else {})


def choose_namespaces(queues: Iterable[LocalQueue], home: str) -> tuple[str, ...]:
    """Return the default namespaces for a manager's jobs: the namespaces that have LocalQueues.

    home: the namespace of the invitation, which is left out, and so are the namespaces of Kubernetes itself.
    """
    namespaces = {queue.metadata.namespace for queue in queues}
    return tuple(sorted(name for name in namespaces if name != home and not name.startswith("kube-")))


def _group_resources(resources: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    resources_by_group: dict[str, list[str]] = {}
    for group, plural in dict.fromkeys(resources):
        resources_by_group.setdefault(group, []).append(plural)
    return list(resources_by_group.items())


def make_rule(group: str, resources: Sequence[str], verbs: Sequence[str]) -> dict[str, Any]:
    """Return a rule of an RBAC role."""
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
