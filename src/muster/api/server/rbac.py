"""`rbac.authorization.k8s.io/v1`: roles and bindings. Rules only grant rights; an access without a rule is refused."""

from muster.api.kinds import Kind
from muster.api.markers import Required
from muster.api.meta import LabelSelector, ObjectMeta, Struct

GROUP = "rbac.authorization.k8s.io"


class PolicyRule(Struct):
    """A rule that grants verbs on resources, or on paths that are no resources."""

    verbs: Required[tuple[str, ...]] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = ()


class Role(Struct):
    """Rights in one namespace."""

    metadata: ObjectMeta = ObjectMeta()
    rules: tuple[PolicyRule, ...] = ()


class AggregationRule(Struct):
    """The selectors of the ClusterRoles whose rules a ClusterRole combines."""

    cluster_role_selectors: tuple[LabelSelector, ...] = ()


class ClusterRole(Struct):
    """Rights in the whole cluster, or, bound by a RoleBinding, in one namespace."""

    metadata: ObjectMeta = ObjectMeta()
    rules: tuple[PolicyRule, ...] = ()
    aggregation_rule: AggregationRule | None = None


class Subject(Struct):
    """A user, a group or a service account that gets rights."""

    kind: Required[str] = ""
    api_group: str = ""
    name: Required[str] = ""
    namespace: str = ""


class RoleRef(Struct):
    """A reference to the role that a binding grants."""

    api_group: Required[str] = ""
    kind: Required[str] = ""
    name: Required[str] = ""


class RoleBinding(Struct):
    """A binding that grants a role to subjects in one namespace."""

    metadata: ObjectMeta = ObjectMeta()
    subjects: tuple[Subject, ...] = ()
    role_ref: Required[RoleRef] = RoleRef()


class ClusterRoleBinding(Struct):
    """A binding that grants a ClusterRole to subjects in the whole cluster."""

    metadata: ObjectMeta = ObjectMeta()
    subjects: tuple[Subject, ...] = ()
    role_ref: Required[RoleRef] = RoleRef()


ROLE = Kind(GROUP, "v1", "Role", "roles", Role)
CLUSTER_ROLE = Kind(GROUP, "v1", "ClusterRole", "clusterroles", ClusterRole, namespaced=False)
ROLE_BINDING = Kind(GROUP, "v1", "RoleBinding", "rolebindings", RoleBinding)
CLUSTER_ROLE_BINDING = Kind(
    GROUP, "v1", "ClusterRoleBinding", "clusterrolebindings", ClusterRoleBinding, namespaced=False
)
