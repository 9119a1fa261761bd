# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""The headers of stored objects: labels, owners, and the fields that field selectors use.

`header_of` takes the body of an object and decodes only these parts. The store keeps the header with the body. A header
omits empty fields, because a selector treats a missing field as "".
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from muster.api.meta import Struct
from muster.cluster.store import Header


class _Owner(Struct):
    uid: str = ""


class _Meta(Struct):
    uid: str = ""
    labels: dict[str, str] = {}
    owner_references: tuple[_Owner, ...] = ()
    deletion_timestamp: str | None = None


class _Object(Struct):
    metadata: _Meta = _Meta()


class _PodSpec(Struct):
    node_name: str = ""
    restart_policy: str = ""
    scheduler_name: str = ""
    service_account_name: str = ""
    host_network: bool = False


class _PodStatus(Struct):
    phase: str = ""
    pod_ip: str = ""
    nominated_node_name: str = ""


class _Pod(_Object):
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


class _NodeSpec(Struct):
    unschedulable: bool = False


class _Node(_Object):
    spec: _NodeSpec = _NodeSpec()


class _NamespaceStatus(Struct):
    phase: str = ""


class _Namespace(_Object):
    status: _NamespaceStatus = _NamespaceStatus()


class _Secret(_Object):
    type: str = ""


class _ServiceSpec(Struct):
    cluster_ip: str = ""
    type: str = ""


class _PriorityClass(_Object):
    global_default: bool = False


class _Service(_Object):
    spec: _ServiceSpec = _ServiceSpec()


class _JobStatus(Struct):
    succeeded: int = 0


class _Job(_Object):
    status: _JobStatus = _JobStatus()


class _ReplicasStatus(Struct):
    replicas: int = 0


class _Replicas(_Object):
    status: _ReplicasStatus = _ReplicasStatus()


class _SignerSpec(Struct):
    signer_name: str = ""


class _Signing(_Object):
    spec: _SignerSpec = _SignerSpec()


class _SliceSpec(Struct):
    node_name: str = ""
    driver: str = ""


class _Slice(_Object):
    spec: _SliceSpec = _SliceSpec()


class _Admission(Struct):
    cluster_queue: str = ""


class _WorkloadStatus(Struct):
    admission: _Admission | None = None


class _Workload(_Object):
    status: _WorkloadStatus = _WorkloadStatus()


class _Involved(Struct):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    field_path: str = ""


class _Source(Struct):
    component: str = ""


class _Event(_Object):
    involved_object: _Involved = _Involved()
    reason: str = ""
    source: _Source = _Source()
    type: str = ""
    reporting_component: str = ""


def _read_pod_fields(pod: _Pod) -> dict[str, str]:
    return {
        "spec.nodeName": pod.spec.node_name,
        "spec.restartPolicy": pod.spec.restart_policy,
        "spec.schedulerName": pod.spec.scheduler_name,
        "spec.serviceAccountName": pod.spec.service_account_name,
        "spec.hostNetwork": "true" if pod.spec.host_network else "false",
        "status.phase": pod.status.phase,
        "status.podIP": pod.status.pod_ip,
        "status.nominatedNodeName": pod.status.nominated_node_name,
    }


def _read_replicas_fields(controller: _Replicas) -> dict[str, str]:
    return {"status.replicas": str(controller.status.replicas)}


def _read_workload_fields(workload: _Workload) -> dict[str, str]:
    admission = workload.status.admission
    return {"status.admission.clusterQueue": admission.cluster_queue if admission else ""}


def _read_event_fields(event: _Event) -> dict[str, str]:
    involved = event.involved_object
    return {
        "involvedObject.kind": involved.kind,
        "involvedObject.namespace": involved.namespace,
        "involvedObject.name": involved.name,
        "involvedObject.uid": involved.uid,
        "involvedObject.apiVersion": involved.api_version,
        "involvedObject.resourceVersion": involved.resource_version,
        "involvedObject.fieldPath": involved.field_path,
        "reason": event.reason,
        "reportingComponent": event.reporting_component,
        "source": event.source.component or event.reporting_component,
        "type": event.type,
    }


# For each stored resource with selectable fields: the type that decodes these fields, and the function that reads them.
_FIELDS: Mapping[str, tuple[type, Callable[[Any], dict[str, str]]]] = {
    "pods": (_Pod, _read_pod_fields),
    "events": (_Event, _read_event_fields),
    "nodes": (_Node, lambda node: {"spec.unschedulable": "true" if node.spec.unschedulable else "false"}),
    "namespaces": (_Namespace, lambda namespace: {"status.phase": namespace.status.phase}),
    "secrets": (_Secret, lambda secret: {"type": secret.type}),
    "services": (_Service, lambda service: {"spec.clusterIP": service.spec.cluster_ip, "spec.type": service.spec.type}),
    # No selector uses this field: admission reads it for every pod.
    "priorityclasses.scheduling.k8s.io": (
        _PriorityClass,
        lambda priority_class: {"globalDefault": "true" if priority_class.global_default else ""},
    ),
    "workloads.kueue.x-k8s.io": (_Workload, _read_workload_fields),
    "replicasets.apps": (_Replicas, _read_replicas_fields),
    "replicationcontrollers": (_Replicas, _read_replicas_fields),
    "certificatesigningrequests.certificates.k8s.io": (
        _Signing,
        lambda request: {"spec.signerName": request.spec.signer_name},
    ),
    "resourceslices.resource.k8s.io": (
        _Slice,
        lambda slice_: {"spec.nodeName": slice_.spec.node_name, "spec.driver": slice_.spec.driver},
    ),
    "jobs.batch": (_Job, lambda job: {"status.successful": str(job.status.succeeded)}),
}
_DECODERS: dict[str, tuple[msgspec.json.Decoder[Any], Callable[[Any], dict[str, str]]]] = {
    resource: (msgspec.json.Decoder(view), fields) for resource, (view, fields) in _FIELDS.items()
}
_PLAIN: tuple[msgspec.json.Decoder[Any], None] = (msgspec.json.Decoder(_Object), None)


def header_of(resource: str, body: bytes) -> Header:
    """Return the header of a stored object, decoded from its body.

    resource: the resource in the object's key, such as `jobs.batch`.
    """
    decoder, fields = _DECODERS.get(resource, _PLAIN)
    obj = decoder.decode(body)
    meta: _Meta = obj.metadata
    return Header(
        uid=meta.uid,
        labels=meta.labels,
        owners=tuple([owner.uid for owner in meta.owner_references]),
        fields={name: value for name, value in fields(obj).items() if value} if fields else {},
        deleting=meta.deletion_timestamp is not None,
    )
