"""Rules of paths in manifests: nothing may climb out of a volume."""

from muster.api.validation.fields import Errors, invalid


def inside(path: str, value: str) -> Errors:
    """Yield what is wrong with a relative path without `..`."""
    if value.startswith("/"):
        yield invalid(path, value, "must be a relative path")
    yield from no_backsteps(path, value)


def inside_and_not_reserved(path: str, value: str) -> Errors:
    """Yield what is wrong with a relative path without `..`, whose name does not begin like the kubelet's own links."""
    yield from inside(path, value)
    if value.startswith("..") and not value.startswith("../"):
        yield invalid(path, value, "must not start with '..'")


def no_backsteps(path: str, value: str) -> Errors:
    """Yield what is wrong with a path without `..`."""
    if ".." in value.split("/"):
        yield invalid(path, value, "must not contain '..'")


def file_mode(path: str, value: int | None) -> Errors:
    """Check the permissions of a file."""
    if value is not None and not 0 <= value <= 0o777:
        yield invalid(path, value, "must be a number between 0 and 0777 (octal), both inclusive")
