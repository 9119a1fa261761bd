"""Write the engine's rights: one ClusterRole for each part that runs, and Roles for single namespaces.

Each rule is listed for the part of the engine that makes the request. A part that may `list` a kind may also `get` it,
which reveals nothing more.
"""

from collections.abc import Sequence
from typing import Any, Final

from muster.api.batch import JOB
from muster.api.config import Configuration
from muster.api.core import (
    CONFIG_MAP,
    EVENT,
    NAMESPACE,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_TEMPLATE,
    SECRET,
    SERVICE,
)
from muster.api.core.quota import LIMIT_RANGE
from muster.api.groups.clusterinventory import CLUSTER_PROFILE
from muster.api.groups.coordination import LEASE
from muster.api.groups.policy import POD_DISRUPTION_BUDGET
from muster.api.groups.provisioning import PROVISIONING_REQUEST
from muster.api.groups.resource import DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, RESOURCE_SLICE
from muster.api.groups.runtimeclass import RUNTIME_CLASS
from muster.api.groups.scheduling import PRIORITY_CLASS
from muster.api.jobset import JOB_SET
from muster.api.kinds import Kind
from muster.api.kueue import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    COHORT,
    KUEUE_KINDS,
    LOCAL_QUEUE,
    MULTI_KUEUE_CLUSTER,
    MULTI_KUEUE_CONFIG,
    PROVISIONING_REQUEST_CONFIG,
    RESOURCE_FLAVOR,
    TOPOLOGY,
    WORKLOAD,
    WORKLOAD_PRIORITY_CLASS,
)
from muster.api.kueue.visibility import VISIBILITY_GROUP, VISIBILITY_VERSIONS
from muster.api.server.admissionregistration import MUTATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOK_CONFIGURATION
from muster.api.server.apiextensions import CUSTOM_RESOURCE_DEFINITION
from muster.api.server.apiregistration import API_SERVICE
from muster.api.server.authentication import TOKEN_REVIEW
from muster.api.server.authorization import SUBJECT_ACCESS_REVIEW
from muster.controllers.engine import Part
from muster.controllers.integrations.serving.kinds import DEPLOYMENT, kinds_of, select_serving
from muster.controllers.integrations.table import INTEGRATIONS, list_enabled, pod_groups
from muster.controllers.jobset.upstream import LEASE_NAME as JOBSET_LEASE
from muster.install.options import Json, Options
from muster.install.roles import READ, cluster_binding, cluster_role, make_binding, make_role, make_rule, make_rules
from muster.multicluster.mirrors.table import list_mirrors
from muster.operator import frontproxy
from muster.operator.addresses import OFF
from muster.operator.replica import PARTS
from muster.webhooks.endpoints import MUTATING_CONFIGURATION, VALIDATING_CONFIGURATION

# A part whose writes another program undoes reads the written object (`runtime.control.yielding`).
STATUS: Final = ("get", "patch")


def engine_rights(options: Options) -> list[Json]:
    """Return the roles of the engine, and the bindings that give them to its ServiceAccount."""
    return [
        *(cluster_role(name, allowed) for name, allowed in cluster_rules(options).items()),
        *(cluster_binding(name, options.namespace) for name in cluster_rules(options)),
        *(make_role(name, place, allowed) for name, place, allowed in local_rules(options)),
        *(make_binding(name, place, options.namespace) for name, place, _ in local_rules(options)),
        *(_make_front_proxy_bindings(options) if options.visibility else ()),
    ]


def cluster_rules(options: Options) -> dict[str, list[Json]]:
    """Return the RBAC rules of each ClusterRole that is installed, by its name."""
    settings = options.settings
    common = {"muster-engine": _make_common_rules(settings)}
    if options.webhooks:
        common["muster-webhooks"] = _make_webhook_rules(settings)
    if options.visibility:
        common["muster-visibility"] = _make_visibility_rules(settings)
    by_part = {
        Part.QUEUEING: _make_queueing_rules,
        Part.JOBSETS: _make_jobset_rules,
        Part.SCHEDULING: _make_scheduling_rules,
        Part.MULTICLUSTER: _make_multicluster_rules,
    }
    return common | {f"muster-{part.value}": by_part[part](settings) for part in PARTS}


