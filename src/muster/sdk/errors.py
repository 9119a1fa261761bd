"""What goes wrong, for who calls."""


class Error(Exception):
    """What was asked for cannot be done; the text says why, and what to do, in one line."""


class JobFailedError(Error):
    """A job has ended without a result. name: of the job. code: its exit code."""

    def __init__(self, name: str, text: str, code: int = 1) -> None:
        super().__init__(f"{name}: {text}")
        self.name = name
        self.code = code


class RemoteTraceback(Exception):  # noqa: N818 - what it is called elsewhere, too
    """The cause of an exception that comes from a worker: where it was raised there."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"
