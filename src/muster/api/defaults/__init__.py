"""What the API server fills in where a manifest says nothing.

Each function takes an object in its JSON form, with the types already checked by its schema and explicit nulls
removed, and changes it in place; a second call changes nothing. Values that make no sense are left for
`muster.api.validation` to name. What depends on other objects or on the moment (UIDs, addresses, priorities) is not
a default: the API server's admission does that.
"""

from collections.abc import Callable, Mapping
from typing import Any

from muster.api.batch import JOB
from muster.api.core import NAMESPACE, NODE, POD, SECRET, SERVICE
from muster.api.defaults.job import default_job, generate_selector
from muster.api.defaults.kueue import defaults_of
from muster.api.defaults.objects import default_namespace, default_node, default_priority_class, default_secret
from muster.api.defaults.pod import default_pod, default_pod_template
from muster.api.defaults.service import default_service, keep_allocated
from muster.api.kueue import KUEUE_KINDS
from muster.api.scheduling import PRIORITY_CLASS

# By `Kind.resource`; kinds that are not here have no defaults.
DEFAULTS: Mapping[str, Callable[[dict[str, Any]], None]] = {
    POD.resource: default_pod,
    JOB.resource: default_job,
    SERVICE.resource: default_service,
    NAMESPACE.resource: default_namespace,
    NODE.resource: default_node,
    SECRET.resource: default_secret,
    PRIORITY_CLASS.resource: default_priority_class,
    **{kind.resource: defaults_of(kind) for kind in KUEUE_KINDS},
}

__all__ = [
    "DEFAULTS",
    "default_job",
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
