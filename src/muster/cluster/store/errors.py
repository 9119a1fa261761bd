"""Define the store's errors. A request may raise an `ApiError`; a start may raise a `DataDirectoryError`."""

from muster.api.status import ApiError, Status


class Compacted(Exception):  # noqa: N818 - the word of the field
    """Raised if some changes after `since` are no longer kept: list again and watch from there."""

    def __init__(self, since: int, oldest: int) -> None:
        super().__init__(f"changes after revision {since} are no longer kept, only those after {oldest}")
        self.since = since
        self.oldest = oldest


class Closed(Exception):  # noqa: N818 - the word of the field
    """Raised when the watch or its store was closed."""


class DataDirectoryError(Exception):
    """A data directory cannot be used; one line says which, why and what to do."""


class WriteRefused(ApiError):  # noqa: N818
    """A write was not made; no part of it is in the store."""


class StoreClosed(WriteRefused):
    """503: the store is not open yet, or not any more."""

    def __init__(self) -> None:
        message = "the server is starting or stopping: the write was not made"
        super().__init__(Status(status="Failure", code=503, reason="ServiceUnavailable", message=message))


class StorageFull(WriteRefused):
    """507: the disk is full. Reads continue, and so do writes once there is room again."""

    def __init__(self, where: str) -> None:
        message = f"no space left for {where}: the write was not made; free some disk space and try again"
        super().__init__(Status(status="Failure", code=507, reason="InsufficientStorage", message=message))


class StorageFailed(WriteRefused):
    """503: the disk failed. The store accepts no more writes in this process: the server must be restarted."""

    def __init__(self, where: str, cause: str) -> None:
        message = f"cannot write to {where}: {cause}; the server takes no more writes until it is restarted"
        super().__init__(Status(status="Failure", code=503, reason="ServiceUnavailable", message=message))
