"""The `format`s of OpenAPI strings that the API server checks: `FORMATS` contains a predicate for each.

The list follows k8s.io/kube-openapi/pkg/validation/strfmt, without the formats that no published CRD uses.
"""

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date, datetime
from urllib.parse import urlsplit

_DATE_TIME = re.compile(r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d)(?:\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_DURATION = re.compile(r"(\d+(\.\d+)?\s*(ns|us|µs|ms|s|m|h|hr|d|w|nano|micro|milli|sec|min|hour|day|week)s?\s*)+")
_MICROSECONDS = re.compile(r"\.\d{6}[Z+-]")
_HOST_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_MAC = re.compile(r"[0-9A-Fa-f]{2}([:-])[0-9A-Fa-f]{2}(\1[0-9A-Fa-f]{2}){4}")
_UUID = re.compile(r"[0-9A-Fa-f]{8}-?([0-9A-Fa-f]{4}-?){3}[0-9A-Fa-f]{12}")
_EMAIL = re.compile(r"[^\s@<>]+@[^\s@<>]+")


def is_date_time(text: str) -> bool:
    """Return whether a text is a time by RFC 3339, the notation of all times in the API."""
    match = _DATE_TIME.fullmatch(text)
    # The fraction may have any number of digits, so the check leaves it out.
    return match is not None and _parses(datetime.fromisoformat, (match[1] + match[2]).upper())


def is_micro_time(text: str) -> bool:
    """Return whether a text is a time by RFC 3339 with exactly six digits of microseconds.

    Clients in Go read no other notation for fields of the type MicroTime.
    """
    return is_date_time(text) and _MICROSECONDS.fullmatch(text[19:27].upper()) is not None


def is_base64(text: str) -> bool:
    """Return whether a text is standard base64 with padding. Line breaks are allowed, as in Go's decoder."""
    return _parses(lambda t: base64.b64decode(t.replace("\n", "").replace("\r", ""), validate=True), text)


def _is_date(text: str) -> bool:
    return len(text) == len("2006-01-02") and _parses(date.fromisoformat, text)


def _is_hostname(text: str) -> bool:
    return 0 < len(text) <= 255 and all(_HOST_LABEL.fullmatch(label) for label in text.removesuffix(".").split("."))


def _is_uri(text: str) -> bool:
    return _parses(urlsplit, text) and (bool(urlsplit(text).scheme) or text.startswith("/"))


def _parses(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except (ValueError, binascii.Error):
        return False
    return True


FORMATS: dict[str, Callable[[str], bool]] = {
    "byte": is_base64,
    "cidr": lambda text: "/" in text and _parses(lambda t: ipaddress.ip_network(t, strict=False), text),
    "date": _is_date,
    "date-time": is_date_time,
    "datetime": is_date_time,
    "duration": lambda text: _DURATION.fullmatch(text) is not None,
    "email": lambda text: _EMAIL.fullmatch(text) is not None,
    "hostname": _is_hostname,
    "ipv4": lambda text: _parses(ipaddress.IPv4Address, text),
    "ipv6": lambda text: _parses(ipaddress.IPv6Address, text),
    "mac": lambda text: _MAC.fullmatch(text) is not None,
    "uri": _is_uri,
    "uuid": lambda text: _UUID.fullmatch(text) is not None,
}