def local_rules(options: Options) -> list[tuple[str, str, list[Json]]]:
    """Return the names, namespaces and rules of the Roles to install."""
    settings, lease = options.settings, options.settings.leader_election.resource_name
    election = [make_rule(("create",), LEASE), make_rule(("get", "update"), LEASE, names=(lease,))]
    secrets = [make_rule(READ, SECRET)]
    if settings.multi_kueue.cluster_profile is not None:
        secrets.append(make_rule(READ, CLUSTER_PROFILE))
    roles = [("muster-leader-election", options.lease_namespace, election)]
    managed = settings.internal_cert_management
    if options.webhooks or options.visibility:
        theirs = (managed.webhook_secret_name,)
        kept = [make_rule(("create",), SECRET), make_rule((*READ, "patch"), SECRET, names=theirs)]
        certificates = kept if managed.enable else [make_rule(READ, SECRET, names=theirs)]
        roles.append(("muster-certificates", options.namespace, certificates))
    return [*roles, ("muster-worker-clusters", options.namespace, secrets)]


def _make_common_rules(settings: Configuration) -> list[Json]:
    granted = [make_rule(("create", "patch"), EVENT)]
    if settings.metrics.bind_address != OFF:
        granted += make_rules(("create",), TOKEN_REVIEW, SUBJECT_ACCESS_REVIEW)
    return granted


def _make_webhook_rules(settings: Configuration) -> list[Json]:
    """Return the RBAC rules for the objects that webhooks read, and for the CA bundle in their configurations.

    With `internalCertManagement` the leader writes the bundle, also into the CRDs.
    """
    own: dict[Kind[Any], Sequence[str]] = {
        MUTATING_WEBHOOK_CONFIGURATION: (MUTATING_CONFIGURATION,),
        VALIDATING_WEBHOOK_CONFIGURATION: (VALIDATING_CONFIGURATION,),
        CUSTOM_RESOURCE_DEFINITION: [kind.resource for kind in KUEUE_KINDS],
    }
    verbs = (*READ, "patch") if settings.internal_cert_management.enable else READ
    return [
        *make_rules(READ, LOCAL_QUEUE, CLUSTER_QUEUE, ADMISSION_CHECK, WORKLOAD_PRIORITY_CLASS, NAMESPACE),
        *make_rules(("get",), WORKLOAD, *_list_job_kinds(settings), *kinds_of(select_serving(settings))),
        *(make_rule(verbs, kind, names) for kind, names in own.items()),
    ]


def _make_visibility_rules(settings: Configuration) -> list[Json]:
    """Return the RBAC rules by which the visibility server asks whether callers may read.

    They also allow the leader to write the authority into the APIServices.
    """
    named = [f"{version}.{VISIBILITY_GROUP}" for version in VISIBILITY_VERSIONS]
    verbs = (*READ, "patch") if settings.internal_cert_management.enable else READ
    return [*make_rules(("create",), SUBJECT_ACCESS_REVIEW), make_rule(verbs, API_SERVICE, named)]


def _make_front_proxy_bindings(options: Options) -> list[Json]:
    """Return the binding for reading the front proxy's ConfigMap."""
    role = frontproxy.READER_ROLE
    return [make_binding("muster-visibility", frontproxy.NAMESPACE, options.namespace, of=role)]


def _make_queueing_rules(settings: Configuration) -> list[Json]:
    jobs, serve = _list_job_kinds(settings), kinds_of(select_serving(settings))
    parts = [part.kind for one in list_enabled(INTEGRATIONS, settings) for part in one.parts]
    read = dict.fromkeys((*jobs, *parts, *(kind for kind in serve if kind != DEPLOYMENT.kind)))
    quota = (CLUSTER_QUEUE, RESOURCE_FLAVOR, ADMISSION_CHECK, TOPOLOGY)
    pods = (POD, NODE, NAMESPACE, LIMIT_RANGE, RUNTIME_CLASS, PRIORITY_CLASS)
    return [
        *make_rules(READ, *pods, *quota, COHORT, LOCAL_QUEUE, WORKLOAD_PRIORITY_CLASS, WORKLOAD, *read),
        *make_rules(("patch",), *quota),  # their finalizers; quota that follows nodes
        *make_rules(STATUS, CLUSTER_QUEUE, COHORT, LOCAL_QUEUE, WORKLOAD, *jobs, POD, of="status"),
        *make_rules(("create",), WORKLOAD),
        *make_rules(READ, PROVISIONING_REQUEST_CONFIG, RESOURCE_CLAIM_TEMPLATE, RESOURCE_SLICE, DEVICE_CLASS),
        *make_rules(STATUS, ADMISSION_CHECK, of="status"),
        *make_rules((*READ, "create", "delete"), PROVISIONING_REQUEST),
        *make_rules((*READ, "create", "patch", "delete"), POD_TEMPLATE),
        *make_rules(("patch", "delete"), WORKLOAD, *jobs, POD),  # pods of jobs; the leader's own, for its label
        *_make_own_rules(*jobs, POD, WORKLOAD, PROVISIONING_REQUEST),
    ]


