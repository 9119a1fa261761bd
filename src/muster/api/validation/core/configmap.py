"""The rules of ConfigMaps (k8s.io/kubernetes/pkg/apis/core/validation)."""

from muster.api.core import ConfigMap
from muster.api.status import FieldError
from muster.api.validation import names
from muster.api.validation.fields import Errors, forbidden, invalid, make_errors, too_long
from muster.api.validation.metadata import changed_metadata, new_metadata

MAX_BYTES = 1024 * 1024  # the limit of all values together
FROZEN = "field is immutable when `immutable` is set"


def validate_create(config_map: ConfigMap) -> list[FieldError]:
    """Return the errors in a new ConfigMap."""
    return [*new_metadata(config_map.metadata, names.dns_subdomain), *_validate_data(config_map)]


def validate_update(new: ConfigMap, old: ConfigMap) -> list[FieldError]:
    """Return the errors in a change of a ConfigMap. An immutable one allows no change of its data."""
    return [*changed_metadata(new.metadata, old.metadata), *_validate_immutable_fields(new, old), *_validate_data(new)]


def _validate_data(config_map: ConfigMap) -> Errors:
    size = 0
    for key, text in config_map.data.items():
        yield from make_errors(f"data[{key}]", key, names.config_key(key))
        if key in config_map.binary_data:
            yield invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
        size += len(text.encode())
    for key, content in config_map.binary_data.items():
        yield from make_errors(f"binaryData[{key}]", key, names.config_key(key))
        size += len(content)
    if size > MAX_BYTES:
        yield too_long("", MAX_BYTES)


def _validate_immutable_fields(new: ConfigMap, old: ConfigMap) -> Errors:
    if not old.immutable:
        return
    if not new.immutable:
        yield forbidden("immutable", FROZEN)
    if new.data != old.data:
        yield forbidden("data", FROZEN)
    if new.binary_data != old.binary_data:
        yield forbidden("binaryData", FROZEN)
