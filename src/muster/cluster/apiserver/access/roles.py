"""List the roles and bindings that every cluster starts with (k8s.io/kubernetes, plugin/pkg/auth/authorizer/rbac).

`admin`, `edit` and `view` aggregate the `system:aggregate-to-...` roles and every other role with their labels, by
which the author of a CustomResourceDefinition extends them. The list includes roles of components that do not run
here, because charts bind their own components to these roles.
"""

from collections.abc import Iterable

from muster.api.jobset import JOB_SET
from muster.api.kueue.visibility import VISIBILITY_GROUP
from muster.api.meta import LabelSelector, ObjectMeta
from muster.api.podgroups import POD_GROUP_KINDS
from muster.api.server.rbac import GROUP as RBAC
from muster.api.server.rbac import (
    AggregationRule,
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    Role,
    RoleRef,
    Subject,
)
from muster.api.volcano import VOLCANO_JOB
from muster.cluster.apiserver.access.aggregation import aggregate_rules
from muster.cluster.apiserver.access.rules import EVERYTHING
from muster.cluster.apiserver.identity.users import AUTHENTICATED, MASTERS, SERVICE_ACCOUNTS, UNAUTHENTICATED

BOOTSTRAPPING = {"kubernetes.io/bootstrapping": "rbac-defaults"}
AUTO_UPDATE = "rbac.authorization.kubernetes.io/autoupdate"
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"

_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")
_READ_WRITE = (*_READ, *_WRITE)
_CORE = ""
_EVENTS = PolicyRule(verbs=("create", "patch", "update"), api_groups=("", "events.k8s.io"), resources=("events",))


def _make_rule(verbs: Iterable[str], group: str, *resources: str, names: tuple[str, ...] = ()) -> PolicyRule:
    return PolicyRule(verbs=tuple(verbs), api_groups=(group,), resources=resources, resource_names=names)


def _make_path_rule(*paths: str) -> PolicyRule:
    return PolicyRule(verbs=("get",), non_resource_urls=paths)


_HEALTH = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_DISCOVERY = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", *_HEALTH)

# The resources of users in a namespace, by group: resources that they may change, and (`_STATUS`) may only read.
_WORKLOADS = {
    "apps": ("daemonsets", "deployments", "deployments/scale", "replicasets", "replicasets/scale",
             "statefulsets", "statefulsets/scale"),
    "autoscaling": ("horizontalpodautoscalers",),
    "batch": ("cronjobs", "jobs", "jobs/scale"),
    "policy": ("poddisruptionbudgets",),
    "resource.k8s.io": ("resourceclaims", "resourceclaimtemplates"),
    "networking.k8s.io": ("ingresses", "networkpolicies"),
    **{kind.group: (kind.plural,) for kind in (JOB_SET, *POD_GROUP_KINDS)},
    VOLCANO_JOB.group: (VOLCANO_JOB.plural,),
    "extensions": ("daemonsets", "deployments", "ingresses", "networkpolicies", "replicasets"),
}  # fmt: skip
_STATUS = {
    "apps": ("daemonsets/status", "deployments/status", "replicasets/status", "statefulsets/status"),
    "autoscaling": ("horizontalpodautoscalers/status",),
    "batch": ("cronjobs/status", "jobs/log", "jobs/status"),
    "policy": ("poddisruptionbudgets/status",),
    "resource.k8s.io": ("resourceclaims/status",),
    "networking.k8s.io": ("ingresses/status",),
    **{kind.group: (f"{kind.plural}/status",) for kind in POD_GROUP_KINDS},
    VOLCANO_JOB.group: (f"{VOLCANO_JOB.plural}/status",),
    JOB_SET.group: (f"{JOB_SET.plural}/log", f"{JOB_SET.plural}/status"),
}
_CORE_WORKLOADS = (
    "configmaps", "events", "persistentvolumeclaims", "pods", "replicationcontrollers", "replicationcontrollers/scale",
    "serviceaccounts", "services", "endpoints",
)  # fmt: skip
_CORE_SEEN = (
    "bindings", "limitranges", "namespaces", "namespaces/status", "persistentvolumeclaims/status", "pods/log",
    "pods/status", "replicationcontrollers/status", "resourcequotas", "resourcequotas/status", "services/status",
)  # fmt: skip

