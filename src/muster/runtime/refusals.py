"""Recognise refusals that are no failure: the object to delete is gone, the object to create exists, a conflict.

They are distinguished by the reason in the server's Status, as by other clients.
"""

from types import TracebackType
from typing import Literal, TypeAlias

from muster.api.status import ApiError

Reason: TypeAlias = Literal[
    "AlreadyExists",
    "Conflict",
    "Forbidden",
    "InsufficientStorage",
    "Invalid",
    "NotFound",
    "RequestEntityTooLarge",
    "ServiceUnavailable",
    "TooManyRequests",
]


def is_refusal(error: object, *reasons: Reason) -> bool:
    """Return whether the error is an `ApiError` with one of these reasons (`NotFound`, `Conflict`)."""
    return isinstance(error, ApiError) and error.reason in reasons


class ignoring:  # noqa: N801 - it reads as `contextlib.suppress` does
    """A context manager that suppresses refusals with one of these reasons: `with ignoring("NotFound"):`."""

    def __init__(self, *reasons: Reason) -> None:
        self._reasons = reasons

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: TracebackType | None) -> bool:
        return is_refusal(error, *self._reasons)
