"""The rules of paths in manifests, which keep a path inside its volume."""

from muster.api.validation.fields import Errors, invalid


def validate_relative_path(path: str, value: str) -> Errors:
    """Check that a path is relative and has no `..`."""
    if value.startswith("/"):
        yield invalid(path, value, "must be a relative path")
    yield from validate_no_backsteps(path, value)


def validate_path_in_volume(path: str, value: str) -> Errors:
    """Check that a path is relative, has no `..` and does not begin like the kubelet's own links."""
    yield from validate_relative_path(path, value)
    if value.startswith("..") and not value.startswith("../"):
        yield invalid(path, value, "must not start with '..'")


def validate_no_backsteps(path: str, value: str) -> Errors:
    """Check that a path has no `..`."""
    if ".." in value.split("/"):
        yield invalid(path, value, "must not contain '..'")


def validate_file_mode(path: str, value: int | None) -> Errors:
    """Check the permission bits of a file."""
    if value is not None and not 0 <= value <= 0o777:
        yield invalid(path, value, "must be a number between 0 and 0777 (octal), both inclusive")
