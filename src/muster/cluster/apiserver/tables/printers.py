"""The table of printers by kind, with the columns and cells of the kinds that have no module of their own."""

from datetime import datetime
from typing import Any

from muster.api.batch import Job
from muster.api.core import (
    ConfigMap,
    Event,
    Namespace,
    Node,
    Secret,
    Service,
    ServiceAccount,
    ServiceSpec,
)
from muster.api.core.objects import EventSeries
from muster.api.groups.coordination import Lease
from muster.api.groups.events import Event as EventsV1Event
from muster.api.groups.scheduling import PriorityClass
from muster.api.kinds import Kind
from muster.api.volcano import VOLCANO_JOB
from muster.cluster.apiserver.tables import storedkinds
from muster.cluster.apiserver.tables.admission import ADMISSION
from muster.cluster.apiserver.tables.jobset import JOB_SETS
from muster.cluster.apiserver.tables.kueue import KUEUE
from muster.cluster.apiserver.tables.podgroups import POD_GROUPS
from muster.cluster.apiserver.tables.pods import PODS
from muster.cluster.apiserver.tables.printer import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    Cells,
    Column,
    Printer,
    format_age,
    format_duration,
    format_labels,
    format_selector,
    make_container_cells,
    make_wide_column,
)
from muster.cluster.apiserver.tables.rbac import RBAC
from muster.cluster.apiserver.tables.volcano import VOLCANO_JOBS

_ROLE = "node-role.kubernetes.io/"
_OLD_ROLE = "kubernetes.io/role"


def printer_of(kind: Kind[Any]) -> Printer:
    """Return the printer of a kind; a kind without one gets name and creation time."""
    return _PRINTERS.get(kind.resource) or storedkinds.printer_of(kind.resource) or _ANY


def _render_job(job: Job, now: datetime) -> Cells:
    spec, status = job.spec, job.status
    if spec.completions is not None:
        completions = f"{status.succeeded}/{spec.completions}"
    elif (spec.parallelism or 0) > 1:
        completions = f"{status.succeeded}/1 of {spec.parallelism}"
    else:
        completions = f"{status.succeeded}/1"
    duration = format_duration((status.completion_time or now) - status.start_time) if status.start_time else ""
    names, images = make_container_cells(spec.template.spec.containers)
    return [
        job.metadata.name,
        _find_job_status(job),
        completions,
        duration,
        format_age(job.metadata.creation_timestamp, now),
        names,
        images,
        format_selector(spec.selector),
    ]


def _find_job_status(job: Job) -> str:
    true = {condition.type for condition in job.status.conditions if condition.status == "True"}
    for condition in ("Complete", "Failed"):
        if condition in true:
            return condition
    if job.metadata.deletion_timestamp:
        return "Terminating"
    for condition in ("Suspended", "FailureTarget"):
        if condition in true:
            return condition
    return "Running"


def _render_node(node: Node, now: datetime) -> Cells:
    ready = next((c.status for c in node.status.conditions if c.type == "Ready"), None)
    status = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    if node.spec.unschedulable:
        status += ",SchedulingDisabled"
    roles = {key.removeprefix(_ROLE) for key in node.metadata.labels if key.startswith(_ROLE)}
    roles = (roles | {node.metadata.labels.get(_OLD_ROLE, "")}) - {""}
    info = node.status.node_info
    return [
        node.metadata.name,
        status,
        ",".join(sorted(roles)) or NONE,
        format_age(node.metadata.creation_timestamp, now),
        info.kubelet_version,
        _find_address(node, "InternalIP"),
        _find_address(node, "ExternalIP"),
        info.os_image or UNKNOWN,
        info.kernel_version or UNKNOWN,
        info.container_runtime_version or UNKNOWN,
    ]


def _find_address(node: Node, type_: str) -> str:
    return next((address.address for address in node.status.addresses if address.type == type_), NONE)


def _render_event(event: Event, now: datetime) -> Cells:
    first = format_age(event.first_timestamp or event.event_time, now)
    last = format_age(event.last_timestamp, now) if event.last_timestamp else first
    count = event.count or 1
    if event.series:
        last, count = format_age(event.series.last_observed_time, now), event.series.count
    involved = event.involved_object
    source = event.source.component or event.reporting_component
    instance = event.source.host or event.reporting_instance
    return [
        last,
        event.type,
        event.reason,
        f"{involved.kind.lower()}/{involved.name}" if involved.name else involved.kind.lower(),
        involved.field_path,
        f"{source}, {instance}" if instance else source,
        event.message.strip(),
        first,
        count,
        event.metadata.name,
    ]


def _render_events_v1_event(event: EventsV1Event, now: datetime) -> Cells:
    series = event.series
    core = Event(
        metadata=event.metadata,
        involved_object=event.regarding,
        reason=event.reason,
        message=event.note,
        source=event.deprecated_source,
        first_timestamp=event.deprecated_first_timestamp,
        last_timestamp=event.deprecated_last_timestamp,
        count=event.deprecated_count,
        type=event.type,
        event_time=event.event_time,
        series=EventSeries(count=series.count, last_observed_time=series.last_observed_time) if series else None,
        reporting_component=event.reporting_controller,
        reporting_instance=event.reporting_instance,
    )
    return _render_event(core, now)


def _render_service(service: Service, now: datetime) -> Cells:
    spec = service.spec
    ports = [
        f"{port.port}:{port.node_port}/{port.protocol}" if port.node_port else f"{port.port}/{port.protocol}"
        for port in spec.ports
    ]
    return [
        service.metadata.name,
        spec.type,
        (spec.cluster_ips[0] if spec.cluster_ips else spec.cluster_ip) or NONE,
        _format_external_ip(service, spec),
        ",".join(ports) or NONE,
        format_age(service.metadata.creation_timestamp, now),
        format_labels(spec.selector),
    ]


