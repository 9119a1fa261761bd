"""The error of an apply that would take fields from other managers, in upstream's words."""

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from muster.api.status import ApiError, Status, StatusCause, StatusDetails
from muster.cluster.apiserver.fields.managers import UPDATE, Identity


class Conflict(Struct, frozen=True):
    """The fields that one other manager owns, and that the apply would set to a different value."""

    manager: Identity
    paths: tuple[str, ...]


def make_conflict_error(conflicts: Iterable[Conflict]) -> ApiError:
    """Return the 409 error, with one cause for each field and each manager that owns it."""
    paths_by_manager = [
        (_name_manager(conflict.manager), conflict.paths) for conflict in sorted(conflicts, key=_get_manager)
    ]
    causes = tuple(
        StatusCause(reason="FieldManagerConflict", message=f"conflict with {manager}", field=path)
        for manager, fields in paths_by_manager
        for path in fields
    )
    if len(causes) == 1:
        message = f"Apply failed with 1 conflict: {causes[0].message}: {causes[0].field}"
    else:
        lines = (
            line
            for manager, fields in paths_by_manager
            for line in (f"conflicts with {manager}:", *(f"- {p}" for p in fields))
        )
        message = f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines)
    details = StatusDetails(causes=causes)
    return ApiError(Status(status="Failure", code=409, reason="Conflict", message=message, details=details))


def _get_manager(conflict: Conflict) -> Identity:
    return conflict.manager


def _name_manager(manager: Identity) -> str:
    text = msgspec.json.encode(manager.manager).decode()
    if manager.subresource:
        text += f' with subresource "{manager.subresource}"'
    return f"{text} using {manager.api_version}" if manager.operation == UPDATE else text
