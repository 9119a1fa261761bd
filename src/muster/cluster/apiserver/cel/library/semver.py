"""The functions of semantic versions (semver.org 2.0.0)."""

import re
from typing import Any

from muster.cluster.apiserver.cel.library.overloads import Functions, Version
from muster.cluster.apiserver.cel.values import CelError

_MAX_CHARACTERS = 256
_NUMBER = r"(0|[1-9]\d{0,18})"
_PART = r"(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)"
_SHAPE = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_PART}(?:\.{_PART})*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?", re.ASCII
)
_LOOSE = re.compile(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?([-+].*)?", re.ASCII | re.DOTALL)


def _parse_version(text: str, normalize: bool = False) -> Version | None:
    if len(text) > _MAX_CHARACTERS:
        return None
    if normalize and (loose := _LOOSE.fullmatch(text.strip())):
        numbers = ".".join(str(int(number or 0)) for number in loose.groups()[:3])
        text = numbers + (loose.group(4) or "")
    match = _SHAPE.fullmatch(text)
    if match is None:
        return None
    major, minor, patch = (int(match.group(place)) for place in (1, 2, 3))
    return Version(major, minor, patch, tuple((match.group(4) or "").split(".")) if match.group(4) else ())


def parse_semver(text: str, normalize: bool = False) -> Version:
    """Parse a semantic version. Raises `CelError` if the text is no version.

    normalize: whether to accept shortened versions such as `v1`.
    """
    version = _parse_version(text, normalize)
    if version is None:
        raise CelError(f"invalid semantic version {text[:_MAX_CHARACTERS]}")
    return version


def _make_sort_key(version: Version) -> tuple[Any, ...]:
    # Numbers sort before words, and a version without a pre-release part sorts after its pre-releases.
    parts = tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in version.pre)
    return (version.major, version.minor, version.patch, not version.pre, parts)


def _compare(a: Version, b: Version) -> int:
    return (_make_sort_key(a) > _make_sort_key(b)) - (_make_sort_key(a) < _make_sort_key(b))


FUNCTIONS = Functions(
    table=(
        ("semver", "(string) -> kubernetes.Semver", parse_semver),
        ("semver", "(string, bool) -> kubernetes.Semver", parse_semver),
        ("isSemver", "(string) -> bool", lambda text: _parse_version(text) is not None),
        ("isSemver", "(string, bool) -> bool", lambda text, normalize: _parse_version(text, normalize) is not None),
        ("major", "kubernetes.Semver.() -> int", lambda version: version.major),
        ("minor", "kubernetes.Semver.() -> int", lambda version: version.minor),
        ("patch", "kubernetes.Semver.() -> int", lambda version: version.patch),
        ("compareTo", "kubernetes.Semver.(kubernetes.Semver) -> int", _compare),
        ("isGreaterThan", "kubernetes.Semver.(kubernetes.Semver) -> bool", lambda a, b: _compare(a, b) > 0),
        ("isLessThan", "kubernetes.Semver.(kubernetes.Semver) -> bool", lambda a, b: _compare(a, b) < 0),
    ),
)
