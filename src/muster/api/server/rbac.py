"""`rbac.authorization.k8s.io/v1`: who may do what. Rules grant only; what no rule grants is refused."""

from muster.api.kinds import Kind
from muster.api.markers import Required
from muster.api.meta import LabelSelector, ObjectMeta, Struct

GROUP = "rbac.authorization.k8s.io"


class PolicyRule(Struct):
    """What may be done: verbs on resources, or on paths that are no resources."""

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
    """Which ClusterRoles a ClusterRole is put together from."""

    cluster_role_selectors: tuple[LabelSelector, ...] = ()


class ClusterRole(Struct):
    """Rights in the whole cluster, or, bound by a RoleBinding, in one namespace."""

    metadata: ObjectMeta = ObjectMeta()
    rules: tuple[PolicyRule, ...] = ()
    aggregation_rule: AggregationRule | None = None


class Subject(Struct):
    """A user, a group or a service account to which rights are given."""

    kind: Required[str] = ""
    api_group: str = ""
    name: Required[str] = ""
    namespace: str = ""


class RoleRef(Struct):
    """The role that is given."""

    api_group: Required[str] = ""
    kind: Required[str] = ""
    name: Required[str] = ""


class RoleBinding(Struct):
    """Gives a role to subjects, in one namespace."""

    metadata: ObjectMeta = ObjectMeta()
    subjects: tuple[Subject, ...] = ()
    role_ref: Required[RoleRef] = RoleRef()


class ClusterRoleBinding(Struct):
    """Gives a ClusterRole to subjects, everywhere."""

    metadata: ObjectMeta = ObjectMeta()
    subjects: tuple[Subject, ...] = ()
    role_ref: Required[RoleRef] = RoleRef()


ROLE = Kind(GROUP, "v1", "Role", "roles", Role)
CLUSTER_ROLE = Kind(GROUP, "v1", "ClusterRole", "clusterroles", ClusterRole, namespaced=False)
ROLE_BINDING = Kind(GROUP, "v1", "RoleBinding", "rolebindings", RoleBinding)
CLUSTER_ROLE_BINDING = Kind(
    GROUP, "v1", "ClusterRoleBinding", "clusterrolebindings", ClusterRoleBinding, namespaced=False
)
