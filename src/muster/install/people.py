"""What people may do, as Kueue hands it out.

Who has `admin` or `edit` in a namespace submits jobs there and sees where they stand; who has `view` sees that.
`kueue-batch-admin-role` is for those who keep the queues, `kueue-batch-user-role` for those who submit. They are bound
by name, so they are called as in Kueue, and they collect by Kueue's labels what other programs add to them.
"""

from typing import Any, Final

from muster.api.batch import JOB
from muster.api.jobset import JOB_SET
from muster.api.kinds import Kind
from muster.api.kueue import KUEUE_KINDS, LOCAL_QUEUE, WORKLOAD
from muster.api.kueue.visibility import VISIBILITY_GROUP
from muster.api.podgroups import POD_GROUP_KINDS
from muster.api.server.rbac import GROUP
from muster.install.options import Json, metadata
from muster.install.roles import READ, cluster_role, rules

_ALL: Final = (*READ, "create", "delete", "patch", "update")
_JOBS: Final[tuple[Kind[Any], ...]] = (JOB, JOB_SET, *POD_GROUP_KINDS)
_QUEUES: Final = (LOCAL_QUEUE, WORKLOAD)
# Who waits in a queue, in order.
_LINES: Final = {
    "apiGroups": [VISIBILITY_GROUP],
    "resources": ["clusterqueues/pendingworkloads", "localqueues/pendingworkloads"],
    "verbs": ["get"],
}


def peoples_rights() -> list[Json]:
    """The roles, without bindings: those are for the users who keep the cluster."""
    return [
        _collecting("kueue-batch-admin-role", "batch-admin"),
        _collecting("kueue-batch-user-role", "batch-user"),
        cluster_role(
            "muster-queues-editor",
            [*rules(_ALL, *KUEUE_KINDS), *rules(READ, *KUEUE_KINDS, of="status"), _LINES],
            _for("batch-admin"),
        ),
        cluster_role(
            "muster-jobs-editor",
            [*rules(_ALL, *_JOBS), *rules(READ, *_JOBS, of="status")],
            _for("batch-admin", "batch-user") | _within("admin", "edit"),
        ),
        cluster_role(
            "muster-jobs-viewer",
            [*rules(READ, *_JOBS, *_QUEUES), *rules(READ, *_JOBS, *_QUEUES, of="status"), _LINES],
            _for("batch-user") | _within("admin", "edit", "view"),
        ),
        cluster_role("muster-queues-viewer", rules(READ, *KUEUE_KINDS), _for("batch-user")),
    ]


def _for(*names: str) -> dict[str, str]:
    """Labels of what is collected into Kueue's roles."""
    return {f"rbac.kueue.x-k8s.io/{name}": "true" for name in names}


def _within(*names: str) -> dict[str, str]:
    """Labels of what is collected into Kubernetes' own roles."""
    return {f"{GROUP}/aggregate-to-{name}": "true" for name in names}


def _collecting(name: str, label: str) -> Json:
    """A role whose rules the cluster writes."""
    head = {"apiVersion": f"{GROUP}/v1", "kind": "ClusterRole", "metadata": metadata(name)}
    return head | {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": _for(label)}]}}
