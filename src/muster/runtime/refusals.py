"""Refusals that are no failure: what was to go has gone, what was to be made is there, what has changed comes again.

Told apart as clients do, by the reason that the server gives.
"""

from types import TracebackType
from typing import Literal, TypeAlias

from muster.api.status import ApiError

Reason: TypeAlias = Literal[
    "AlreadyExists", "Conflict", "Forbidden", "InsufficientStorage", "Invalid", "NotFound", "ServiceUnavailable"
]


def is_refusal(error: object, *reasons: Reason) -> bool:
    """Whether it is an `ApiError` with one of these reasons."""
    return isinstance(error, ApiError) and error.reason in reasons


class ignoring:  # noqa: N801 - it reads as `contextlib.suppress` does
    """`with ignoring("NotFound"):` a refusal with one of these reasons ends what is in it, and is no error."""

    def __init__(self, *reasons: Reason) -> None:
        self._reasons = reasons

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: TracebackType | None) -> bool:
        return is_refusal(error, *self._reasons)
