"""The rules of names, labels, keys and ports.

Each function returns the messages of the rules that a text breaks; an empty tuple if the text is valid. Lengths are in
bytes.
"""

import re
from collections.abc import Callable
from functools import lru_cache

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_UNDERSCORE_LABEL = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_UNDERSCORE_SUBDOMAIN = rf"{_UNDERSCORE_LABEL}(\.{_UNDERSCORE_LABEL})*"
_KEY_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_KEY_NAME})?"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_HTTP_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_HTTP_HEADER = "[-A-Za-z0-9]+"
_PREFIX_EXAMPLE = "(e.g. 'example.com/MyName')"

# Results are cached, because a thousand pods of one job have the same labels, keys and containers.
_remember = lru_cache(maxsize=8192)

Messages = tuple[str, ...]
NameRule = Callable[[str], Messages]


def _explain_too_long(value: str, limit: int, unit: str = "characters") -> Messages:
    # Upstream's messages say "characters" for names and "bytes" for labels, and mean bytes in both.
    return (f"must be no more than {limit} {unit}",) if len(value.encode()) > limit else ()


def _explain_pattern(sentence: str, pattern: str, *examples: str) -> str:
    shown = ",  or ".join(f"'{example}'" for example in examples)  # two spaces, as upstream
    return f"{sentence} (e.g. {shown}, regex used for validation is '{pattern}')"


def path_segment(value: str) -> Messages:
    """Check a segment of a URL path, such as the name of a role, which may have colons and capitals."""
    if value in (".", ".."):
        return (f"may not be '{value}'",)
    return tuple(f"may not contain '{character}'" for character in "/%" if character in value)


@_remember
def dns_label(value: str) -> Messages:
    """Check an RFC 1123 label: containers, volumes, namespaces, host names."""
    messages = _explain_too_long(value, 63)
    if re.fullmatch(_LABEL, value):
        return messages
    if re.fullmatch(_SUBDOMAIN, value):
        return (*messages, "must not contain dots")
    sentence = (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
        "and must start and end with an alphanumeric character"
    )
    return (*messages, _explain_pattern(sentence, _LABEL, "my-name", "123-abc"))


@_remember
def dns_subdomain(value: str, unit: str = "characters") -> Messages:
    """Check an RFC 1123 subdomain: the name of most objects."""
    messages = _explain_too_long(value, 253, unit)
    if re.fullmatch(_SUBDOMAIN, value):
        return messages
    sentence = (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
        "and must start and end with an alphanumeric character"
    )
    return (*messages, _explain_pattern(sentence, _SUBDOMAIN, "example.com"))


@_remember
def dns_subdomain_with_underscore(value: str) -> Messages:
    """Check a subdomain with underscores: search domains."""
    messages = _explain_too_long(value, 253)
    if re.fullmatch(_UNDERSCORE_SUBDOMAIN, value):
        return messages
    sentence = (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
        "and must start and end with an alphanumeric character"
    )
    return (*messages, _explain_pattern(sentence, _UNDERSCORE_SUBDOMAIN, "example.com"))


@_remember
def dns_1035_label(value: str) -> Messages:
    """Check an RFC 1035 label, which starts with a letter, such as the name of a Service."""
    messages = _explain_too_long(value, 63)
    if re.fullmatch(_LABEL_1035, value):
        return messages
    sentence = (
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
        "character, and end with an alphanumeric character"
    )
    return (*messages, _explain_pattern(sentence, _LABEL_1035, "my-name", "abc-123"))


@_remember
def label_key(value: str) -> Messages:
    """Check a qualified name: keys of labels and annotations, finalizers, conditions, resources."""
    sentence = _explain_pattern(
        "must consist of alphanumeric characters, '-', '_' or '.', "
        "and must start and end with an alphanumeric character",
        _KEY_NAME,
        "MyName",
        "my.name",
        "123-abc",
    )
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        return (f"a valid label key {sentence} with an optional DNS subdomain prefix and '/' {_PREFIX_EXAMPLE}",)
    messages: list[str] = []
    if slash and not prefix:
        messages.append("prefix part must be non-empty")
    elif slash:
        messages += (f"prefix part {message}" for message in dns_subdomain(prefix, "bytes"))
    if not name:
        messages.append("name part must be non-empty")
    else:
        messages += (f"name part {message}" for message in _explain_too_long(name, 63, "bytes"))
    if not re.fullmatch(_KEY_NAME, name):
        messages.append(f"name part {sentence}")
    return tuple(messages)


@_remember
def label_value(value: str) -> Messages:
    """Check the value of a label; return an empty tuple if it is valid."""
    messages = _explain_too_long(value, 63, "bytes")
    if re.fullmatch(_LABEL_VALUE, value):
        return messages
    sentence = (
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
        "and must start and end with an alphanumeric character"
    )
    return (*messages, _explain_pattern(sentence, _LABEL_VALUE, "MyValue", "my_value", "12345"))


@_remember
def config_key(value: str) -> Messages:
    """Check a key of a ConfigMap or Secret, which becomes the name of a file."""
    messages = [*_explain_too_long(value, 253)]
    if not re.fullmatch(_CONFIG_KEY, value):
        sentence = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        messages.append(_explain_pattern(sentence, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    if value in (".", ".."):
        messages.append(f"must not be '{value}'")
    elif value.startswith(".."):
        messages.append("must not start with '..'")
    return tuple(messages)


@_remember
def environment_variable(value: str) -> Messages:
    """Check the name of an environment variable, which is any printable ASCII without `=`."""
    messages: list[str] = []
    if not value:
        messages.append("environment variable name must be non-empty")
    if any(not " " <= character <= "~" or character == "=" for character in value):
        messages.append(
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
        )
    return tuple(messages)


@_remember
def http_header(value: str) -> Messages:
    """Check the name of an HTTP header."""
    if re.fullmatch(_HTTP_HEADER, value):
        return ()
    sentence = "a valid HTTP header must consist of alphanumeric characters or '-'"
    return (_explain_pattern(sentence, _HTTP_HEADER, "X-Header-Name"),)


@_remember
def http_path(value: str) -> Messages:
    """Check the path of a URL."""
    return () if re.fullmatch(_HTTP_PATH, value) else (f"Invalid path (regex used for validation is '{_HTTP_PATH}')",)


@_remember
def port_name(value: str) -> Messages:
    """Check the name of a port (RFC 6335)."""
    messages = [*_explain_too_long(value, 15)]
    if not re.fullmatch("[-a-z0-9]+", value):
        messages.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", value):
        messages.append("must contain at least one letter (a-z)")
    if "--" in value:
        messages.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        messages.append("must not begin or end with a hyphen")
    return tuple(messages)


def in_range(value: int, low: int, high: int) -> Messages:
    """Check that a number is in an inclusive range."""
    return () if low <= value <= high else (f"must be between {low} and {high}, inclusive",)


def port_number(value: int) -> Messages:
    """Check the number of a TCP or UDP port."""
    return in_range(value, 1, 65535)


def user_or_group_id(value: int) -> Messages:
    """Check a Unix user or group id."""
    return in_range(value, 0, 2**31 - 1)


def check_prefix(rule: NameRule, value: str) -> Messages:
    """Return what is wrong with the prefix of a generated name, which may end with a dash; empty if it is valid."""
    return rule(value[:-2] + "a" if len(value) > 1 and value.endswith("-") else value)
