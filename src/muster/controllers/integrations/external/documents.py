"""Read jobs of other projects' kinds as plain JSON, because only their CRDs describe them.

A CRD may allow any value, so every reader here accepts any value. It returns a default if the value has another type,
or raises `UnreadableJobError` if quota depends on the value.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from muster.api.core import PodTemplateSpec
from muster.api.kinds import without_nulls
from muster.api.members import value_at
from muster.api.meta import ObjectMeta, Struct
from muster.api.patch.difference import escape_token
from muster.controllers.integrations.framework import UnreadableJobError

Json = dict[str, Any]
# The keys and indexes that lead from a job to a part of it.
Path = tuple[str | int, ...]


class ExternalJob(Struct):
    """A job of another project's kind. Only its metadata is typed.

    parts: the objects that the kind's controller has created, for kinds whose pods can only be read from these.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: Json = msgspec.field(default_factory=dict)
    status: Json = msgspec.field(default_factory=dict)
    parts: tuple[Any, ...] = ()


def list_at(document: Any, *path: str | int) -> list[Any]:
    """Return the list at the path; an empty one if there is none."""
    value = value_at(document, path)
    return value if isinstance(value, list) else []


def text_at(document: Any, *path: str | int) -> str:
    """Return the string at the path; "" if there is none."""
    value = value_at(document, path)
    return value if isinstance(value, str) else ""


def number_at(document: Any, *path: str | int) -> int:
    """Return the whole number at the path; 0 if there is none."""
    value = value_at(document, path)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def moment_at(document: Any, *path: str | int) -> datetime | None:
    """Return the time at the path; None if there is no valid time."""
    try:
        return msgspec.convert(value_at(document, path), datetime | None)
    except msgspec.ValidationError:
        return None


def count_at(document: Any, *path: str | int, default: int = 1) -> int:
    """Return the number of pods at the path; `default` if there is none. Raises `UnreadableJobError`."""
    value = value_at(document, path)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise UnreadableJobError(text_of_path(path), "must be a whole number that is not negative")
    return value


def template_at(document: Any, path: Path) -> PodTemplateSpec:
    """Return the pod template at the path. Raises `UnreadableJobError`."""
    value = value_at(document, path)
    if not isinstance(value, dict) or not isinstance(value.get("spec"), dict):
        raise UnreadableJobError(text_of_path(path), "must be a pod template with a spec")
    try:
        return msgspec.convert(without_nulls(value), PodTemplateSpec)
    except msgspec.ValidationError as error:
        raise UnreadableJobError(text_of_path(path), str(error)) from None


def find_true_condition(status: Json, *types: str) -> Json | None:
    """Return the first condition of these types that is True; None if there is none."""
    conditions = (one for one in list_at(status, "conditions") if isinstance(one, dict))
    return next((one for one in conditions if one.get("type") in types and one.get("status") == "True"), None)


def text_of_path(path: Sequence[str | int]) -> str:
    """Return the path in the form of error messages: `spec.workerGroupSpecs[0].template`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def make_pointer(path: Sequence[str | int]) -> str:
    """Return the path as a JSON pointer."""
    return "".join(f"/{escape_token(str(step))}" for step in path)


def patch_at(path: Sequence[str | int], value: Any) -> Json:
    """Return the merge patch that sets the value at a path of keys."""
    for step in reversed(path):
        value = {step: value}
    patch: Json = value
    return patch
