"""The rules of autoscalers and disruption budgets (k8s.io/kubernetes/pkg/apis/{autoscaling,policy}/validation)."""

from muster.api.groups.autoscaling_v2 import HorizontalPodAutoscaler, MetricSpec
from muster.api.groups.policy import PodDisruptionBudget
from muster.api.validation.fields import NOT_NEGATIVE, Errors, invalid, required, unsupported
from muster.api.validation.metadata import validate_label_selector
from muster.api.validation.standard import Standard

_METRICS = {
    "ContainerResource": "container_resource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_EVICTION_POLICIES = ("AlwaysAllow", "IfHealthyBudget")


def _validate_autoscaler(autoscaler: HorizontalPodAutoscaler) -> Errors:
    spec = autoscaler.spec
    target = spec.scale_target_ref
    for field, value in (("kind", target.kind), ("name", target.name)):
        if not value:
            yield required(f"spec.scaleTargetRef.{field}")
    if spec.min_replicas is not None and spec.min_replicas < 1:
        yield invalid("spec.minReplicas", spec.min_replicas, "must be greater than or equal to 1")
    if spec.max_replicas < 1:
        yield invalid("spec.maxReplicas", spec.max_replicas, "must be greater than 0")
    if spec.min_replicas is not None and spec.max_replicas < spec.min_replicas:
        yield invalid("spec.maxReplicas", spec.max_replicas, "must be greater than or equal to `minReplicas`")
    for i, metric in enumerate(spec.metrics):
        yield from _validate_metric(f"spec.metrics[{i}]", metric)


def _validate_metric(path: str, metric: MetricSpec) -> Errors:
    if not metric.type:
        yield required(f"{path}.type", "must specify a metric source type")
    elif metric.type not in _METRICS:
        yield unsupported(f"{path}.type", metric.type, _METRICS)
    elif getattr(metric, _METRICS[metric.type]) is None:
        field = metric.type[0].lower() + metric.type[1:]
        yield required(f"{path}.{field}", "must populate information for the given metric source")


def _validate_budget(budget: PodDisruptionBudget) -> Errors:
    spec = budget.spec
    if spec.min_available is not None and spec.max_unavailable is not None:
        yield invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    for field, value in (("minAvailable", spec.min_available), ("maxUnavailable", spec.max_unavailable)):
        if value is not None:
            yield from _validate_pods_or_percent(f"spec.{field}", value)
    yield from validate_label_selector("spec.selector", spec.selector)
    policy = spec.unhealthy_pod_eviction_policy
    if policy is not None and policy not in _EVICTION_POLICIES:
        yield unsupported("spec.unhealthyPodEvictionPolicy", policy, _EVICTION_POLICIES)


def _validate_pods_or_percent(path: str, value: int | str) -> Errors:
    """Check a number of pods, or a percentage of them."""
    if isinstance(value, int):
        if value < 0:
            yield invalid(path, value, NOT_NEGATIVE)
        return
    number = value.removesuffix("%")
    if number == value or not (number.isascii() and number.isdigit()):
        yield invalid(path, value, "a valid percent string must be a numeric string followed by an ending '%'")
    elif len(number) > len("100") or int(number) > 100:
        yield invalid(path, value, "must not be greater than 100%")


AUTOSCALER = Standard(_validate_autoscaler)
DISRUPTION_BUDGET = Standard(_validate_budget)
