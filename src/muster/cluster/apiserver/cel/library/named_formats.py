"""The named formats (`format.dns1123Label()`), whose `validate` returns the problems of a text."""

from collections.abc import Callable
from typing import Any

from muster.api.validation import names
from muster.cluster.apiserver.cel.library.overloads import Function, Functions, NamedFormat
from muster.cluster.apiserver.cel.library.urls import is_url
from muster.cluster.apiserver.cel.values import NONE, Optional
from muster.cluster.apiserver.schema.formats import FORMATS


def _make_prefix_rule(rule: names.NameRule) -> Callable[[str], names.Messages]:
    return lambda text: names.check_prefix(rule, text)


def _make_check(holds: Callable[[str], bool], sentence: str) -> Callable[[str], names.Messages]:
    return lambda text: () if holds(text) else (sentence,)


_RULES: dict[str, Callable[[str], Any]] = {
    "dns1123Label": names.dns_label,
    "dns1123Subdomain": names.dns_subdomain,
    "dns1035Label": names.dns_1035_label,
    "qualifiedName": names.label_key,
    "labelValue": names.label_value,
    "dns1123LabelPrefix": _make_prefix_rule(names.dns_label),
    "dns1123SubdomainPrefix": _make_prefix_rule(names.dns_subdomain),
    "dns1035LabelPrefix": _make_prefix_rule(names.dns_1035_label),
    "uri": _make_check(is_url, "invalid URI"),
    "uuid": _make_check(FORMATS["uuid"], "does not match the UUID format"),
    "byte": _make_check(FORMATS["byte"], "invalid base64"),
    "date": _make_check(FORMATS["date"], "invalid date"),
    "datetime": _make_check(FORMATS["date-time"], "invalid datetime"),
}


def _find_format(name: str) -> Optional:
    return Optional(True, NamedFormat(name)) if name in _RULES else NONE


def _validate(format_: NamedFormat, text: str) -> Optional:
    messages = list(_RULES[format_.name](text))
    return Optional(True, messages) if messages else NONE


def _make_constructor(name: str) -> Callable[[], NamedFormat]:
    return lambda: NamedFormat(name)


_BY_NAME: list[Function] = [
    (f"format.{name}", "() -> kubernetes.NamedFormat", _make_constructor(name)) for name in _RULES
]

FUNCTIONS = Functions(
    table=(
        *_BY_NAME,
        ("format.named", "(string) -> optional", _find_format),
        ("validate", "kubernetes.NamedFormat.(string) -> optional", _validate),
    ),
)
