"""Convert Kueue's kinds between `v1beta1` and `v1beta2`.

`to_v1beta2` and `to_v1beta1` convert JSON documents whose schema was checked already. Both functions change nothing in
place, and the result may share parts with the given document. As in upstream, the result lacks the fields that its
version does not have. So a conversion to the other version and back may lose fields.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from muster.api.kueue.checks import ADMISSION_CHECK, MULTI_KUEUE_CLUSTER, MULTI_KUEUE_CONFIG
from muster.api.kueue.clusterqueue import CLUSTER_QUEUE
from muster.api.kueue.conversion import checks, queues, workload
from muster.api.kueue.fields import GROUP, OLD_VERSION, VERSION
from muster.api.kueue.queues import COHORT, LOCAL_QUEUE
from muster.api.kueue.workload import WORKLOAD

Json = dict[str, Any]


class _Part(Struct, frozen=True):
    """The functions that convert the spec and the status of a kind."""

    spec: Callable[[Json], Json] | None = None
    status: Callable[[Json], Json] | None = None

    def __call__(self, document: Json, version: str) -> Json:
        result = document | {"apiVersion": f"{GROUP}/{version}"}
        for name, convert in (("spec", self.spec), ("status", self.status)):
            if convert is not None and isinstance(document.get(name), dict):
                result[name] = convert(document[name])
        return result


_SAME = _Part()
_UP: Mapping[str, _Part] = {
    CLUSTER_QUEUE.resource: _Part(queues.cluster_queue_spec_up, queues.cluster_queue_status_up),
    LOCAL_QUEUE.resource: _Part(status=queues.local_queue_status_up),
    COHORT.resource: _Part(status=queues.without_consumption),
    WORKLOAD.resource: _Part(workload.spec_up, workload.status_up),
    ADMISSION_CHECK.resource: _Part(checks.admission_check_spec_up),
    MULTI_KUEUE_CLUSTER.resource: _Part(checks.cluster_spec_up),
}
_DOWN: Mapping[str, _Part] = {
    CLUSTER_QUEUE.resource: _Part(queues.cluster_queue_spec_down),
    LOCAL_QUEUE.resource: _Part(status=queues.local_queue_status_down),
    WORKLOAD.resource: _Part(workload.spec_down, workload.status_down),
    MULTI_KUEUE_CONFIG.resource: _Part(checks.config_spec_down),
    MULTI_KUEUE_CLUSTER.resource: _Part(checks.cluster_spec_down),
}


def to_v1beta2(resource: str, document: Json) -> Json:
    """Convert a v1beta1 document of a resource (`Kind.resource`) to v1beta2."""
    return _UP.get(resource, _SAME)(document, VERSION)


def to_v1beta1(resource: str, document: Json) -> Json:
    """Convert a v1beta2 document of a resource (`Kind.resource`) to v1beta1."""
    return _DOWN.get(resource, _SAME)(document, OLD_VERSION)


__all__ = ["to_v1beta1", "to_v1beta2"]
