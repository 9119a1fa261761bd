"""The defaults of pods and pod templates (k8s.io/kubernetes/pkg/apis/core/v1/defaults.go).

A template gets fewer defaults than a pod. The others (requests from limits, service links, host ports) appear when the
pod is created from the template.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from muster.api.core import PodSpec
from muster.api.defaults.resources import default_requirements, default_resource_list, fill
from muster.api.defaults.volumes import default_field_ref, default_resource_field_ref, default_volume
from muster.api.pods import pod_requests
from muster.api.values.quantity import QuantityError, format_amount

Json = dict[str, Any]


def default_pod(pod: Json) -> None:
    """Set the defaults of a pod."""
    spec = pod.setdefault("spec", {})
    default_pod_spec(spec)
    for container in _run_containers(spec):
        resources = container["resources"]
        if resources.get("limits"):
            resources["requests"] = resources["limits"] | resources.get("requests", {})
    _default_pod_requests(spec)
    spec.setdefault("enableServiceLinks", True)
    if spec.get("hostNetwork"):
        for container in _run_containers(spec):
            for port in container.get("ports", ()):
                if not port.get("hostPort") and "containerPort" in port:
                    port["hostPort"] = port["containerPort"]


def default_pod_template(template: Json) -> None:
    """Set the defaults of a controller's pod template."""
    default_pod_spec(template.setdefault("spec", {}))


def default_pod_spec(spec: Json) -> None:
    """Set the defaults of a pod spec, for pods and for pod templates."""
    fill(spec, "dnsPolicy", "ClusterFirst")
    fill(spec, "restartPolicy", "Always")
    fill(spec, "schedulerName", "default-scheduler")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for volume in spec.get("volumes", ()):
        default_volume(volume)
    for container in (*_run_containers(spec), *spec.get("ephemeralContainers", ())):
        _default_container(container)
    default_resource_list(spec.get("overhead"))
    if "resources" in spec:
        default_requirements(spec["resources"])


def image_tag(image: str) -> str:
    """Return the tag in the name of an image; `latest` without tag and digest, "" with a digest only."""
    name, at, _digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return tag or ("" if at or not image else "latest")


def _run_containers(spec: Json) -> Iterator[Json]:
    yield from spec.get("initContainers", ())
    yield from spec.get("containers", ())


def _default_container(container: Json) -> None:
    pull = "Always" if image_tag(container.get("image", "")) == "latest" else "IfNotPresent"
    fill(container, "imagePullPolicy", pull)
    fill(container, "terminationMessagePath", "/dev/termination-log")
    fill(container, "terminationMessagePolicy", "File")
    default_requirements(container.setdefault("resources", {}))
    for port in container.get("ports", ()):
        fill(port, "protocol", "TCP")
    for variable in container.get("env", ()):
        _default_env_source(variable.get("valueFrom", {}))
    for field in ("livenessProbe", "readinessProbe", "startupProbe"):
        if field in container:
            _default_probe(container[field])
    for handler in container.get("lifecycle", {}).values():
        if isinstance(handler, dict):  # the field stopSignal is a string
            _default_handler(handler)


def _default_env_source(source: Json) -> None:
    default_field_ref(source)
    default_resource_field_ref(source)
    if "fileKeyRef" in source:
        source["fileKeyRef"].setdefault("optional", False)


def _default_probe(probe: Json) -> None:
    fill(probe, "timeoutSeconds", 1)
    fill(probe, "periodSeconds", 10)
    fill(probe, "successThreshold", 1)
    fill(probe, "failureThreshold", 3)
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")
    _default_handler(probe)


def _default_handler(handler: Json) -> None:
    if "httpGet" in handler:
        fill(handler["httpGet"], "path", "/")
        fill(handler["httpGet"], "scheme", "HTTP")


def _default_pod_requests(spec: Json) -> None:
    """Set the pod-level requests (`spec.resources`) for each resource with a pod-level limit.

    A request is the sum of the containers' requests, or else the limit.
    """
    resources = spec.get("resources", {})
    limits = resources.get("limits")
    if not limits:
        return
    try:
        asked = pod_requests(msgspec.convert({"containers": spec.get("containers", []),
                                              "initContainers": spec.get("initContainers", [])}, PodSpec))  # fmt: skip
    except QuantityError:
        return  # the validation reports the invalid quantity
    requests = {name: format_amount(name, number) for name, number in asked.items() if name in ("cpu", "memory")}
    resources["requests"] = limits | requests | resources.get("requests", {})
