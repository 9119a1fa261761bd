"""Hide parts of a job's manifest that a reader need not know: values of variables, tokens and passwords. Pure."""

from collections.abc import Mapping
from typing import Any

import re2

HIDDEN = "(hidden)"

_COUNT_DIGITS = 6
_MANAGED = ("managedFields",)
# The annotation in which kubectl keeps the whole manifest, including the values of variables.
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_HUSHED = r"(?i)(?:token|secret|passw(?:or)?d|passphrase|credential|api[-_]?key|private[-_]?key|access[-_]?key)"
_NAME_OF_SECRET = re2.compile(_HUSHED + r"s?$")
# `--token=abc`, `password: abc`, `API_KEY=abc python x.py`.
_ASSIGNED = re2.compile(r"(" + _HUSHED + r"s?[\"']?\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s\"']+)")
# `--token abc` in one text.
_OPTION = re2.compile(r"(--?[\w-]*" + _HUSHED + r"s?\s+)([^\s-]\S*)")
_BEARER = re2.compile(r"(?i)(bearer\s+)([\w.~+/=-]+)")
# `https://user:password@host`.
_IN_URL = re2.compile(r"(\w+://[^\s/:@]*:)([^\s/@]+)(@)")


def hide_secrets(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a job's manifest without managed fields and the values of variables, tokens and passwords.

    The data of a Secret are not hidden.
    """
    hidden = _hide(dict(manifest))
    assert isinstance(hidden, dict)
    return hidden


def _hide(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _hide_member(key, one) for key, one in value.items() if key not in _MANAGED}
    if isinstance(value, list):
        if name in ("command", "args"):
            return _hide_words(value)
        return [_hide_variable(one) if name == "env" else _hide(one) for one in value]
    return hide_in_text(value) if isinstance(value, str) else value


def _hide_member(key: str, value: Any) -> Any:
    if key == _LAST_APPLIED or (isinstance(value, str) and value and _NAME_OF_SECRET.search(key)):
        return HIDDEN
    return _hide(value, key)


def _hide_variable(variable: Any) -> Any:
    """Return a container's environment variable without its value. A reference to a Secret or a field stays."""
    if not isinstance(variable, dict) or "value" not in variable:
        return variable
    return {**variable, "value": HIDDEN}


def _hide_words(words: list[Any]) -> list[Any]:
    """Return the words of a command line, with tokens and passwords hidden.

    The word after an option such as `--token` is hidden, too, unless it is a short number.
    """
    shown, is_secret = [], False
    for word in words:
        text = word if isinstance(word, str) else ""
        is_value = is_secret and not text.startswith("-") and not (text.isdecimal() and len(text) <= _COUNT_DIGITS)
        shown.append(HIDDEN if is_value else hide_in_text(text) if text else word)
        is_secret = text.startswith("-") and bool(_NAME_OF_SECRET.search(text))
    return shown


def hide_in_text(text: str) -> str:
    """Return a text in which the values of tokens and passwords are hidden.

    A short number stays, because it is a count of tokens.
    """
    for pattern in (_BEARER, _ASSIGNED, _OPTION, _IN_URL):
        text = pattern.sub(_hide_value, text)
    return text


def _hide_value(match: Any) -> str:
    before, value, *behind = match.groups()
    is_count = value.isdecimal() and len(value) <= _COUNT_DIGITS
    return "".join((before, value if is_count else HIDDEN, *behind))