def _make_jobset_rules(settings: Configuration) -> list[Json]:  # noqa: ARG001  (all parts are asked alike)
    made = (SERVICE, PERSISTENT_VOLUME_CLAIM, CONFIG_MAP)
    return [
        *make_rules(READ, JOB_SET, JOB, POD, *made),
        *make_rules(("patch", "delete"), JOB_SET, JOB),
        *make_rules(STATUS, JOB_SET, JOB, of="status"),
        *make_rules(("create",), JOB, *made),
        *make_rules(("patch",), CONFIG_MAP),
        *_make_own_rules(JOB_SET),
        make_rule(READ, LEASE, names=(JOBSET_LEASE,)),  # of JobSet's own controller, in whatever namespace
    ]


def _make_scheduling_rules(settings: Configuration) -> list[Json]:
    groups, volumes = pod_groups(settings).kinds, (PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM)
    granted = [
        *make_rules(READ, POD, NODE, NAMESPACE, *volumes, POD_DISRUPTION_BUDGET, JOB, JOB_SET, *groups),
        *make_rules(READ, DEVICE_CLASS, RESOURCE_SLICE, RESOURCE_CLAIM),
        *make_rules(("patch",), RESOURCE_CLAIM),  # the finalizer of claims with devices
        *make_rules(STATUS, RESOURCE_CLAIM, of="status"),
        *make_rules(STATUS, RESOURCE_CLAIM, of="binding"),  # newer servers check this subresource, too
        *make_rules(("patch", "delete"), POD),
        *make_rules(("create",), POD, of="binding"),
        *make_rules(("create",), POD, of="eviction"),
        *make_rules(("patch",), JOB, JOB_SET, *groups),  # the annotations of a gang
        *make_rules(STATUS, POD, *groups, of="status"),
        *make_rules(("create", "patch"), POD_DISRUPTION_BUDGET),
        *_make_own_rules(*groups),
    ]
    if settings.muster.scheduling.provisioning_class_name:
        granted += make_rules((*READ, "create", "delete"), PROVISIONING_REQUEST)
        granted += [*make_rules(("create",), POD_TEMPLATE), *_make_own_rules(PROVISIONING_REQUEST, JOB, JOB_SET)]
    return granted


def _make_multicluster_rules(settings: Configuration) -> list[Json]:
    kinds = [mirror.kind for mirror in list_mirrors(settings)]
    groups = pod_groups(settings).kinds
    checks = (ADMISSION_CHECK, MULTI_KUEUE_CLUSTER, MULTI_KUEUE_CONFIG)
    return [
        *make_rules(READ, WORKLOAD, CLUSTER_QUEUE, LOCAL_QUEUE, *checks, *kinds),
        *make_rules(("get",), *groups),
        *make_rules(("patch",), WORKLOAD, CLUSTER_QUEUE, MULTI_KUEUE_CLUSTER),
        *make_rules(STATUS, WORKLOAD, CLUSTER_QUEUE, ADMISSION_CHECK, MULTI_KUEUE_CLUSTER, *kinds, of="status"),
    ]


def _list_job_kinds(settings: Configuration) -> list[Kind[Any]]:
    """Return the kinds of the engine that queue, except pods, which have rules of their own."""
    return [one.kind for one in list_enabled(INTEGRATIONS, settings)]


def _make_own_rules(*kinds: Kind[Any]) -> list[Json]:
    """Return the rules for creating objects that block the deletion of their owner. Some clusters check this right."""
    return make_rules(("update",), *kinds, of="finalizers")
