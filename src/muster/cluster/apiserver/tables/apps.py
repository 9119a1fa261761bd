"""Columns and cells of the kinds that make or bound pods."""

from datetime import datetime

from muster.api import core
from muster.api.batch import CRON_JOB, CronJob
from muster.api.groups import apps, autoscaling_v2, policy
from muster.api.groups.autoscaling import HorizontalPodAutoscaler as AutoscalerV1
from muster.api.groups.autoscaling_v2 import (
    HorizontalPodAutoscaler,
    MetricSpec,
    MetricStatus,
    MetricTarget,
    MetricValueStatus,
)
from muster.api.meta import controller_of
from muster.cluster.apiserver.tables.printer import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    Cells,
    Column,
    Printer,
    age,
    container_cells,
    labels_cell,
    selector_cell,
    wide,
)

_SHOWN_METRICS = 2  # of the targets of an autoscaler

CONTAINERS = (
    wide("Containers", "Names of the containers in the template."),
    wide("Images", "Images of the containers in the template."),
)
_SELECTOR = wide("Selector", "Labels of the pods.")


def _number(name: str, description: str) -> Column:
    return Column(name=name, type="integer", description=description)


def _deployment(deployment: apps.Deployment, now: datetime) -> Cells:
    spec, status = deployment.spec, deployment.status
    return [
        deployment.metadata.name,
        f"{status.ready_replicas}/{spec.replicas or 0}",
        status.updated_replicas,
        status.available_replicas,
        age(deployment.metadata.creation_timestamp, now),
        *container_cells(spec.template.spec.containers),
        selector_cell(spec.selector),
    ]


def _replica_set(replica_set: apps.ReplicaSet, now: datetime) -> Cells:
    spec, status = replica_set.spec, replica_set.status
    return [
        replica_set.metadata.name,
        spec.replicas or 0,
        status.replicas,
        status.ready_replicas,
        age(replica_set.metadata.creation_timestamp, now),
        *container_cells(spec.template.spec.containers),
        selector_cell(spec.selector),
    ]


def _replication_controller(controller: core.ReplicationController, now: datetime) -> Cells:
    spec, status = controller.spec, controller.status
    return [
        controller.metadata.name,
        spec.replicas or 0,
        status.replicas,
        status.ready_replicas,
        age(controller.metadata.creation_timestamp, now),
        *container_cells(spec.template.spec.containers if spec.template else ()),
        labels_cell(spec.selector),
    ]


def _stateful_set(stateful_set: apps.StatefulSet, now: datetime) -> Cells:
    spec = stateful_set.spec
    return [
        stateful_set.metadata.name,
        f"{stateful_set.status.ready_replicas}/{spec.replicas or 0}",
        age(stateful_set.metadata.creation_timestamp, now),
        *container_cells(spec.template.spec.containers),
    ]


def _daemon_set(daemon_set: apps.DaemonSet, now: datetime) -> Cells:
    spec, status = daemon_set.spec, daemon_set.status
    return [
        daemon_set.metadata.name,
        status.desired_number_scheduled,
        status.current_number_scheduled,
        status.number_ready,
        status.updated_number_scheduled,
        status.number_available,
        labels_cell(spec.template.spec.node_selector),
        age(daemon_set.metadata.creation_timestamp, now),
        *container_cells(spec.template.spec.containers),
        selector_cell(spec.selector),
    ]


def _revision(revision: apps.ControllerRevision, now: datetime) -> Cells:
    meta = revision.metadata
    owner = controller_of(meta)
    group = owner.api_version.rpartition("/")[0] if owner else ""
    kind = owner.kind.lower() + (f".{group}" if group else "") if owner else ""
    controller = f"{kind}/{owner.name}" if owner else NONE
    return [meta.name, controller, revision.revision, age(meta.creation_timestamp, now)]


def _cron_job(cron_job: CronJob, now: datetime) -> Cells:
    spec, status = cron_job.spec, cron_job.status
    job = spec.job_template.spec
    return [
        cron_job.metadata.name,
        spec.schedule,
        spec.time_zone or NONE,
        str(bool(spec.suspend)),
        len(status.active),
        age(status.last_schedule_time, now) if status.last_schedule_time else NONE,
        age(cron_job.metadata.creation_timestamp, now),
        *container_cells(job.template.spec.containers),
        selector_cell(job.selector),
    ]


def _template(template: core.PodTemplate, _now: datetime) -> Cells:
    names, images = container_cells(template.template.spec.containers)
    return [template.metadata.name, names, images, labels_cell(template.template.metadata.labels)]


def _budget(budget: policy.PodDisruptionBudget, now: datetime) -> Cells:
    spec = budget.spec
    return [
        budget.metadata.name,
        "N/A" if spec.min_available is None else str(spec.min_available),
        "N/A" if spec.max_unavailable is None else str(spec.max_unavailable),
        budget.status.disruptions_allowed,
        age(budget.metadata.creation_timestamp, now),
    ]


def _autoscaler(autoscaler: HorizontalPodAutoscaler, now: datetime) -> Cells:
    spec = autoscaler.spec
    return [
        autoscaler.metadata.name,
        f"{spec.scale_target_ref.kind}/{spec.scale_target_ref.name}",
        _targets(spec.metrics, autoscaler.status.current_metrics),
        UNKNOWN if spec.min_replicas is None else str(spec.min_replicas),
        spec.max_replicas,
        autoscaler.status.current_replicas,
        age(autoscaler.metadata.creation_timestamp, now),
    ]


