"""The defaults of HorizontalPodAutoscalers (k8s.io/kubernetes/pkg/apis/autoscaling/v2/defaults.go)."""

from copy import deepcopy
from typing import Any

from muster.api.defaults.resources import default_quantity

Json = dict[str, Any]

CPU_PERCENT = 80
_DOUBLE = {"type": "Percent", "value": 100, "periodSeconds": 15}
_UP: Json = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, _DOUBLE],
}
_DOWN: Json = {"selectPolicy": "Max", "policies": [_DOUBLE]}


def default_autoscaler(autoscaler: Json) -> None:
    """Set the defaults of a HorizontalPodAutoscaler of `autoscaling/v2`."""
    spec = autoscaler.setdefault("spec", {})
    spec.setdefault("minReplicas", 1)
    if not spec.get("metrics"):
        spec["metrics"] = [cpu_metric(CPU_PERCENT)]
    for metric in spec["metrics"]:
        for source in metric.values():
            if isinstance(source, dict) and "target" in source:
                default_quantity(source["target"], "value")
                default_quantity(source["target"], "averageValue")
    behavior = spec.get("behavior")
    if behavior is not None:
        for direction, values in (("scaleUp", _UP), ("scaleDown", _DOWN)):
            rules = behavior.setdefault(direction, {})
            for name, value in values.items():
                if not rules.get(name) and rules.get(name) != 0:
                    rules[name] = deepcopy(value)


def cpu_metric(percent: int) -> Json:
    """Return the default metric: a target for the use of CPU, in percent of the request."""
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}
