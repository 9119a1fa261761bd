"""Make the manifests of a user's account and rights, and the user's login command. Pure.

The user works in one namespace with the rights of the ClusterRole `edit`, and with the further rights that
`muster hold` and `muster cancel` need. In the whole cluster the user reads nodes, quotas and priorities, as
`muster top` and `muster why` show them. An administrator may do everything.
"""

import base64
from dataclasses import dataclass
from typing import Any

import msgspec

from muster.api.core import NAMESPACE, SECRET, SERVICE_ACCOUNT
from muster.api.kinds import Kind
from muster.api.ours.users import USER_LABEL, USER_QUEUE_ANNOTATION, USERS_NAMESPACE, WORK_ROLE, WORK_RULES
from muster.api.server.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, GROUP, ROLE_BINDING
from muster.cli.actions.clusters.invitation import TOKEN, Manifest, make_rule

_READ = ("get", "list", "watch")
_SEE = "muster:users:see"
_SEE_RULES = [
    make_rule("", ["nodes"], _READ),
    make_rule("kueue.x-k8s.io", ["clusterqueues", "cohorts", "resourceflavors", "workloadpriorityclasses"], _READ),
    make_rule("scheduling.k8s.io", ["priorityclasses"], _READ),
]


@dataclass(frozen=True, slots=True)
class NewUser:
    """A user to add to the cluster, with the rights that the user gets.

    namespace: where the user's jobs run.
    queue: the LocalQueue of jobs that name none; "" for the default queue.
    admin: whether the user may do everything.
    home, label: the namespace and the label of the user's objects.
    """

    name: str
    namespace: str
    queue: str = ""
    admin: bool = False
    home: str = USERS_NAMESPACE
    label: str = USER_LABEL

    @property
    def secret(self) -> str:
        """The name of the Secret with the user's token."""
        return f"{self.name}-token"

    def manifests(self) -> list[Manifest]:
        """Return all manifests in the order in which to create them. The namespace may exist already."""
        account = {"kubernetes.io/service-account.name": self.name}
        queue = {USER_QUEUE_ANNOTATION: self.queue} if self.queue else {}
        rights = [self._make_binding(CLUSTER_ROLE_BINDING, _SEE)]
        rights += [self._make_binding(ROLE_BINDING, role, self.namespace) for role in ("edit", WORK_ROLE)]
        return [
            (NAMESPACE, {"metadata": {"name": self.home}}),
            (CLUSTER_ROLE, {"metadata": {"name": _SEE}, "rules": _SEE_RULES}),
            (CLUSTER_ROLE, {"metadata": {"name": WORK_ROLE}, "rules": msgspec.to_builtins(WORK_RULES)}),
            (SERVICE_ACCOUNT, {"metadata": self._make_metadata(self.name, self.home) | {"annotations": queue}}),
            (
                SECRET,
                {"metadata": self._make_metadata(self.secret, self.home) | {"annotations": account}, "type": TOKEN},
            ),
            *([self._make_binding(CLUSTER_ROLE_BINDING, "cluster-admin")] if self.admin else []),
            *rights,
        ]

    def _make_binding(self, kind: Kind[Any], role: str, namespace: str = "") -> Manifest:
        reference = {"apiGroup": GROUP, "kind": CLUSTER_ROLE.kind, "name": role}
        subject = {"kind": SERVICE_ACCOUNT.kind, "name": self.name, "namespace": self.home}
        metadata = self._make_metadata(f"muster:user:{self.name}:{role}", namespace)
        return kind, {"metadata": metadata, "roleRef": reference, "subjects": [subject]}

    def _make_metadata(self, name: str, namespace: str = "") -> dict[str, Any]:
        return {"name": name, "labels": {self.label: self.name}} | ({"namespace": namespace} if namespace else {})


def login_command(kubeconfig: str) -> str:
    """Return a shell command that stores a kubeconfig where the user's `muster` finds it, and then lists the jobs."""
    encoded = base64.b64encode(kubeconfig.encode()).decode()
    return (
        f'(umask 077 && d="${{MUSTER_HOME:-$HOME/.muster}}" && mkdir -p "$d" && '
        f'echo {encoded} | base64 -d > "$d/login.kubeconfig") && muster ps'
    )
