"""The columns and cells of role bindings. Roles have the default columns."""

from datetime import datetime

from muster.api.server.rbac import CLUSTER_ROLE_BINDING, ROLE_BINDING, ClusterRoleBinding, RoleBinding
from muster.cluster.apiserver.tables.printer import AGE, NAME, Cells, Column, Printer, format_age, make_wide_column


def _render_binding(binding: RoleBinding | ClusterRoleBinding, now: datetime) -> Cells:
    meta, ref = binding.metadata, binding.role_ref
    subjects: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in binding.subjects:
        name = f"{subject.namespace}/{subject.name}" if subject.kind == "ServiceAccount" else subject.name
        subjects.setdefault(subject.kind, []).append(name)
    who = [", ".join(subjects[kind]) for kind in ("User", "Group", "ServiceAccount")]
    return [meta.name, f"{ref.kind}/{ref.name}", format_age(meta.creation_timestamp, now), *who]


_PRINTER = Printer(
    (
        NAME,
        Column(name="Role", description="The role that is given."),
        AGE,
        make_wide_column("Users", "The users among the subjects."),
        make_wide_column("Groups", "The groups among the subjects."),
        make_wide_column("ServiceAccounts", "The service accounts among the subjects."),
    ),
    _render_binding,
)
RBAC = {ROLE_BINDING.resource: _PRINTER, CLUSTER_ROLE_BINDING.resource: _PRINTER}
