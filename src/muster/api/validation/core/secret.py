"""The rules of Secrets (k8s.io/kubernetes/pkg/apis/core/validation). No error repeats a secret's content."""

import json

from muster.api.core import Secret
from muster.api.status import FieldError
from muster.api.validation import names
from muster.api.validation.core.configmap import FROZEN, MAX_BYTES
from muster.api.validation.fields import Errors, forbidden, invalid, make_errors, required, too_long, validate_immutable
from muster.api.validation.metadata import changed_metadata, new_metadata

_ACCOUNT = "kubernetes.io/service-account.name"
_JSON_KEYS = {"kubernetes.io/dockercfg": ".dockercfg", "kubernetes.io/dockerconfigjson": ".dockerconfigjson"}


def validate_create(secret: Secret) -> list[FieldError]:
    """Return the errors in a new Secret with its defaults."""
    return [*new_metadata(secret.metadata, names.dns_subdomain), *_validate_data(secret)]


def validate_update(new: Secret, old: Secret) -> list[FieldError]:
    """Return the errors in a change of a Secret, whose type is immutable."""
    return [*changed_metadata(new.metadata, old.metadata), *_validate_immutable_fields(new, old), *_validate_data(new)]


def _validate_data(secret: Secret) -> Errors:
    for key in secret.data:
        yield from make_errors(f"data[{key}]", key, names.config_key(key))
    if sum(map(len, secret.data.values())) > MAX_BYTES:
        yield too_long("data", MAX_BYTES)
    yield from _validate_keys_of_type(secret)


def _validate_keys_of_type(secret: Secret) -> Errors:
    data = secret.data
    match secret.type:
        case "kubernetes.io/service-account-token":
            if not secret.metadata.annotations.get(_ACCOUNT):
                yield required(f"metadata.annotations[{_ACCOUNT}]")
        case "kubernetes.io/dockercfg" | "kubernetes.io/dockerconfigjson":
            yield from _validate_json(_JSON_KEYS[secret.type], data)
        case "kubernetes.io/basic-auth":
            if not data.keys() & {"username", "password"}:
                yield required("data[username]")
                yield required("data[password]")
        case "kubernetes.io/ssh-auth":
            if not data.get("ssh-privatekey"):
                yield required("data[ssh-privatekey]")
        case "kubernetes.io/tls":
            for key in ("tls.crt", "tls.key"):
                if key not in data:
                    yield required(f"data[{key}]")


def _validate_json(key: str, data: dict[str, bytes]) -> Errors:
    if key not in data:
        yield required(f"data[{key}]")
        return
    try:
        good = isinstance(json.loads(data[key]), dict)
    except (ValueError, RecursionError):
        good = False
    if not good:
        yield invalid(f"data[{key}]", "<secret contents redacted>", "must be a JSON object")


def _validate_immutable_fields(new: Secret, old: Secret) -> Errors:
    yield from validate_immutable("type", new.type, old.type)
    if old.immutable:
        if not new.immutable:
            yield forbidden("immutable", FROZEN)
        if new.data != old.data:
            yield forbidden("data", FROZEN)
