"""The `autoscaling/v1` view of HorizontalPodAutoscalers, which are stored as v2. Pure.

v1 shows only the CPU target. Fields without a v1 form (other metrics, behavior, conditions) keep their stored values
when a client writes through v1.
"""

from typing import Any

from muster.api.defaults.autoscaling import cpu_metric
from muster.api.groups.autoscaling_v2 import HORIZONTAL_POD_AUTOSCALER
from muster.api.kinds import Kind
from muster.api.members import remove_members, select_members
from muster.api.meta import Object
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.objects import views

V1 = Kind("autoscaling", "v1", HORIZONTAL_POD_AUTOSCALER.kind, HORIZONTAL_POD_AUTOSCALER.plural, Object)

_SAME_SPEC = ("scaleTargetRef", "minReplicas", "maxReplicas")
_SAME_STATUS = ("observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas")
_TARGET, _CURRENT = "targetCPUUtilizationPercentage", "currentCPUUtilizationPercentage"


def convert_to_v1(stored: Document) -> Document:
    """Convert a stored HorizontalPodAutoscaler from v2 to v1."""
    shown = stored | {"apiVersion": V1.api_version}
    if "spec" in stored:
        target = _find_cpu_percent(stored["spec"].get("metrics", ()), "target")
        shown["spec"] = select_members(stored["spec"], _SAME_SPEC) | ({} if target is None else {_TARGET: target})
    if "status" in stored:
        current = _find_cpu_percent(stored["status"].get("currentMetrics", ()), "current")
        shown["status"] = select_members(stored["status"], _SAME_STATUS) | (
            {} if current is None else {_CURRENT: current}
        )
    return shown


def convert_from_v1(stored: Document, written: Document) -> Document:
    """Return the HorizontalPodAutoscaler to store, in v2, after a client wrote the object in v1.

    stored: the object before the write, in v2. Its status and its fields without a v1 form stay.
    written: the client's object, in v1.
    """
    return views.take_main(stored, _convert_autoscaler(stored, written))


def take_status(stored: Document, written: Document) -> Document:
    """Return the HorizontalPodAutoscaler to store, in v2, after a client wrote its `status` subresource in v1.

    stored: the object before the write, in v2.
    written: the client's object, in v1.
    """
    return views.take_status(stored, _convert_autoscaler(stored, written))


def _convert_autoscaler(stored: Document, written: Document) -> Document:
    """Convert a HorizontalPodAutoscaler from v1 to v2. Fields that v1 lacks get their values from `stored`."""
    converted = written | {"apiVersion": HORIZONTAL_POD_AUTOSCALER.api_version}
    if spec := written.get("spec"):
        old = stored.get("spec", {})
        others = [metric for metric in old.get("metrics", ()) if _get_percent(metric, "target") is None]
        target = [cpu_metric(spec[_TARGET])] if _TARGET in spec else []
        converted["spec"] = remove_members(old, *_SAME_SPEC, "metrics") | select_members(spec, _SAME_SPEC)
        if metrics := [*target, *others]:
            converted["spec"]["metrics"] = metrics
    if status := written.get("status"):
        old = stored.get("status", {})
        others = [metric for metric in old.get("currentMetrics", ()) if _get_percent(metric, "current") is None]
        current = [_make_cpu_metric(status[_CURRENT])] if _CURRENT in status else []
        converted["status"] = remove_members(old, *_SAME_STATUS, "currentMetrics") | select_members(
            status, _SAME_STATUS
        )
        if metrics := [*current, *others]:
            converted["status"]["currentMetrics"] = metrics
    return converted


def _make_cpu_metric(percent: int) -> Document:
    return {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": percent}}}


def _find_cpu_percent(metrics: Any, member: str) -> int | None:
    return next((percent for metric in metrics if (percent := _get_percent(metric, member)) is not None), None)


def _get_percent(metric: Document, member: str) -> int | None:
    """Return the CPU utilization of a metric in percent of the requests; None for any other metric.

    member: "target" in a spec, "current" in a status.
    """
    resource = metric.get("resource", {})
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    percent: int | None = resource.get(member, {}).get("averageUtilization")
    return percent
