"""The rules of environment variables, and of references to the pod itself."""

import re
from collections.abc import Collection

from muster.api.core import (
    EnvFromSource,
    EnvVar,
    EnvVarSource,
    FileKeySelector,
    ObjectFieldSelector,
    ResourceFieldSelector,
)
from muster.api.validation import names, paths
from muster.api.validation.fields import Errors, invalid, make_errors, required, unsupported
from muster.api.values.quantity import Quantity, QuantityError, format_canonical

_ENV_FIELDS = frozenset({
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
})  # fmt: skip
VOLUME_FIELDS = frozenset({
    "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid",
})  # fmt: skip
_KNOWN_FIELDS = _ENV_FIELDS | VOLUME_FIELDS | {"spec.restartPolicy", "spec.schedulerName", "status.phase"}
_RESOURCES = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory",
    "requests.cpu", "requests.ephemeral-storage", "requests.memory",
)  # fmt: skip
_HUGE_PAGES = ("limits.hugepages-", "requests.hugepages-")
_BYTE_UNITS = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_UNITS = {
    "cpu": (("1m", "1"), "1m and 1", "cpu"),
    "memory": (_BYTE_UNITS, ", ".join(_BYTE_UNITS), "memory"),
    "ephemeral-storage": (_BYTE_UNITS, ", ".join(_BYTE_UNITS), "local ephemeral storage"),
    "hugepages": (_BYTE_UNITS, ", ".join(_BYTE_UNITS), "hugepages"),
}

_SUBSCRIPTED = re.compile(r"(?P<path>[^\[\]]*)\['(?P<key>.*)'\]", re.DOTALL)


def validate_environment(path: str, variables: tuple[EnvVar, ...]) -> Errors:
    """Yield the errors in a container's `env`."""
    for i, variable in enumerate(variables):
        place = f"{path}[{i}]"
        if not variable.name:
            yield required(f"{place}.name")
        else:
            yield from make_errors(f"{place}.name", variable.name, names.environment_variable(variable.name))
        if variable.value_from is not None:
            yield from _validate_value_from(f"{place}.valueFrom", variable.value_from, has_value=bool(variable.value))


def validate_environment_from(path: str, sources: tuple[EnvFromSource, ...]) -> Errors:
    """Yield the errors in a container's `envFrom`."""
    for i, source in enumerate(sources):
        place = f"{path}[{i}]"
        if source.prefix:
            yield from make_errors(f"{place}.prefix", source.prefix, names.environment_variable(source.prefix))
        given = [
            (field, reference)
            for field, reference in (("configMapRef", source.config_map_ref), ("secretRef", source.secret_ref))
            if reference is not None
        ]
        for field, reference in given:
            if not reference.name:
                yield required(f"{place}.{field}.name")
            else:
                messages = names.check_prefix(names.dns_subdomain, reference.name)
                yield from make_errors(f"{place}.{field}.name", reference.name, messages)
        if not given:
            yield invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            yield invalid(path, "", "may not have more than one field specified at a time")


def validate_field_selector(path: str, selector: ObjectFieldSelector, fields: Collection[str]) -> Errors:
    """Yield the errors in a reference to a field of the pod.

    fields: the fields that are allowed here.
    """
    if not selector.api_version:
        yield required(f"{path}.apiVersion")
        return
    if not selector.field_path:
        yield required(f"{path}.fieldPath")
        return
    subscripted = _SUBSCRIPTED.fullmatch(selector.field_path)
    problem = _find_conversion_problem(selector, subscripted)
    if problem:
        yield invalid(f"{path}.fieldPath", selector.field_path, f"error converting fieldPath: {problem}")
    elif subscripted:
        key = subscripted["key"]
        lowered = key.lower() if subscripted["path"] == "metadata.annotations" else key
        yield from make_errors(path, lowered, names.label_key(lowered))
    else:
        field = "spec.nodeName" if selector.field_path == "spec.host" else selector.field_path
        if field not in fields:
            yield unsupported(f"{path}.fieldPath", field, sorted(fields))


