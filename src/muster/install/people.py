"""Write the roles for users, equal to Kueue's.

Users with `admin` or `edit` in a namespace submit jobs there and see their state; users with `view` see that state.
`kueue-batch-admin-role` is for administrators of queues, `kueue-batch-user-role` for users who submit jobs. Bindings
refer to these names, so the names are Kueue's. The roles also aggregate, by Kueue's labels, the rules that other
programs add.
"""

from typing import Any, Final

from muster.api.batch import JOB
from muster.api.jobset import JOB_SET
from muster.api.kinds import Kind
from muster.api.kueue import KUEUE_KINDS, LOCAL_QUEUE, WORKLOAD
from muster.api.kueue.visibility import VISIBILITY_GROUP
from muster.api.podgroups import POD_GROUP_KINDS
from muster.api.server.rbac import GROUP
from muster.install.options import Json, make_metadata
from muster.install.roles import READ, cluster_role, make_rules

_ALL: Final = (*READ, "create", "delete", "patch", "update")
_JOBS: Final[tuple[Kind[Any], ...]] = (JOB, JOB_SET, *POD_GROUP_KINDS)
_QUEUES: Final = (LOCAL_QUEUE, WORKLOAD)
# The pending workloads of a queue.
_LINES: Final = {
    "apiGroups": [VISIBILITY_GROUP],
    "resources": ["clusterqueues/pendingworkloads", "localqueues/pendingworkloads"],
    "verbs": ["get"],
}


def make_user_roles() -> list[Json]:
    """Return the ClusterRoles for users; cluster administrators create the bindings."""
    return [
        _make_collecting_role("kueue-batch-admin-role", "batch-admin"),
        _make_collecting_role("kueue-batch-user-role", "batch-user"),
        cluster_role(
            "muster-queues-editor",
            [*make_rules(_ALL, *KUEUE_KINDS), *make_rules(READ, *KUEUE_KINDS, of="status"), _LINES],
            _make_labels_for("batch-admin"),
        ),
        cluster_role(
            "muster-jobs-editor",
            [*make_rules(_ALL, *_JOBS), *make_rules(READ, *_JOBS, of="status")],
            _make_labels_for("batch-admin", "batch-user") | _make_labels_within("admin", "edit"),
        ),
        cluster_role(
            "muster-jobs-viewer",
            [*make_rules(READ, *_JOBS, *_QUEUES), *make_rules(READ, *_JOBS, *_QUEUES, of="status"), _LINES],
            _make_labels_for("batch-user") | _make_labels_within("admin", "edit", "view"),
        ),
        cluster_role("muster-queues-viewer", make_rules(READ, *KUEUE_KINDS), _make_labels_for("batch-user")),
    ]


def _make_labels_for(*names: str) -> dict[str, str]:
    """Return the labels of a role that is aggregated into Kueue's roles."""
    return {f"rbac.kueue.x-k8s.io/{name}": "true" for name in names}


def _make_labels_within(*names: str) -> dict[str, str]:
    """Return the labels of a role that is aggregated into Kubernetes' own roles."""
    return {f"{GROUP}/aggregate-to-{name}": "true" for name in names}


def _make_collecting_role(name: str, label: str) -> Json:
    """Return a role into which the cluster aggregates the rules of labelled roles."""
    head = {"apiVersion": f"{GROUP}/v1", "kind": "ClusterRole", "metadata": make_metadata(name)}
    return head | {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": _make_labels_for(label)}]}}