def _format_external_ip(service: Service, spec: ServiceSpec) -> str:
    match spec.type:
        case "ClusterIP" | "NodePort":
            return ",".join(spec.external_ips) or NONE
        case "LoadBalancer":
            ingress = sorted({i.ip or i.hostname for i in service.status.load_balancer.ingress} - {""})
            return ",".join([*ingress, *spec.external_ips]) or "<pending>"
        case "ExternalName":
            return spec.external_name
        case _:
            return UNKNOWN


def _render_priority_class(priority_class: PriorityClass, now: datetime) -> Cells:
    return [
        priority_class.metadata.name,
        priority_class.value,
        priority_class.global_default,
        format_age(priority_class.metadata.creation_timestamp, now),
        priority_class.preemption_policy or "",
    ]


def _render_namespace(namespace: Namespace, now: datetime) -> Cells:
    return [namespace.metadata.name, namespace.status.phase, format_age(namespace.metadata.creation_timestamp, now)]


def _render_secret(secret: Secret, now: datetime) -> Cells:
    return [secret.metadata.name, secret.type, len(secret.data), format_age(secret.metadata.creation_timestamp, now)]


def _render_config_map(config: ConfigMap, now: datetime) -> Cells:
    entries = len(config.data) + len(config.binary_data)
    return [config.metadata.name, entries, format_age(config.metadata.creation_timestamp, now)]


def _render_service_account(account: ServiceAccount, now: datetime) -> Cells:
    return [account.metadata.name, len(account.secrets), format_age(account.metadata.creation_timestamp, now)]


def _render_lease(lease: Lease, now: datetime) -> Cells:
    return [lease.metadata.name, lease.spec.holder_identity or "", format_age(lease.metadata.creation_timestamp, now)]


def _render_any(obj: Any, _now: datetime) -> Cells:
    created = obj.metadata.creation_timestamp
    return [obj.metadata.name, created.strftime("%Y-%m-%dT%H:%M:%SZ") if created else UNKNOWN]


_EVENT_COLUMNS = (
    Column(name="Last Seen", description="Time since it was last seen."),
    Column(name="Type", description="Normal or Warning."),
    Column(name="Reason", description="One word for what happened."),
    Column(name="Object", description="What it happened to."),
    make_wide_column("Subobject", "The part of the object that it happened to."),
    make_wide_column("Source", "Who reported it."),
    Column(name="Message", description="What happened."),
    make_wide_column("First Seen", "Time since it was first seen."),
    make_wide_column("Count", "How many times it was seen."),
    Column(name="Name", format="name", description="Name of the event.", priority=1),
)
_ANY = Printer((NAME, Column(name="Created At", type="date", description="When the object was created.")), _render_any)
_PRINTERS = (
    KUEUE
    | POD_GROUPS
    | {VOLCANO_JOB.resource: VOLCANO_JOBS}
    | RBAC
    | ADMISSION
    | {
        "pods": PODS,
        "jobsets.jobset.x-k8s.io": JOB_SETS,
        "jobs.batch": Printer(
            (
                NAME,
                Column(name="Status", description="Status of the job."),
                Column(name="Completions", description="How many pods have succeeded, and how many must."),
                Column(name="Duration", description="Time that the job took, or takes so far."),
                AGE,
                make_wide_column("Containers", "Names of the containers in the template."),
                make_wide_column("Images", "Images of the containers in the template."),
                make_wide_column("Selector", "Labels of the job's pods."),
            ),
            _render_job,
        ),
        "nodes": Printer(
            (
                NAME,
                Column(name="Status", description="The status of the node."),
                Column(name="Roles", description="The roles of the node."),
                AGE,
                Column(name="Version", description="Version of the node's agent."),
                make_wide_column("Internal-IP", "Address within the cluster."),
                make_wide_column("External-IP", "Address outside of it."),
                make_wide_column("OS-Image", "Operating system."),
                make_wide_column("Kernel-Version", "Version of the kernel."),
                make_wide_column("Container-Runtime", "What runs the containers."),
            ),
            _render_node,
        ),
        "namespaces": Printer(
            (NAME, Column(name="Status", description="The status of the namespace."), AGE), _render_namespace
        ),
        "events": Printer(_EVENT_COLUMNS, _render_event),
        "events.events.k8s.io": Printer(_EVENT_COLUMNS, _render_events_v1_event),
        "configmaps": Printer((NAME, Column(name="Data", description="Number of entries."), AGE), _render_config_map),
        "secrets": Printer(
            (
                NAME,
                Column(name="Type", description="What the data mean."),
                Column(name="Data", description="Number of entries."),
                AGE,
            ),
            _render_secret,
        ),
        "serviceaccounts": Printer(
            (NAME, Column(name="Secrets", description="Number of secrets."), AGE), _render_service_account
        ),
        "services": Printer(
            (
                NAME,
                Column(name="Type", description="How the service is reached."),
                Column(name="Cluster-IP", description="Address within the cluster."),
                Column(name="External-IP", description="Addresses outside of it."),
                Column(name="Port(s)", description="Ports of the service."),
                AGE,
                make_wide_column("Selector", "Labels of the service's pods."),
            ),
            _render_service,
        ),
        "leases.coordination.k8s.io": Printer(
            (NAME, Column(name="Holder", description="Who holds it."), AGE), _render_lease
        ),
        "priorityclasses.scheduling.k8s.io": Printer(
            (
                NAME,
                Column(name="Value", type="integer", description="The priority."),
                Column(name="Global-Default", type="boolean", description="Whether pods without a class get it."),
                AGE,
                Column(name="PreemptionPolicy", description="Whether its pods may preempt others."),
            ),
            _render_priority_class,
        ),
    }
)