def validate_resource_selector(path: str, selector: ResourceFieldSelector, *, needs_container: bool) -> Errors:
    """Yield the errors in a reference to a request or limit of a container."""
    if needs_container and not selector.container_name:
        yield required(f"{path}.containerName")
    elif not selector.resource:
        yield required(f"{path}.resource")
    elif selector.resource not in _RESOURCES and not selector.resource.startswith(_HUGE_PAGES):
        yield unsupported(f"{path}.resource", selector.resource, _RESOURCES)
    if selector.divisor is not None:
        yield from _validate_divisor(f"{path}.divisor", selector.resource, selector.divisor)


def _find_conversion_problem(selector: ObjectFieldSelector, subscripted: re.Match[str] | None) -> str:
    if selector.api_version != "v1":
        return f"unsupported pod version: {selector.api_version}"
    if subscripted:
        plain = subscripted["path"] in ("metadata.annotations", "metadata.labels")
        return "" if plain else f"field label does not support subscript: {selector.field_path}"
    known = selector.field_path in _KNOWN_FIELDS or selector.field_path == "spec.host"
    return "" if known else f"field label not supported: {selector.field_path}"


def _validate_divisor(path: str, resource: str, divisor: Quantity) -> Errors:
    try:
        unit = format_canonical(divisor)
    except QuantityError as error:
        yield invalid(path, divisor, str(error))
        return
    kind = resource.partition(".")[2]
    kind = "hugepages" if kind.startswith("hugepages-") else kind
    if unit == "0" or kind not in _UNITS:
        return
    units, listed, name = _UNITS[kind]
    if unit not in units:
        sentence = f"only divisor's values {listed} are supported with the {name} resource"
        yield invalid(path, resource, sentence)


def _validate_value_from(path: str, source: EnvVarSource, *, has_value: bool) -> Errors:
    number = 0
    if source.field_ref is not None:
        number += 1
        yield from validate_field_selector(f"{path}.fieldRef", source.field_ref, _ENV_FIELDS)
    if source.resource_field_ref is not None:
        number += 1
        yield from validate_resource_selector(
            f"{path}.resourceFieldRef", source.resource_field_ref, needs_container=False
        )
    if source.config_map_key_ref is not None:
        number += 1
        yield from _validate_key(
            f"{path}.configMapKeyRef", source.config_map_key_ref.name, source.config_map_key_ref.key
        )
    if source.secret_key_ref is not None:
        number += 1
        yield from _validate_key(f"{path}.secretKeyRef", source.secret_key_ref.name, source.secret_key_ref.key)
    if source.file_key_ref is not None:
        number += 1
        yield from _validate_file_key(f"{path}.fileKeyRef", source.file_key_ref)
    if number == 0:
        options = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        yield invalid(path, "", f"must specify one of: {options}")
    elif has_value:
        yield invalid(path, "", "may not be specified when `value` is not empty")
    elif number > 1:
        yield invalid(path, "", "may not have more than one field specified at a time")


def _validate_key(path: str, name: str, key: str) -> Errors:
    yield from make_errors(f"{path}.name", name, names.dns_subdomain(name))
    if not key:
        yield required(f"{path}.key")
    else:
        yield from make_errors(f"{path}.key", key, names.config_key(key))


def _validate_file_key(path: str, selector: FileKeySelector) -> Errors:
    if not selector.key:
        yield required(f"{path}.key")
    else:
        yield from make_errors(f"{path}.key", selector.key, names.environment_variable(selector.key))
    if not selector.volume_name:
        yield required(f"{path}.volumeName")
    else:
        yield from make_errors(f"{path}.volumeName", selector.volume_name, names.dns_label(selector.volume_name))
    if not selector.path:
        yield required(f"{path}.path")
    else:
        yield from paths.validate_no_backsteps(f"{path}.path", selector.path)
