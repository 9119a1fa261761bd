"""`rbac.authorization.k8s.io/v1`: who may do what. Rules grant only; what no rule grants is refused."""

from typing import Annotated

from muster.api.kinds import Kind
from muster.api.markers import ATOMIC, ATOMIC_MAP, Required, Strings
from muster.api.meta import LabelSelector, ObjectMeta, Struct

GROUP = "rbac.authorization.k8s.io"


class PolicyRule(Struct):
    """What may be done: verbs on resources, or on paths that are no resources.

    verbs: the verbs; `*` is all.
    api_groups: groups of the resources; "" is the core group, `*` all.
    resources: plural names, subresources as `pods/log`; `*` is all, `*/scale` a subresource of all.
    resource_names: the names of the objects; all if there are none.
    non_resource_urls: paths; a `*` at the end stands for the rest.
    """

    verbs: Annotated[Required[tuple[str, ...]], ATOMIC] = ()
    api_groups: Strings = ()
    resources: Strings = ()
    resource_names: Strings = ()
    non_resource_urls: Strings = ()


class Role(Struct):
    """Rights in one namespace.

    metadata: what every object carries.
    rules: what may be done.
    """

    metadata: ObjectMeta = ObjectMeta()
    rules: Annotated[tuple[PolicyRule, ...], ATOMIC] = ()


class AggregationRule(Struct):
    """Which ClusterRoles a ClusterRole is put together from.

    cluster_role_selectors: a role that any of them selects adds its rules.
    """

    cluster_role_selectors: Annotated[tuple[LabelSelector, ...], ATOMIC] = ()


class ClusterRole(Struct):
    """Rights in the whole cluster, or, bound by a RoleBinding, in one namespace.

    metadata: what every object carries.
    rules: what may be done.
    aggregation_rule: the roles that the rules come from; a controller then writes them.
    """

    metadata: ObjectMeta = ObjectMeta()
    rules: Annotated[tuple[PolicyRule, ...], ATOMIC] = ()
    aggregation_rule: AggregationRule | None = None


class Subject(Struct):
    """A user, a group or a service account to which rights are given.

    kind: User, Group or ServiceAccount.
    api_group: group of the kind; of a ServiceAccount it is empty.
    name: whom.
    namespace: of a ServiceAccount.
    """

    kind: Required[str] = ""
    api_group: str = ""
    name: Required[str] = ""
    namespace: str = ""


class RoleRef(Struct):
    """The role that is given.

    api_group: group of the role.
    kind: Role or ClusterRole.
    name: which one.
    """

    api_group: Required[str] = ""
    kind: Required[str] = ""
    name: Required[str] = ""


class RoleBinding(Struct):
    """Gives a role to subjects, in one namespace.

    metadata: what every object carries.
    subjects: to whom.
    role_ref: the role, of this namespace or of the cluster; it never changes.
    """

    metadata: ObjectMeta = ObjectMeta()
    subjects: Annotated[tuple[Subject, ...], ATOMIC] = ()
    role_ref: Annotated[Required[RoleRef], ATOMIC_MAP] = RoleRef()


class ClusterRoleBinding(Struct):
    """Gives a ClusterRole to subjects, everywhere.

    metadata: what every object carries.
    subjects: to whom.
    role_ref: the ClusterRole; it never changes.
    """

    metadata: ObjectMeta = ObjectMeta()
    subjects: Annotated[tuple[Subject, ...], ATOMIC] = ()
    role_ref: Annotated[Required[RoleRef], ATOMIC_MAP] = RoleRef()


ROLE = Kind(GROUP, "v1", "Role", "roles", Role)
CLUSTER_ROLE = Kind(GROUP, "v1", "ClusterRole", "clusterroles", ClusterRole, namespaced=False)
ROLE_BINDING = Kind(GROUP, "v1", "RoleBinding", "rolebindings", RoleBinding)
CLUSTER_ROLE_BINDING = Kind(
    GROUP, "v1", "ClusterRoleBinding", "clusterrolebindings", ClusterRoleBinding, namespaced=False
)