_VIEW = (
    _make_rule(_READ, _CORE, *_CORE_WORKLOADS, *_CORE_SEEN),
    *(_make_rule(_READ, group, *resources, *_STATUS.get(group, ())) for group, resources in _WORKLOADS.items()),
    _make_rule(_READ, "discovery.k8s.io", "endpointslices"),
    _make_rule(_READ, "kueue.x-k8s.io", "localqueues", "localqueues/status", "workloads", "workloads/status"),
    _make_rule(("get",), VISIBILITY_GROUP, "localqueues/pendingworkloads"),
)
# Not endpoints: a user who writes them leads others' traffic to any address (upstream left them out in 1.22).
_EDIT = (
    _make_rule(_READ, _CORE, "pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets", "services/proxy"),
    _make_rule(("impersonate",), _CORE, "serviceaccounts"),
    _make_rule(_WRITE, _CORE, "pods", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy"),
    _make_rule(("create",), _CORE, "pods/eviction", "serviceaccounts/token"),
    _make_rule(
        _WRITE, _CORE, "configmaps", "events", "persistentvolumeclaims", "replicationcontrollers",
        "replicationcontrollers/scale", "secrets", "serviceaccounts", "services", "services/proxy",
    ),
    *(_make_rule(_WRITE, group, *resources) for group, resources in _WORKLOADS.items()),
    _make_rule(_READ_WRITE, "coordination.k8s.io", "leases"),
)  # fmt: skip
_ADMIN = (
    _make_rule(("create",), "authorization.k8s.io", "localsubjectaccessreviews"),
    _make_rule(_READ_WRITE, RBAC, "rolebindings", "roles"),
)


def _make_role(name: str, *rules: PolicyRule, **labels: str) -> ClusterRole:
    meta = ObjectMeta(name=name, labels=BOOTSTRAPPING | labels, annotations={AUTO_UPDATE: "true"})
    return ClusterRole(metadata=meta, rules=rules)


def _make_part(of: str, *rules: PolicyRule) -> ClusterRole:
    return _make_role(f"system:aggregate-to-{of}", *rules, **{_AGGREGATE + of: "true"})


# The role that the metrics server's manifests install.
_METRICS_READER = _make_role(
    "system:aggregated-metrics-reader",
    _make_rule(_READ, "metrics.k8s.io", "nodes", "pods"),
    **{_AGGREGATE + role: "true" for role in ("admin", "edit", "view")},
)
_PARTS = (_make_part("admin", *_ADMIN), _make_part("edit", *_EDIT), _make_part("view", *_VIEW), _METRICS_READER)


def _make_aggregated_role(name: str, *parts: str, part_of: str = "") -> ClusterRole:
    """Return an aggregated role without its rules, which `_add_rules` adds.

    parts: the labels of the roles to aggregate.
    part_of: the label by which another role aggregates this one; "" for none.
    """
    selectors = tuple(LabelSelector(match_labels={_AGGREGATE + part: "true"}) for part in parts)
    labels = BOOTSTRAPPING | ({_AGGREGATE + part_of: "true"} if part_of else {})
    meta = ObjectMeta(name=name, labels=labels, annotations={AUTO_UPDATE: "true"})
    return ClusterRole(metadata=meta, aggregation_rule=AggregationRule(cluster_role_selectors=selectors))


def _add_rules(role: ClusterRole, *others: ClusterRole) -> ClusterRole:
    return ClusterRole(
        metadata=role.metadata,
        rules=aggregate_rules(role, (*_PARTS, *others)),
        aggregation_rule=role.aggregation_rule,
    )


_view = _add_rules(_make_aggregated_role("view", "view", part_of="edit"))
_edit = _add_rules(_make_aggregated_role("edit", "edit", part_of="admin"), _view)
_admin = _add_rules(_make_aggregated_role("admin", "admin"), _edit)

CLUSTER_ROLES: tuple[ClusterRole, ...] = (
    _make_role("cluster-admin", *EVERYTHING),
    *_PARTS,
    _view,
    _edit,
    _admin,
    _make_role("system:discovery", _make_path_rule(*_DISCOVERY)),
    _make_role("system:public-info-viewer", _make_path_rule(*_HEALTH)),
    _make_role(
        "system:monitoring",
        _make_path_rule(
            "/healthz", "/healthz/*", "/livez", "/livez/*", "/metrics", "/metrics/slis", "/readyz", "/readyz/*"
        ),
    ),
    _make_role(
        "system:basic-user",
        _make_rule(("create",), "authorization.k8s.io", "selfsubjectaccessreviews", "selfsubjectrulesreviews"),
        _make_rule(("create",), "authentication.k8s.io", "selfsubjectreviews"),
    ),
    _make_role(
        "system:service-account-issuer-discovery",
        _make_path_rule("/.well-known/openid-configuration", "/.well-known/openid-configuration/", "/openid/v1/jwks",
               "/openid/v1/jwks/"),
    ),
    _make_role(
        "system:auth-delegator",
        _make_rule(("create",), "authentication.k8s.io", "tokenreviews"),
        _make_rule(("create",), "authorization.k8s.io", "subjectaccessreviews"),
    ),
    _make_role(
        "system:kube-scheduler",
        _EVENTS,
        _make_rule(("create",), "coordination.k8s.io", "leases"),
        _make_rule(("get", "list", "update", "watch"), "coordination.k8s.io", "leases"),
        _make_rule(_READ, _CORE, "nodes", "namespaces", "services", "replicationcontrollers", "persistentvolumes"),
        _make_rule(("delete", *_READ), _CORE, "pods"),
        _make_rule(("create",), _CORE, "bindings", "pods/binding"),
        _make_rule(("patch", "update"), _CORE, "pods/status"),
        _make_rule(_READ, "apps", "replicasets", "statefulsets"),
        _make_rule(_READ, "policy", "poddisruptionbudgets"),
        _make_rule((*_READ, "patch", "update"), _CORE, "persistentvolumeclaims"),
        _make_rule(("create",), "authentication.k8s.io", "tokenreviews"),
        _make_rule(("create",), "authorization.k8s.io", "subjectaccessreviews"),
        _make_rule(_READ, "storage.k8s.io", "csinodes", "csidrivers", "csistoragecapacities", "storageclasses"),
        _make_rule(_READ, "resource.k8s.io", "deviceclasses", "resourceclaims", "resourceslices"),
    ),
    _make_role(
        "system:volume-scheduler",
        _make_rule((*_READ, "patch", "update"), _CORE, "persistentvolumes", "persistentvolumeclaims"),
        _make_rule(_READ, "storage.k8s.io", "storageclasses"),
    ),
    _make_role(
        "system:persistent-volume-provisioner",
        _make_rule(("get", "list", "watch", "create", "delete"), _CORE, "persistentvolumes"),
        _make_rule(("get", "list", "watch", "update"), _CORE, "persistentvolumeclaims"),
        _make_rule(_READ, "storage.k8s.io", "storageclasses"),
        _make_rule(("watch",), _CORE, "events"),
        _EVENTS,
    ),
    _make_role(
        "system:node-proxier",
        _make_rule(("list", "watch"), _CORE, "services", "endpoints"),
        _make_rule(_READ, _CORE, "nodes"),
        _make_rule(("list", "watch"), "discovery.k8s.io", "endpointslices"),
        _EVENTS,
    ),
)  # fmt: skip


def _make_binding(role: str, *groups: str) -> ClusterRoleBinding:
    meta = ObjectMeta(name=role, labels=BOOTSTRAPPING, annotations={AUTO_UPDATE: "true"})
    return ClusterRoleBinding(
        metadata=meta,
        subjects=tuple(Subject(kind="Group", api_group=RBAC, name=group) for group in groups),
        role_ref=RoleRef(api_group=RBAC, kind="ClusterRole", name=role),
    )


CLUSTER_ROLE_BINDINGS: tuple[ClusterRoleBinding, ...] = (
    _make_binding("cluster-admin", MASTERS),
    _make_binding("system:discovery", AUTHENTICATED),
    _make_binding("system:public-info-viewer", AUTHENTICATED, UNAUTHENTICATED),
    _make_binding("system:basic-user", AUTHENTICATED),
    _make_binding("system:monitoring", "system:monitoring"),
    _make_binding("system:service-account-issuer-discovery", SERVICE_ACCOUNTS),
)

# The role of an extension server, which reads who signs its callers' certificates.
ROLES: tuple[tuple[str, Role], ...] = (
    (
        "kube-system",
        Role(
            metadata=ObjectMeta(
                name="extension-apiserver-authentication-reader",
                labels=BOOTSTRAPPING,
                annotations={AUTO_UPDATE: "true"},
            ),
            rules=(_make_rule(_READ, _CORE, "configmaps", names=("extension-apiserver-authentication",)),),
        ),
    ),
)