def _autoscaler_v1(autoscaler: AutoscalerV1, now: datetime) -> Cells:
    spec, status = autoscaler.spec, autoscaler.status
    current, target = status.current_cpu_utilization_percentage, spec.target_cpu_utilization_percentage
    shown = NONE if target is None else f"cpu: {UNKNOWN if current is None else f'{current}%'}/{target}%"
    return [
        autoscaler.metadata.name,
        f"{spec.scale_target_ref.kind}/{spec.scale_target_ref.name}",
        shown,
        UNKNOWN if spec.min_replicas is None else str(spec.min_replicas),
        spec.max_replicas,
        status.current_replicas,
        age(autoscaler.metadata.creation_timestamp, now),
    ]


def _targets(metrics: tuple[MetricSpec, ...], measured: tuple[MetricStatus, ...]) -> str:
    """What each metric is and should be, as `cpu: 20%/80%`; the first few of them."""
    if not metrics:
        return NONE
    cells = [_target(metric, measured[i] if i < len(measured) else None) for i, metric in enumerate(metrics)]
    more = len(cells) - _SHOWN_METRICS
    return f"{', '.join(cells[:_SHOWN_METRICS])} + {more} more..." if more > 0 else ", ".join(cells)


def _target(metric: MetricSpec, measured: MetricStatus | None) -> str:
    field = {"ContainerResource": "container_resource"}.get(metric.type, metric.type.lower())
    source = getattr(metric, field, None)
    if source is None:
        return f"<unknown type> ({metric.type})" if field not in MetricSpec.__struct_fields__ else UNKNOWN
    status = getattr(measured, field, None)
    prefix = f"{source.name}: " if field in ("resource", "container_resource") else ""
    return f"{prefix}{_value(source.target, status.current if status else None)}"


def _value(target: MetricTarget, current: MetricValueStatus | None) -> str:
    if target.average_utilization is not None:
        now = current.average_utilization if current else None
        return f"{UNKNOWN if now is None else f'{now}%'}/{target.average_utilization}%"
    if target.average_value is not None:
        value = current.average_value if current else None
        return f"{UNKNOWN if value is None else value}/{target.average_value} (avg)"
    value = current.value if current else None
    return f"{UNKNOWN if value is None else value}/{target.value}"


_REPLICAS = (
    NAME,
    _number("Desired", "How many pods are wanted."),
    _number("Current", "How many pods there are."),
    _number("Ready", "How many of them are ready."),
    AGE,
    *CONTAINERS,
    _SELECTOR,
)
_AUTOSCALER = (
    NAME,
    Column(name="Reference", description="What is scaled."),
    Column(name="Targets", description="What is measured, and the value that is wanted."),
    Column(name="MinPods", description="How many pods at least."),
    Column(name="MaxPods", description="How many pods at most."),
    Column(name="Replicas", description="How many pods there are."),
    AGE,
)

WORKLOADS = {
    apps.DEPLOYMENT.resource: Printer(
        (
            NAME,
            Column(name="Ready", description="How many pods are ready, and how many are wanted."),
            Column(name="Up-to-date", description="How many pods are of the current template."),
            Column(name="Available", description="How many pods have been ready for long enough."),
            AGE,
            *CONTAINERS,
            _SELECTOR,
        ),
        _deployment,
    ),
    apps.REPLICA_SET.resource: Printer(_REPLICAS, _replica_set),
    core.REPLICATION_CONTROLLER.resource: Printer(_REPLICAS, _replication_controller),
    apps.STATEFUL_SET.resource: Printer(
        (NAME, Column(name="Ready", description="How many pods are ready, and how many are wanted."), AGE, *CONTAINERS),
        _stateful_set,
    ),
    apps.DAEMON_SET.resource: Printer(
        (
            NAME,
            _number("Desired", "How many nodes should have a pod."),
            _number("Current", "How many of them have one."),
            _number("Ready", "How many of these are ready."),
            _number("Up-to-date", "How many of these are of the current template."),
            _number("Available", "How many of these have been ready for long enough."),
            Column(name="Node Selector", description="Labels of the nodes."),
            AGE,
            *CONTAINERS,
            _SELECTOR,
        ),
        _daemon_set,
    ),
    apps.CONTROLLER_REVISION.resource: Printer(
        (
            NAME,
            Column(name="Controller", description="Whose template it was."),
            Column(name="Revision", description="Its number."),
            AGE,
        ),
        _revision,
    ),
    CRON_JOB.resource: Printer(
        (
            NAME,
            Column(name="Schedule", description="When Jobs are made."),
            Column(name="Timezone", description="Where that is meant."),
            Column(name="Suspend", description="Whether no Jobs are made."),
            _number("Active", "How many Jobs run."),
            Column(name="Last Schedule", description="Time since a Job was last made."),
            AGE,
            *CONTAINERS,
            _SELECTOR,
        ),
        _cron_job,
    ),
    core.POD_TEMPLATE.resource: Printer(
        (
            NAME,
            Column(name="Containers", description="Names of the containers in the template."),
            Column(name="Images", description="Images of the containers in the template."),
            Column(name="Pod Labels", description="Labels in the template."),
        ),
        _template,
    ),
    policy.POD_DISRUPTION_BUDGET.resource: Printer(
        (
            NAME,
            Column(name="Min Available", description="How many pods must be well."),
            Column(name="Max Unavailable", description="How many pods may be missing."),
            _number("Allowed Disruptions", "How many pods may be evicted now."),
            AGE,
        ),
        _budget,
    ),
    autoscaling_v2.HORIZONTAL_POD_AUTOSCALER.resource: Printer(_AUTOSCALER, _autoscaler),
}

AUTOSCALERS_V1 = Printer(_AUTOSCALER, _autoscaler_v1)
