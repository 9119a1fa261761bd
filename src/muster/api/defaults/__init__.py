"""The defaults of the API server for fields that a manifest does not set.

Each function takes an object in its JSON form and changes it in place. The schema must have checked the types, and
explicit nulls must be removed. A second call changes nothing. Two things are left to others:

- `muster.api.validation` reports invalid values.
- The API server sets values that depend on other objects or on the time, such as UIDs, addresses and priorities.
"""

from collections.abc import Callable, Mapping
from typing import Any

from muster.api.batch import CRON_JOB, JOB
from muster.api.core import (
    ENDPOINTS,
    NAMESPACE,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_TEMPLATE,
    REPLICATION_CONTROLLER,
    SECRET,
    SERVICE,
)
from muster.api.core.quota import LIMIT_RANGE, RESOURCE_QUOTA
from muster.api.defaults.admission import (
    default_limit_range,
    default_mutating_webhooks,
    default_policy,
    default_policy_binding,
    default_resource_quota,
    default_validating_webhooks,
)
from muster.api.defaults.apps import (
    default_cron_job,
    default_daemon_set,
    default_deployment,
    default_replica_set,
    default_replication_controller,
    default_stateful_set,
    default_template,
)
from muster.api.defaults.autoscaling import default_autoscaler
from muster.api.defaults.customresourcedefinition import default_custom_resource_definition
from muster.api.defaults.job import default_job, generate_selector
from muster.api.defaults.jobset import default_job_set
from muster.api.defaults.networking import (
    default_endpoint_slice,
    default_endpoints,
    default_ingress,
    default_ingress_class,
    default_network_policy,
)
from muster.api.defaults.objects import (
    default_namespace,
    default_node,
    default_priority_class,
    default_secret,
    default_spec,
)
from muster.api.defaults.others import (
    default_api_service,
    default_flow_schema,
    default_pod_group,
    default_priority_level,
    default_resource_claim,
    default_resource_claim_template,
    default_runtime_class,
)
from muster.api.defaults.pod import default_pod, default_pod_template
from muster.api.defaults.rbac import default_binding
from muster.api.defaults.service import default_service, keep_allocated
from muster.api.defaults.storage import (
    default_claim,
    default_csi_driver,
    default_persistent_volume,
    default_storage_capacity,
    default_storage_class,
)
from muster.api.defaults.structural import defaults_of
from muster.api.defaults.volcano import default_volcano_job
from muster.api.groups.apps import DAEMON_SET, DEPLOYMENT, REPLICA_SET, STATEFUL_SET
from muster.api.groups.autoscaling_v2 import HORIZONTAL_POD_AUTOSCALER
from muster.api.groups.coordination import LEASE
from muster.api.groups.discovery import ENDPOINT_SLICE
from muster.api.groups.networking import INGRESS, INGRESS_CLASS, NETWORK_POLICY
from muster.api.groups.policy import POD_DISRUPTION_BUDGET
from muster.api.groups.resource import RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE
from muster.api.groups.runtimeclass import RUNTIME_CLASS
from muster.api.groups.scheduling import PRIORITY_CLASS
from muster.api.groups.scheduling_v1alpha2 import POD_GROUP
from muster.api.groups.storage import STORAGE_CLASS
from muster.api.jobset import JOB_SET
from muster.api.kueue import KUEUE_KINDS
from muster.api.podgroups import POD_GROUP_KINDS
from muster.api.server.admissionregistration import (
    MUTATING_WEBHOOK_CONFIGURATION,
    VALIDATING_ADMISSION_POLICY,
    VALIDATING_ADMISSION_POLICY_BINDING,
    VALIDATING_WEBHOOK_CONFIGURATION,
)
from muster.api.server.apiextensions import CUSTOM_RESOURCE_DEFINITION
from muster.api.server.apiregistration import API_SERVICE
from muster.api.server.rbac import CLUSTER_ROLE_BINDING, ROLE_BINDING
from muster.api.volcano import VOLCANO_JOB

# The functions by `Kind.resource`. Other kinds have no defaults.
DEFAULTS: Mapping[str, Callable[[dict[str, Any]], None]] = {
    POD.resource: default_pod,
    JOB.resource: default_job,
    JOB_SET.resource: default_job_set,
    VOLCANO_JOB.resource: default_volcano_job,
    SERVICE.resource: default_service,
    NAMESPACE.resource: default_namespace,
    NODE.resource: default_node,
    SECRET.resource: default_secret,
    PRIORITY_CLASS.resource: default_priority_class,
    DEPLOYMENT.resource: default_deployment,
    REPLICA_SET.resource: default_replica_set,
    STATEFUL_SET.resource: default_stateful_set,
    DAEMON_SET.resource: default_daemon_set,
    CRON_JOB.resource: default_cron_job,
    REPLICATION_CONTROLLER.resource: default_replication_controller,
    POD_TEMPLATE.resource: default_template,
    PERSISTENT_VOLUME.resource: default_persistent_volume,
    PERSISTENT_VOLUME_CLAIM.resource: default_claim,
    ENDPOINTS.resource: default_endpoints,
    ENDPOINT_SLICE.resource: default_endpoint_slice,
    NETWORK_POLICY.resource: default_network_policy,
    INGRESS.resource: default_ingress,
    INGRESS_CLASS.resource: default_ingress_class,
    HORIZONTAL_POD_AUTOSCALER.resource: default_autoscaler,
    STORAGE_CLASS.resource: default_storage_class,
    "csidrivers.storage.k8s.io": default_csi_driver,
    "csistoragecapacities.storage.k8s.io": default_storage_capacity,
    RUNTIME_CLASS.resource: default_runtime_class,
    API_SERVICE.resource: default_api_service,
    "flowschemas.flowcontrol.apiserver.k8s.io": default_flow_schema,
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": default_priority_level,
    RESOURCE_CLAIM.resource: default_resource_claim,
    RESOURCE_CLAIM_TEMPLATE.resource: default_resource_claim_template,
    POD_GROUP.resource: default_pod_group,
    RESOURCE_QUOTA.resource: default_resource_quota,
    LIMIT_RANGE.resource: default_limit_range,
    LEASE.resource: default_spec,
    POD_DISRUPTION_BUDGET.resource: default_spec,
    MUTATING_WEBHOOK_CONFIGURATION.resource: default_mutating_webhooks,
    VALIDATING_WEBHOOK_CONFIGURATION.resource: default_validating_webhooks,
    VALIDATING_ADMISSION_POLICY.resource: default_policy,
    VALIDATING_ADMISSION_POLICY_BINDING.resource: default_policy_binding,
    ROLE_BINDING.resource: default_binding,
    CLUSTER_ROLE_BINDING.resource: default_binding,
    CUSTOM_RESOURCE_DEFINITION.resource: default_custom_resource_definition,
    **{kind.resource: defaults_of(kind) for kind in (*KUEUE_KINDS, *POD_GROUP_KINDS)},
}

__all__ = [
    "DEFAULTS",
    "default_job",
    "default_job_set",
    "default_namespace",
    "default_node",
    "default_pod",
    "default_pod_template",
    "default_priority_class",
    "default_secret",
    "default_service",
    "generate_selector",
    "keep_allocated",
]
