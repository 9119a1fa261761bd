"""Define the store's errors. A request may raise an `ApiError`; a start may raise a `DataDirectoryError`."""

from muster.api.status import ApiError, Status


class Compacted(Exception):  # noqa: N818 - the word of the field
    """A loss of changes after revision `since`, which the store no longer keeps. The client lists again.

    oldest: the revision from which a watch is possible.
    """

    def __init__(self, since: int, oldest: int) -> None:
        super().__init__(f"changes after revision {since} are no longer kept, only those after {oldest}")
        self.since = since
        self.oldest = oldest


class Closed(Exception):  # noqa: N818 - the word of the field
    """The end of a watch, because the watch or its store was closed."""


class DataDirectoryError(Exception):
    """A data directory that cannot be used. One line says which directory, why, and what to do."""


class WriteRefused(ApiError):  # noqa: N818
    """A write that was not made, not even in part."""


class StoreClosed(WriteRefused):
    """503: a write to a store that is not open yet, or already closed."""

    def __init__(self) -> None:
        message = "the server is starting or stopping: the write was not made"
        super().__init__(Status(status="Failure", code=503, reason="ServiceUnavailable", message=message))


class StorageFull(WriteRefused):
    """507: a write on a full disk. Reads continue, and writes succeed again when the disk has room."""

    def __init__(self, where: str) -> None:
        message = f"no space left for {where}: the write was not made; free some disk space and try again"
        super().__init__(Status(status="Failure", code=507, reason="InsufficientStorage", message=message))


class StorageFailed(WriteRefused):
    """503: a write after a failure of the disk. The store accepts no more writes until the server restarts."""

    def __init__(self, where: str, cause: str) -> None:
        message = f"cannot write to {where}: {cause}; the server takes no more writes until it is restarted"
        super().__init__(Status(status="Failure", code=503, reason="ServiceUnavailable", message=message))
