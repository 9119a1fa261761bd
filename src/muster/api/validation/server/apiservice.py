"""The rules of APIServices (k8s.io/kube-aggregator/pkg/apis/apiregistration/validation)."""

from muster.api.server.apiregistration import APIService, APIServiceSpec
from muster.api.validation import names
from muster.api.validation.fields import Errors, invalid, make_errors, required
from muster.api.validation.standard import Standard


def _validate_api_service(service: APIService) -> Errors:
    spec = service.spec
    name = f"{spec.version}.{spec.group}"
    if service.metadata.name != name:
        yield invalid("metadata.name", service.metadata.name, f'must be `spec.version+"."+spec.group`: "{name}"')
    if spec.group:
        yield from make_errors("spec.group", spec.group, names.dns_subdomain(spec.group))
    elif spec.version != "v1":
        yield required("spec.group", "only v1 may have an empty group and it better be legacy kube")
    yield from make_errors("spec.version", spec.version, names.dns_1035_label(spec.version))
    yield from _validate_maximum(20000, "spec.groupPriorityMinimum", spec.group_priority_minimum)
    yield from _validate_maximum(1000, "spec.versionPriority", spec.version_priority)
    yield from _validate_remote_service(spec) if spec.service is not None else _validate_local_service(spec)


def _validate_maximum(most: int, path: str, value: int) -> Errors:
    if not 0 < value <= most:
        yield invalid(path, value, f"must be positive and less than {most}")


def _validate_local_service(spec: APIServiceSpec) -> Errors:
    if spec.ca_bundle:
        yield invalid("spec.caBundle", f"{len(spec.ca_bundle)} bytes", "local APIServices may not have a caBundle")
    if spec.insecure_skip_tls_verify:
        path = "spec.insecureSkipTLSVerify"
        yield invalid(path, value=True, detail="local APIServices may not have insecureSkipTLSVerify")


def _validate_remote_service(spec: APIServiceSpec) -> Errors:
    assert spec.service is not None
    if not spec.service.namespace:
        yield required("spec.service.namespace")
    if not spec.service.name:
        yield required("spec.service.name")
    port = spec.service.port or 0
    yield from (invalid("spec.service.port", port, f"port is not valid: {why}") for why in names.port_number(port))
    if spec.insecure_skip_tls_verify and spec.ca_bundle:
        yield invalid("spec.insecureSkipTLSVerify", value=True, detail="may not be true if caBundle is present")


API_SERVICE = Standard(_validate_api_service, name=names.path_segment, namespaced=False)
